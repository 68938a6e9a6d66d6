"""Cleaning keeps the last record of every key, at its offset, and nothing notices: not readers, not a crash."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.log.helpers import COLD, NOW_MS, SMALL, checkpoint, flush, open_store, records, topic

from trunkline.log.cleaning import Cleaning, begin, clean_now, measure, roll_if_overdue
from trunkline.log.disk import Disk
from trunkline.log.memory_disk import MemoryDisk
from trunkline.log.pace import Pace, WorkStopped
from trunkline.log.partition_log import PartitionLog
from trunkline.log.store import LogStore
from trunkline.model.errors import CorruptLog, InvalidConfig, InvalidRecord, StorageFailed, StorageFull
from trunkline.model.topic import Topic, TopicConfig
from trunkline.record.batch import read_header, set_crc, split_batches
from trunkline.record.compression import Compression
from trunkline.record.records import Record, encode_batch
from trunkline.testing.faults import FaultDisk

DAY_MS = 24 * 60 * 60 * 1000
EAGER: dict[str, str | int] = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0",
    "index_interval_bytes": 64,
}


def compacted(**configs: str | int) -> Topic:
    shape = topic("table")
    texts = {key.replace("_", "."): str(value) for key, value in {**EAGER, **configs}.items()}
    return replace(shape, config=TopicConfig.parse(texts))


def put(log: PartitionLog, *pairs: tuple[bytes, bytes | None], timestamp: int = NOW_MS, **fields: object) -> int:
    rows = [Record(0, timestamp, key, value) for key, value in pairs]
    data = encode_batch(rows, **fields)  # type: ignore[arg-type]
    return log.append([(read_header(data), memoryview(data))], NOW_MS).base_offset


def seal(store: LogStore, log: PartitionLog) -> None:
    log.roll()
    flush(store)
    checkpoint(store)


def content(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records(log)]


def small_table(disk: Disk, **configs: str | int) -> tuple[LogStore, PartitionLog]:
    shape = compacted(**configs)
    store = open_store(disk, shape, settings=COLD)
    log = store.partition(shape.id, 0)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    put(log, (b"b", b"2"), (b"c", b"1"))
    seal(store, log)
    return store, log


# ── what stays ──────────────────────────────────────────────────────────────────────────────────


@dataclass
class Table:
    """What must be left, by Kafka's rules."""

    alive: dict[int, Record] = field(default_factory=dict)
    batch_of: dict[int, int] = field(default_factory=dict)
    horizons: dict[int, int] = field(default_factory=dict)

    def clean(self, end: int, now_ms: int, delete_retention_ms: int) -> None:
        part = {offset: record for offset, record in self.alive.items() if offset < end}
        last = {record.key: offset for offset, record in part.items()}
        for offset, record in part.items():
            horizon = self.horizons.get(self.batch_of[offset])
            if last[record.key] != offset or (record.value is None and horizon is not None and now_ms >= horizon):
                del self.alive[offset]
        for offset in part:
            if offset in self.alive and self.alive[offset].value is None:
                self.horizons.setdefault(self.batch_of[offset], now_ms + delete_retention_ms)


ROWS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c", b"", b"a rather long key that is not kept as it is", b"\0" * 24]),
        st.none() | st.binary(max_size=40),
        st.integers(-5_000, 5_000),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=6,
)
STEPS = st.lists(
    st.tuples(st.just("put"), ROWS, st.sampled_from(Compression), st.booleans())
    | st.tuples(st.just("roll"))
    | st.tuples(st.just("clean"), st.integers(0, 30_000))
    | st.tuples(st.just("reopen"), st.booleans()),
    max_size=30,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, cold=st.booleans())
def test_the_last_record_of_every_key_stays_and_tombstones_stay_for_their_time(
    steps: list[tuple[object, ...]], cold: bool
) -> None:
    shape = compacted(delete_retention_ms=20_000)
    disk, table, now_ms = FaultDisk(), Table(), NOW_MS
    store = open_store(disk, shape, settings=COLD if cold else SMALL)
    log = store.partition(shape.id, 0)
    sequence = 0
    for step in steps:
        match step:
            case ("put", list() as rows, Compression() as codec, bool() as idempotent):
                made = [Record(0, NOW_MS + shift, key, value, tuple(heads)) for key, value, shift, heads in rows]
                producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} if idempotent else {}
                sequence += len(made) if idempotent else 0
                data = encode_batch(made, compression=codec, **producer)  # type: ignore[arg-type]
                base = log.append([(read_header(data), memoryview(data))], NOW_MS).base_offset
                for delta, record in enumerate(made):
                    table.alive[base + delta] = replace(record, offset=base + delta)
                    table.batch_of[base + delta] = base
            case ("roll",):
                log.roll()
            case ("clean", int() as later):
                now_ms += later
                checkpoint(store)
                dirt = measure(log, now_ms, log.replaceable_to)
                if dirt.dirty_bytes:
                    table.clean(dirt.segments[-1][1], now_ms, 20_000)
                assert (clean_now(log, now_ms) is None) == (not dirt.dirty_bytes)
            case ("reopen", bool() as clean):
                flush(store)
                end, size = log.end, log.size_bytes
                if clean:
                    store.close()
                store = open_store(disk, shape, settings=COLD if cold else SMALL)
                log = store.partition(shape.id, 0)
                log.load()
                assert (log.end, log.size_bytes) == (end, size)
    # What is in memory may be more than what is left on disk; below what was cleaned nobody is shown it.
    assert {record.offset: record for record in records(log)} == table.alive
    for record in table.alive.values():
        found = log.offset_for_time(record.timestamp)
        assert found is not None
        assert found[0] == min(offset for offset, other in table.alive.items() if other.timestamp >= record.timestamp)
    largest = log.offset_of_max_timestamp()
    assert (largest is None) == (not table.alive)
    if largest is not None:
        assert largest[1] == max(record.timestamp for record in table.alive.values())


def test_offsets_stay_and_reading_in_a_gap_goes_on_after_it() -> None:
    _, log = small_table(FaultDisk())
    assert clean_now(log, NOW_MS) is not None
    assert content(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]
    assert (log.log_start, log.end, log.segment_count) == (0, 5, 2)
    assert [record.offset for record in records(log, start=1)] == [2, 3, 4]


def test_what_is_being_written_is_not_cleaned() -> None:
    store, log = small_table(FaultDisk())
    put(log, (b"a", b"3"), (b"a", b"4"))
    checkpoint(store)
    clean_now(log, NOW_MS)
    assert content(log)[-2:] == [(5, b"a", b"3"), (6, b"a", b"4")]
    assert content(log)[0] == (2, b"a", b"2")


def test_nothing_beyond_the_given_offset_is_cleaned() -> None:
    _, log = small_table(FaultDisk())
    clean_now(log, NOW_MS, clean_up_to=4)
    assert content(log) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]


def test_a_log_with_more_keys_than_memory_is_cleaned_in_parts() -> None:
    shape = compacted(segment_bytes=1 << 20)
    disk = FaultDisk()
    store = open_store(disk, shape, settings=COLD)
    log = store.partition(shape.id, 0)
    for number in range(300):
        put(log, *[(b"%d" % (number * 3 + key * 7 & 63), b"%d" % number) for key in range(3)])
    seal(store, log)
    rounds = 0
    while (cleaning := clean_now(log, NOW_MS, memory_bytes=10 * 200)) is not None:
        rounds += 1
        assert len(cleaning.map.offsets) <= 12
        if rounds % 5 == 0:
            store = open_store(disk, shape, settings=COLD)
            log = store.partition(shape.id, 0)
    assert rounds > 10
    keys = [key for _, key, _ in content(log)]
    assert len(keys) == len(set(keys)) == 64


def test_an_idle_producers_last_batch_leaves_its_shell() -> None:
    store, log = small_table(FaultDisk())
    put(log, (b"a", b"3"), producer_id=9, producer_epoch=2, base_sequence=0)
    put(log, (b"a", b"4"), producer_id=9, producer_epoch=2, base_sequence=1)
    put(log, (b"a", b"5"))
    seal(store, log)
    clean_now(log, NOW_MS)
    buffer = log.read(6, 61, log.end).load().buffers[0]
    shell = read_header(buffer)
    assert (shell.base_offset, shell.record_count, shell.producer_id) == (6, 0, 9)
    assert (shell.producer_epoch, shell.base_sequence, shell.size_bytes) == (2, 1, 61)
    put(log, (b"a", b"6"), producer_id=9, producer_epoch=2, base_sequence=2)
    seal(store, log)
    clean_now(log, NOW_MS)
    assert content(log) == [(3, b"b", b"2"), (4, b"c", b"1"), (8, b"a", b"6")]
    assert [read_header(buffer).base_offset for buffer in log.read(5, 61, log.end).load().buffers] == [8]


def test_a_log_that_ends_in_forgotten_tombstones_can_still_be_read_to_its_end() -> None:
    shape = compacted(delete_retention_ms=0)
    store = open_store(FaultDisk(), shape, settings=COLD)
    log = store.partition(shape.id, 0)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    for later in range(3):
        seal(store, log)
        put(log, (b"b", b"%d" % later))
        put(log, (b"b", None))
        seal(store, log)
        clean_now(log, NOW_MS + later)
    assert records(log)[:-1] == []
    offset = 0
    while offset < log.end:
        read = log.read(offset, 1000, log.end).load()
        assert read.next_offset > offset
        offset = read.next_offset


def test_records_without_a_key_go_and_batches_that_cannot_be_opened_stay() -> None:
    before = topic("table", index_interval_bytes=64)
    store = open_store(FaultDisk(), before, settings=COLD)
    log = store.partition(before.id, 0)
    unreadable = encode_batch([Record(0, NOW_MS, b"k", b"v")])
    unreadable[61:] = b"\xff" * (len(unreadable) - 61)
    set_crc(unreadable)
    log.append([(read_header(unreadable), memoryview(unreadable))], NOW_MS)
    data = encode_batch([Record(0, NOW_MS, None, b"no key"), Record(0, NOW_MS, b"k", b"v")])
    log.append([(read_header(data), memoryview(data))], NOW_MS)
    seal(store, log)
    store.update_config(compacted())
    clean_now(log, NOW_MS)
    buffers = b"".join(log.read(0, 10_000, log.end).load().buffers)
    assert buffers[: len(unreadable)] == unreadable
    assert read_header(buffers, len(unreadable)).record_count == 1


# ── when ────────────────────────────────────────────────────────────────────────────────────────


def test_the_dirty_ratio_and_the_lags_decide() -> None:
    store, log = small_table(FaultDisk(), min_cleanable_dirty_ratio="0.5")
    assert measure(log, NOW_MS, log.end).is_worth_it(log.config)
    clean_now(log, NOW_MS)
    assert measure(log, NOW_MS, log.end).dirty_bytes == 0
    put(log, (b"a", b"3"))
    seal(store, log)
    dirt = measure(log, NOW_MS, log.end)
    assert 0 < dirt.ratio < 0.5
    assert not dirt.is_worth_it(log.config)
    log.update_config(compacted(min_cleanable_dirty_ratio="0.5", max_compaction_lag_ms=1000).config)
    assert not measure(log, NOW_MS + 1000, log.end).is_worth_it(log.config)
    assert measure(log, NOW_MS + 1001, log.end).is_worth_it(log.config)
    log.update_config(compacted(min_compaction_lag_ms=1000).config)
    assert measure(log, NOW_MS + 999, log.end).dirty_bytes == 0
    assert measure(log, NOW_MS + 1000, log.end).dirty_bytes > 0


def test_a_segment_that_is_written_to_for_too_long_is_ended() -> None:
    shape = compacted(max_compaction_lag_ms=1000)
    log = open_store(FaultDisk(), shape).partition(shape.id, 0)
    put(log, (b"a", b"1"))
    roll_if_overdue(log, NOW_MS + 1000)
    assert log.segment_count == 1
    roll_if_overdue(log, NOW_MS + 1001)
    assert log.segment_count == 2
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"), timestamp=NOW_MS + 1001)
    assert log.segment_count == 3


def test_the_largest_lag_cannot_be_less_than_the_least() -> None:
    with pytest.raises(InvalidConfig, match=r"max\.compaction\.lag\.ms"):
        TopicConfig.parse({"max.compaction.lag.ms": "5", "min.compaction.lag.ms": "6"})
    with pytest.raises(InvalidConfig, match="from 0 to 1"):
        TopicConfig.parse({"min.cleanable.dirty.ratio": "1.5"})


def test_retention_lets_go_of_cleaned_segments_too() -> None:
    store, log = small_table(FaultDisk(), cleanup_policy="compact,delete", retention_ms=DAY_MS)
    clean_now(log, NOW_MS)
    put(log, (b"z", b"1"), timestamp=NOW_MS + 1)
    assert log.retention(NOW_MS + DAY_MS + 1) > 0
    checkpoint(store)
    assert content(log) == [(5, b"z", b"1")]


def test_a_compacted_topic_refuses_a_large_batch_in_which_one_record_has_no_key() -> None:
    shape = compacted()
    log = open_store(FaultDisk(), shape).partition(shape.id, 0)
    rows = [Record(0, NOW_MS, b"key", b"x" * 100) for _ in range(500)]
    for codec in (Compression.NONE, Compression.LZ4):
        log.append(split_batches(memoryview(encode_batch(rows, compression=codec))), NOW_MS)
        data = encode_batch([*rows, replace(rows[0], key=None)], compression=codec)
        with pytest.raises(InvalidRecord, match="without a key"):
            log.append(split_batches(memoryview(data)), NOW_MS)


# ── beside everything else ──────────────────────────────────────────────────────────────────────


def steps_of(log: PartitionLog) -> Cleaning:
    cleaning = begin(log, NOW_MS, log.end, pace=Pace(), memory_bytes=1 << 20)
    assert cleaning is not None
    cleaning.read_keys()
    return cleaning


@pytest.mark.parametrize("make", [FaultDisk, MemoryDisk])
def test_a_read_that_was_planned_before_sees_what_was_there_then(make: Callable[[], Disk]) -> None:
    store, log = small_table(make())
    read, by_time = log.read(0, 10_000, log.end), log.look_up_time(NOW_MS)
    checkpoint(store)
    clean_now(log, NOW_MS)
    assert read.load().next_offset == 3
    assert by_time() == (0, NOW_MS)
    assert log.read(0, 10_000, log.end).load().next_offset == 5


def test_a_log_in_memory_is_cleaned() -> None:
    shape = replace(compacted(), memory=True)
    log = LogStore.in_memory(SMALL, {shape.id: shape}).partition(shape.id, 0)
    for number in range(5):
        put(log, (b"a", b"%d" % number))
        log.roll()
    clean_now(log, NOW_MS)
    assert content(log) == [(4, b"a", b"4")]


def test_deleting_records_meanwhile_wins() -> None:
    store, log = small_table(FaultDisk())
    cleaning = steps_of(log)
    (group,) = cleaning.groups()
    cleaned = cleaning.rewrite(group)
    log.delete_records(3)
    assert not log.replace_segments(cleaned.sources, cleaned.segment)
    cleaning.discard(cleaned)
    checkpoint(store)
    assert content(log) == [(3, b"b", b"2"), (4, b"c", b"1")]
    assert clean_now(log, NOW_MS) is not None
    assert content(log) == [(3, b"b", b"2"), (4, b"c", b"1")]


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_meanwhile_is_left_alone(again: bool) -> None:
    """Even if another one takes its name at once."""
    disk = FaultDisk()
    store, log = small_table(disk)
    cleaning = steps_of(log)
    (group,) = cleaning.groups()
    cleaned = cleaning.rewrite(group)
    store.delete_topic(log.topic_id)
    if again:
        shape = replace(compacted(), id=type(log.topic_id)(b"another".ljust(16, b"\0")))
        log_again = store.create_partition(shape, 0)
        put(log_again, (b"new", b"1"))
    assert not log.replace_segments(cleaned.sources, cleaned.segment)
    cleaning.discard(cleaned)
    cleaning.remove_sources(cleaned)
    with pytest.raises(WorkStopped):
        cleaning.rewrite(group)
    checkpoint(store)
    if again:
        assert content(log_again) == [(0, b"new", b"1")]
        assert disk.list("topics/table-0") == ["00000000000000000000.log"]


def test_a_stop_gives_up_at_once_and_leaves_the_log_as_it_was() -> None:
    disk = FaultDisk()
    _, log = small_table(disk)
    before, files = content(log), disk.list("topics/table-0")
    pace = Pace()
    cleaning = begin(log, NOW_MS, log.end, pace=pace, memory_bytes=1 << 20)
    assert cleaning is not None
    cleaning.read_keys()
    pace.stop()
    with pytest.raises(WorkStopped):
        cleaning.rewrite(next(cleaning.groups()))
    assert (content(log), disk.list("topics/table-0")) == (before, files)


@pytest.mark.parametrize(
    ("operation", "error", "expected"),
    [
        ("pwrite", errno.ENOSPC, StorageFull),
        ("create", errno.EIO, StorageFailed),
        ("datasync", errno.EIO, StorageFailed),
        ("rename", errno.EIO, StorageFailed),
        ("sync_directory", errno.EIO, StorageFailed),
    ],
)
def test_a_disk_that_refuses_leaves_the_log_as_it_was(
    operation: str, error: int, expected: type[StorageFailed]
) -> None:
    disk = FaultDisk()
    _, log = small_table(disk)
    before, files = content(log), disk.list("topics/table-0")
    disk.fail(operation, error)
    with pytest.raises(expected):
        clean_now(log, NOW_MS)
    assert (content(log), disk.list("topics/table-0")) == (before, files)
    assert clean_now(log, NOW_MS) is not None
    assert len(content(log)) == 3
    assert len(content(open_store(disk, compacted()).partition(log.topic_id, 0))) == 3


def test_damage_is_not_written_again_under_a_new_checksum() -> None:
    disk = FaultDisk()
    _, log = small_table(disk)
    disk.content("topics/table-0/00000000000000000000.log")[70] ^= 1
    with pytest.raises(CorruptLog, match=r"00000000000000000000\.log is damaged at position 0"):
        clean_now(log, NOW_MS)


def test_the_budget_is_kept() -> None:
    clock = [0.0]
    pace = Pace(1_000_000, lambda: clock[0], lambda seconds: clock.__setitem__(0, clock[0] + seconds), lambda: 0.0)
    for _ in range(5_000):
        clock[0] += 0.0001
        pace.spend(1_000)
    assert 4.9 < clock[0] < 5.2


@pytest.mark.parametrize(("others", "least", "most"), [(0.0, 0.0, 0.2), (0.5, 0.6, 0.8)])
def test_it_rests_more_than_it_works_only_while_others_work(others: float, least: float, most: float) -> None:
    clock, rested = [0.0], [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        rested[0] += seconds

    pace = Pace(0, lambda: clock[0], sleep, lambda: clock[0] * others)
    while clock[0] < 5:
        clock[0] += 0.00003
        pace.breathe()
    assert least <= rested[0] / clock[0] <= most


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────


class Killed(BaseException):
    """Not an error that anybody handles: the process is gone."""


class DyingDisk(FaultDisk):
    """Dies before its n-th change, and whatever is tried after that."""

    left = 1 << 30

    def meet(self, operation: str, path: str) -> None:
        if operation != "pread":
            if self.left == 0:
                raise Killed
            self.left -= 1
        super().meet(operation, path)


def filled(disk: Disk, shape: Topic) -> tuple[LogStore, PartitionLog, dict[int, tuple[bytes, bytes | None]]]:
    store = open_store(disk, shape, settings=COLD)
    log = store.partition(shape.id, 0)
    rng = random.Random(5)
    written: dict[int, tuple[bytes, bytes | None]] = {}
    for number in range(24):
        pairs = [(b"%d" % rng.randrange(9), b"%d:%d" % (number, index) + b"x" * 600) for index in range(2)]
        base = put(log, *pairs)
        written |= {base + index: pair for index, pair in enumerate(pairs)}
        if number % 4 == 3:
            log.roll()
        if number in (8, 20):
            flush(store)
            checkpoint(store)
    flush(store)
    return store, log, written


def check(log: PartitionLog, written: dict[int, tuple[bytes, bytes | None]]) -> None:
    """Nothing lost, nothing doubled, nothing changed."""
    there = content(log)
    offsets = [offset for offset, _, _ in there]
    assert offsets == sorted(set(offsets))
    assert all(written[offset] == (key, value) for offset, key, value in there)
    last = {key: offset for offset, (key, _) in written.items()}
    assert set(last.values()) <= set(offsets)
    assert log.end == max(written) + 1


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_before_any_change_of_the_disk_loses_and_doubles_nothing(power: bool) -> None:
    shape = compacted(segment_bytes=1 << 20)
    changes = 0
    while True:
        disk = DyingDisk()
        store, log, written = filled(disk, shape)
        # Half of it fits into the memory for keys, and each segment is a group: several of everything.
        log.update_config(replace(log.config, segment_bytes=6_000))
        disk.left = changes
        try:
            while clean_now(log, NOW_MS, memory_bytes=5 * 200) is not None:
                pass
            checkpoint(store)
            died = False
        except Killed:
            died = True
        disk.left = 1 << 30
        if power:
            disk.crash(random.Random(changes))
        check_after_restart(disk, shape, written, random.Random(changes) if power else None)
        if not died:
            break
        changes += 1
    assert changes > 50


def check_after_restart(
    disk: DyingDisk, shape: Topic, written: dict[int, tuple[bytes, bytes | None]], rng: random.Random | None
) -> None:
    store = open_store(disk, shape, settings=COLD)
    log = store.partition(shape.id, 0)
    check(log, written)
    put(log, (b"1", b"after"))
    written[log.end - 1] = (b"1", b"after")
    seal(store, log)
    clean_now(log, NOW_MS)
    if rng is not None:
        disk.crash(rng)
    log = open_store(disk, shape, settings=COLD).partition(shape.id, 0)
    check(log, written)
    keys = [key for _, key, _ in content(log)]
    assert len(keys) == len(set(keys))
    assert not [name for name in disk.list("topics/table-0") if name.endswith(".cleaned")]
