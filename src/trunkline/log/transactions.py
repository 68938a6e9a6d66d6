"""Transactions in one partition: which are open, how far readers of committed records may read, what was aborted.

    log start        last stable offset         high watermark      end
    ────┼───────────────────┼──────────────────────────┼─────────────┼──▶
        │  all decided      │ first record of the oldest transaction that is open, or whose marker is not yet safe

A transaction is open from its first batch to its marker. Aborted ones are kept for as long as a record of theirs is in
the log, in the order of their markers; `last_stable` of each is where the log was decided up to once it had ended, so a
look-up knows when no later one can matter.

All of it is written with the producers into each checkpoint, and brought up to date by the batches that recovery finds.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from trunkline.model.errors import InvalidTransactionState
from trunkline.record.batch import BatchHeader

_COUNT: Final = struct.Struct(">I")
_OPEN: Final = struct.Struct(">qhqq")
_ABORTED: Final = struct.Struct(">qqqq")


class OpenTransaction(NamedTuple):
    epoch: int
    first_offset: int
    started_ms: int


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    last_stable: int


class PartitionTransactions:
    __slots__ = ("_ended", "aborted", "open")

    def __init__(self, open_: Mapping[int, OpenTransaction] | None = None, aborted: Sequence[Aborted] = ()) -> None:
        self.open: dict[int, OpenTransaction] = dict(open_ or {})
        """By producer id, the oldest first."""
        self.aborted: list[Aborted] = list(aborted)
        """Only ever grows; what is forgotten leaves with the list as a whole, so that readers may hold on to it."""
        self._ended: list[tuple[int, int]] = []

    def __bool__(self) -> bool:
        return bool(self.open or self.aborted)

    def check(self, header: BatchHeader) -> None:
        """InvalidTransactionState: a producer in a transaction wrote outside of it."""
        if header.producer_id in self.open and not header.is_transactional:
            raise InvalidTransactionState(f"Producer {header.producer_id} has an open transaction here: end it first.")

    def replay_batch(self, header: BatchHeader) -> None:
        """A transactional batch is in the log now."""
        if header.producer_id not in self.open:
            self.open[header.producer_id] = OpenTransaction(
                header.producer_epoch, header.base_offset, header.max_timestamp
            )

    def replay_marker(self, header: BatchHeader, commit: bool) -> None:
        """A marker is in the log now."""
        ended = self.open.pop(header.producer_id, None)
        if ended is None:
            return
        self._ended.append((ended.first_offset, header.base_offset))
        if not commit:
            stable = next((other.first_offset for other in self.open.values()), header.next_offset)
            self.aborted.append(Aborted(header.producer_id, ended.first_offset, header.base_offset, stable))

    def last_stable_offset(self, high_watermark: int, log_start: int) -> int:
        """Everything below is decided, and visible."""
        if self._ended:
            self._ended = [ended for ended in self._ended if ended[1] >= high_watermark]
        first = next((one.first_offset for one in self.open.values()), high_watermark)
        for ended in self._ended:
            first = min(first, ended[0])
        return max(min(first, high_watermark), min(log_start, high_watermark))

    def forget_below(self, log_start: int) -> None:
        if self.aborted and self.aborted[0].last_offset < log_start:
            self.aborted = self.aborted[bisect_left(self.aborted, log_start, key=_last_offset) :]

    def encode(self) -> bytes:
        """open count u32 | (producer i64, epoch i16, first offset i64, started i64)*
        | aborted count u32 | (producer, first, last, stable i64)*
        """
        out = bytearray(_COUNT.pack(len(self.open)))
        for producer_id, one in self.open.items():
            out += _OPEN.pack(producer_id, *one)
        out += _COUNT.pack(len(self.aborted))
        for aborted in self.aborted:
            out += _ABORTED.pack(*aborted)
        return bytes(out)

    def copy(self) -> PartitionTransactions:
        return PartitionTransactions(self.open, self.aborted)


def decode_transactions(data: bytes, position: int) -> tuple[PartitionTransactions, int]:
    """What `encode` wrote at `position`, and where it ends."""
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    open_: dict[int, OpenTransaction] = {}
    for _ in range(count):
        producer_id, *one = _OPEN.unpack_from(data, position)
        open_[producer_id] = OpenTransaction(*one)
        position += _OPEN.size
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    end = position + count * _ABORTED.size
    return PartitionTransactions(open_, [Aborted(*one) for one in _ABORTED.iter_unpack(data[position:end])]), end


def aborted_between(aborted: Sequence[Aborted], start: int, end: int) -> list[Aborted]:
    """Those that have records from offset `start` on and below `end`."""
    found: list[Aborted] = []
    for index in range(bisect_left(aborted, start, key=_last_offset), len(aborted)):
        one = aborted[index]
        if one.first_offset < end:
            found.append(one)
        if one.last_stable >= end:
            break
    return found


def _last_offset(aborted: Aborted) -> int:
    return aborted.last_offset
