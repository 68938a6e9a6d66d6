"""Produce, seen from the wire: what is taken, what is refused and how."""

from __future__ import annotations

import struct
import time

import pytest
from tests.support.raw_kafka import RawKafka, batch
from tests.support.waiting import eventually

from trunkline.model.limits import MAX_DECOMPRESSED_BYTES
from trunkline.record.compression import Compression
from trunkline.record.records import decode_records
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from trunkline.wire.kafka.messages.fetch_response import FetchResponse
from trunkline.wire.kafka.messages.init_producer_id_request import InitProducerIdRequest
from trunkline.wire.kafka.messages.init_producer_id_response import InitProducerIdResponse
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from trunkline.wire.kafka.messages.produce_response import PartitionProduceResponse, ProduceResponse


def create(broker: Broker, name: str, **overrides: str) -> None:
    async def make() -> None:
        configs = {key.replace("_", "."): value for key, value in overrides.items()}
        broker.node.broker.topics.create(name, 1, configs)

    broker.run(make())


def request(topic: str, records: bytes | None, *, acks: int = -1, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(client: RawKafka, topic: str, records: bytes | None, **how: int) -> PartitionProduceResponse:
    answer = client.ask(request(topic, records, **how), 12, ProduceResponse)
    return answer.responses[0].partition_responses[0]


def fetch_bytes(client: RawKafka, topic: str) -> bytes:
    asked = FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    answer = client.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[asked]), 12, FetchResponse)
    return bytes(answer.responses[0].partitions[0].records or b"")


@pytest.fixture
def client(broker: Broker, topic: str) -> RawKafka:
    create(broker, topic)
    return RawKafka(broker.kafka)


@pytest.mark.parametrize("acks", [-1, 1])
def test_offsets_count_on_from_batch_to_batch(client: RawKafka, topic: str, acks: int) -> None:
    assert produce(client, topic, batch([b"a", b"b"]), acks=acks).base_offset == 0
    assert produce(client, topic, batch([b"c"]) + batch([b"d", b"e"]), acks=acks).base_offset == 2
    assert produce(client, topic, batch([b"f"]), acks=acks).base_offset == 5


def test_acks_0_is_not_answered_but_written(client: RawKafka, topic: str) -> None:
    client.socket.sendall(b"".join(_frames(request(topic, batch([b"quiet"]), acks=0))))
    answer = produce(client, topic, batch([b"loud"]))
    assert answer.base_offset == 1


def _frames(message: ProduceRequest) -> list[bytes]:
    from trunkline.wire.kafka.frame import encode_request

    return [bytes(chunk) for chunk in encode_request(message, 9, 99, "raw")]


def test_wrong_acks_are_refused(client: RawKafka, topic: str) -> None:
    assert produce(client, topic, batch([b"a"]), acks=7).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_an_unknown_topic_or_partition_is_refused_and_nothing_else(client: RawKafka, topic: str) -> None:
    assert produce(client, "nobody-made-this", batch([b"a"])).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(client, topic, batch([b"a"]), partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(client, topic, batch([b"a"])).base_offset == 0


def test_a_damaged_batch_is_refused(client: RawKafka, topic: str) -> None:
    damaged = bytearray(batch([b"hello"]))
    damaged[-1] ^= 1
    assert produce(client, topic, bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce(client, topic, b"").error_code != ErrorCode.NONE
    assert produce(client, topic, None).error_code != ErrorCode.NONE
    assert produce(client, topic, batch([b"hello"])[:40]).error_code == ErrorCode.INVALID_RECORD


def test_an_old_message_format_is_refused(client: RawKafka, topic: str) -> None:
    old = bytearray(batch([b"hello"]))
    old[16] = 1
    assert produce(client, topic, bytes(old)).error_code == ErrorCode.INVALID_RECORD


def test_a_batch_larger_than_the_topic_takes_is_refused(broker: Broker, topic: str) -> None:
    create(broker, topic, max_message_bytes="1000")
    with RawKafka(broker.kafka) as client:
        assert produce(client, topic, batch([b"x" * 2000])).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert produce(client, topic, batch([b"x" * 200])).error_code == ErrorCode.NONE


def test_a_decompression_bomb_harms_nobody(client: RawKafka, topic: str) -> None:
    bomb = batch([bytes(MAX_DECOMPRESSED_BYTES + 1)], compression=Compression.ZSTD)
    assert len(bomb) < 100_000
    produce(client, topic, bomb)
    assert produce(client, topic, batch([b"after"])).error_code == ErrorCode.NONE


def test_records_of_length_minus_2_get_an_answer_or_the_door_but_never_hang(client: RawKafka, topic: str) -> None:
    frame = bytearray(b"".join(_legacy(request(topic, batch([b"x"])))))
    at = frame.index(struct.pack(">i", len(batch([b"x"]))), 4)
    frame[at : at + 4] = struct.pack(">i", -2)
    client.send_bytes(bytes(frame))
    assert client.is_closed_by_broker()


def _legacy(message: ProduceRequest) -> list[bytes]:
    from trunkline.wire.kafka.frame import encode_request

    return [bytes(chunk) for chunk in encode_request(message, 7, 99, "raw")]


def test_log_append_time_replaces_the_clients_clock(broker: Broker, topic: str) -> None:
    create(broker, topic, message_timestamp_type="LogAppendTime")
    with RawKafka(broker.kafka) as client:
        before = int(time.time() * 1000)
        answer = produce(client, topic, batch([b"a"], timestamp=1))
        assert answer.log_append_time_ms >= before
        [record] = decode_records(fetch_bytes(client, topic))
        assert record.timestamp == answer.log_append_time_ms


def test_a_timestamp_from_the_far_future_is_refused(client: RawKafka, topic: str) -> None:
    tomorrow = int(time.time() * 1000) + 86_400_000
    assert produce(client, topic, batch([b"a"], timestamp=tomorrow)).error_code == ErrorCode.INVALID_TIMESTAMP


def test_a_batch_sent_twice_by_an_idempotent_producer_is_stored_once(client: RawKafka, topic: str) -> None:
    producer_id = client.ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse).producer_id
    first = batch([b"a", b"b"], producer_id=producer_id, producer_epoch=0, base_sequence=0)
    assert produce(client, topic, first).base_offset == 0
    again = produce(client, topic, first)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    gap = batch([b"c"], producer_id=producer_id, producer_epoch=0, base_sequence=9)
    assert produce(client, topic, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    following = batch([b"c"], producer_id=producer_id, producer_epoch=0, base_sequence=2)
    assert produce(client, topic, following).base_offset == 2


def test_producer_ids_are_never_given_twice(client: RawKafka) -> None:
    ids = [
        client.ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse).producer_id
        for _ in range(50)
    ]
    assert len(set(ids)) == 50


def test_a_big_request_arrives_whole_in_small_pieces(client: RawKafka, topic: str) -> None:
    records = b"".join(batch([b"%d" % number + b"x" * 900_000]) for number in range(3))
    from trunkline.wire.kafka.frame import encode_request

    frame = b"".join(bytes(chunk) for chunk in encode_request(request(topic, records), 9, 5, "raw"))
    for start in range(0, len(frame), 100_001):
        client.send_bytes(frame[start : start + 100_001])
    client.receive_frame()
    eventually(lambda: len(fetch_bytes(client, topic)) >= 900_000, "the records can be read")
