"""A partition's log: appends, reads, retention. One owner calls it; only what a method says may run on other threads.

    log_start                                   end
    ▼                                           ▼
    [ sealed segment ][ sealed ][ active segment ]        deleted: below log_start; removed with the next checkpoint
                          [ hot tail, in memory ]

An append asks first (producers, sizes, times), then writes to the segment at the tracked position, and changes state
only after that: a write that fails, or is torn, harms nothing. With durability=fsync the same batches then go to the
journal, and the answer to the client waits for the ticket.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from trunkline.log import times
from trunkline.log.checkpoint import Capture, PartitionKey, PartitionState
from trunkline.log.checks import check_batches
from trunkline.log.disk import File, storage_error
from trunkline.log.files import Directory
from trunkline.log.hot_tail import HotTail, PartitionTail
from trunkline.log.index import OFFSET_ENTRY_BYTES, IndexCache, SegmentIndex
from trunkline.log.journal import Journal
from trunkline.log.journal_format import EntryKind
from trunkline.log.producers import KnownBatch, Producers, decode_producers, has_transactions
from trunkline.log.read import ColdPlan, Read, SegmentView, Snapshot
from trunkline.log.room import Room
from trunkline.log.segment import MOST_RELATIVE_OFFSET, Segment
from trunkline.log.segments import load_active, load_sealed
from trunkline.log.transactions import PartitionTransactions
from trunkline.model.errors import OffsetOutOfRange, StorageFailed, UnknownPartition
from trunkline.model.ids import TopicId
from trunkline.model.topic import FOREVER, Durability, TimestampType, TopicConfig
from trunkline.record.batch import BatchHeader, stamp, stamp_append_time

Batches = Sequence[tuple[BatchHeader, memoryview]]


@dataclass(slots=True)
class Shared:
    """What the logs of one disk have in common. `journal` is None while it is recovered, and where all is volatile."""

    hot_tail: HotTail
    indexes: IndexCache
    journal: Journal | None
    dirty: set[PartitionLog]
    volatile: bool
    """In memory: never captured, forgotten at restart; reading never blocks."""
    room: Room | None = None


class Appended(NamedTuple):
    """`ticket`: answer once it is durable; None: at once. `append_time_ms`: -1 unless the log sets the time."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    ticket: int | None
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Replaced:
    """A segment that cleaning replaces, with what its readers need once its files are gone."""

    segment: Segment
    file: File
    index: SegmentIndex


class PartitionLog:
    def __init__(
        self,
        topic_id: TopicId,
        partition: int,
        config: TopicConfig,
        directory: Directory,
        shared: Shared,
        state: PartitionState,
        vital: bool = False,
    ) -> None:
        """Touches no disk: segments are looked for on first use. `vital`: the node's own, goes on with little room."""
        self.topic_id = topic_id
        self.partition = partition
        self.config = config
        self.leader_epoch = 0
        self.log_start = state.log_start
        self.end = state.end
        self.size_bytes = state.size_bytes
        self._directory = directory
        self._shared = shared
        self._vital = vital
        self._state = state
        self._tail = PartitionTail(shared.hot_tail)
        self._tail.next_offset = state.end
        self._producers: Producers | None = None
        self._segments: list[Segment] = []
        self._loaded = False
        self._dirty = False
        self._unsynced: dict[Segment, None] = {}
        self._unwritten: list[Segment] = []
        self._new_files = False
        self._doomed: list[Segment] = []
        self.cleaned_to = -1
        """Below this no key is there twice, as far as cleaning got; -1 where it never ran. Known once loaded."""

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition

    @property
    def directory(self) -> Directory:
        return self._directory

    @property
    def name(self) -> str:
        return self._directory.path.rpartition("/")[2]

    @property
    def producers(self) -> Producers:
        if self._producers is None:
            self._producers = decode_producers(self._state.producers)
        return self._producers

    @property
    def transactions(self) -> PartitionTransactions | None:
        """None while there has been none: the usual case, and then nothing is decoded for the answer."""
        if self._producers is None and not has_transactions(self._state.producers):
            return None
        return self.producers.transactions

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it no transaction is undecided."""
        transactions = self.transactions
        if transactions is None:
            return high_watermark
        return transactions.last_stable_offset(high_watermark, self.log_start)

    @property
    def segment_count(self) -> int:
        self._load()
        return len(self._segments)

    def update_config(self, config: TopicConfig) -> None:
        self.config = config

    # ── appending ───────────────────────────────────────────────────────────────────────────────

    def append(self, batches: Batches, now_ms: int, journaled: bool = False) -> Appended:
        """All of the batches, or none. Their buffers are stamped in place and belong to the log from here on.

        `journaled`: to be synced whatever the topic's durability is, as what ends a transaction must be.
        BatchTooLarge, InvalidTimestamp, InvalidRecord, InvalidProducerEpoch, OutOfOrderSequence,
        InvalidTransactionState: nothing was changed.
        StorageFull, StorageFailed: nothing was appended.
        """
        if not self._loaded:
            self._load()
        config, journal = self.config, self._shared.journal
        # Markers are not refused for what a topic asks of its producers.
        size = sum(map(len, (batch for _, batch in batches))) if journaled else check_batches(batches, config, now_ms)
        if any(header.producer_id >= 0 for header, _ in batches):
            known = self.producers.check([header for header, _ in batches])
            if known is not None:
                return self._duplicate(known)
        self._check_room(size)
        base_offset = self.end
        append_time_ms = self._stamp(batches, base_offset, now_ms)
        self._write(batches, size, now_ms)
        ticket = None
        if journal is not None and (journaled or config.durability is Durability.FSYNC):
            buffers = [batch for _, batch in batches]
            ticket = journal.append(
                [(EntryKind.APPENDED, self.topic_id, self.partition, base_offset, buffers)], frees_room=True
            )
        return Appended(base_offset, self.end - 1, append_time_ms, ticket, False)

    def _duplicate(self, known: KnownBatch) -> Appended:
        time_ms = known.timestamp if self.config.timestamp_type is TimestampType.APPEND else -1
        # What it repeats may not be durable yet: the newest ticket covers it.
        journal = self._shared.journal
        ticket = journal.last_ticket if journal and self.config.durability is Durability.FSYNC else None
        return Appended(known.base_offset, known.last_offset, time_ms, ticket, True)

    def _check_room(self, size: int) -> None:
        shared = self._shared
        if shared.journal is not None and not (self._vital and self.config.durability is Durability.OS):
            shared.journal.check_writable()
        if shared.room is not None:
            shared.room.take(size, vital=self._vital)

    def append_recovered(self, batches: Batches, now_ms: int) -> None:
        """Batches that already have their place in the log, from the journal. The next offset must be theirs."""
        self._write(batches, sum(header.size_bytes for header, _ in batches), now_ms)

    def _stamp(self, batches: Batches, offset: int, now_ms: int) -> int:
        append_time = self.config.timestamp_type is TimestampType.APPEND
        epoch = self.leader_epoch
        for header, batch in batches:
            stamp(batch, offset, epoch)
            header.base_offset = offset
            header.leader_epoch = epoch
            if append_time:
                stamp_append_time(batch, now_ms)
                header.max_timestamp = now_ms
            offset += header.last_offset_delta + 1
        return now_ms if append_time else -1

    def _write(self, batches: Batches, size: int, now_ms: int) -> None:
        active = self._segments[-1] if self._segments else None
        if active is None or self._must_roll(active, batches, size):
            active = self.roll()
        position = active.size_bytes
        try:
            file = self._directory.open(active.log_name)
            file.pwritev([batch for _, batch in batches], position)
        except OSError as error:
            self._undo_write(active, position)
            raise self._refused(f"Cannot write to {self._directory.name_of(active.log_name)}", error) from error
        for header, batch in batches:
            self._apply(active, header, batch, now_ms)
            if not self._shared.volatile:
                self._tail.add(header.base_offset, self.end, batch)

    def _apply(self, active: Segment, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        """The batch stands in the segment. Live appends and recovery both change state here, and only here."""
        active.grew(header, self.config.index_interval_bytes)
        self.end = header.next_offset
        self.size_bytes += header.size_bytes
        if header.producer_id >= 0:
            self.producers.replay(header, now_ms, batch)
        self._unsynced[active] = None
        if not self._dirty:
            self._touch()

    def _refused(self, what: str, error: OSError) -> StorageFailed:
        refusal = storage_error(what, error)
        if self._shared.room is not None:
            self._shared.room.refused(refusal)
        return refusal

    def _undo_write(self, active: Segment, position: int) -> None:
        """Half-written batches must not be found by a recovery. Without success here its checks still find them out."""
        try:
            self._directory.open(active.log_name).truncate(position)
        except OSError:
            pass

    def _must_roll(self, active: Segment, batches: Batches, size: int) -> bool:
        config = self.config
        if active.size_bytes == 0:
            return False
        if active.size_bytes + size > config.segment_bytes:
            return True
        last = batches[-1][0]
        assert active.index is not None
        return (
            (active.first_timestamp >= 0 and last.max_timestamp - active.first_timestamp > config.roll_ms)
            or (active.index.count + 1) * OFFSET_ENTRY_BYTES > config.segment_index_bytes
            or last.last_offset - active.base_offset > MOST_RELATIVE_OFFSET
        )

    def roll(self) -> Segment:
        """Start a new segment at the end of the log. StorageFull, StorageFailed."""
        self._load()
        active = self._segments[-1] if self._segments else None
        if active is not None and active.base_offset == self.end:
            return active
        segment = Segment(self.end, SegmentIndex())
        try:
            if active is None:
                self._directory.make()
            self._directory.create(segment.log_name)
        except OSError as error:
            raise self._refused(f"Cannot create {self._directory.name_of(segment.log_name)}", error) from error
        self._activate(segment)
        return segment

    def _activate(self, segment: Segment) -> None:
        if self._segments:
            sealed = self._segments[-1]
            sealed.seal()
            self._unwritten.append(sealed)
        self._segments.append(segment)
        self._new_files = True
        self._touch()

    def _touch(self) -> None:
        if not self._dirty and not self._shared.volatile:
            self._dirty = True
            self._shared.dirty.add(self)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def read(self, offset: int, max_bytes: int, end: int, at_least_one: bool = True) -> Read:
        """Whole batches from the one that holds `offset`, none that reaches past `end`, no more than `max_bytes`.

        The first batch is given even if it is larger, with `at_least_one`. OffsetOutOfRange.
        """
        if not self.log_start <= offset <= self.end:
            raise OffsetOutOfRange(
                f"Offset {offset} is not in {self.name}, which has {self.log_start} to {self.end}: reset the position."
            )
        if offset >= end or offset == self.end:
            return Read([], 0, offset)
        if self._shared.volatile:
            return Read(*ColdPlan(self._snapshot(offset), offset, max_bytes, end, at_least_one).load())
        if offset >= self._tail.first_offset and offset >= self.cleaned_to:
            return Read(*self._tail.read(offset, max_bytes, end, at_least_one))
        return Read([], 0, offset, ColdPlan(self._snapshot(offset), offset, max_bytes, end, at_least_one))

    def _snapshot(self, offset: int) -> Snapshot:
        self._load()
        if self._directory.gone:
            raise UnknownPartition(f"{self.name} was deleted.")
        first = max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)
        views = [SegmentView(segment, segment.size_bytes) for segment in self._segments[first:]]
        return Snapshot(self._directory, self._shared.indexes, self.config.index_interval_bytes, views)

    def look_up_time(self, timestamp: int, end: int | None = None) -> Callable[[], times.Found | None]:
        """A look-up, to be called from any thread, of the first record that is not older: its offset and timestamp."""
        limit = self.end if end is None else end
        return partial(times.first_at_or_after, self._snapshot(self.log_start), timestamp, self.log_start, limit)

    def look_up_max_timestamp(self, end: int | None = None) -> Callable[[], times.Found | None]:
        """A look-up, to be called from any thread, of the record with the largest timestamp."""
        return partial(times.largest, self._snapshot(self.log_start), self.log_start, self.end if end is None else end)

    def offset_for_time(self, timestamp: int, end: int | None = None) -> times.Found | None:
        """The same at once. Blocks."""
        return self.look_up_time(timestamp, end)()

    def offset_of_max_timestamp(self, end: int | None = None) -> times.Found | None:
        """The same at once. Blocks."""
        return self.look_up_max_timestamp(end)()

    # ── deleting ────────────────────────────────────────────────────────────────────────────────

    def delete_records(self, before_offset: int) -> int | None:
        """Move the log's start. Answers the ticket to wait for, None if nothing is to wait for. OffsetOutOfRange."""
        if before_offset > self.end or before_offset < 0:
            raise OffsetOutOfRange(f"Offset {before_offset} is not in {self.name}, which ends at {self.end}.")
        if before_offset <= self.log_start:
            return None
        journal, ticket = self._shared.journal, None
        if journal is not None:
            entry = (EntryKind.LOG_START_MOVED, self.topic_id, self.partition, before_offset, ())
            ticket = journal.append([entry], frees_room=True)
        self.move_log_start(before_offset)
        return ticket

    def move_log_start(self, offset: int) -> int:
        """Forget what is below. Answers how many bytes the next checkpoint frees."""
        if offset <= self.log_start:
            return 0
        self._load()
        self.log_start = offset
        self._touch()
        if self.transactions is not None:
            self.producers.transactions.forget_below(offset)
        freed = 0
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            segment = self._segments.pop(0)
            self._doomed.append(segment)
            self._unsynced.pop(segment, None)
            freed += segment.size_bytes
        self.size_bytes -= freed
        if self._shared.volatile:
            self._remove_doomed_now()
        return freed

    def _remove_doomed_now(self) -> None:
        for segment in self._doomed:
            for name in segment.file_names:
                self._directory.remove(name)
        self._doomed.clear()

    def retention(self, now_ms: int, end: int | None = None) -> int:
        """Let go of segments that are too old or too many, none that reaches past `end`. Answers the bytes freed.

        The active segment goes only once all of it is too old; then a new one is started first. Files are removed with
        the next checkpoint.
        """
        if self._producers is not None:
            self._producers.expire(now_ms)
        config = self.config
        if not config.deleted or self.log_start == self.end:
            return 0
        self._load()
        keep_from = self._first_kept(now_ms, self.end if end is None else end)
        if keep_from == 0:
            return 0
        if keep_from == len(self._segments):
            self.roll()
        return self.move_log_start(self._segments[keep_from].base_offset)

    def _first_kept(self, now_ms: int, end: int) -> int:
        config = self.config
        excess = self.size_bytes - config.retention_bytes if config.retention_bytes != FOREVER else -1
        count = len(self._segments)
        for index, segment in enumerate(self._segments):
            next_base = self._segments[index + 1].base_offset if index + 1 < count else self.end
            expired = (
                config.retention_ms != FOREVER
                and segment.max_timestamp >= 0
                and now_ms - segment.max_timestamp > config.retention_ms
            )
            too_many = excess >= segment.size_bytes and index + 1 < count
            empty = segment.size_bytes == 0 and index + 1 < count
            if next_base > end or not (expired or too_many or empty):
                return index
            excess -= segment.size_bytes
        return count

    # ── cleaning (log/cleaning.py) ──────────────────────────────────────────────────────────────

    @property
    def indexes(self) -> IndexCache:
        return self._shared.indexes

    def sealed_segments(self) -> list[tuple[Segment, int]]:
        """All but the active one, each with the offset after it."""
        self._load()
        return [(segment, after.base_offset) for segment, after in pairwise(self._segments)]

    @property
    def replaceable_to(self) -> int:
        """Below this offset segments may be replaced: a checkpoint knows them as sealed, so no recovery writes to them.

        A recovery starts from that checkpoint and finds sealed segments by their names, cleaned or not.
        """
        return self.end if self._shared.volatile else self._state.segment_base

    def replace_segments(self, sources: Sequence[Replaced], cleaned: Segment) -> bool:
        """Put a cleaned segment in the place of its sources. Plans that know those go on reading through their files.

        False where one of them is not there any more: then the cleaned one is of no use.
        """
        at = bisect_left(self._segments, cleaned.base_offset, key=_base_offset)
        after = at + len(sources)
        standing = self._segments[at:after]
        if self._directory.gone or [*map(id, standing)] != [id(source.segment) for source in sources]:
            return False
        for source in sources:
            source.segment.file, source.segment.index = source.file, source.index
            self._shared.indexes.drop(source.segment)
        self._segments[at:after] = [cleaned]
        self.size_bytes += cleaned.size_bytes - sum(segment.size_bytes for segment in standing)
        self.cleaned_to = max(self.cleaned_to, cleaned.name.clean_to)
        self._touch()
        return True

    # ── checkpoints and recovery ────────────────────────────────────────────────────────────────

    def capture(self) -> Capture:
        """What a checkpoint must write of this log. Fast: it runs on the owner's thread for every log that changed."""
        active = self._segments[-1] if self._segments else None
        state = PartitionState(self.log_start, self.end, self.size_bytes)
        index_tail = None
        if active is not None:
            assert active.index is not None
            written = self._state.written_index if active.base_offset == self._state.segment_base else (0, 0, 0, 0)
            if active.index.count > written[0] or active.index.time_count > written[2]:
                index_tail = active.index.tail(written[0], written[2])
            state = PartitionState(
                self.log_start,
                self.end,
                self.size_bytes,
                active.base_offset,
                active.size_bytes,
                active.first_timestamp,
                active.max_timestamp,
                active.max_timestamp_offset,
                *written,
            )
        if self._producers is None:
            state = state._replace(producers=self._state.producers)
        unsynced, self._unsynced = tuple(self._unsynced), {}
        sealed, self._unwritten = tuple(self._unwritten), []
        doomed, self._doomed = tuple(self._doomed), []
        new_files, self._new_files, self._dirty = self._new_files, False, False
        return Capture(
            self.key,
            self._directory,
            state,
            None if self._producers is None else self._producers.capture(),
            active,
            index_tail,
            sealed,
            unsynced,
            new_files,
            doomed,
        )

    def captured(self, capture: Capture, state: PartitionState) -> None:
        """The checkpoint is written: indexes of sealed segments are on disk now."""
        self._state = state if self._producers is None else state._replace(producers=b"")
        for segment in capture.sealed:
            segment.index = None

    def not_captured(self, capture: Capture) -> None:
        """The checkpoint was not written: its work is still to be done."""
        self._unsynced = dict.fromkeys([*capture.unsynced, *self._unsynced])
        self._unwritten = [*capture.sealed, *self._unwritten]
        self._doomed = [*capture.doomed, *self._doomed]
        self._new_files = self._new_files or capture.new_files
        self._touch()

    def adopt(self, segment_base: int, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        """A batch that recovery found standing after the last one, in the active segment or in the one after it."""
        if not self._segments or self._segments[-1].base_offset != segment_base:
            self._activate(Segment(segment_base, SegmentIndex()))
        self._apply(self._segments[-1], header, batch, now_ms)
        self._tail.next_offset = self.end

    def skip_to(self, offset: int) -> None:
        """Go on at a later offset: what was between is lost."""
        self._load()
        self.end = offset
        self._tail.next_offset = offset
        self.roll()

    def load(self) -> list[Segment]:
        """The segments, the active one last; none in an empty log. Blocks. CorruptLog."""
        self._load()
        return self._segments

    def _load(self) -> None:
        if self._loaded:
            return
        if self._state.segment_base >= 0:
            interval = self.config.index_interval_bytes
            active = load_active(self._directory, self._state, interval)
            self._segments = [*load_sealed(self._directory, self._state, self._shared.indexes, interval), active]
            # Cleaning may have changed it since the checkpoint.
            self.size_bytes = sum(segment.size_bytes for segment in self._segments)
            self.cleaned_to = max(segment.name.clean_to for segment in self._segments)
        self._loaded = True

    def close(self) -> None:
        self._directory.close()

    def delete(self) -> None:
        """Its files are going: readers that come later are told so."""
        self._shared.dirty.discard(self)
        self._directory.leave()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
