"""Sparse indexes of a segment: from an offset, and from a time, to where to start looking.

    .index      (relative offset u32 | position u32)*      of a batch: its base offset, where it starts
    .timeindex  (timestamp i64 | relative offset u32)*     the largest timestamp so far, and the batch that has it
    both, once the segment is sealed: … | magic u32 | count u32 | crc32c of the entries u32 | bytes of the log u64
                                        | largest timestamp i64 | its relative offset u32 | crc32c since magic u32

An entry is made every index.interval.bytes. The active segment's index lives in memory and is written out at
checkpoints, which remember its length and checksum; an index that is missing or does not match is rebuilt from the
log, so index files are never synced.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from threading import Lock
from typing import Final, NamedTuple

from crc32c import crc32c

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
NO_TIMESTAMP: Final = -1
_TIME_ENTRY: Final = struct.Struct(">qI")
_TRAILER: Final = struct.Struct(">IIIQqI")
_CRC: Final = struct.Struct(">I")
TRAILER_BYTES: Final = _TRAILER.size + _CRC.size
_TRAILER_MAGIC: Final = 0x1DE41D0C


class SegmentIndex:
    """In memory: five numbers in compact arrays per entry pair."""

    __slots__ = ("_offsets", "_positions", "_time_offsets", "_times")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")
        self._times = array("q")
        self._time_offsets = array("I")

    @property
    def count(self) -> int:
        return len(self._positions)

    @property
    def time_count(self) -> int:
        return len(self._time_offsets)

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The last entry by time: timestamp and relative offset."""
        return (self._times[-1], self._time_offsets[-1]) if self._times else (NO_TIMESTAMP, 0)

    def add(self, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def add_time(self, timestamp: int, relative_offset: int) -> None:
        """Nothing happens unless it is later than the last one."""
        if not self._times or timestamp > self._times[-1]:
            self._times.append(timestamp)
            self._time_offsets.append(relative_offset)

    def position_of(self, relative_offset: int) -> int:
        """Where a batch starts at or before that offset. May be asked from a thread while entries are added."""
        found = bisect_right(self._offsets, relative_offset, 0, self.count)
        return self._positions[found - 1] if found else 0

    def before_time(self, timestamp: int) -> int:
        """The relative offset up to which every batch is older than `timestamp`."""
        found = bisect_left(self._times, timestamp, 0, self.time_count)
        return self._time_offsets[found - 1] if found else 0

    def encode_offsets(self, start: int = 0) -> bytes:
        rows = array("I", bytes(2 * 4 * (self.count - start)))
        rows[0::2] = self._offsets[start : self.count]
        rows[1::2] = self._positions[start:]
        return _big_endian(rows).tobytes()

    def encode_times(self, start: int = 0) -> bytes:
        rows = zip(self._times[start : self.time_count], self._time_offsets[start:], strict=True)
        return b"".join(_TIME_ENTRY.pack(*row) for row in rows)

    def tail(self, start: int, time_start: int) -> SegmentIndex:
        """A copy of the entries from there on, for another thread to write."""
        copy = SegmentIndex()
        copy._offsets, copy._positions = self._offsets[start:], self._positions[start:]
        copy._times, copy._time_offsets = self._times[time_start:], self._time_offsets[time_start:]
        return copy

    @classmethod
    def decode(cls, offsets: bytes, times: bytes) -> SegmentIndex:
        index = cls()
        rows = array("I")
        rows.frombytes(offsets)
        rows = _big_endian(rows)
        index._offsets, index._positions = rows[0::2], rows[1::2]
        for timestamp, relative_offset in _TIME_ENTRY.iter_unpack(times):
            index._times.append(timestamp)
            index._time_offsets.append(relative_offset)
        return index


class Trailer(NamedTuple):
    entry_count: int
    entries_crc: int
    log_bytes: int
    max_timestamp: int
    max_timestamp_offset: int
    """Relative to the segment's first offset."""


def seal(entries: bytes, entry_bytes: int, log_bytes: int, max_timestamp: int, max_timestamp_offset: int) -> bytes:
    """The whole index file of a sealed segment."""
    count = len(entries) // entry_bytes
    trailer = _TRAILER.pack(_TRAILER_MAGIC, count, crc32c(entries), log_bytes, max_timestamp, max_timestamp_offset)
    return entries + trailer + _CRC.pack(crc32c(trailer))


def read_trailer(data: bytes) -> Trailer | None:
    """What the last bytes of a sealed index file say, None where they are damaged."""
    if len(data) < TRAILER_BYTES:
        return None
    trailer = data[-TRAILER_BYTES : -_CRC.size]
    magic, *fields = _TRAILER.unpack(trailer)
    if magic != _TRAILER_MAGIC or _CRC.unpack(data[-_CRC.size :])[0] != crc32c(trailer):
        return None
    return Trailer(*fields)


def unseal(data: bytes, entry_bytes: int) -> bytes | None:
    """The entries of a sealed index file, None where it is not whole."""
    trailer = read_trailer(data)
    entries = data[:-TRAILER_BYTES]
    if trailer is None or trailer.entry_count * entry_bytes != len(entries) or crc32c(entries) != trailer.entries_crc:
        return None
    return entries


def _big_endian(rows: array[int]) -> array[int]:
    if sys.byteorder == "little":
        rows.byteswap()
    return rows


class IndexCache:
    """Indexes of sealed segments that were used last; any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._indexes: OrderedDict[object, SegmentIndex] = OrderedDict()
        self._lock = Lock()

    def get(self, segment: object) -> SegmentIndex | None:
        with self._lock:
            index = self._indexes.get(segment)
            if index is not None:
                self._indexes.move_to_end(segment)
            return index

    def put(self, segment: object, index: SegmentIndex) -> None:
        with self._lock:
            self._indexes[segment] = index
            if len(self._indexes) > self._limit:
                self._indexes.popitem(last=False)

    def drop(self, segment: object) -> None:
        with self._lock:
            self._indexes.pop(segment, None)
