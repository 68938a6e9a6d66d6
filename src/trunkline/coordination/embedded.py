"""What members of the classic protocol tell each other, where the broker assigns in their stead (see classic_members).

    subscription  version int16 | topics int32 count × text | user data bytes? | since version 1: owned int32 count ×
                  (topic text, int32 count × partition int32) | since 2: generation int32 | since 3: rack text?
    assignment    version int16 | int32 count × (topic text, int32 count × partition int32) | user data bytes?

Texts have an int16 length before them, bytes an int32; ? may be absent: length -1. What follows is not looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trunkline.coordination.packing import Malformed, Reader, decode_text
from trunkline.coordination.partitions import Partitions, of
from trunkline.coordination.topic_view import TopicView

_ABSENT: Final = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    version: int
    topics: tuple[str, ...]
    owned: Mapping[str, tuple[int, ...]]
    rack_id: str | None


def read_subscription(data: bytes) -> Subscription:
    """Malformed if these are not the bytes of one."""
    reader = Reader(data)
    version = reader.int16()
    if version < 0:
        raise Malformed("a version below zero")
    topics = tuple(sorted({_text(reader) for _ in range(reader.count(2))}))
    _skip_bytes(reader)
    owned: Mapping[str, tuple[int, ...]] = {}
    rack_id = None
    if version >= 1:
        owned = _read_partitions(reader)
    if version >= 2:
        reader.int32()
    if version >= 3:
        size_bytes = reader.int16()
        rack_id = None if size_bytes == _ABSENT else decode_text(reader.take(size_bytes))
    return Subscription(version, topics, owned, rack_id)


def read_assignment(data: bytes) -> Mapping[str, tuple[int, ...]]:
    """No bytes at all are no partitions: a member that has not been given any yet."""
    if not data:
        return {}
    reader = Reader(data)
    if reader.int16() < 0:
        raise Malformed("a version below zero")
    return _read_partitions(reader)


def write_assignment(version: int, partitions: Partitions, view: TopicView) -> bytes:
    """Topics that are gone meanwhile are left out: they have no name."""
    named = [(view.with_id(topic_id), indexes) for topic_id, indexes in partitions.items()]
    found = [(topic.name.encode(), indexes) for topic, indexes in named if topic is not None]
    parts = [struct.pack(">hi", version, len(found))]
    for name, indexes in found:
        parts.append(struct.pack(f">h{len(name)}si{len(indexes)}i", len(name), name, len(indexes), *indexes))
    parts.append(struct.pack(">i", _ABSENT))
    return b"".join(parts)


def by_id(partitions: Mapping[str, tuple[int, ...]], view: TopicView) -> Partitions:
    """Only what exists."""
    return of(
        (view.topics[name].id, index)
        for name, indexes in partitions.items()
        if name in view.topics
        for index in indexes
    )


def _read_partitions(reader: Reader) -> Mapping[str, tuple[int, ...]]:
    return {_text(reader): reader.int32s() for _ in range(reader.count(6))}


def _text(reader: Reader) -> str:
    return decode_text(reader.take(reader.int16()))


def _skip_bytes(reader: Reader) -> None:
    size_bytes = reader.int32()
    if size_bytes != _ABSENT:
        reader.take(size_bytes)
