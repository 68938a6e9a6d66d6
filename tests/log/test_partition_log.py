"""One partition: what producers are told, what consumers read, what retention leaves."""

from __future__ import annotations

import errno
import random

import pytest
from tests.log.helpers import COLD, NOW_MS, append, batch, checkpoint, flush, open_store, records, topic, values

from trunkline.log.memory_disk import MemoryDisk
from trunkline.log.partition_log import PartitionLog
from trunkline.log.store import LogSettings, LogStore
from trunkline.model.errors import (
    BatchTooLarge,
    CorruptLog,
    InvalidRecord,
    InvalidTimestamp,
    OffsetOutOfRange,
    StorageFailed,
    UnknownPartition,
)
from trunkline.model.topic import Topic
from trunkline.record.batch import read_header
from trunkline.testing.faults import FaultDisk

HOUR_MS = 3_600_000


def fresh(shape: Topic, settings: LogSettings = COLD) -> tuple[FaultDisk, LogStore, PartitionLog]:
    disk = FaultDisk()
    store = open_store(disk, shape, settings=settings)
    return disk, store, store.partition(shape.id, 0)


# ── appending ───────────────────────────────────────────────────────────────────────────────────


def test_offsets_count_records_and_the_epoch_is_stamped() -> None:
    _, _, log = fresh(topic())
    log.leader_epoch = 4
    assert append(log, b"a", b"b").base_offset == 0
    second = log.append([batch(b"c"), batch(b"d", b"e")], NOW_MS)
    assert (second.base_offset, second.last_offset, log.end) == (2, 4, 5)
    header = read_header(log.read(2, 1, log.end).load().buffers[0])
    assert (header.base_offset, header.leader_epoch) == (2, 4)


def test_fsync_topics_wait_for_a_ticket_and_os_topics_do_not() -> None:
    assert append(fresh(topic())[2], b"a").ticket is not None
    assert append(fresh(topic(durability="os"))[2], b"a").ticket is None


def test_a_changed_durability_holds_from_the_next_append() -> None:
    _, store, log = fresh(topic())
    store.update_config(topic(durability="os"))
    assert append(log, b"a").ticket is None


def test_append_time_is_the_brokers() -> None:
    _, _, log = fresh(topic(message_timestamp_type="LogAppendTime"))
    assert append(log, b"a", b"b", timestamp=5).append_time_ms == NOW_MS
    assert {record.timestamp for record in records(log)} == {NOW_MS}


def test_create_time_must_be_near_the_brokers() -> None:
    _, _, log = fresh(topic(message_timestamp_before_max_ms=HOUR_MS, message_timestamp_after_max_ms=HOUR_MS))
    append(log, b"a", timestamp=NOW_MS - HOUR_MS)
    append(log, b"a", timestamp=NOW_MS + HOUR_MS)
    for timestamp in (NOW_MS - HOUR_MS - 1, NOW_MS + HOUR_MS + 1):
        with pytest.raises(InvalidTimestamp):
            append(log, b"a", timestamp=timestamp)
    assert log.end == 2


def test_a_batch_over_the_limit_is_refused_and_nothing_with_it_is_taken() -> None:
    _, _, log = fresh(topic(max_message_bytes=1000))
    with pytest.raises(BatchTooLarge):
        log.append([batch(b"fits"), batch(b"x" * 1000)], NOW_MS)
    assert log.end == 0


def test_a_compacted_topic_needs_keys() -> None:
    _, _, log = fresh(topic(cleanup_policy="compact"))
    header, view = batch(b"v", key=None)
    header.unkeyed = True
    with pytest.raises(InvalidRecord):
        log.append([(header, view)], NOW_MS)


def test_segments_roll_by_size_by_time_and_by_index_size() -> None:
    _, _, by_size = fresh(topic(segment_bytes=1 << 20))
    for _ in range(5):
        append(by_size, b"x" * 400_000)
    assert by_size.segment_count == 3
    _, _, by_time = fresh(topic(segment_ms=1000))
    for seconds in (0, 1, 2.1, 3):
        append(by_time, b"x", timestamp=NOW_MS + int(seconds * 1000))
    assert by_time.segment_count == 2
    _, _, by_index = fresh(topic(segment_index_bytes=16, index_interval_bytes=0))
    for _ in range(9):
        append(by_index, b"x")
    assert by_index.segment_count == 3


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("hot_bytes", [0, 3000, 1 << 20])
def test_every_offset_can_be_read_from(hot_bytes: int) -> None:
    _, _, log = fresh(topic(index_interval_bytes=300), LogSettings(1 << 16, hot_bytes))
    expected = []
    for number in range(60):
        expected += [b"%d" % number, b"%d+" % number]
        append(log, *expected[-2:])
        if number % 25 == 24:
            log.roll()
    for offset in range(log.end):
        assert values(log, offset, max_bytes=500) == expected[offset:]


def test_a_read_is_whole_batches_within_its_limit_except_the_first() -> None:
    for settings in (COLD, LogSettings(1 << 16)):
        _, _, log = fresh(topic(), settings)
        sizes = [batch(b"x" * size)[0].size_bytes for size in (1000, 1000, 1000)]
        for _ in sizes:
            append(log, b"x" * 1000)
        assert log.read(0, sizes[0] * 2, 3).load().size_bytes == sizes[0] * 2
        assert log.read(0, sizes[0] * 2 - 1, 3).load().next_offset == 1
        assert log.read(0, 1, 3).load().size_bytes == sizes[0]
        assert log.read(0, 1, 3, at_least_one=False).load().buffers == []
        assert log.read(0, 0, 3).load().next_offset == 1


def test_nothing_past_the_end_that_the_reader_may_see() -> None:
    for settings in (COLD, LogSettings(1 << 16)):
        _, _, log = fresh(topic(), settings)
        append(log, b"a", b"b")
        append(log, b"c", b"d")
        assert log.read(0, 10_000, 3).load().next_offset == 2
        assert log.read(2, 10_000, 3).load().buffers == []
        assert log.read(3, 10_000, 3).buffers == []
        assert log.read(0, 10_000, 0).buffers == []


def test_offsets_outside_of_the_log_are_out_of_range() -> None:
    _, _, log = fresh(topic())
    append(log, b"a", b"b", b"c")
    log.delete_records(1)
    for offset in (-1, 0, 4):
        with pytest.raises(OffsetOutOfRange, match="1 to 3"):
            log.read(offset, 100, log.end)
    assert log.read(3, 100, log.end).buffers == []


def test_recent_records_need_no_disk() -> None:
    disk, _, log = fresh(topic(), LogSettings(1 << 16, 1 << 20))
    append(log, b"a")
    disk.fail("pread", times=1000)
    assert not log.read(0, 100, 1).cold
    assert values(log) == [b"a"]


def test_the_hot_tail_of_all_partitions_stays_in_its_budget() -> None:
    shape = topic(partitions=10)
    store = open_store(FaultDisk(), shape, settings=LogSettings(1 << 20, 20_000))
    for number in range(300):
        append(store.partition(shape.id, number % 10), b"x" * 500)
        assert store.hot_tail.used_bytes <= 20_000
    log = store.partition(shape.id, 9)
    assert not log.read(log.end - 1, 100, log.end).cold
    assert log.read(0, 100, log.end).cold
    assert len(values(log)) == 30


def test_a_batch_larger_than_the_hot_tail_is_read_from_disk() -> None:
    _, _, log = fresh(topic(), LogSettings(1 << 20, 1000))
    append(log, b"x" * 5000)
    append(log, b"small")
    assert [len(value or b"") for value in values(log)] == [5000, 5]


def test_a_planned_cold_read_outlives_appends_rolls_and_deletes() -> None:
    _, store, log = fresh(topic(index_interval_bytes=64))
    for number in range(20):
        append(log, b"%d" % number)
    checkpoint(store)
    planned = log.read(5, 200, log.end)
    log.roll()
    append(log, b"later")
    log.delete_records(20)
    assert planned.load().next_offset > 5
    assert values(log) == [b"later"]


def test_a_planned_cold_read_of_a_segment_that_is_removed_first_is_out_of_range() -> None:
    _, store, log = fresh(topic())
    append(log, b"a")
    planned = log.read(0, 200, log.end)
    log.roll()
    append(log, b"b")
    log.delete_records(1)
    checkpoint(store)
    with pytest.raises(OffsetOutOfRange):
        planned.load()
    assert values(log) == [b"b"]


def test_a_read_of_a_deleted_topic_says_so() -> None:
    _, store, log = fresh(topic())
    append(log, b"a")
    read = log.read(0, 100, 1)
    store.delete_topic(log.topic_id)
    with pytest.raises(UnknownPartition):
        read.load()


def test_damage_is_named_when_it_is_read() -> None:
    disk, _, log = fresh(topic())
    append(log, b"a" * 100)
    append(log, b"b" * 100)
    position = log.read(0, 1, 2).load().size_bytes
    disk.content("topics/orders-0/00000000000000000000.log")[position + 90] ^= 1
    assert log.read(0, 1, 2).load().next_offset == 1
    with pytest.raises(CorruptLog, match=rf"0+\.log is damaged at position {position}"):
        log.read(1, 1000, 2).load()


def test_an_unreadable_disk_is_a_storage_failure() -> None:
    disk, _, log = fresh(topic())
    append(log, b"a")
    disk.fail("pread", errno.EIO, ".log")
    with pytest.raises(StorageFailed):
        log.read(0, 100, 1).load()


def test_open_files_are_bounded() -> None:
    shape = topic(partitions=100)
    disk = FaultDisk()
    store = open_store(disk, shape, settings=LogSettings(1 << 20, 0, open_files=10))
    for number in range(300):
        append(store.partition(shape.id, number % 100), b"v%d" % number)
    checkpoint(store)
    assert len(disk.handles) <= 12
    for number in range(100):
        assert len(values(store.partition(shape.id, number))) == 3
    assert len(disk.handles) <= 12


def test_files_that_nobody_uses_are_closed() -> None:
    shape = topic(partitions=3)
    disk, store, log = fresh(shape)
    for index in range(3):
        append(store.partition(shape.id, index), b"a")
    store.files.drop_idle()
    append(log, b"b")
    before = len(disk.handles)
    store.files.drop_idle()
    assert len(store.files) == 1
    assert len(disk.handles) == before - 2
    assert values(store.partition(shape.id, 2)) == [b"a"]


# ── time ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reopened", [False, True])
def test_offsets_by_time_are_what_a_look_at_every_record_finds(reopened: bool) -> None:
    shape = topic(index_interval_bytes=200)
    disk, store, log = fresh(shape)
    rng = random.Random(4)
    for number in range(120):
        stamps = tuple(NOW_MS + number * 10 + rng.randrange(-50, 50) for _ in range(3))
        log.append([batch(b"a", b"b", b"c", timestamps=stamps)], NOW_MS)
        if number % 40 == 39:
            log.roll()
    log.delete_records(10)
    if reopened:
        flush(store)
        log = open_store(disk, shape, settings=COLD).partition(shape.id, 0)
    everything = records(log)
    for timestamp in range(NOW_MS - 60, NOW_MS + 1300, 7):
        found = next(((r.offset, r.timestamp) for r in everything if r.timestamp >= timestamp), None)
        assert log.offset_for_time(timestamp) == found
    largest = max(everything, key=lambda record: (record.timestamp, -record.offset))
    assert log.offset_of_max_timestamp() == (largest.offset, largest.timestamp)
    visible = [record for record in everything if record.offset < 60]
    latest = max(visible, key=lambda record: (record.timestamp, -record.offset))
    found_below = log.offset_of_max_timestamp(60)
    assert found_below is not None
    assert found_below[1] == latest.timestamp
    assert log.offset_for_time(NOW_MS + 1000, end=60) is None


def test_an_empty_log_has_no_times() -> None:
    _, _, log = fresh(topic())
    assert log.offset_for_time(0) is None
    assert log.offset_of_max_timestamp() is None


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["removed", "flipped", "cut"])
def test_a_missing_or_damaged_index_is_rebuilt(suffix: str, damage: str) -> None:
    shape = topic(index_interval_bytes=100)
    disk, store, log = fresh(shape)
    for number in range(40):
        append(log, b"%d" % number, timestamp=NOW_MS + number)
        if number == 19:
            log.roll()
    store.close()
    for base in (0, 20):
        path = f"topics/orders-0/{base:020d}.{suffix}"
        if damage == "removed":
            disk.remove(path)
        elif damage == "flipped":
            disk.content(path)[9] ^= 0x40
        else:
            del disk.content(path)[-5:]
    log = open_store(disk, shape, settings=COLD).partition(shape.id, 0)
    assert [values(log, offset)[0] for offset in range(40)] == [b"%d" % number for number in range(40)]
    assert all(log.offset_for_time(NOW_MS + n) == (n, NOW_MS + n) for n in range(40))


# ── deleting ────────────────────────────────────────────────────────────────────────────────────


def rolled(log: PartitionLog, ages_ms: list[int], size: int = 1000) -> None:
    for age_ms in ages_ms:
        append(log, b"x" * size, timestamp=NOW_MS - age_ms)
        log.roll()


def test_segments_older_than_the_retention_go_oldest_first() -> None:
    disk, store, log = fresh(topic(retention_ms=HOUR_MS))
    rolled(log, [3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS // 2, 2 * HOUR_MS])
    assert log.retention(NOW_MS) > 0
    assert (log.log_start, log.end) == (2, 4)
    checkpoint(store)
    assert not [name for name in disk.list("topics/orders-0") if name.startswith(f"{0:020d}")]
    assert len(values(log)) == 2


def test_an_active_segment_goes_only_when_all_of_it_is_old() -> None:
    _, store, log = fresh(topic(retention_ms=HOUR_MS))
    append(log, b"old", timestamp=NOW_MS - 2 * HOUR_MS)
    append(log, b"new")
    assert log.retention(NOW_MS) == 0
    assert log.retention(NOW_MS + 2 * HOUR_MS) > 0
    assert (log.log_start, log.end, log.size_bytes) == (2, 2, 0)
    assert append(log, b"next", timestamp=NOW_MS).base_offset == 2
    checkpoint(store)
    assert values(log) == [b"next"]


def test_the_largest_part_that_the_size_allows_is_kept() -> None:
    _, _, log = fresh(topic(retention_bytes=2500))
    rolled(log, [0] * 5)
    log.retention(NOW_MS)
    assert 2500 <= log.size_bytes < 2500 + 1100
    assert log.log_start == 2


def test_a_topic_that_is_only_compacted_keeps_all_segments() -> None:
    _, _, log = fresh(topic(retention_ms=HOUR_MS, cleanup_policy="compact"))
    rolled(log, [3 * HOUR_MS])
    assert log.retention(NOW_MS) == 0


def test_retention_takes_nothing_that_readers_may_not_see_yet() -> None:
    _, _, log = fresh(topic(retention_ms=HOUR_MS))
    rolled(log, [3 * HOUR_MS, 3 * HOUR_MS])
    log.retention(NOW_MS, end=1)
    assert log.log_start == 1


def test_deleted_records_stay_deleted() -> None:
    shape = topic()
    disk, store, log = fresh(shape)
    for number in range(10):
        append(log, b"%d" % number)
    assert log.delete_records(4) is not None
    assert log.delete_records(3) is None
    flush(store)
    log = open_store(disk, shape).partition(shape.id, 0)
    assert (log.log_start, values(log)[0]) == (4, b"4")
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(11)


def test_a_memory_topic_is_read_and_trimmed_like_any_other() -> None:
    shape = topic(memory=True, retention_ms=HOUR_MS)
    store = open_store(MemoryDisk(), shape)
    log = store.partition(shape.id, 0)
    rolled(log, [3 * HOUR_MS, 0])
    assert append(log, b"a").ticket is None
    assert not log.read(0, 100, log.end).cold
    assert len(values(log)) == 3
    log.retention(NOW_MS)
    assert len(values(log)) == 2
