"""What groups did that must outlive a restart, as keyed records: the last value of each key is the whole truth.

    key      group     1 | group id
             offset    2 | group id (int32 length, UTF-8) | topic (the same) | partition int32
             groups of type "consumer": 3 and 4, see consumer_facts
    value    absent: deleted
             group     version 1 | protocol type? | generation int32 | protocol? | leader? | since_ms int64 |
                       int32 count × (member id | instance id? | client id | client host | session timeout int32 |
                       rebalance timeout int32 | subscription | assignment)
             offset    version 1 | offset int64 | leader epoch int32 | committed_ms int64 | expires_ms int64 | metadata

Strings and bytes have an int32 length before them (? may be absent: length -1); the last part of a key or value has
none where it is a string. An expires_ms of -1 means: by the retention of the settings. A value of another version is
refused, not guessed at.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from sys import intern
from typing import Final

from trunkline.coordination import consumer_facts
from trunkline.coordination.consumer_facts import ConsumerFact
from trunkline.coordination.packing import Malformed, Reader, Writer, check_version, decode_text
from trunkline.model.errors import CorruptLog
from trunkline.model.ids import Epoch, GroupId, MemberId, Offset


@dataclass(frozen=True, slots=True)
class StoredMember:
    member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    """What it sent for the protocol that was chosen."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupStored:
    """A generation: with members it is Stable, without it is Empty since `since_ms`."""

    group_id: GroupId
    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: MemberId | None
    since_ms: int
    members: tuple[StoredMember, ...]


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class Committed:
    offset: Offset
    leader_epoch: Epoch
    metadata: str
    committed_ms: int
    expires_ms: int | None = None
    """Set when the one who committed asked for a retention of its own."""


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    group_id: GroupId
    topic: str
    partition: int
    committed: Committed


@dataclass(frozen=True, slots=True)
class OffsetDeleted:
    group_id: GroupId
    topic: str
    partition: int


Fact = GroupStored | GroupDeleted | OffsetCommitted | OffsetDeleted | ConsumerFact

_GROUP: Final = 1
_OFFSET: Final = 2
_GROUP_VERSION: Final = 1
_OFFSET_VERSION: Final = 1
_OFFSET_VALUE: Final = struct.Struct(">Bqiqq")
_BY_RETENTION: Final = -1
_SMALLEST_MEMBER_BYTES: Final = 32


def encode(fact: Fact) -> tuple[bytes, bytes | None]:
    match fact:
        case OffsetCommitted(group_id, topic, partition, committed):
            return _offset_key(group_id, topic, partition), _offset_value(committed)
        case OffsetDeleted(group_id, topic, partition):
            return _offset_key(group_id, topic, partition), None
        case GroupStored(group_id):
            return _group_key(group_id), _group_value(fact)
        case GroupDeleted(group_id):
            return _group_key(group_id), None
        case _:
            return consumer_facts.encode(fact)


def decode(key: bytes, value: bytes | None) -> Fact:
    """CorruptLog when it is none of ours, or of a version that this release does not know."""
    try:
        return _decode(Reader(key), value)
    except Malformed as bad:
        raise CorruptLog(f"a record of the groups' topic cannot be read (key {key[:64]!r}): {bad}") from None


def _decode(key: Reader, value: bytes | None) -> Fact:
    kind = key.uint8()
    if kind == _GROUP:
        group_id = GroupId(intern(decode_text(key.take(key.remaining_bytes))))
        return GroupDeleted(group_id) if value is None else _read_group(group_id, Reader(value))
    if kind == _OFFSET:
        group_id, topic, partition = GroupId(intern(key.text())), intern(key.text()), key.int32()
        key.end()
        if value is None:
            return OffsetDeleted(group_id, topic, partition)
        return OffsetCommitted(group_id, topic, partition, _read_offset(value))
    if kind in consumer_facts.KINDS:
        return consumer_facts.decode(kind, key, value)
    raise Malformed(f"kind {kind} is not known here: was it written by a newer release?")


# ── groups ──────────────────────────────────────────────────────────────────────────────────────


def _group_key(group_id: GroupId) -> bytes:
    return bytes((_GROUP,)) + group_id.encode()


def _group_value(group: GroupStored) -> bytes:
    writer = Writer()
    writer.uint8(_GROUP_VERSION)
    writer.optional_text(group.protocol_type)
    writer.int32(group.generation)
    writer.optional_text(group.protocol)
    writer.optional_text(group.leader)
    writer.int64(group.since_ms)
    writer.int32(len(group.members))
    for member in group.members:
        writer.text(member.member_id)
        writer.optional_text(member.instance_id)
        writer.text(member.client_id)
        writer.text(member.client_host)
        writer.int32(member.session_timeout_ms)
        writer.int32(member.rebalance_timeout_ms)
        writer.blob(member.subscription)
        writer.blob(member.assignment)
    return writer.done()


def _read_group(group_id: GroupId, value: Reader) -> GroupStored:
    check_version("group", value.uint8(), _GROUP_VERSION)
    protocol_type = value.optional_text()
    generation = value.int32()
    protocol = value.optional_text()
    leader = value.optional_text()
    since_ms = value.int64()
    members = tuple(_read_member(value) for _ in range(value.count(_SMALLEST_MEMBER_BYTES)))
    value.end()
    return GroupStored(
        group_id,
        protocol_type=None if protocol_type is None else intern(protocol_type),
        generation=generation,
        protocol=None if protocol is None else intern(protocol),
        leader=None if leader is None else MemberId(leader),
        since_ms=since_ms,
        members=members,
    )


def _read_member(value: Reader) -> StoredMember:
    return StoredMember(
        member_id=MemberId(value.text()),
        instance_id=value.optional_text(),
        client_id=intern(value.text()),
        client_host=intern(value.text()),
        session_timeout_ms=value.int32(),
        rebalance_timeout_ms=value.int32(),
        subscription=value.blob(),
        assignment=value.blob(),
    )


# ── offsets ─────────────────────────────────────────────────────────────────────────────────────


def _offset_key(group_id: GroupId, topic: str, partition: int) -> bytes:
    group_bytes, topic_bytes = group_id.encode(), topic.encode()
    return struct.pack(
        f">Bi{len(group_bytes)}si{len(topic_bytes)}si",
        _OFFSET,
        len(group_bytes),
        group_bytes,
        len(topic_bytes),
        topic_bytes,
        partition,
    )


def _offset_value(committed: Committed) -> bytes:
    expires_ms = _BY_RETENTION if committed.expires_ms is None else committed.expires_ms
    return (
        _OFFSET_VALUE.pack(
            _OFFSET_VERSION, committed.offset, committed.leader_epoch, committed.committed_ms, expires_ms
        )
        + committed.metadata.encode()
    )


def _read_offset(value: bytes) -> Committed:
    if value:
        check_version("offset", value[0], _OFFSET_VERSION)
    if len(value) < _OFFSET_VALUE.size:
        raise Malformed(f"an offset's value of {len(value)} bytes")
    _, offset, leader_epoch, committed_ms, expires_ms = _OFFSET_VALUE.unpack_from(value)
    return Committed(
        Offset(offset),
        Epoch(leader_epoch),
        intern(decode_text(value[_OFFSET_VALUE.size :])),
        committed_ms,
        None if expires_ms == _BY_RETENTION else expires_ms,
    )
