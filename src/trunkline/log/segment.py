"""A segment: a run of batches in one file, named for its first offset, with its two indexes beside it.

00000000000000000042.log   batch | batch | …     exactly as they came, one after the other
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trunkline.log.disk import File
from trunkline.log.files import Directory
from trunkline.log.index import (
    NO_TIMESTAMP,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    IndexCache,
    SegmentIndex,
    unseal,
)
from trunkline.log.names import LOG, SUFFIXES, SegmentName
from trunkline.model.errors import CorruptLog
from trunkline.record.batch import HEADER_BYTES, MAGIC, BatchHeader, check_crc, read_header

MOST_RELATIVE_OFFSET: Final = 2**31 - 1
_CHUNK_BYTES: Final = 1024 * 1024


class Segment:
    """`index` is None for a sealed segment whose index is on disk only.

    `file` is set once cleaning has replaced the segment: reads that were planned before go on through it.
    """

    __slots__ = (
        "_bytes_since_entry",
        "base_offset",
        "file",
        "first_timestamp",
        "index",
        "log_name",
        "max_timestamp",
        "max_timestamp_offset",
        "name",
        "size_bytes",
    )

    def __init__(
        self, base_offset: int, index: SegmentIndex | None, size_bytes: int = 0, name: SegmentName | None = None
    ) -> None:
        self.base_offset = base_offset
        self.name = name or SegmentName(base_offset)
        self.log_name = f"{self.name.stem}{LOG}"
        self.file: File | None = None
        self.size_bytes = size_bytes
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.index = index
        self._bytes_since_entry = 0

    @property
    def file_names(self) -> list[str]:
        return [f"{self.name.stem}{suffix}" for suffix in SUFFIXES]

    def open(self, directory: Directory) -> File:
        """FileNotFoundError where it was deleted."""
        if self.file is not None:
            return self.file
        try:
            return directory.open(self.log_name)
        except FileNotFoundError:
            # Cleaning keeps the file here before it removes it: it may have done both since the first look.
            if self.file is not None:
                return self.file
            raise

    def grew(self, header: BatchHeader, index_interval_bytes: int) -> None:
        """A batch stands at the end now. The only place where an active segment changes."""
        size, timestamp, base = header.size_bytes, header.max_timestamp, header.base_offset
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, base
        if self.size_bytes == 0:
            self.first_timestamp = timestamp
        index = self.index
        assert index is not None
        if self._bytes_since_entry > index_interval_bytes:
            index.add(base - self.base_offset, self.size_bytes)
            index.add_time(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        self.size_bytes += size

    def seal(self) -> None:
        """Nothing follows: the time index ends with the largest timestamp of all."""
        assert self.index is not None
        if self.max_timestamp > NO_TIMESTAMP:
            self.index.add_time(self.max_timestamp, self.max_timestamp_offset - self.base_offset)


def scan(
    file: File, position: int, end: int, chunk_bytes: int = _CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch whose length is plausible. Ends, without a word, where one is not."""
    chunk, start = memoryview(b""), position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > start + len(chunk):
            chunk, start = memoryview(file.pread(min(chunk_bytes, end - position), position)), position
            if len(chunk) < HEADER_BYTES:
                return
        header = read_header(chunk, position - start)
        if header.magic != MAGIC or not HEADER_BYTES <= header.size_bytes <= end - position:
            return
        if position + header.size_bytes > start + len(chunk):
            size = min(max(chunk_bytes, header.size_bytes), end - position)
            chunk, start = memoryview(file.pread(size, position)), position
            if len(chunk) < header.size_bytes:
                return
        yield position, header, chunk[position - start : position - start + header.size_bytes]
        position += header.size_bytes


def rebuild(directory: Directory, segment: Segment, size_bytes: int, index_interval_bytes: int) -> Segment:
    """The same segment with everything that can be learned from its log file. CorruptLog."""
    rebuilt = Segment(segment.base_offset, SegmentIndex(), name=segment.name)
    next_offset = segment.base_offset
    for position, header, batch in scan(segment.open(directory), 0, size_bytes):
        if header.base_offset < next_offset or not check_crc(header, batch):
            raise corrupt(directory, segment, position)
        next_offset = header.next_offset
        rebuilt.grew(header, index_interval_bytes)
    if rebuilt.size_bytes != size_bytes:
        raise corrupt(directory, segment, rebuilt.size_bytes)
    return rebuilt


def sealed_index(directory: Directory, segment: Segment, cache: IndexCache, index_interval_bytes: int) -> SegmentIndex:
    """The index of a sealed segment: from memory, from disk, or rebuilt. Blocks; any thread."""
    index = segment.index or cache.get(segment)
    if index is None:
        index = _read_sealed_index(directory, segment)
        if index is None:
            rebuilt = rebuild(directory, segment, segment.size_bytes, index_interval_bytes)
            rebuilt.seal()
            assert rebuilt.index is not None
            index = rebuilt.index
        cache.put(segment, index)
    return index


def corrupt(directory: Directory, segment: Segment, position: int) -> CorruptLog:
    return CorruptLog(
        f"{directory.name_of(segment.log_name)} is damaged at position {position}, below what was acknowledged. "
        "Restore the partition from a backup."
    )


def _read_sealed_index(directory: Directory, segment: Segment) -> SegmentIndex | None:
    _, offsets_name, times_name = segment.file_names
    try:
        offsets_file, times_file = directory.open(offsets_name), directory.open(times_name)
        offsets = unseal(offsets_file.pread(offsets_file.size(), 0), OFFSET_ENTRY_BYTES)
        times = unseal(times_file.pread(times_file.size(), 0), TIME_ENTRY_BYTES)
    except FileNotFoundError:
        return None
    return None if offsets is None or times is None else SegmentIndex.decode(offsets, times)
