"""Cleaning a log: which of its segments are worth it, and rewriting them beside the log while it is used.

    owner    thread                                                          files
    measure                                                                  42.log  70.log  90.log (active)
    begin
             read_keys: the dirty part's keys
             rewrite: a run of segments into one                             + 42-90-90-1.cleaned, synced
             its rename is the moment that counts                            + 42-90-90-1.log
    replace_segments: readers find the new one
             remove_sources                                                  - 42.log  70.log

Until the last step both forms are whole, and a start takes the newer one (log/names.py); so a crash at any moment loses
and doubles nothing. The log may move its start meanwhile, or be deleted: then the new segment is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trunkline.log.checkpoint import write_sealed_index
from trunkline.log.compaction import BYTES_PER_KEY, Aborted, AbortedTransaction, Cleaner, OffsetMap
from trunkline.log.disk import storage_error
from trunkline.log.files import Directory
from trunkline.log.index import NO_TIMESTAMP, IndexCache, SegmentIndex
from trunkline.log.names import DRAFT, SegmentName, log_names
from trunkline.log.pace import Pace, WorkStopped
from trunkline.log.partition_log import PartitionLog, Replaced
from trunkline.log.segment import MOST_RELATIVE_OFFSET, Segment, corrupt, scan, sealed_index
from trunkline.model.topic import TopicConfig
from trunkline.record.batch import HEADER_BYTES, BatchHeader, check_crc, read_header

_FOREVER_MS: Final = 2**63 - 1
_READ_BYTES: Final = 256 * 1024
_WRITE_BYTES: Final = 1024 * 1024
_SYNC_BYTES: Final = 8 * 1024 * 1024
"""A sync of everything at the end would hold up the syncs that clients wait for."""

Sealed = tuple[Segment, int]
"""A segment and the offset after it."""


class Dirt(NamedTuple):
    """How much of a log could be cleaned. `segments` are those that may be, from the log's start on."""

    segments: Sequence[Sealed]
    first_dirty: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Something in it is older than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_worth_it(self, config: TopicConfig) -> bool:
        return self.dirty_bytes > 0 and (self.overdue or self.ratio > config.min_cleanable_dirty_ratio)


def roll_if_overdue(log: PartitionLog, now_ms: int) -> None:
    """What is being written is never cleaned: start a new segment when max.compaction.lag.ms asks for it.

    StorageFull, StorageFailed.
    """
    segments, limit_ms = log.load(), log.config.max_compaction_lag_ms
    if segments and segments[-1].first_timestamp >= 0 and now_ms - segments[-1].first_timestamp > limit_ms:
        log.roll()


def measure(log: PartitionLog, now_ms: int, clean_up_to: int) -> Dirt:
    """On the owner's thread. `clean_up_to`: beyond it nothing is decided yet (high watermark, last stable offset)."""
    config = log.config
    first_dirty = max(log.cleaned_to, log.log_start) if log.load() else 0
    segments: list[Sealed] = []
    clean_bytes = dirty_bytes = 0
    overdue = False
    for segment, after in log.sealed_segments():
        if after > clean_up_to:
            break
        if after <= first_dirty:
            clean_bytes += segment.size_bytes
        elif config.min_compaction_lag_ms and segment.max_timestamp > now_ms - config.min_compaction_lag_ms:
            break
        else:
            dirty_bytes += segment.size_bytes
            if config.max_compaction_lag_ms < _FOREVER_MS and not overdue:
                first_ms = _first_timestamp(log.directory, segment)
                overdue = first_ms >= 0 and now_ms - first_ms > config.max_compaction_lag_ms
        segments.append((segment, after))
    return Dirt(segments, first_dirty, clean_bytes, dirty_bytes, overdue)


def _first_timestamp(directory: Directory, segment: Segment) -> int:
    if segment.first_timestamp < 0 and segment.size_bytes:
        header = read_header(segment.open(directory).pread(HEADER_BYTES, 0))
        segment.first_timestamp = max(header.max_timestamp, NO_TIMESTAMP)
    return segment.first_timestamp


def begin(
    log: PartitionLog,
    now_ms: int,
    clean_up_to: int,
    *,
    pace: Pace,
    memory_bytes: int,
    aborted: Sequence[AbortedTransaction] = (),
) -> Cleaning | None:
    """On the owner's thread. None where there is nothing that a checkpoint knows as sealed."""
    dirt = measure(log, now_ms, min(clean_up_to, log.replaceable_to))
    if not dirt.dirty_bytes:
        return None
    producers = log.producers.snapshot().items()
    return Cleaning(
        directory=log.directory,
        indexes=log.indexes,
        config=log.config,
        dirt=dirt,
        now_ms=now_ms,
        log_end=log.end,
        last_offsets={id_: state.batches[-1].last_offset for id_, state in producers if state.batches},
        aborted=Aborted(aborted),
        pace=pace,
        map=OffsetMap(dirt.first_dirty, max(memory_bytes // BYTES_PER_KEY, 1), pace.breathe),
    )


class Cleaned(NamedTuple):
    segment: Segment
    sources: Sequence[Replaced]


@dataclass(slots=True)
class Cleaning:
    """One cleaning of one log. Its methods block, and are for one thread at a time; none touches the log itself.

    All raise WorkStopped, StorageFull, StorageFailed, CorruptLog: then what was replaced stays so, and the rest is as
    it was.
    """

    directory: Directory
    indexes: IndexCache
    config: TopicConfig
    dirt: Dirt
    now_ms: int
    log_end: int
    last_offsets: dict[int, int]
    aborted: Aborted
    pace: Pace
    map: OffsetMap
    bytes_read: int = 0
    bytes_written: int = 0
    _cleaner: Cleaner = field(init=False)

    def __post_init__(self) -> None:
        self._cleaner = Cleaner(
            self.map.offsets,
            self.now_ms,
            self.config.delete_retention_ms,
            last_offsets=self.last_offsets,
            log_end=self.log_end,
            aborted=self.aborted,
            breathe=self.pace.breathe,
        )

    @property
    def records_removed(self) -> int:
        return self._cleaner.records_removed

    def read_keys(self) -> None:
        """Learn the keys of the dirty part, as many as memory is given for. Comes first."""
        for segment, after in self.dirt.segments:
            if after <= self.dirt.first_dirty:
                continue
            for header, batch in self._batches(segment):
                if header.next_offset > self.dirt.first_dirty:
                    self.map.add(header, batch, self.aborted)
                    if self.map.full:
                        return
            self.map.end_offset = max(self.map.end_offset, after)

    def groups(self) -> Iterator[list[Sealed]]:
        """Runs of segments that fit into one, in order: each is rewritten, then replaced, before the next."""
        group: list[Sealed] = []
        size = 0
        for sealed in self.dirt.segments:
            segment, after = sealed
            if segment.base_offset >= self.map.end_offset:
                break
            fits = size + segment.size_bytes <= self.config.segment_bytes
            if group and not (fits and after - group[0][0].base_offset <= MOST_RELATIVE_OFFSET):
                yield group
                group, size = [], 0
            group.append(sealed)
            size += segment.size_bytes
        if group:
            yield group

    def rewrite(self, group: Sequence[Sealed]) -> Cleaned:
        """The segments of a group as one, in the directory under its name."""
        base, end = group[0][0].base_offset, group[-1][1]
        names = log_names(self.directory.list())
        generation = 1 + max(name.generation for name in names) if names else 1
        name = SegmentName(base, end, min(end, self.map.end_offset), generation)
        cleaned = Segment(base, SegmentIndex(), name=name)
        try:
            self._write_draft(group, cleaned)
            self.directory.rename(name.stem + DRAFT, cleaned.log_name)
            self.directory.sync()
            write_sealed_index(self.directory, cleaned)
            cleaned.index = None
            interval = self.config.index_interval_bytes
            sources = [
                Replaced(s, s.open(self.directory), sealed_index(self.directory, s, self.indexes, interval))
                for s, _ in group
            ]
        except BaseException as error:
            self._discard(cleaned)
            if isinstance(error, OSError):
                if self.directory.gone:
                    raise WorkStopped from None
                raise storage_error(f"Cannot clean {self.directory.path}", error) from error
            raise
        return Cleaned(cleaned, sources)

    def remove_sources(self, cleaned: Cleaned) -> None:
        """Once it is in their place."""
        self._remove([source.segment for source in cleaned.sources])

    def discard(self, cleaned: Cleaned) -> None:
        """Where it could not be put in their place."""
        self._discard(cleaned.segment)

    def _discard(self, cleaned: Segment) -> None:
        try:
            self.directory.remove(cleaned.name.stem + DRAFT)
            self._remove([cleaned])
        except OSError:
            pass  # It is as good as its sources: a start that finds it takes it in their place.

    def _remove(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            for name in segment.file_names:
                self.directory.remove(name)

    def _write_draft(self, group: Sequence[Sealed], cleaned: Segment) -> None:
        draft = self.directory.create(cleaned.name.stem + DRAFT)
        interval, clean_to = self.config.index_interval_bytes, cleaned.name.clean_to
        waiting: list[memoryview] = []
        written = synced = 0
        for segment, _ in group:
            for header, batch in self._batches(segment):
                kept = self._cleaner.clean(header, batch) if header.base_offset < clean_to else batch
                if kept is None:
                    continue
                cleaned.grew(header if kept is batch else read_header(kept), interval)
                waiting.append(kept)
                if cleaned.size_bytes - written >= _WRITE_BYTES:
                    draft.pwritev(waiting, written)
                    self._count_written(cleaned.size_bytes - written)
                    waiting, written = [], cleaned.size_bytes
                    if written - synced >= _SYNC_BYTES:
                        draft.datasync()
                        synced = written
        if waiting:
            draft.pwritev(waiting, written)
            self._count_written(cleaned.size_bytes - written)
        cleaned.seal()
        draft.datasync()

    def _count_written(self, size_bytes: int) -> None:
        self.bytes_written += size_bytes
        self.pace.spend(size_bytes)

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
        """CorruptLog: what is damaged must not be written again under a new checksum."""
        try:
            file = segment.open(self.directory)
        except FileNotFoundError:
            raise WorkStopped from None  # deleted meanwhile
        position = 0
        for position, header, batch in scan(file, 0, segment.size_bytes, _READ_BYTES):
            if not check_crc(header, batch):
                raise corrupt(self.directory, segment, position)
            yield header, batch
            position += header.size_bytes
            self.bytes_read += header.size_bytes
            self.pace.spend(header.size_bytes)
        if position != segment.size_bytes:
            raise corrupt(self.directory, segment, position)


def clean_now(
    log: PartitionLog, now_ms: int, clean_up_to: int | None = None, *, memory_bytes: int = 1 << 20
) -> Cleaning | None:
    """All steps at once, on one thread: for tools and tests."""
    limit = log.end if clean_up_to is None else clean_up_to
    cleaning = begin(log, now_ms, limit, pace=Pace(), memory_bytes=memory_bytes)
    if cleaning is None:
        return None
    cleaning.read_keys()
    for group in cleaning.groups():
        cleaned = cleaning.rewrite(group)
        if log.replace_segments(cleaned.sources, cleaned.segment):
            cleaning.remove_sources(cleaned)
        else:
            cleaning.discard(cleaned)
    return cleaning
