"""The journal: what a ticket promises, and what damage, a full disk and a failed sync lead to."""

from __future__ import annotations

import errno
import threading

import pytest
from tests.log.helpers import SMALL, append, checkpoint, flush, open_store, topic, values

from trunkline.log.journal import DIRECTORY, file_name
from trunkline.log.journal_format import FILE_HEADER
from trunkline.log.store import LogSettings
from trunkline.model.errors import CorruptLog, StorageFailed, StorageFull
from trunkline.testing.faults import FaultDisk

ORDERS = topic()
FIRST = f"{DIRECTORY}/{file_name(1)}"
CUT = LogSettings(16 * 1024, 1 << 20, accept_journal_cut=True, salt=lambda: 7, monotonic=lambda: 0.0)


def written(disk: FaultDisk, *records: bytes, flushed: bool = True) -> None:
    """Append each record in a group of its own, and stop without a word."""
    log_store = open_store(disk, ORDERS)
    for record in records:
        append(log_store.partition(ORDERS.id, 0), record)
        if flushed:
            flush(log_store)


def forget_segments(disk: FaultDisk) -> None:
    """As a power loss that took all that was not synced: only the journal remembers."""
    disk.remove_tree("topics/orders-0")


def group_positions(disk: FaultDisk, path: str) -> list[int]:
    content, found = disk.content(path), []
    at = content.find(b"\x7e\x5c\x0a\x1d")
    while at >= 0:
        found.append(at)
        at = content.find(b"\x7e\x5c\x0a\x1d", at + 1)
    return found


def test_a_torn_last_group_is_the_end_of_the_journal() -> None:
    disk = FaultDisk()
    written(disk, b"one", b"two", b"three")
    last = group_positions(disk, FIRST)[-1]
    disk.content(FIRST)[last + 30 :] = bytes(len(disk.content(FIRST)) - last - 30)
    forget_segments(disk)
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == [b"one", b"two"]


def test_a_damaged_group_below_a_whole_one_is_named_and_never_cut() -> None:
    disk = FaultDisk()
    written(disk, b"one", b"two", b"three")
    middle = group_positions(disk, FIRST)[1]
    disk.content(FIRST)[middle + 40] ^= 1
    forget_segments(disk)
    with pytest.raises(CorruptLog, match=rf"{file_name(1)} is damaged at position {middle}.*backup"):
        open_store(disk, ORDERS)


def test_the_loss_can_be_accepted() -> None:
    disk = FaultDisk()
    written(disk, b"one", b"two", b"three")
    disk.content(FIRST)[group_positions(disk, FIRST)[1] + 40] ^= 1
    forget_segments(disk)
    assert values(open_store(disk, ORDERS, settings=CUT).partition(ORDERS.id, 0)) == [b"one"]
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == [b"one"]


def test_damage_in_an_earlier_file_is_found_too() -> None:
    disk = FaultDisk()
    written(disk, *[b"x" * 6000] * 5)
    assert len(disk.list(DIRECTORY)) >= 3
    last_of_first = group_positions(disk, FIRST)[-1]
    disk.content(FIRST)[last_of_first + 40] ^= 1
    with pytest.raises(CorruptLog, match=f"{file_name(1)} is damaged at position {last_of_first}"):
        open_store(disk, ORDERS)


def test_a_damaged_file_header_is_named() -> None:
    disk = FaultDisk()
    written(disk, b"one")
    disk.content(FIRST)[20] ^= 1
    with pytest.raises(CorruptLog, match=f"{file_name(1)}.*position 0"):
        open_store(disk, ORDERS)


def test_a_missing_journal_is_no_empty_journal() -> None:
    disk = FaultDisk()
    written(disk, b"one")
    disk.remove(FIRST)
    with pytest.raises(CorruptLog, match="missing"):
        open_store(disk, ORDERS)


def test_a_record_that_looks_like_a_group_is_not_taken_for_one() -> None:
    disk = FaultDisk()
    written(disk, b"one", b"two")
    first = group_positions(disk, FIRST)[0]
    forged = bytes(disk.content(FIRST)[first : first + 200])
    other = FaultDisk()
    written(other, b"one", forged + b"z" * 3000)
    last = group_positions(other, FIRST)[1]
    other.content(FIRST)[last + 4] ^= 1
    forget_segments(other)
    assert values(open_store(other, ORDERS).partition(ORDERS.id, 0)) == [b"one"]


def test_a_failed_sync_poisons_the_journal_for_ever() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    log = store.partition(ORDERS.id, 0)
    append(log, b"one")
    disk.fail("datasync", errno.EIO, DIRECTORY)
    with pytest.raises(StorageFailed):
        flush(store)
    with pytest.raises(StorageFailed):
        flush(store)
    with pytest.raises(StorageFailed):
        append(log, b"two")
    assert values(log) == [b"one"]


def test_a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    assert store.journal is not None
    log = store.partition(ORDERS.id, 0)
    first = append(log, b"x" * 9000)
    assert flush(store) == first.ticket
    second = append(log, b"y" * 9000)
    disk.room_bytes = 100
    assert flush(store) == first.ticket
    assert store.journal.full
    with pytest.raises(StorageFull):
        append(log, b"refused")
    assert len(values(log)) == 2
    disk.room_bytes = None
    assert flush(store) == second.ticket
    assert append(log, b"taken").base_offset == 2
    flush(store)
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0))[2] == b"taken"


def test_a_full_disk_during_a_segment_write_leaves_no_trace() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    log = store.partition(ORDERS.id, 0)
    append(log, b"one")
    disk.room_bytes = 50
    with pytest.raises(StorageFull):
        append(log, b"x" * 500)
    assert (log.end, values(log)) == (1, [b"one"])
    disk.room_bytes = None
    append(log, b"two")
    flush(store)
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == [b"one", b"two"]


def test_a_failed_segment_write_leaves_no_trace() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    log = store.partition(ORDERS.id, 0)
    append(log, b"one")
    disk.fail("pwrite", errno.EIO, "topics/")
    with pytest.raises(StorageFailed) as refused:
        append(log, b"two", b"three")
    assert not isinstance(refused.value, StorageFull)
    append(log, b"four")
    flush(store)
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == [b"one", b"four"]


def test_one_sync_makes_everything_that_waits_durable() -> None:
    disk = FaultDisk()
    store = open_store(disk, topic("many", 50))
    assert store.journal is not None
    tickets = [append(store.partition(topic("many").id, index), b"v").ticket for index in range(50)]
    before = store.journal.stats.flushes
    assert flush(store) == tickets[-1]
    assert store.journal.stats.flushes == before + 1
    assert store.journal.pending == 0


def test_a_record_larger_than_a_journal_file_gets_a_larger_file() -> None:
    disk = FaultDisk()
    written(disk, b"a", b"b" * 100_000, b"c")
    forget_segments(disk)
    log = open_store(disk, ORDERS).partition(ORDERS.id, 0)
    assert [len(value or b"") for value in values(log)] == [1, 100_000, 1]


def test_more_than_a_file_waiting_is_flushed_in_several_groups() -> None:
    disk = FaultDisk()
    written(disk, *[b"v" * 3000] * 20, flushed=False)
    store = open_store(disk, ORDERS)
    for _ in range(20):
        last = append(store.partition(ORDERS.id, 0), b"w" * 3000)
    assert flush(store) == last.ticket
    forget_segments_after_flush = open_store(disk, ORDERS)
    assert forget_segments_after_flush.partition(ORDERS.id, 0).end == 40


def test_journal_files_below_a_checkpoint_are_used_again() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    log = store.partition(ORDERS.id, 0)
    for _ in range(30):
        append(log, b"x" * 7000)
        flush(store)
        checkpoint(store)
    names = disk.list(DIRECTORY)
    assert len(names) <= 6
    assert sum(disk.open(f"{DIRECTORY}/{name}").size() for name in names) <= 6 * SMALL.journal_file_bytes
    assert len(values(open_store(disk, ORDERS).partition(ORDERS.id, 0))) == 30


def test_what_an_earlier_life_of_a_file_left_is_not_replayed() -> None:
    disk = FaultDisk()
    for _ in range(4):
        written(disk, b"x" * 5000, b"y" * 5000, b"z" * 3000)
    log = open_store(disk, ORDERS).partition(ORDERS.id, 0)
    assert log.end == 12
    assert [record[:1] for record in values(log) if record] == [b"x", b"y", b"z"] * 4


def test_a_spare_file_is_prepared_ahead() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    assert store.journal is not None
    assert store.journal.wants_spare
    store.journal.prepare_spare()
    assert not store.journal.wants_spare
    disk.room_bytes = 40_000
    for _ in range(3):
        append(store.partition(ORDERS.id, 0), b"x" * 7000)
        flush(store)
    assert not store.journal.full


def test_appending_while_another_thread_flushes_loses_nothing() -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    log, done = store.partition(ORDERS.id, 0), threading.Event()
    flushed: list[int] = []

    def flusher() -> None:
        while not done.is_set():
            flushed.append(flush(store))

    thread = threading.Thread(target=flusher)
    thread.start()
    tickets = [append(log, b"%d" % number).ticket for number in range(500)]
    done.set()
    thread.join()
    assert flush(store) == tickets[-1] == 500
    assert flushed == sorted(flushed)
    forget_segments(disk)
    assert values(open_store(disk, ORDERS).partition(ORDERS.id, 0)) == [b"%d" % number for number in range(500)]


def test_file_headers_fit_their_drawing() -> None:
    assert FILE_HEADER.size == 36
