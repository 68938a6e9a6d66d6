"""The few raw requests that many tests make."""

from __future__ import annotations

from tests.support.raw_kafka import RawKafka, batch
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from trunkline.wire.kafka.messages.fetch_response import FetchResponse, PartitionData
from trunkline.wire.kafka.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from trunkline.wire.kafka.messages.metadata_response import MetadataResponse
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from trunkline.wire.kafka.messages.produce_response import PartitionProduceResponse, ProduceResponse

STORAGE_ERROR = 56


def create(client: RawKafka, topic: str) -> int:
    """On first use; answers the error code."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    return client.ask(request, 9, MetadataResponse).topics[0].error_code


def produce_request(topic: str, value: bytes, *, timeout_ms: int = 5000) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch([value]))
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def produce(client: RawKafka, topic: str, value: bytes, *, timeout_ms: int = 5000) -> PartitionProduceResponse:
    request = produce_request(topic, value, timeout_ms=timeout_ms)
    return client.ask(request, 9, ProduceResponse).responses[0].partition_responses[0]


def fetch_request(topic: str, offset: int = 0, *, max_bytes: int = 1 << 20, wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )


def fetch(client: RawKafka, topic: str, offset: int = 0) -> PartitionData:
    return client.ask(fetch_request(topic, offset), 11, FetchResponse).responses[0].partitions[0]
