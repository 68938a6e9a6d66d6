"""What a transactional id has come to, as keyed records: the last value of each key is the whole truth.

    key      1 | transactional id
    value    absent: forgotten
             version 1 | state uint8 | producer id, previous, next int64 | epoch, last epoch int32 | flags uint8 (1: the
             epoch was raised by the end, 2: client of transaction version 2) | timeout int32 | started, updated int64
             int32 count × (topic | partition int32)
             int32 count × (group | topic | partition int32 | offset int64 | leader epoch int32 | metadata |
                            committed int64)
             strings: int32 length, UTF-8

A transaction is decided by the one fact in which it is PrepareCommit or PrepareAbort: it holds everything that is left
to do, so that whoever reads it after a crash can finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from sys import intern
from typing import Final

from trunkline.coordination.facts import Committed
from trunkline.coordination.packing import Malformed, Reader, Writer, decode_text
from trunkline.model.errors import CorruptLog
from trunkline.model.ids import Epoch, GroupId, Offset, ProducerId, TopicPartition

_TRANSACTION: Final = 1
_VERSION: Final = 1
_RAISED: Final = 1
_V2: Final = 2
_SMALLEST_PARTITION_BYTES: Final = 8
_SMALLEST_OFFSET_BYTES: Final = 36

NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = -1


class TransactionState(Enum):
    """As Kafka names them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_STATES: Final = tuple(TransactionState)


@dataclass(frozen=True, slots=True)
class PendingOffset:
    """An offset of a group that becomes committed if the transaction is."""

    group_id: GroupId
    topic: str
    partition: int
    committed: Committed


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id and where its present, or last, transaction is."""

    state: TransactionState
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    started_ms: int = -1
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    """Where the epochs of the present id are used up: the id that follows when the transaction is complete."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    raised: bool = False
    """The end raised the epoch, so markers have a newer one than the records they end."""
    v2: bool = False
    """It was ended by a client of transaction version 2, which goes on with the raised epoch."""
    partitions: frozenset[TopicPartition] = frozenset()
    offsets: tuple[PendingOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionStored:
    transactional_id: str
    transaction: Transaction


@dataclass(frozen=True, slots=True)
class TransactionForgotten:
    transactional_id: str


TransactionFact = TransactionStored | TransactionForgotten


def encode(fact: TransactionFact) -> tuple[bytes, bytes | None]:
    key = bytes((_TRANSACTION,)) + fact.transactional_id.encode()
    return key, None if isinstance(fact, TransactionForgotten) else _value(fact.transaction)


def decode(key: bytes, value: bytes | None) -> TransactionFact:
    """CorruptLog when it is none of ours, or of a version that this release does not know."""
    try:
        if key[:1] != bytes((_TRANSACTION,)):
            raise Malformed("its kind is not known here: was it written by a newer release?")
        transactional_id = intern(decode_text(key[1:]))
        if value is None:
            return TransactionForgotten(transactional_id)
        return TransactionStored(transactional_id, _read(Reader(value)))
    except Malformed as bad:
        raise CorruptLog(f"a record of the transactions' topic cannot be read (key {key[:64]!r}): {bad}") from None


def _value(one: Transaction) -> bytes:
    out = Writer()
    out.uint8(_VERSION)
    out.uint8(_STATES.index(one.state))
    for producer_id in (one.producer_id, one.previous_producer_id, one.next_producer_id):
        out.int64(producer_id)
    out.int32(one.producer_epoch)
    out.int32(one.last_producer_epoch)
    out.uint8((_RAISED if one.raised else 0) | (_V2 if one.v2 else 0))
    out.int32(one.timeout_ms)
    out.int64(one.started_ms)
    out.int64(one.updated_ms)
    out.int32(len(one.partitions))
    for place in one.partitions:
        out.text(place.topic)
        out.int32(place.partition)
    out.int32(len(one.offsets))
    for pending in one.offsets:
        out.text(pending.group_id)
        out.text(pending.topic)
        out.int32(pending.partition)
        out.int64(pending.committed.offset)
        out.int32(pending.committed.leader_epoch)
        out.text(pending.committed.metadata)
        out.int64(pending.committed.committed_ms)
    return out.done()


def _read(value: Reader) -> Transaction:
    version = value.uint8()
    if version != _VERSION:
        raise Malformed(f"version {version}, only {_VERSION} is known here: was it written by a newer release?")
    state = value.uint8()
    if state >= len(_STATES):
        raise Malformed(f"state {state}")
    producer_id, previous, following = value.int64(), value.int64(), value.int64()
    epoch, last_epoch, flags = value.int32(), value.int32(), value.uint8()
    timeout_ms, started_ms, updated_ms = value.int32(), value.int64(), value.int64()
    partitions = frozenset(
        TopicPartition(intern(value.text()), value.int32()) for _ in range(value.count(_SMALLEST_PARTITION_BYTES))
    )
    offsets = tuple(_read_offset(value) for _ in range(value.count(_SMALLEST_OFFSET_BYTES)))
    value.end()
    return Transaction(
        _STATES[state],
        ProducerId(producer_id),
        epoch,
        timeout_ms,
        updated_ms,
        started_ms,
        ProducerId(previous),
        ProducerId(following),
        last_epoch,
        bool(flags & _RAISED),
        bool(flags & _V2),
        partitions,
        offsets,
    )


def _read_offset(value: Reader) -> PendingOffset:
    group_id, topic, partition = GroupId(intern(value.text())), intern(value.text()), value.int32()
    offset, leader_epoch, metadata, committed_ms = value.int64(), value.int32(), value.text(), value.int64()
    return PendingOffset(
        group_id, topic, partition, Committed(Offset(offset), Epoch(leader_epoch), metadata, committed_ms, None)
    )
