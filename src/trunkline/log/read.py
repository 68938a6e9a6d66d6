"""Reading from a log: what is in memory at once, what is only on disk by a plan that a thread carries out.

A plan holds what it needs of the moment it was made: the segments, and how far each was written. So the owner may
append, roll, delete and clean meanwhile. A segment that is deleted before its file was opened makes the offset out of
range; one that cleaning replaced stays readable for the plans that know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from trunkline.log.disk import File, storage_error
from trunkline.log.files import Directory
from trunkline.log.index import IndexCache
from trunkline.log.segment import Segment, corrupt, sealed_index
from trunkline.model.errors import OffsetOutOfRange, UnknownPartition
from trunkline.record.batch import HEADER_BYTES, MAGIC, BatchHeader, check_crc, read_header

_LOOK_BYTES: Final = 64 * 1024


class SegmentView(NamedTuple):
    """A segment as far as it was written when the plan was made."""

    segment: Segment
    size_bytes: int


class Snapshot(NamedTuple):
    """The part of a log that a look-up on another thread may touch."""

    directory: Directory
    indexes: IndexCache
    index_interval_bytes: int
    views: Sequence[SegmentView]

    def open(self, segment: Segment) -> File:
        try:
            file = segment.open(self.directory)
        except FileNotFoundError:
            if self.directory.gone:
                raise UnknownPartition(f"{self.directory.path} was deleted.") from None
            raise OffsetOutOfRange(f"Offset {segment.base_offset} was deleted from {self.directory.path}.") from None
        except OSError as error:
            raise storage_error(f"Cannot open {self.directory.name_of(segment.log_name)}", error) from error
        if self.directory.gone:
            raise UnknownPartition(f"{self.directory.path} was deleted.")
        return file

    def pread(self, view: SegmentView, file: File, size: int, position: int) -> memoryview:
        """CorruptLog where the file is shorter than what was written to it."""
        size = min(size, view.size_bytes - position)
        try:
            data = file.pread(size, position)
        except OSError as error:
            raise storage_error(f"Cannot read {self.directory.name_of(view.segment.log_name)}", error) from error
        if len(data) < size:
            raise corrupt(self.directory, view.segment, position + len(data))
        return memoryview(data)

    def position_of(self, segment: Segment, offset: int) -> int:
        index = sealed_index(self.directory, segment, self.indexes, self.index_interval_bytes)
        return index.position_of(offset - segment.base_offset)

    def headers(self, view: SegmentView, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Batch by batch from `position` on. CorruptLog."""
        file = self.open(view.segment)
        while position < view.size_bytes:
            header = _header(self, view, self.pread(view, file, HEADER_BYTES, position), 0, position)
            yield position, header
            position += header.size_bytes

    def batch(self, view: SegmentView, position: int, header: BatchHeader) -> memoryview:
        batch = self.pread(view, self.open(view.segment), header.size_bytes, position)
        if not check_crc(header, batch):
            raise corrupt(self.directory, view.segment, position)
        return batch


class Read:
    """Whole batches: `buffers`, `size_bytes` of them together, and `next_offset` to read on from.

    While `cold` is true they are not there yet: call `load` from a thread, it blocks.
    """

    __slots__ = ("_plan", "buffers", "cold", "next_offset", "size_bytes")

    def __init__(
        self, buffers: list[memoryview], size_bytes: int, next_offset: int, plan: ColdPlan | None = None
    ) -> None:
        self.buffers = buffers
        self.size_bytes = size_bytes
        self.next_offset = next_offset
        self.cold = plan is not None
        self._plan = plan

    def limit(self, max_bytes: int) -> None:
        """Load no more than that, besides a first batch that must be given; for what is not loaded yet."""
        if self._plan is not None:
            self._plan.limit(max_bytes)

    def load(self) -> Read:
        """OffsetOutOfRange, UnknownPartition: deleted meanwhile. CorruptLog, StorageFailed."""
        if self._plan is not None:
            self.buffers, self.size_bytes, self.next_offset = self._plan.load()
            self._plan, self.cold = None, False
        return self


class ColdPlan:
    __slots__ = ("_at_least_one", "_end", "_max_bytes", "_offset", "_snapshot")

    def __init__(self, snapshot: Snapshot, offset: int, max_bytes: int, end: int, at_least_one: bool) -> None:
        self._snapshot = snapshot
        self._offset = offset
        self._max_bytes = max_bytes
        self._end = end
        self._at_least_one = at_least_one

    def limit(self, max_bytes: int) -> None:
        self._max_bytes = min(self._max_bytes, max_bytes)

    def load(self) -> tuple[list[memoryview], int, int]:
        for view in self._snapshot.views:
            if view.segment.base_offset >= self._end:
                break
            found = self._load_from(view)
            if found is not None:
                return found
        return [], 0, self._offset

    def _load_from(self, view: SegmentView) -> tuple[list[memoryview], int, int] | None:
        """One run of batches of one segment. None where it holds nothing at or after the offset."""
        snapshot, offset = self._snapshot, self._offset
        file = snapshot.open(view.segment)
        position = snapshot.position_of(view.segment, offset)
        look = max(self._max_bytes, 0) + min(snapshot.index_interval_bytes + HEADER_BYTES, _LOOK_BYTES)
        data, start = snapshot.pread(view, file, look, position), position
        first = -1
        next_offset = offset
        while position < view.size_bytes:
            if position + HEADER_BYTES > start + len(data):
                if first >= 0:
                    break
                data, start = snapshot.pread(view, file, look, position), position
            header = _header(snapshot, view, data, position - start, position)
            if header.next_offset > offset:
                end = position + header.size_bytes
                if header.next_offset > self._end:
                    return _run(data, start, first, position, next_offset)
                over = end - (position if first < 0 else first) > self._max_bytes
                if over and (first >= 0 or not self._at_least_one):
                    return _run(data, start, first, position, next_offset)
                if end > start + len(data):
                    if first >= 0:
                        break
                    data, start = snapshot.pread(view, file, max(look, header.size_bytes), position), position
                if not check_crc(header, data[position - start : end - start]):
                    raise corrupt(snapshot.directory, view.segment, position)
                if first < 0:
                    first = position
                next_offset = header.next_offset
            position += header.size_bytes
        return _run(data, start, first, position, next_offset) if first >= 0 else None


def _run(data: memoryview, start: int, first: int, end: int, next_offset: int) -> tuple[list[memoryview], int, int]:
    if first < 0:
        return [], 0, next_offset
    return [data[first - start : end - start]], end - first, next_offset


def _header(snapshot: Snapshot, view: SegmentView, data: memoryview, at: int, position: int) -> BatchHeader:
    if at + HEADER_BYTES <= len(data):
        header = read_header(data, at)
        fits = HEADER_BYTES <= header.size_bytes <= view.size_bytes - position
        if header.magic == MAGIC and fits and header.base_offset >= view.segment.base_offset:
            return header
    raise corrupt(snapshot.directory, view.segment, position)
