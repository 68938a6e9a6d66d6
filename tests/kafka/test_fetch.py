"""Fetch, seen from the wire: limits, long polls, and what a reader is told when it asks for what is not there."""

from __future__ import annotations

import threading
import time

import pytest
from tests.kafka.test_produce import create, produce
from tests.support.raw_kafka import RawKafka, batch, records_of

from trunkline.record.batch import read_header
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from trunkline.wire.kafka.messages.fetch_response import FetchResponse, PartitionData
from trunkline.wire.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trunkline.wire.kafka.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse
from trunkline.wire.kafka.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from trunkline.wire.kafka.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse


@pytest.fixture
def client(broker: Broker, topic: str) -> RawKafka:
    create(broker, topic)
    return RawKafka(broker.kafka)


def fetch(
    client: RawKafka,
    topic: str,
    offset: int = 0,
    *,
    partition_max_bytes: int = 1 << 20,
    epoch: int = -1,
    min_bytes: int = 0,
    max_bytes: int = 1 << 30,
    max_wait_ms: int = 0,
) -> PartitionData:
    asked = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=partition_max_bytes, current_leader_epoch=epoch
    )
    request = FetchRequest(
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        max_wait_ms=max_wait_ms,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    return client.ask(request, 12, FetchResponse).responses[0].partitions[0]


def offsets_in(answer: PartitionData) -> list[int]:
    """The base offsets of the batches in an answer, all of them whole."""
    data = records_of(answer)
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position)
        found.append(header.base_offset)
        position += header.size_bytes
    assert position == len(data)
    return found


def test_the_first_batch_is_given_even_when_it_is_larger_than_the_limits(client: RawKafka, topic: str) -> None:
    for _ in range(3):
        produce(client, topic, batch([b"x" * 5000]))
    assert offsets_in(fetch(client, topic, partition_max_bytes=10)) == [0]
    assert offsets_in(fetch(client, topic, 1, max_bytes=10)) == [1]
    assert offsets_in(fetch(client, topic, partition_max_bytes=11_000)) == [0, 1]


def test_a_fetch_in_the_middle_of_a_batch_gets_that_batch(client: RawKafka, topic: str) -> None:
    produce(client, topic, batch([b"a", b"b", b"c"]))
    produce(client, topic, batch([b"d"]))
    assert offsets_in(fetch(client, topic, 2)) == [0, 3]


def test_an_offset_that_is_not_there_is_out_of_range(client: RawKafka, topic: str) -> None:
    produce(client, topic, batch([b"a"]))
    assert fetch(client, topic, 5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(client, topic, -1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    at_the_end = fetch(client, topic, 1, max_wait_ms=0)
    assert (at_the_end.error_code, records_of(at_the_end)) == (ErrorCode.NONE, b"")
    assert at_the_end.high_watermark == 1


def test_a_long_poll_sleeps_until_there_is_something(client: RawKafka, broker: Broker, topic: str) -> None:
    writer = RawKafka(broker.kafka)
    late = threading.Timer(0.2, lambda: produce(writer, topic, batch([b"late"])))
    late.start()
    answer = fetch(client, topic, 0, min_bytes=1, max_wait_ms=20_000)
    late.join()
    assert offsets_in(answer) == [0]


def test_a_long_poll_waits_for_min_bytes_over_several_writes(client: RawKafka, broker: Broker, topic: str) -> None:
    writer = RawKafka(broker.kafka)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(min_bytes=3000, max_wait_ms=20_000, topics=[FetchTopic(topic=topic, partitions=[asked])])
    client.send(request, 12)
    for _ in range(4):
        produce(writer, topic, batch([b"x" * 1000]))
    answer = client.receive(FetchResponse).responses[0].partitions[0]
    assert len(offsets_in(answer)) >= 3


def test_a_long_poll_with_nothing_ends_after_its_time(client: RawKafka, topic: str) -> None:
    started = time.monotonic()
    answer = fetch(client, topic, 0, min_bytes=1, max_wait_ms=150)
    assert time.monotonic() - started >= 0.14
    assert offsets_in(answer) == []


def test_an_unknown_partition_is_told_at_once_however_long_the_poll(client: RawKafka) -> None:
    answer = fetch(client, "nobody-made-this", 0, min_bytes=1, max_wait_ms=60_000)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_poll_on_a_topic_that_is_deleted_ends(client: RawKafka, broker: Broker, topic: str) -> None:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(min_bytes=1, max_wait_ms=60_000, topics=[FetchTopic(topic=topic, partitions=[asked])])
    client.send(request, 12)

    async def delete() -> None:
        broker.node.broker.topics.delete(topic)

    broker.run(delete())
    answer = client.receive(FetchResponse).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_are_found_by_id_and_an_old_id_is_unknown(client: RawKafka, broker: Broker, topic: str) -> None:
    produce(client, topic, batch([b"a"]))
    topic_id = broker.node.broker.topics.named(topic).id
    for wanted, code in ((topic_id, ErrorCode.NONE), (bytes(range(16)), ErrorCode.UNKNOWN_TOPIC_ID)):
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[FetchTopic(topic_id=wanted, partitions=[asked])])
        assert client.ask(request, 18, FetchResponse).responses[0].partitions[0].error_code == code


def test_a_wrong_leader_epoch_sends_the_client_to_the_metadata(client: RawKafka, topic: str) -> None:
    assert fetch(client, topic, epoch=0).error_code == ErrorCode.NONE
    assert fetch(client, topic, epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_answers_come_in_the_order_of_the_requests(client: RawKafka, topic: str) -> None:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    slow = FetchRequest(min_bytes=1, max_wait_ms=300, topics=[FetchTopic(topic=topic, partitions=[asked])])
    client.send(slow, 12)
    client.send(_positions(topic, -1), 5)
    assert client.receive(FetchResponse).error_code == ErrorCode.NONE
    assert client.receive(ListOffsetsResponse).topics[0].partitions[0].offset == 0


def _positions(topic: str, timestamp: int) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])


def position(client: RawKafka, topic: str, timestamp: int) -> ListOffsetsPartitionResponse:
    return client.ask(_positions(topic, timestamp), 10, ListOffsetsResponse).topics[0].partitions[0]


def test_offsets_are_found_by_time(client: RawKafka, topic: str) -> None:
    for number in range(5):
        produce(client, topic, batch([b"a", b"b"], timestamp=1000 + 10 * number))
    found = position(client, topic, 1011)
    assert (found.offset, found.timestamp) == (4, 1020)
    assert position(client, topic, 0).offset == 0
    nothing = position(client, topic, 5000)
    assert (nothing.offset, nothing.timestamp, nothing.error_code) == (-1, -1, ErrorCode.NONE)
    assert position(client, topic, -1).offset == 10
    assert position(client, topic, -2).offset == 0
    largest = position(client, topic, -3)
    assert (largest.offset, largest.timestamp) == (8, 1040)


def test_the_end_of_the_epoch_is_the_end_of_the_log(client: RawKafka, topic: str) -> None:
    produce(client, topic, batch([b"a", b"b"]))
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    end = client.ask(request, 4, OffsetForLeaderEpochResponse).topics[0].partitions[0]
    assert (end.error_code, end.leader_epoch, end.end_offset) == (ErrorCode.NONE, 0, 2)
