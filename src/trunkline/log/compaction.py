"""What cleaning keeps: the last record of every key, by Kafka's rules. Pure: no disk, no clock.

    dirty part, read first:   key → the last offset it has there
    every batch, then:        a record stays unless its key has a later offset
                              a tombstone stays for delete.retention.ms after the first cleaning that met it
                              a transaction's marker likewise, after the first cleaning that met none of its records

That time is written into the batch, as its delete horizon. A batch left without records is dropped, unless its
producer's sequence ends there, or the log does: then its empty shell stays. What cannot be opened is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from trunkline.model.errors import TrunklineError
from trunkline.record.batch import DELETE_HORIZON_BIT, BatchHeader
from trunkline.record.keys import AT_ONCE, KeyedRecord, keep_nothing, keep_records, read_body, read_keys

BYTES_PER_KEY: Final = 200
"""What a key costs in memory while a part of a log is cleaned."""
_SHORT_KEY_BYTES: Final = 20
_DIGEST_BYTES: Final = 24
"""Longer than a short key: a digest never equals one."""
_LONG_MAX: Final = 2**63 - 1


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of its marker."""


class Aborted:
    """Which batches belong to transactions that were aborted: as good as never written."""

    def __init__(self, transactions: Sequence[AbortedTransaction] = ()) -> None:
        self._of: dict[int, list[AbortedTransaction]] = {}
        for transaction in transactions:
            self._of.setdefault(transaction.producer_id, []).append(transaction)

    def __contains__(self, header: BatchHeader) -> bool:
        if not header.is_transactional or header.is_control:
            return False
        return any(
            transaction.first_offset <= header.base_offset <= transaction.last_offset
            for transaction in self._of.get(header.producer_id, ())
        )


class OffsetMap:
    """The last offset of every key of a part of the log; a bounded number of keys."""

    __slots__ = ("_breathe", "_most_keys", "end_offset", "offsets")

    def __init__(self, first_offset: int, most_keys: int, breathe: Callable[[], None]) -> None:
        """`breathe` is called between any two small pieces of work."""
        self.offsets: dict[bytes, int] = {}
        self.end_offset = first_offset
        """It knows everything below."""
        self._most_keys = most_keys
        self._breathe = breathe

    @property
    def full(self) -> bool:
        return len(self.offsets) >= self._most_keys

    def add(self, header: BatchHeader, batch: memoryview, aborted: Aborted) -> None:
        """The next batch of the log."""
        self.end_offset = header.next_offset
        if header.is_control or header in aborted:
            return
        try:
            records = read_keys(read_body(header, batch), header.record_count, self._breathe)
        except TrunklineError:
            return
        base, offsets = header.base_offset, self.offsets
        for first in range(0, len(records), AT_ONCE):
            for _, _, delta, key, _ in records[first : first + AT_ONCE]:
                if key is not None:
                    offsets[key if len(key) <= _SHORT_KEY_BYTES else _digest(key)] = base + delta
            self._breathe()


class Cleaner:
    """Goes over the batches of a log in their order, from its start."""

    def __init__(
        self,
        offsets: Mapping[bytes, int],
        now_ms: int,
        delete_retention_ms: int,
        *,
        last_offsets: Mapping[int, int],
        log_end: int,
        aborted: Aborted,
        breathe: Callable[[], None],
    ) -> None:
        """`last_offsets`: of each producer, where its last batch ends."""
        self.records_removed = 0
        self._offsets = offsets
        self._now_ms = now_ms
        self._horizon_ms = min(now_ms + delete_retention_ms, _LONG_MAX)
        self._last_offsets = last_offsets
        self._log_end = log_end
        self._aborted = aborted
        self._breathe = breathe
        self._in_transaction: set[int] = set()
        """Producers of which a transaction's records were met, and its marker not yet."""

    def clean(self, header: BatchHeader, batch: memoryview) -> memoryview | None:
        """What stays of the batch: itself where all does, None where nothing does."""
        if header.is_control:
            return self._clean_marker(header, batch)
        if header.is_transactional:
            self._in_transaction.add(header.producer_id)
        if header in self._aborted:
            return self._emptied(header)
        try:
            body = read_body(header, batch)
            records = read_keys(body, header.record_count, self._breathe)
        except TrunklineError:
            return batch
        kept = self._kept(header, records)
        if not kept:
            return self._emptied(header)
        horizon = None
        if not header.attributes & DELETE_HORIZON_BIT and any(record[4] for record in kept):
            horizon = self._horizon_ms
        if len(kept) == len(records) and horizon is None:
            return batch
        self.records_removed += len(records) - len(kept)
        return memoryview(keep_records(header, body, kept, horizon))

    def _kept(self, header: BatchHeader, records: list[KeyedRecord]) -> list[KeyedRecord]:
        base, last_of = header.base_offset, self._offsets.get
        kept: list[KeyedRecord] = []
        for first in range(0, len(records), AT_ONCE):
            kept += [
                record
                for record in records[first : first + AT_ONCE]
                if (key := record[3]) is not None
                and last_of(key if len(key) <= _SHORT_KEY_BYTES else _digest(key), -1) <= base + record[2]
            ]
            self._breathe()
        if self._expired(header):
            kept = [record for record in kept if not record[4]]
        return kept

    def _clean_marker(self, header: BatchHeader, batch: memoryview) -> memoryview | None:
        if header.producer_id in self._in_transaction:
            self._in_transaction.discard(header.producer_id)
            return batch
        if self._expired(header):
            return self._emptied(header)
        if header.attributes & DELETE_HORIZON_BIT or not header.record_count:
            return batch if header.record_count else self._emptied(header)
        try:
            body = read_body(header, batch)
            records = read_keys(body, header.record_count, self._breathe)
            return memoryview(keep_records(header, body, records, self._horizon_ms))
        except TrunklineError:
            return batch

    def _expired(self, header: BatchHeader) -> bool:
        return bool(header.attributes & DELETE_HORIZON_BIT) and self._now_ms >= header.base_timestamp

    def _emptied(self, header: BatchHeader) -> memoryview | None:
        self.records_removed += header.record_count
        ends_its_producer = self._last_offsets.get(header.producer_id) == header.last_offset
        if ends_its_producer or header.next_offset == self._log_end:
            return memoryview(keep_nothing(header))
        return None


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
