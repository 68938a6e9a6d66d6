"""Looking up offsets by time, through the time index. Blocks; works on a snapshot, so any thread may do it."""

from __future__ import annotations

from trunkline.log.read import SegmentView, Snapshot
from trunkline.log.segment import sealed_index
from trunkline.model.errors import TrunklineError
from trunkline.record.batch import BatchHeader
from trunkline.record.records import decode_records

Found = tuple[int, int]
"""offset, timestamp"""


def first_at_or_after(snapshot: Snapshot, timestamp: int, start: int, end: int) -> Found | None:
    """The first record from offset `start` on, below `end`, that is not older than `timestamp`."""
    for view in snapshot.views:
        if view.segment.base_offset >= end:
            return None
        segment = view.segment
        if segment.max_timestamp < timestamp:
            continue
        index = sealed_index(snapshot.directory, segment, snapshot.indexes, snapshot.index_interval_bytes)
        position = index.position_of(max(index.before_time(timestamp), start - segment.base_offset))
        for at, header in snapshot.headers(view, position):
            if header.base_offset >= end:
                return None
            if header.max_timestamp < timestamp or header.next_offset <= start:
                continue
            found = _first_in_batch(snapshot, view, at, header, timestamp, start)
            if found is not None:
                return found if found[0] < end else None
    return None


def largest(snapshot: Snapshot, start: int, end: int) -> Found | None:
    """The record with the largest timestamp; of several, the first."""
    best: tuple[int, SegmentView, int, BatchHeader] | None = None
    for view in snapshot.views:
        segment = view.segment
        offset = segment.max_timestamp_offset
        if segment.base_offset >= end or (best is not None and segment.max_timestamp <= best[0]):
            continue
        # The batch that the index names may lie outside of what the caller may see: then look at each.
        position = snapshot.position_of(segment, offset) if start <= offset < end else 0
        for at, header in snapshot.headers(view, position):
            if header.base_offset >= end:
                break
            if header.last_offset >= start and (best is None or header.max_timestamp > best[0]):
                best = (header.max_timestamp, view, at, header)
    if best is None:
        return None
    timestamp, view, at, header = best
    found = _first_in_batch(snapshot, view, at, header, timestamp, start)
    # A producer may have claimed a time that none of its records has.
    return found or _first_in_batch(snapshot, view, at, header, -1, start)


def _first_in_batch(
    snapshot: Snapshot, view: SegmentView, position: int, header: BatchHeader, timestamp: int, start: int
) -> Found | None:
    if header.is_append_time:
        return max(header.base_offset, start), header.max_timestamp
    batch = snapshot.batch(view, position, header)
    try:
        records = decode_records(batch)
    except TrunklineError:
        # Large batches are stored unopened; one whose records can not be read is answered as a whole.
        return max(header.base_offset, start), header.max_timestamp
    for record in records:
        if record.timestamp >= timestamp and record.offset >= start:
            return record.offset, record.timestamp
    return None
