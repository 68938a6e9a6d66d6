"""All partitions of a node: starting, stopping, deleting, and what damage is found at start."""

from __future__ import annotations

import errno
import logging
import random
from pathlib import Path

import pytest
from tests.log.helpers import COLD, SMALL, append, checkpoint, flush, open_store, topic, values

from trunkline.log.disk import Disk
from trunkline.log.memory_disk import MemoryDisk
from trunkline.log.os_disk import OsDisk
from trunkline.log.store import LogStore
from trunkline.model.errors import CorruptLog, StorageFailed, StorageFull, UnknownPartition, UnknownTopicId
from trunkline.model.ids import TopicId
from trunkline.model.topic import Topic
from trunkline.testing.faults import FaultDisk

ORDERS = topic()
SEGMENT = "topics/orders-0/00000000000000000000.log"


@pytest.fixture(params=["memory", "os", "fault"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    made: Disk = OsDisk(tmp_path) if request.param == "os" else FaultDisk()
    return MemoryDisk() if request.param == "memory" else made


class ListingDisk(FaultDisk):
    """Remembers which directories were looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def list(self, path: str) -> list[str]:
        self.listed.append(path)
        return super().list(path)


def test_every_disk_keeps_a_log_over_kills_and_clean_stops(disk: Disk) -> None:
    for clean in (False, True, False):
        store = open_store(disk, ORDERS, settings=COLD)
        log = store.partition(ORDERS.id, 0)
        before = log.end
        for number in range(30):
            append(log, b"%d" % number * 200)
            if number % 10 == 9:
                log.roll()
                flush(store)
            if number == 15:
                checkpoint(store)
        assert log.delete_records(before + 5) is not None
        flush(store)
        if clean:
            store.close()
    log = open_store(disk, ORDERS).partition(ORDERS.id, 0)
    assert (log.log_start, log.end, len(values(log))) == (65, 90, 25)


def test_what_is_in_the_journal_only_comes_back(disk: Disk) -> None:
    store = open_store(disk, ORDERS)
    append(store.partition(ORDERS.id, 0), b"a", b"b")
    flush(store)
    disk.remove_tree("topics/orders-0")
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == [b"a", b"b"]


def test_after_a_clean_stop_no_partition_is_looked_at() -> None:
    shape = topic("many", 300)
    disk = ListingDisk()
    store = open_store(disk, shape)
    for index in range(300):
        append(store.partition(shape.id, index), b"v")
    store.close()
    disk.listed.clear()
    store = open_store(disk, shape)
    assert [path for path in disk.listed if path.startswith("topics/")] == []
    assert len(disk.handles) < 5
    assert sorted(store.sizes())[299][:4] == ("many", 299, 0, 1)
    assert values(store.partition(shape.id, 123)) == [b"v"]


def test_a_kill_after_a_quick_start_is_not_taken_for_a_clean_stop() -> None:
    shape = topic("fast", durability="os")
    disk = FaultDisk()
    open_store(disk, shape).close()
    append(open_store(disk, shape).partition(shape.id, 0), b"kept by the system")
    assert values(open_store(disk, shape).partition(shape.id, 0)) == [b"kept by the system"]


def test_a_segment_shorter_than_its_checkpoint_is_named() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    append(store.partition(ORDERS.id, 0), b"x" * 500)
    checkpoint(store)
    del disk.content(SEGMENT)[300:]
    with pytest.raises(CorruptLog, match=rf"{SEGMENT} is damaged at position 300"):
        open_store(disk, ORDERS)


def test_a_sealed_segment_that_lost_its_end_is_named_when_it_is_read() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS, settings=COLD)
    log = store.partition(ORDERS.id, 0)
    append(log, b"a")
    append(log, b"b")
    log.roll()
    append(log, b"c")
    store.close()
    del disk.content(SEGMENT)[-20:]
    log = open_store(disk, ORDERS, settings=COLD).partition(ORDERS.id, 0)
    with pytest.raises(CorruptLog, match=SEGMENT):
        log.read(1, 1000, log.end).load()
    assert values(log, 2) == [b"c"]


def test_a_missing_segment_is_named() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    append(store.partition(ORDERS.id, 0), b"v")
    store.close()
    disk.remove(SEGMENT)
    with pytest.raises(CorruptLog, match=SEGMENT):
        values(open_store(disk, ORDERS).partition(ORDERS.id, 0))


def test_a_damaged_checkpoint_is_named() -> None:
    disk = FaultDisk()
    open_store(disk, ORDERS).close()
    disk.content("checkpoint")[15] ^= 1
    with pytest.raises(CorruptLog, match="checkpoint"):
        open_store(disk, ORDERS)


def test_a_torn_end_of_an_os_topic_is_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    shape = topic(durability="os")
    disk = FaultDisk()
    store = open_store(disk, shape)
    append(store.partition(shape.id, 0), b"whole")
    size = store.partition(shape.id, 0).size_bytes
    append(store.partition(shape.id, 0), b"torn")
    disk.content(SEGMENT)[size + 70] ^= 1
    with caplog.at_level(logging.WARNING):
        log = open_store(disk, shape).partition(shape.id, 0)
    assert values(log) == [b"whole"]
    assert f"{SEGMENT}, position {size}" in caplog.text
    assert append(log, b"next").base_offset == 1


def test_switching_durability_back_and_forth_loses_nothing_on_a_kill() -> None:
    disk, expected = FaultDisk(), []
    for number in range(12):
        shape = topic(durability="os" if number % 2 else "fsync")
        store = open_store(disk, shape)
        for other in ("os", "fsync", "os"):
            store.update_config(topic(durability=other))
            expected.append(b"%d %s" % (number, other.encode()))
            append(store.partition(shape.id, 0), expected[-1])
            flush(store)
        assert values(store.partition(shape.id, 0)) == expected
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == expected


def test_synced_records_survive_even_where_os_records_before_them_are_lost() -> None:
    for seed in range(30):
        disk = FaultDisk()
        shape = topic(durability="os")
        store = open_store(disk, shape)
        log = store.partition(shape.id, 0)
        append(log, b"os only")
        store.update_config(ORDERS)
        append(log, b"synced")
        flush(store)
        disk.crash(random.Random(seed))
        log = open_store(disk, ORDERS).partition(ORDERS.id, 0)
        assert values(log)[-1] == b"synced"
        assert log.end == 2
        assert append(log, b"next").base_offset == 2


def test_a_new_topic_of_an_old_name_starts_empty() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    append(store.partition(ORDERS.id, 0), b"old")
    flush(store)
    store.delete_topic(ORDERS.id)
    again = Topic("orders", TopicId(b"another id......"), 1, ORDERS.config)
    log = store.create_partition(again, 0)
    assert log.end == 0
    append(log, b"new")
    flush(store)
    disk.crash(random.Random(1))
    store = open_store(disk, again)
    assert values(store.partition(again.id, 0)) == [b"new"]
    with pytest.raises(UnknownTopicId):
        store.partition(ORDERS.id, 0)
    checkpoint(store)
    assert disk.list("topics") == ["orders-0"]


def test_a_topic_deleted_during_a_checkpoint_does_no_harm() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    append(store.partition(ORDERS.id, 0), b"v")
    plan = store.begin_checkpoint()
    assert plan is not None
    store.delete_topic(ORDERS.id)
    plan.write()
    store.finish_checkpoint(plan)
    checkpoint(store)
    assert disk.list("topics") == []


def test_directories_of_unknown_topics_are_set_aside_not_deleted(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    append(store.partition(ORDERS.id, 0), b"precious")
    flush(store)
    with caplog.at_level(logging.WARNING):
        open_store(disk).close()
    assert disk.list("topics") == ["orders-0.0.unknown"]
    assert "orders-0" in caplog.text
    assert open_store(disk) is not None


def test_memory_topics_are_forgotten_at_restart() -> None:
    disk, shape = FaultDisk(), topic("scratch", memory=True)
    store = open_store(disk, ORDERS, shape)
    append(store.partition(shape.id, 0), b"v")
    append(store.partition(ORDERS.id, 0), b"v")
    assert values(store.partition(shape.id, 0)) == [b"v"]
    store.close()
    store = open_store(disk, ORDERS, shape)
    assert store.partition(shape.id, 0).end == 0
    assert disk.list("topics") == ["orders-0"]


def test_a_store_in_memory_needs_no_disk() -> None:
    store = LogStore.in_memory(SMALL, {ORDERS.id: ORDERS})
    log = store.partition(ORDERS.id, 0)
    assert append(log, b"a").ticket is None
    assert values(log) == [b"a"]
    assert store.begin_checkpoint() is None
    store.delete_topic(ORDERS.id)
    store.close()


def test_partitions_can_be_added() -> None:
    store = open_store(FaultDisk(), ORDERS)
    with pytest.raises(UnknownPartition):
        store.partition(ORDERS.id, 1)
    store.update_config(topic(partitions=3))
    append(store.partition(ORDERS.id, 2), b"v")


def test_a_checkpoint_without_room_is_made_up_for_by_the_next_one() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    log = store.partition(ORDERS.id, 0)
    append(log, b"v")
    log.roll()
    append(log, b"w")
    log.delete_records(1)
    disk.room_bytes = 10
    plan = store.begin_checkpoint()
    assert plan is not None
    with pytest.raises(StorageFull):
        plan.write()
    store.abandon_checkpoint(plan)
    disk.room_bytes = None
    flush(store)
    checkpoint(store)
    assert "00000000000000000000.log" not in disk.list("topics/orders-0")
    disk.crash(random.Random(3))
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == [b"w"]


def test_a_failed_sync_of_a_segment_fails_the_checkpoint() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    append(store.partition(ORDERS.id, 0), b"v")
    disk.fail("datasync", errno.EIO, SEGMENT)
    plan = store.begin_checkpoint()
    assert plan is not None
    with pytest.raises(StorageFailed):
        plan.write()


def test_a_start_without_room_serves_reads_and_takes_writes_once_there_is_some() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    append(store.partition(ORDERS.id, 0), b"v")
    store.close()
    for name in disk.list("journal"):
        if name.startswith("spare"):
            disk.remove(f"journal/{name}")
    disk.room_bytes = 5
    store = open_store(disk, ORDERS)
    log = store.partition(ORDERS.id, 0)
    assert values(log) == [b"v"]
    with pytest.raises(StorageFull):
        append(log, b"w")
    disk.room_bytes = None
    assert store.journal is not None
    store.journal.flush()
    append(log, b"w")
    flush(store)
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == [b"v", b"w"]
