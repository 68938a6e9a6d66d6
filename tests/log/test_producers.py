"""Idempotent producers: retries are recognised, gaps refused, as Kafka does it."""

from __future__ import annotations

import pytest
from tests.log.helpers import NOW_MS, batch, flush, open_store, topic

from trunkline.log.partition_log import Appended, PartitionLog
from trunkline.log.producers import EXPIRY_MS, MOST_PRODUCERS, Producers
from trunkline.log.store import LogStore
from trunkline.model.errors import InvalidProducerEpoch, OutOfOrderSequence
from trunkline.record.batch import BatchHeader
from trunkline.testing.faults import FaultDisk

ORDERS = topic()
LAST_SEQUENCE = 2**31 - 1


def fresh() -> tuple[FaultDisk, LogStore, PartitionLog]:
    disk = FaultDisk()
    store = open_store(disk, ORDERS)
    return disk, store, store.partition(ORDERS.id, 0)


def send(log: PartitionLog, sequence: int, count: int = 1, epoch: int = 0, producer: int = 7) -> Appended:
    return log.append([batch(*[b"v"] * count, producer=(producer, epoch, sequence))], NOW_MS)


def test_each_of_the_last_five_batches_is_recognised_when_it_comes_again() -> None:
    _, _, log = fresh()
    for number in range(8):
        send(log, number * 2, 2)
    for number in range(3, 8):
        again = send(log, number * 2, 2)
        assert (again.duplicate, again.base_offset, again.last_offset) == (True, number * 2, number * 2 + 1)
    assert log.end == 16


def test_a_retry_older_than_the_last_five_is_out_of_order() -> None:
    _, _, log = fresh()
    for number in range(6):
        send(log, number)
    with pytest.raises(OutOfOrderSequence):
        send(log, 0)


def test_a_gap_is_refused() -> None:
    _, _, log = fresh()
    send(log, 0)
    with pytest.raises(OutOfOrderSequence, match="sent sequence 2, 1 is next"):
        send(log, 2)
    assert log.end == 1


def test_an_unknown_producer_may_start_anywhere() -> None:
    _, _, log = fresh()
    assert send(log, 41).base_offset == 0
    assert send(log, 42).base_offset == 1


def test_sequences_go_on_from_zero_after_the_last() -> None:
    _, _, log = fresh()
    send(log, LAST_SEQUENCE - 1, 3)
    assert not send(log, 1).duplicate
    with pytest.raises(OutOfOrderSequence):
        send(log, 3)
    other = fresh()[2]
    send(other, LAST_SEQUENCE)
    assert not send(other, 0).duplicate


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one() -> None:
    _, _, log = fresh()
    send(log, 0)
    with pytest.raises(OutOfOrderSequence):
        send(log, 1, epoch=1)
    send(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        send(log, 1, epoch=0)
    assert send(log, 0, epoch=1).duplicate


def test_several_batches_of_a_producer_at_once_count_on() -> None:
    _, _, log = fresh()
    log.append([batch(b"a", producer=(7, 0, 0)), batch(b"b", producer=(7, 0, 1))], NOW_MS)
    with pytest.raises(OutOfOrderSequence):
        log.append([batch(b"c", producer=(7, 0, 2)), batch(b"d", producer=(7, 0, 4))], NOW_MS)
    assert log.end == 2


def test_retries_are_recognised_after_a_crash_and_after_a_clean_stop() -> None:
    disk, store, log = fresh()
    send(log, 0, 3)
    flush(store)
    for _ in range(2):
        store = open_store(disk, ORDERS)
        again = send(store.partition(ORDERS.id, 0), 0, 3)
        assert (again.duplicate, again.base_offset) == (True, 0)
        store.close()


def test_a_retry_waits_until_what_it_repeats_is_durable() -> None:
    _, store, log = fresh()
    first = send(log, 0)
    assert send(log, 0).ticket == first.ticket
    assert flush(store) == first.ticket


def test_producers_without_an_id_are_not_tracked() -> None:
    _, _, log = fresh()
    log.append([batch(b"v")], NOW_MS)
    assert len(log.producers) == 0


def header_of(producer: int) -> BatchHeader:
    return batch(b"v", producer=(producer, 0, 0))[0]


def test_idle_producers_are_forgotten_after_a_day() -> None:
    producers = Producers()
    producers.replay(header_of(1), NOW_MS)
    producers.replay(header_of(2), NOW_MS + 1000)
    producers.expire(NOW_MS + EXPIRY_MS)
    assert list(producers.snapshot()) == [2]


def test_the_number_of_producers_is_bounded() -> None:
    producers = Producers()
    header = header_of(0)
    for producer in range(MOST_PRODUCERS + 10):
        header.producer_id = producer
        producers.replay(header, NOW_MS)
    assert len(producers) == MOST_PRODUCERS
    assert 9 not in producers.snapshot()
