"""The topics as groups see them: names, ids, how many partitions, and which names a pattern matches.

Groups look at a view when they are asked something, and compare its serial with the one they saw last: that is how new
topics, new partitions and deletions reach them, without anybody walking over all groups at each change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Protocol

from trunkline.coordination.pattern import TopicPattern
from trunkline.model.errors import InvalidPattern
from trunkline.model.ids import TopicId
from trunkline.model.topic import Topic

NO_DIGEST: Final = 0
_Matches = tuple[TopicPattern | InvalidPattern, frozenset[str]]


class TopicSource(Protocol):
    @property
    def image(self) -> Mapping[str, Topic]:
        """A mapping that never changes: after a change there is another one."""


class NoTopics:
    image: Mapping[str, Topic] = MappingProxyType({})


class TopicView:
    __slots__ = ("_before", "_by_id", "_matches", "_names_before", "serial", "topics")

    def __init__(self, topics: Mapping[str, Topic], before: TopicView | None = None) -> None:
        self.topics = topics
        self.serial: int = 1 if before is None else before.serial + 1
        self._by_id: dict[TopicId, Topic] | None = None
        self._matches: dict[str, _Matches] = {}
        self._before: dict[str, _Matches] = before._matches if before else {}
        self._names_before: Mapping[str, Topic] = before.topics if before else {}

    def with_id(self, topic_id: TopicId) -> Topic | None:
        if self._by_id is None:
            self._by_id = {topic.id: topic for topic in self.topics.values()}
        return self._by_id.get(topic_id)

    def check(self, pattern: str) -> None:
        """InvalidPattern if it cannot be used."""
        self.matching(pattern)
        usable, _ = self._matches[pattern]
        if isinstance(usable, InvalidPattern):
            raise InvalidPattern(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {usable}.")

    def matching(self, pattern: str) -> frozenset[str]:
        """Names of topics, found once per view; only names that are new are tried. None for one that is not usable."""
        found = self._matches.get(pattern)
        if found is None:
            found = self._matches[pattern] = self._match(pattern)
        return found[1]

    def _match(self, text: str) -> _Matches:
        pattern, kept = self._before.get(text, (None, frozenset[str]()))
        names: Iterable[str] = self.topics
        if isinstance(pattern, TopicPattern):
            kept = frozenset(name for name in kept if name in self.topics)
            names = self.topics.keys() - self._names_before.keys()
        try:
            if not isinstance(pattern, TopicPattern):
                pattern = TopicPattern(text)
            return pattern, kept | pattern.among(name for name in names if not self.topics[name].internal)
        except InvalidPattern as error:
            return error, kept

    def digest(self, names: Iterable[str]) -> int:
        """A number that changes whenever something about these topics does; the same after a restart."""
        topics = [self.topics[name] for name in sorted(names) if name in self.topics]
        if not topics:
            return NO_DIGEST
        hashed = blake2b(digest_size=8)
        for topic in topics:
            hashed.update(topic.id + struct.pack(">i", topic.partitions))
        return int.from_bytes(hashed.digest(), "big", signed=True)


class TopicWatch:
    """Gives the present view, the same one as long as nothing changed."""

    __slots__ = ("_source", "_view")

    def __init__(self, source: TopicSource) -> None:
        self._source = source
        self._view = TopicView(source.image)

    def view(self) -> TopicView:
        image = self._source.image
        if image is not self._view.topics:
            self._view = TopicView(image, self._view)
        return self._view
