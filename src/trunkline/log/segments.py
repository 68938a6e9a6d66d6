"""Finding the segments of a partition on disk, on first use."""

from __future__ import annotations

from crc32c import crc32c

from trunkline.log.checkpoint import PartitionState
from trunkline.log.files import Directory
from trunkline.log.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    TRAILER_BYTES,
    IndexCache,
    SegmentIndex,
    Trailer,
    read_trailer,
)
from trunkline.log.names import DRAFT, SUFFIXES, log_names, without_replaced
from trunkline.log.segment import Segment, corrupt, rebuild, sealed_index


def segment_bases(directory: Directory) -> list[int]:
    return [name.base_offset for name in log_names(directory.list())]


def load_sealed(
    directory: Directory, state: PartitionState, indexes: IndexCache, index_interval_bytes: int
) -> list[Segment]:
    """All before the active one. What lies wholly below the log's start, or was replaced by cleaning, was about to be
    removed: it is now.
    """
    files = directory.list()
    for file in files:
        if file.endswith(DRAFT):
            directory.remove(file)
    counting, replaced = without_replaced(name for name in log_names(files) if name.base_offset < state.segment_base)
    for name in replaced:
        for suffix in SUFFIXES:
            directory.remove(f"{name.stem}{suffix}")
    segments: list[Segment] = []
    for at, name in enumerate(counting, 1):
        next_base = counting[at].base_offset if at < len(counting) else state.segment_base
        base = name.base_offset
        segment = Segment(base, None, name=name)
        if next_base <= state.log_start:
            for file in segment.file_names:
                directory.remove(file)
            continue
        trailer = _read_sealed_trailer(directory, segment)
        if trailer is not None:
            segment.size_bytes = trailer.log_bytes
            segment.max_timestamp, relative = trailer.max_timestamp, trailer.max_timestamp_offset
        else:
            segment.size_bytes = directory.open(segment.log_name).size()
            index = sealed_index(directory, segment, indexes, index_interval_bytes)
            segment.max_timestamp, relative = index.max_timestamp
        segment.max_timestamp_offset = base + relative
        segments.append(segment)
    return segments


def _read_sealed_trailer(directory: Directory, segment: Segment) -> Trailer | None:
    try:
        file = directory.open(segment.file_names[1])
    except FileNotFoundError:
        return None
    return read_trailer(file.pread(TRAILER_BYTES, max(file.size() - TRAILER_BYTES, 0)))


def load_active(directory: Directory, state: PartitionState, index_interval_bytes: int) -> Segment:
    """The segment that the checkpoint says was written last, as far as it says. CorruptLog if it is shorter."""
    segment = Segment(state.segment_base, None, state.segment_bytes)
    try:
        size = directory.open(segment.log_name).size()
    except FileNotFoundError:
        raise corrupt(directory, segment, 0) from None
    if size < state.segment_bytes:
        raise corrupt(directory, segment, size)
    index = _read_active_index(directory, segment, state)
    if index is None:
        return rebuild(directory, segment, state.segment_bytes, index_interval_bytes)
    segment.index = index
    segment.first_timestamp = state.first_timestamp
    segment.max_timestamp = state.max_timestamp
    segment.max_timestamp_offset = state.max_timestamp_offset
    return segment


def _read_active_index(directory: Directory, segment: Segment, state: PartitionState) -> SegmentIndex | None:
    if not state.index_count and not state.time_count:
        return SegmentIndex()
    _, offsets_name, times_name = segment.file_names
    try:
        offsets = directory.open(offsets_name).pread(state.index_count * OFFSET_ENTRY_BYTES, 0)
        times = directory.open(times_name).pread(state.time_count * TIME_ENTRY_BYTES, 0)
    except FileNotFoundError:
        return None
    whole = len(offsets) == state.index_count * OFFSET_ENTRY_BYTES and len(times) == state.time_count * TIME_ENTRY_BYTES
    if not whole or crc32c(offsets) != state.index_crc or crc32c(times) != state.time_crc:
        return None
    return SegmentIndex.decode(offsets, times)
