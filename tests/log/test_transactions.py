"""Transactions in a partition: where readers of committed records stop, and what they must skip."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.helpers import NOW_MS, SMALL, checkpoint, flush, open_store, topic

from trunkline.log.partition_log import PartitionLog
from trunkline.log.producers import EXPIRY_MS
from trunkline.log.transactions import Aborted, aborted_between
from trunkline.model.errors import InvalidProducerEpoch, InvalidTransactionState, OutOfOrderSequence
from trunkline.record.batch import read_header
from trunkline.record.control import Marker, encode_marker, read_marker
from trunkline.record.records import Record, encode_batch
from trunkline.testing.faults import FaultDisk

ORDERS = topic()


def fresh() -> PartitionLog:
    return open_store(FaultDisk(), ORDERS).partition(ORDERS.id, 0)


def send(log: PartitionLog, producer: int, sequence: int, epoch: int = 0, *, transactional: bool = True) -> int:
    data = encode_batch(
        [Record(0, NOW_MS, b"k", b"v")],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    return log.append([(read_header(data), memoryview(data))], NOW_MS).base_offset


def end(log: PartitionLog, producer: int, *, commit: bool, epoch: int = 0) -> int:
    data = encode_marker(producer, epoch, Marker(commit), NOW_MS)
    return log.append([(read_header(data), memoryview(data))], NOW_MS, journaled=True).base_offset


def stable(log: PartitionLog) -> int:
    return log.last_stable_offset(log.end)


def aborted(log: PartitionLog, start: int = 0, until: int | None = None) -> list[tuple[int, int]]:
    transactions = log.transactions
    assert transactions is not None
    found = aborted_between(transactions.aborted, start, log.end if until is None else until)
    return [(one.producer_id, one.first_offset) for one in found]


def test_a_marker_says_how_it_ended_and_under_whom() -> None:
    for marker in (Marker(True, 0), Marker(False, 5)):
        assert read_marker(encode_marker(7, 3, marker, NOW_MS)) == marker


def test_the_oldest_open_transaction_is_where_committed_records_end() -> None:
    log = fresh()
    assert stable(log) == 0
    send(log, 1, 0)
    send(log, 2, 0)
    send(log, 1, 1)
    assert stable(log) == 0
    end(log, 1, commit=True)
    assert stable(log) == 1
    end(log, 2, commit=False)
    assert stable(log) == log.end == 5
    assert aborted(log) == [(2, 1)]


def test_an_end_counts_once_its_marker_is_visible() -> None:
    log = fresh()
    send(log, 1, 0)
    marker = end(log, 1, commit=True)
    assert log.last_stable_offset(marker) == 0
    assert log.last_stable_offset(marker + 1) == 2


def test_a_fetch_is_told_of_what_was_aborted_in_its_range_only() -> None:
    log = fresh()
    for number in range(4):
        send(log, 1, number)
        end(log, 1, commit=number % 2 == 0)
    assert aborted(log) == [(1, 2), (1, 6)]
    assert aborted(log, until=2) == []
    assert aborted(log, until=3) == [(1, 2)]
    assert aborted(log, start=3) == [(1, 2), (1, 6)], "its marker is still to come"
    assert aborted(log, start=4) == [(1, 6)]


def test_a_marker_with_a_newer_epoch_fences_and_starts_sequences_anew() -> None:
    log = fresh()
    send(log, 1, 0)
    send(log, 1, 1)
    end(log, 1, commit=False, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        send(log, 1, 2)
    with pytest.raises(OutOfOrderSequence):
        send(log, 1, 2, epoch=1)
    send(log, 1, 0, epoch=1)


def test_a_producer_in_a_transaction_writes_nothing_outside_of_it() -> None:
    log = fresh()
    send(log, 1, 0)
    with pytest.raises(InvalidTransactionState):
        send(log, 1, 1, transactional=False)
    end(log, 1, commit=True)
    send(log, 1, 1, transactional=False)
    assert stable(log) == log.end


def test_a_producer_is_not_forgotten_while_its_transaction_is_open() -> None:
    log = fresh()
    send(log, 1, 0)
    send(log, 2, 0)
    end(log, 2, commit=True)
    log.retention(NOW_MS + EXPIRY_MS + 1)
    assert set(log.producers.snapshot()) == {1}


def test_deleted_records_take_their_aborted_transactions_along() -> None:
    log = fresh()
    for number in range(3):
        send(log, 1, number)
        end(log, 1, commit=False)
    log.delete_records(3)
    assert aborted(log) == [(1, 2), (1, 4)]
    log.delete_records(4)
    assert aborted(log) == [(1, 4)]
    send(log, 1, 3)
    send(log, 1, 4)
    log.delete_records(7)
    assert stable(log) == 7, "never below the start"


def test_markers_are_journaled_although_the_topic_is_not() -> None:
    lazy = topic(durability="os")
    disk = FaultDisk()
    store = open_store(disk, lazy)
    log = store.partition(lazy.id, 0)
    for number in range(20):
        send(log, 1, number)
    end(log, 1, commit=True)
    flush(store)
    disk.crash(random.Random(3))
    log = open_store(disk, lazy).partition(lazy.id, 0)
    assert stable(log) == log.end == 21


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["send", "commit", "abort", "checkpoint", "restart", "delete"]), st.integers(1, 3)),
        max_size=60,
    )
)
def test_whatever_happens_and_whenever_it_restarts_the_same_is_open_and_aborted(steps: list[tuple[str, int]]) -> None:
    disk = FaultDisk()
    store = open_store(disk, ORDERS, settings=SMALL)
    log = store.partition(ORDERS.id, 0)
    sequences: dict[int, int] = {}
    first: dict[int, int] = {}
    gone: list[tuple[int, int, int]] = []
    for what, producer in steps:
        match what:
            case "send":
                offset = send(log, producer, sequences.get(producer, 0))
                sequences[producer] = sequences.get(producer, 0) + 1
                first.setdefault(producer, offset)
            case "commit" | "abort":
                marker = end(log, producer, commit=what == "commit")
                if producer in first:
                    start = first.pop(producer)
                    if what == "abort":
                        gone.append((producer, start, marker))
            case "checkpoint":
                checkpoint(store)
            case "restart":
                flush(store)
                store = open_store(disk, ORDERS, settings=SMALL)
                log = store.partition(ORDERS.id, 0)
            case "delete":
                log.delete_records(log.log_start + (log.end - log.log_start) // 3)
        assert stable(log) == max(min(first.values(), default=log.end), log.log_start)
        expected = [(producer, start) for producer, start, marker in gone if marker >= log.log_start]
        assert ([] if log.transactions is None else aborted(log, log.log_start)) == expected


def test_look_ups_stop_where_no_later_one_can_matter() -> None:
    one, two = Aborted(1, 0, 10, 5), Aborted(2, 5, 20, 21)
    assert aborted_between([one, two], 0, 5) == [one]
    assert aborted_between([one, two], 0, 6) == [one, two]
    assert aborted_between([one, two], 11, 30) == [two]
