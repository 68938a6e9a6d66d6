"""Ids are types, so that an offset is never passed where an epoch is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Offset = NewType("Offset", int)
Epoch = NewType("Epoch", int)
"""A leader epoch: grows by one each time a partition gets a new leader."""
ProducerId = NewType("ProducerId", int)
TopicId = NewType("TopicId", bytes)
"""16 bytes, unique for ever: a topic deleted and made again under the same name has another one."""
NodeId = NewType("NodeId", int)
GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)

NO_TOPIC_ID = TopicId(bytes(16))
NO_OFFSET = Offset(-1)
NO_EPOCH = Epoch(-1)
NO_PRODUCER = ProducerId(-1)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition as people name it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
