"""Idempotent producers of one partition: which batches of each are in the log already.

A producer numbers its batches per partition. The last five of each producer are remembered: one of them sent again is
answered with where it already is; anything but the next number is refused. The rules are Kafka's:

    epoch older than known              InvalidProducerEpoch
    epoch newer than known              must start at sequence 0
    same epoch                          one of the last five: a duplicate; the next in order; else OutOfOrderSequence
    producer unknown                    any sequence (its past may have been expired or deleted)
    known by a marker only              must start at sequence 0

A marker that ends a transaction brings its epoch along, which fences whoever still writes with an older one.

`check` asks, `replay` alone changes state; so live appends and recovery run the same lines.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from trunkline.log.transactions import PartitionTransactions, decode_transactions
from trunkline.model.errors import InvalidProducerEpoch, OutOfOrderSequence
from trunkline.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from trunkline.record.compression import Buffer
from trunkline.record.control import read_marker

REMEMBERED_BATCHES: Final = 5
MOST_PRODUCERS: Final = 10_000
"""Of one partition; past that the one that was idle longest is forgotten."""
EXPIRY_MS: Final = 24 * 60 * 60 * 1000
_INT_MAX: Final = 2**31 - 1
_STATE: Final = struct.Struct(">qhqB")
_BATCH: Final = struct.Struct(">iiqqq")
_ENDED: Final = 0x80
_WITH_TRANSACTIONS: Final = b"\xff\x01"
"""No producer id starts so."""


class KnownBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerState(NamedTuple):
    epoch: int
    last_used_ms: int
    batches: tuple[KnownBatch, ...]
    ended: bool = False
    """A transaction of it has ended here."""

    def after(self, header: BatchHeader, now_ms: int) -> ProducerState:
        last = header.last_sequence
        batch = KnownBatch(header.base_sequence, last, header.base_offset, header.last_offset, header.max_timestamp)
        if header.producer_epoch != self.epoch:
            return ProducerState(header.producer_epoch, now_ms, (batch,), self.ended)
        return ProducerState(self.epoch, now_ms, (*self.batches[1 - REMEMBERED_BATCHES :], batch), self.ended)


_UNKNOWN: Final = ProducerState(-1, 0, ())


class Producers:
    """Kept in the order of last use, the longest idle first."""

    __slots__ = ("_states", "transactions")

    def __init__(
        self, states: Mapping[int, ProducerState] | None = None, transactions: PartitionTransactions | None = None
    ) -> None:
        self._states: dict[int, ProducerState] = dict(states or {})
        self.transactions = transactions or PartitionTransactions()

    def __len__(self) -> int:
        return len(self._states)

    def check(self, headers: Iterable[BatchHeader]) -> KnownBatch | None:
        """The batch that one of these already is, or None if all of them are new and in order.

        InvalidProducerEpoch, OutOfOrderSequence, InvalidTransactionState.
        """
        ahead: dict[int, ProducerState] = {}
        for header in headers:
            if header.producer_id < 0 or header.is_control:
                continue
            state = ahead.get(header.producer_id) or self._states.get(header.producer_id)
            if state is not None:
                known = _check(header, state)
                if known is not None:
                    return known
            if self.transactions.open:
                self.transactions.check(header)
            ahead[header.producer_id] = (state or _UNKNOWN).after(header, 0)
        return None

    def replay(self, header: BatchHeader, now_ms: int, batch: Buffer = b"") -> None:
        """The batch is in the log now, stamped with its offset. Of a control batch the bytes are needed, too."""
        if header.producer_id < 0:
            return
        if header.attributes & TRANSACTIONAL_BIT:
            if header.attributes & CONTROL_BIT:
                self._replay_marker(header, now_ms, batch)
                return
            self.transactions.replay_batch(header)
        elif header.is_control:
            return
        # Taken out and put back, so that the order of the dict is the order of use.
        state = self._states.pop(header.producer_id, _UNKNOWN)
        self._states[header.producer_id] = state.after(header, now_ms)
        if len(self._states) > MOST_PRODUCERS:
            del self._states[next(iter(self._states))]

    def _replay_marker(self, header: BatchHeader, now_ms: int, batch: Buffer) -> None:
        marker = read_marker(batch)
        if marker is None:
            return
        self.transactions.replay_marker(header, marker.commit)
        state = self._states.pop(header.producer_id, _UNKNOWN)
        batches = state.batches if state.epoch == header.producer_epoch else ()
        self._states[header.producer_id] = ProducerState(header.producer_epoch, now_ms, batches, ended=True)

    def expire(self, now_ms: int) -> None:
        """Forget who was idle for a day, unless a transaction of theirs is open."""
        idle: list[int] = []
        for producer_id, state in self._states.items():
            if now_ms - state.last_used_ms < EXPIRY_MS:
                break
            idle.append(producer_id)
        for producer_id in idle:
            if producer_id not in self.transactions.open:
                del self._states[producer_id]

    def of(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def snapshot(self) -> Mapping[int, ProducerState]:
        """Of this moment; later changes do not reach it, so another thread may encode it."""
        return self._states.copy()

    def capture(self) -> Callable[[], bytes]:
        """The encoding of this moment, to be made by another thread."""
        return partial(encode_producers, self._states.copy(), self.transactions.copy())


def _check(header: BatchHeader, state: ProducerState) -> KnownBatch | None:
    first, epoch = header.base_sequence, header.producer_epoch
    who = f"Producer {header.producer_id} with epoch {epoch}"
    if epoch < state.epoch:
        raise InvalidProducerEpoch(f"{who} was fenced: epoch {state.epoch} is known. Get a new epoch and go on.")
    if epoch > state.epoch:
        if first != 0:
            raise OutOfOrderSequence(f"{who} must start at sequence 0, not {first}: epoch {state.epoch} was known.")
        return None
    for known in state.batches:
        if known.first_sequence == first and known.last_sequence == header.last_sequence:
            return known
    expected = (state.batches[-1].last_sequence + 1) & _INT_MAX if state.batches else 0
    if first != expected:
        raise OutOfOrderSequence(f"{who} sent sequence {first}, {expected} is next.")
    return None


def encode_producers(states: Mapping[int, ProducerState], transactions: PartitionTransactions | None = None) -> bytes:
    """(producer id i64 | epoch i16 | last used i64 | count u8 | (sequences i32, offsets i64, time i64)*)*

    The highest bit of the count: a transaction has ended. Where some are open or were aborted, ff 01 and these (see
    there) come first.
    """
    out = bytearray()
    if transactions:
        out += _WITH_TRANSACTIONS + transactions.encode()
    for producer_id, state in states.items():
        count = len(state.batches) | (_ENDED if state.ended else 0)
        out += _STATE.pack(producer_id, state.epoch, state.last_used_ms, count)
        for batch in state.batches:
            out += _BATCH.pack(*batch)
    return bytes(out)


def decode_producers(data: bytes) -> Producers:
    states: dict[int, ProducerState] = {}
    transactions, position = PartitionTransactions(), 0
    if has_transactions(data):
        transactions, position = decode_transactions(data, len(_WITH_TRANSACTIONS))
    while position < len(data):
        producer_id, epoch, last_used_ms, count = _STATE.unpack_from(data, position)
        position += _STATE.size
        ended, count = bool(count & _ENDED), count & ~_ENDED
        batches = tuple(KnownBatch(*_BATCH.unpack_from(data, position + i * _BATCH.size)) for i in range(count))
        position += count * _BATCH.size
        states[producer_id] = ProducerState(epoch, last_used_ms, batches, ended)
    return Producers(states, transactions)


def has_transactions(data: bytes) -> bool:
    """Whether encoded producers hold open or aborted transactions."""
    return data.startswith(_WITH_TRANSACTIONS)
