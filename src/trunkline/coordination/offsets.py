"""How far a group has read: the committed offsets of one group, by topic and partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from sys import intern
from types import MappingProxyType
from typing import Final

from trunkline.coordination.facts import Committed, OffsetCommitted, OffsetDeleted

_NOTHING: Final[Mapping[int, Committed]] = MappingProxyType({})


class CommittedOffsets:
    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, Committed]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __iter__(self) -> Iterator[tuple[str, int, Committed]]:
        """A copy, so that what is found can be deleted meanwhile."""
        return iter(
            [
                (topic, partition, committed)
                for topic, partitions in self._by_topic.items()
                for partition, committed in partitions.items()
            ]
        )

    def topics(self) -> list[str]:
        return list(self._by_topic)

    def of(self, topic: str) -> Mapping[int, Committed]:
        return self._by_topic.get(topic, _NOTHING)

    def replay(self, fact: OffsetCommitted | OffsetDeleted) -> None:
        if isinstance(fact, OffsetCommitted):
            partitions = self._by_topic.setdefault(intern(fact.topic), {})
            partitions[fact.partition] = fact.committed
            return
        partitions = self._by_topic.get(fact.topic, {})
        partitions.pop(fact.partition, None)
        if not partitions:
            self._by_topic.pop(fact.topic, None)
