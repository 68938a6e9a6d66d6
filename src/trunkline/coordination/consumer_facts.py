"""What groups of type "consumer" did that must outlive a restart. Each member is a fact of its own, so that a change
of one among a thousand costs one member's bytes.

    key      group     3 | group id
             member    4 | group id (int32 length, UTF-8) | member id
    value    absent: deleted
             group     version 1 | epoch int32 | assignment epoch int32 | metadata digest int64 | since_ms int64
             member    version 1 | instance id? | rack id? | client id | client host | rebalance timeout int32 |
                       assignor? | topics (int32 count × text) | pattern? | classic? | epoch int32 |
                       previous epoch int32 | state uint8 | assigned | revoking | target
    classic  session timeout int32 (-1: absent, and nothing follows) | int32 count × (name text, subscription bytes)
    assigned, revoking, target: int32 count × (topic id 16 bytes, int32 count × partition int32)

Strings and bytes have an int32 length before them (? may be absent: length -1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from sys import intern
from typing import Final

from trunkline.coordination.packing import Malformed, Reader, Writer, check_version, decode_text
from trunkline.coordination.partitions import NONE, Partitions
from trunkline.model.ids import GroupId, MemberId, TopicId


class MemberState(Enum):
    STABLE = 0
    """Has all that it is to have in its epoch."""
    UNREVOKED = 1
    """Is to give something up, and has not said yet that it did."""
    UNRELEASED = 2
    """Waits for partitions that others have not given up yet."""


@dataclass(frozen=True, slots=True)
class ClassicMembership:
    """A member that speaks the classic protocol in a group of type "consumer"."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member as it stands. Whoever changes it makes another: the fact is the member."""

    group_id: GroupId
    id: MemberId
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    topics: tuple[str, ...] = ()
    """Names it subscribed to, ascending."""
    pattern: str | None = None
    classic: ClassicMembership | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=lambda: NONE)
    """What it may read."""
    revoking: Partitions = field(default_factory=lambda: NONE)
    """What it is to give up, and nobody else may have until then."""
    target: Partitions = field(default_factory=lambda: NONE)
    """What it is to read in the end."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupStored:
    group_id: GroupId
    epoch: int
    """Grows with each change of members, subscriptions, or the topics they match."""
    assignment_epoch: int
    """The epoch for which the members' targets were made."""
    metadata_digest: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupDeleted:
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class ConsumerMemberDeleted:
    group_id: GroupId
    member_id: MemberId


ConsumerFact = ConsumerMember | ConsumerMemberDeleted | ConsumerGroupStored | ConsumerGroupDeleted

_GROUP: Final = 3
_MEMBER: Final = 4
KINDS: Final = frozenset((_GROUP, _MEMBER))
_GROUP_VERSION: Final = 1
_MEMBER_VERSION: Final = 1
_ABSENT: Final = -1


def encode(fact: ConsumerFact) -> tuple[bytes, bytes | None]:
    match fact:
        case ConsumerMember(group_id, member_id):
            return _member_key(group_id, member_id), _member_value(fact)
        case ConsumerMemberDeleted(group_id, member_id):
            return _member_key(group_id, member_id), None
        case ConsumerGroupStored(group_id):
            return _group_key(group_id), _group_value(fact)
        case ConsumerGroupDeleted(group_id):
            return _group_key(group_id), None


def decode(kind: int, key: Reader, value: bytes | None) -> ConsumerFact:
    """Malformed when it cannot be read. The kind was taken off the key already."""
    if kind == _GROUP:
        group_id = GroupId(intern(decode_text(key.take(key.remaining_bytes))))
        return ConsumerGroupDeleted(group_id) if value is None else _read_group(group_id, Reader(value))
    group_id, member_id = GroupId(intern(key.text())), MemberId(decode_text(key.take(key.remaining_bytes)))
    if value is None:
        return ConsumerMemberDeleted(group_id, member_id)
    return _read_member(group_id, member_id, Reader(value))


def _group_key(group_id: GroupId) -> bytes:
    return bytes((_GROUP,)) + group_id.encode()


def _member_key(group_id: GroupId, member_id: MemberId) -> bytes:
    writer = Writer()
    writer.uint8(_MEMBER)
    writer.text(group_id)
    writer.raw(member_id.encode())
    return writer.done()


def _group_value(group: ConsumerGroupStored) -> bytes:
    writer = Writer()
    writer.uint8(_GROUP_VERSION)
    writer.int32(group.epoch)
    writer.int32(group.assignment_epoch)
    writer.int64(group.metadata_digest)
    writer.int64(group.since_ms)
    return writer.done()


def _read_group(group_id: GroupId, value: Reader) -> ConsumerGroupStored:
    check_version("consumer group", value.uint8(), _GROUP_VERSION)
    group = ConsumerGroupStored(group_id, value.int32(), value.int32(), value.int64(), value.int64())
    value.end()
    return group


def _member_value(member: ConsumerMember) -> bytes:
    writer = Writer()
    writer.uint8(_MEMBER_VERSION)
    writer.optional_text(member.instance_id)
    writer.optional_text(member.rack_id)
    writer.text(member.client_id)
    writer.text(member.client_host)
    writer.int32(member.rebalance_timeout_ms)
    writer.optional_text(member.assignor)
    writer.int32(len(member.topics))
    for topic in member.topics:
        writer.text(topic)
    writer.optional_text(member.pattern)
    _write_classic(writer, member.classic)
    writer.int32(member.epoch)
    writer.int32(member.previous_epoch)
    writer.uint8(member.state.value)
    for partitions in (member.assigned, member.revoking, member.target):
        writer.int32(len(partitions))
        for topic_id, indexes in partitions.items():
            writer.raw(topic_id)
            writer.int32s(indexes)
    return writer.done()


def _write_classic(writer: Writer, classic: ClassicMembership | None) -> None:
    if classic is None:
        writer.int32(_ABSENT)
        return
    writer.int32(classic.session_timeout_ms)
    writer.int32(len(classic.protocols))
    for name, subscription in classic.protocols:
        writer.text(name)
        writer.blob(subscription)


def _read_member(group_id: GroupId, member_id: MemberId, value: Reader) -> ConsumerMember:
    check_version("consumer group member", value.uint8(), _MEMBER_VERSION)
    member = ConsumerMember(
        group_id,
        member_id,
        instance_id=value.optional_text(),
        rack_id=value.optional_text(),
        client_id=intern(value.text()),
        client_host=intern(value.text()),
        rebalance_timeout_ms=value.int32(),
        assignor=value.optional_text(),
        topics=tuple(intern(value.text()) for _ in range(value.count(4))),
        pattern=value.optional_text(),
        classic=_read_classic(value),
        epoch=value.int32(),
        previous_epoch=value.int32(),
        state=_read_state(value),
        assigned=_read_partitions(value),
        revoking=_read_partitions(value),
        target=_read_partitions(value),
    )
    value.end()
    return member


def _read_classic(value: Reader) -> ClassicMembership | None:
    session_timeout_ms = value.int32()
    if session_timeout_ms == _ABSENT:
        return None
    protocols = tuple((intern(value.text()), value.blob()) for _ in range(value.count(8)))
    return ClassicMembership(session_timeout_ms, protocols)


def _read_state(value: Reader) -> MemberState:
    number = value.uint8()
    try:
        return MemberState(number)
    except ValueError:
        raise Malformed(f"a member's state {number}") from None


def _read_partitions(value: Reader) -> Partitions:
    return {TopicId(value.take(16)): value.int32s() for _ in range(value.count(20))} or NONE
