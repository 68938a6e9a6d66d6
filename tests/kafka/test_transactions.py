"""Transactions as clients use them: confluent-kafka, aiokafka, kafka-python, and requests in exact versions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.kafka.test_clients import consume
from tests.support.raw_kafka import RawKafka, records_of
from tests.support.waiting import eventually

from kafka import KafkaConsumer, KafkaProducer
from trunkline.record.records import Record, encode_batch
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.wire.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from trunkline.wire.kafka.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from trunkline.wire.kafka.messages.api_versions_request import ApiVersionsRequest
from trunkline.wire.kafka.messages.api_versions_response import ApiVersionsResponse
from trunkline.wire.kafka.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from trunkline.wire.kafka.messages.describe_producers_response import DescribeProducersResponse
from trunkline.wire.kafka.messages.describe_transactions_request import DescribeTransactionsRequest
from trunkline.wire.kafka.messages.describe_transactions_response import DescribeTransactionsResponse
from trunkline.wire.kafka.messages.end_txn_request import EndTxnRequest
from trunkline.wire.kafka.messages.end_txn_response import EndTxnResponse
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from trunkline.wire.kafka.messages.fetch_response import FetchResponse, PartitionData
from trunkline.wire.kafka.messages.init_producer_id_request import InitProducerIdRequest
from trunkline.wire.kafka.messages.init_producer_id_response import InitProducerIdResponse
from trunkline.wire.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trunkline.wire.kafka.messages.list_offsets_response import ListOffsetsResponse
from trunkline.wire.kafka.messages.list_transactions_request import ListTransactionsRequest
from trunkline.wire.kafka.messages.list_transactions_response import ListTransactionsResponse
from trunkline.wire.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from trunkline.wire.kafka.messages.offset_fetch_response import OffsetFetchResponse
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from trunkline.wire.kafka.messages.produce_response import ProduceResponse
from trunkline.wire.kafka.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from trunkline.wire.kafka.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from trunkline.wire.kafka.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from trunkline.wire.kafka.messages.write_txn_markers_response import WriteTxnMarkersResponse

READ_COMMITTED = {"isolation.level": "read_committed"}


@pytest.fixture
def name() -> str:
    """A transactional id that no other test uses."""
    return f"tx-{uuid.uuid4().hex[:12]}"


def producer_of(address: str, name: str, **config: Any) -> Producer:
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 1, **config})
    producer.init_transactions(20)
    return producer


def make_topic(address: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)


# ── real clients ────────────────────────────────────────────────────────────────────────────────


def test_confluent_kafka_sees_committed_transactions_and_no_aborted_ones(
    broker_address: str, topic: str, name: str
) -> None:
    make_topic(broker_address, topic, 3)
    producer = producer_of(broker_address, name)
    for number in range(12):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"%d" % number, partition=partition)
        if number % 3 == 1:
            producer.flush(20)
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    messages = consume(broker_address, topic, 24, **READ_COMMITTED)
    for partition in range(3):
        values = [int(message.value()) for message in messages if message.partition() == partition]
        assert values == [number for number in range(12) if number % 3 != 1]


def test_transactions_that_interleave_are_told_apart(broker_address: str, topic: str, name: str) -> None:
    first, second = producer_of(broker_address, f"{name}-1"), producer_of(broker_address, f"{name}-2")
    for number in range(4):
        first.begin_transaction()
        second.begin_transaction()
        for producer, text in ((first, b"kept"), (second, b"dropped"), (first, b"kept"), (second, b"dropped")):
            producer.produce(topic, text + b" %d" % number)
            producer.flush(20)
        second.abort_transaction(20)
        first.commit_transaction(20)
    values = [message.value() for message in consume(broker_address, topic, 8, **READ_COMMITTED)]
    assert values == [b"kept %d" % number for number in range(4) for _ in range(2)]


def test_readers_of_committed_records_wait_for_the_end(broker_address: str, topic: str, name: str) -> None:
    producer = producer_of(broker_address, name)
    producer.begin_transaction()
    producer.produce(topic, b"patience")
    producer.flush(20)
    [message] = consume(broker_address, topic, 1, **{"isolation.level": "read_uncommitted"})
    assert message.value() == b"patience"
    consumer = Consumer({"bootstrap.servers": broker_address, "group.id": name, **READ_COMMITTED})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.5) is None
    producer.commit_transaction(20)
    [message] = consumer.consume(1, timeout=20)
    assert message.value() == b"patience"
    consumer.close()


def test_a_zombie_is_fenced_by_its_successor(broker_address: str, topic: str, name: str) -> None:
    zombie = producer_of(broker_address, name)
    zombie.begin_transaction()
    zombie.produce(topic, b"from the zombie")
    zombie.flush(20)
    successor = producer_of(broker_address, name)
    successor.begin_transaction()
    successor.produce(topic, b"from the successor")
    successor.commit_transaction(20)
    with pytest.raises(KafkaException) as failure:
        zombie.commit_transaction(20)
    assert failure.value.args[0].fatal()
    assert [message.value() for message in consume(broker_address, topic, 1, **READ_COMMITTED)] == [
        b"from the successor"
    ]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(broker_address: str, topic: str, name: str) -> None:
    source = Producer({"bootstrap.servers": broker_address})
    for number in range(20):
        source.produce(topic, b"%d" % number)
    assert source.flush(20) == 0
    config = {"bootstrap.servers": broker_address, "group.id": name, "enable.auto.commit": False}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", **READ_COMMITTED})
    consumer.subscribe([topic])
    producer = producer_of(broker_address, name)
    for commit in (True, False):
        messages = consumer.consume(5, timeout=20)
        assert len(messages) == 5
        producer.begin_transaction()
        for message in messages:
            producer.produce(f"{topic}-out", message.value())
        producer.flush(20)
        position = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 20)
        if commit:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
    assert consumer.committed([TopicPartition(topic, 0)], 20)[0].offset == 5
    consumer.close()
    values = [message.value() for message in consume(broker_address, f"{topic}-out", 5, **READ_COMMITTED)]
    assert values == [b"%d" % number for number in range(5)]


def test_aiokafka_reads_what_it_committed(broker_address: str, topic: str, name: str) -> None:
    async def main() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=broker_address, transactional_id=name)
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"one")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"two")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"three")
                await producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): 4}, name)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker_address,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            group_id=f"{name}-reader",
        )
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(2)]
        finally:
            await consumer.stop()

    assert asyncio.run(main()) == [b"one", b"three"]


def test_kafka_python_reads_what_it_committed(broker_address: str, topic: str, name: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker_address, transactional_id=name)
    producer.init_transactions()
    ends: list[tuple[bytes, Callable[[], object]]] = [
        (b"one", producer.commit_transaction),
        (b"two", producer.abort_transaction),
        (b"three", producer.commit_transaction),
    ]
    for text, end in ends:
        producer.begin_transaction()
        producer.send(topic, text).get(20)
        end()
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker_address,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    assert [next(consumer).value for _ in range(2)] == [b"one", b"three"]
    consumer.close()


# ── exact requests ──────────────────────────────────────────────────────────────────────────────


class Raw:
    """One transactional producer that says each request itself."""

    def __init__(self, address: str, name: str, topic: str, timeout_ms: int = 60_000) -> None:
        make_topic(address, topic, 2)
        self.kafka = RawKafka(address)
        self.name = name
        self.topic = topic
        self.init(timeout_ms)

    def init(self, timeout_ms: int = 60_000) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
        answer = self.kafka.ask(request, 5, InitProducerIdResponse)
        assert answer.error_code == ErrorCode.NONE
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, *partitions: int) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=list(partitions))],
        )
        [topic] = self.kafka.ask(request, 3, AddPartitionsToTxnResponse).results_by_topic_v3_and_below
        return [each.partition_error_code for each in topic.results_by_partition]

    def produce(self, sequence: int, version: int, partition: int = 0, name: str | None = "") -> int:
        batch = encode_batch(
            [Record(0, 1_700_000_000_000, b"k", b"v")],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = [PartitionProduceData(index=partition, records=bytes(batch))]
        request = ProduceRequest(
            transactional_id=self.name if name == "" else name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
        )
        answer = self.kafka.ask(request, version, ProduceResponse)
        return answer.responses[0].partition_responses[0].error_code

    def end(self, *, commit: bool, version: int) -> int:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        answer = self.kafka.ask(request, version, EndTxnResponse)
        if version >= 5 and answer.error_code == ErrorCode.NONE:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    def commit_offset(self, group: str, offset: int, version: int) -> int:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
        )
        return self.kafka.ask(request, version, TxnOffsetCommitResponse).topics[0].partitions[0].error_code

    def committed(self, group: str) -> tuple[int, int]:
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True
        )
        [answer] = self.kafka.ask(request, 8, OffsetFetchResponse).groups
        partition = answer.topics[0].partitions[0]
        return partition.committed_offset, partition.error_code

    def fetch(self, isolation_level: int, offset: int = 0) -> PartitionData:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_bytes=1 << 20,
            isolation_level=isolation_level,
            session_epoch=-1,
            topics=[FetchTopic(topic=self.topic, partitions=[partition])],
        )
        return self.kafka.ask(request, 11, FetchResponse).responses[0].partitions[0]

    def latest(self, isolation_level: int) -> int:
        topics = [ListOffsetsTopic(name=self.topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
        return self.kafka.ask(request, 5, ListOffsetsResponse).topics[0].partitions[0].offset

    def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        return self.kafka.ask(request, 0, DescribeTransactionsResponse).transaction_states[0].transaction_state


@pytest.fixture
def raw(broker_address: str, name: str, topic: str) -> Raw:
    return Raw(broker_address, name, topic)


def test_features_tell_clients_to_use_transaction_version_2(broker_address: str) -> None:
    software = {"client_software_name": "raw", "client_software_version": "1"}
    with RawKafka(broker_address) as client:
        answer = client.ask(ApiVersionsRequest(**software), 4, ApiVersionsResponse)
        assert ("transaction.version", 0, 2) in [
            (one.name, one.min_version, one.max_version) for one in answer.supported_features
        ]
        assert ("transaction.version", 2) in [(one.name, one.max_version_level) for one in answer.finalized_features]
        assert answer.finalized_features_epoch >= 0
        old = client.ask(ApiVersionsRequest(**software), 3, ApiVersionsResponse)
        assert all(one.min_version > 0 for one in old.supported_features)


def test_a_partition_must_be_added_before_it_is_written_to(raw: Raw) -> None:
    assert raw.produce(0, 10) == ErrorCode.INVALID_TXN_STATE
    assert raw.produce(0, 11) == ErrorCode.TRANSACTION_ABORTABLE
    assert raw.add(0) == [ErrorCode.NONE]
    assert raw.produce(0, 11) == ErrorCode.NONE
    assert raw.produce(0, 11, partition=1) == ErrorCode.TRANSACTION_ABORTABLE
    assert raw.produce(1, 11, name=None) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_if_one_partition_does_not_exist_none_is_added(raw: Raw) -> None:
    assert raw.add(0, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert raw.state() == "Empty"


def test_from_produce_12_on_partitions_add_themselves(raw: Raw) -> None:
    assert raw.produce(0, 12) == ErrorCode.NONE
    assert raw.state() == "Ongoing"
    assert raw.produce(3, 12, partition=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    old_epoch = raw.epoch
    assert raw.end(commit=True, version=5) == ErrorCode.NONE
    assert raw.epoch == old_epoch + 1
    assert raw.produce(0, 12) == ErrorCode.NONE
    raw.epoch = old_epoch
    assert raw.produce(1, 12) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_readers_are_told_the_last_stable_offset_and_what_was_aborted(raw: Raw) -> None:
    raw.produce(0, 12)
    undecided = raw.fetch(1)
    assert (undecided.high_watermark, undecided.last_stable_offset, records_of(undecided)) == (1, 0, b"")
    assert (raw.latest(0), raw.latest(1)) == (1, 0)
    assert records_of(raw.fetch(0))
    raw.end(commit=False, version=5)
    eventually(lambda: raw.latest(1) == 2, "the marker is visible")
    decided = raw.fetch(1)
    assert decided.last_stable_offset == 2
    assert [(one.producer_id, one.first_offset) for one in decided.aborted_transactions or ()] == [(raw.id, 0)]
    assert raw.fetch(0).aborted_transactions is None


def test_a_transaction_that_takes_too_long_is_aborted(broker_address: str, name: str, topic: str) -> None:
    raw = Raw(broker_address, name, topic, timeout_ms=300)
    raw.produce(0, 12)
    eventually(lambda: raw.state() == "CompleteAbort", "its time is up")
    assert raw.produce(1, 12) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert raw.end(commit=True, version=4) == ErrorCode.PRODUCER_FENCED
    assert raw.end(commit=True, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    eventually(lambda: raw.latest(1) == 2, "the marker is visible")


def test_offsets_of_an_open_transaction_are_unstable(raw: Raw, name: str) -> None:
    assert raw.commit_offset(name, 5, 3) == ErrorCode.INVALID_TXN_STATE
    assert raw.commit_offset(name, 5, 5) == ErrorCode.NONE
    assert raw.committed(name) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert raw.end(commit=True, version=5) == ErrorCode.NONE
    assert raw.committed(name) == (5, ErrorCode.NONE)
    raw.commit_offset(name, 9, 5)
    assert raw.end(commit=False, version=5) == ErrorCode.NONE
    assert raw.committed(name) == (5, ErrorCode.NONE)


def test_brokers_may_ask_for_several_transactions_at_once(raw: Raw) -> None:
    def ask(*, verify_only: bool) -> list[int]:
        one = AddPartitionsToTxnTransaction(
            transactional_id=raw.name,
            producer_id=raw.id,
            producer_epoch=raw.epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=raw.topic, partitions=[0])],
        )
        answer = raw.kafka.ask(AddPartitionsToTxnRequest(transactions=[one, one]), 5, AddPartitionsToTxnResponse)
        return [
            each.partition_error_code
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
        ]

    assert ask(verify_only=True) == [ErrorCode.TRANSACTION_ABORTABLE] * 2
    assert ask(verify_only=False) == [ErrorCode.NONE] * 2
    assert ask(verify_only=True) == [ErrorCode.NONE] * 2


def test_a_timeout_out_of_bounds_is_refused(broker_address: str, name: str) -> None:
    with RawKafka(broker_address) as client:
        for timeout_ms in (0, 900_001):
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
            answer = client.ask(request, 5, InitProducerIdResponse)
            assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1)


def test_administrators_see_transactions_and_producers(raw: Raw) -> None:
    raw.produce(0, 12)
    described = raw.kafka.ask(
        DescribeTransactionsRequest(transactional_ids=[raw.name, "nobody"]), 0, DescribeTransactionsResponse
    ).transaction_states
    assert (described[0].transaction_state, described[0].transaction_timeout_ms) == ("Ongoing", 60_000)
    assert [(topic.topic, topic.partitions) for topic in described[0].topics] == [(raw.topic, [0])]
    assert described[1].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    def listed(**filters: Any) -> list[str]:
        answer = raw.kafka.ask(ListTransactionsRequest(**filters), 2, ListTransactionsResponse)
        return [one.transactional_id for one in answer.transaction_states]

    assert raw.name in listed()
    assert raw.name in listed(state_filters=["Ongoing"], producer_id_filters=[raw.id])
    assert raw.name in listed(transactional_id_pattern="tx-.*")
    assert raw.name not in listed(state_filters=["Empty"])
    assert raw.name not in listed(duration_filter=3_600_000)
    assert raw.name not in listed(transactional_id_pattern="tx")
    bad = raw.kafka.ask(ListTransactionsRequest(transactional_id_pattern="("), 2, ListTransactionsResponse)
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    unknown = raw.kafka.ask(ListTransactionsRequest(state_filters=["Odd"]), 2, ListTransactionsResponse)
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Odd"], [])
    request = DescribeProducersRequest(topics=[TopicRequest(name=raw.topic, partition_indexes=[0, 7])])
    seen, missing = raw.kafka.ask(request, 0, DescribeProducersResponse).topics[0].partitions
    [one] = seen.active_producers
    assert (one.producer_id, one.current_txn_start_offset, one.coordinator_epoch) == (raw.id, 0, -1)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_administrator_ends_a_transaction_in_a_partition_by_hand(raw: Raw) -> None:
    raw.produce(0, 12)

    def abort(epoch: int) -> int:
        marker = WritableTxnMarker(
            producer_id=raw.id,
            producer_epoch=epoch,
            topics=[WritableTxnMarkerTopic(name=raw.topic, partition_indexes=[0])],
        )
        answer = raw.kafka.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        return answer.markers[0].topics[0].partitions[0].error_code

    assert abort(raw.epoch - 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert abort(raw.epoch) == ErrorCode.NONE
    assert raw.latest(1) == 2
