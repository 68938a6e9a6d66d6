"""What tools ask about a cluster: one node answers for itself, and never claims what it is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.raw_kafka import RawKafka, batch
from tests.support.server import Server

from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trunkline.wire.kafka.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from trunkline.wire.kafka.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from trunkline.wire.kafka.messages.describe_log_dirs_response import DescribeLogDirsResponse
from trunkline.wire.kafka.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from trunkline.wire.kafka.messages.describe_quorum_response import DescribeQuorumResponse
from trunkline.wire.kafka.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from trunkline.wire.kafka.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from trunkline.wire.kafka.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from trunkline.wire.kafka.messages.elect_leaders_response import ElectLeadersResponse
from trunkline.wire.kafka.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from trunkline.wire.kafka.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from trunkline.wire.kafka.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from trunkline.wire.kafka.messages.metadata_response import MetadataResponse
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from trunkline.wire.kafka.messages.produce_response import ProduceResponse
from trunkline.wire.kafka.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from trunkline.wire.kafka.messages.update_features_response import UpdateFeaturesResponse

PARTITIONS = 5


@pytest.fixture
def client(broker: Broker, topic: str) -> RawKafka:
    async def make() -> None:
        broker.node.broker.topics.create(topic, PARTITIONS)

    broker.run(make())
    return RawKafka(broker.kafka)


def page(
    client: RawKafka, names: list[str], limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
    )
    return client.ask(request, 0, DescribeTopicPartitionsResponse)


def test_partitions_are_described_page_by_page(client: RawKafka, topic: str) -> None:
    seen: list[int] = []
    cursor: Cursor | None = None
    for _ in range(3):
        answer = page(client, [topic], limit=2, cursor=cursor)
        seen += [partition.partition_index for partition in answer.topics[0].partitions]
        cursor = None
        if (following := answer.next_cursor) is not None:
            cursor = Cursor(topic_name=following.topic_name, partition_index=following.partition_index)
    assert seen == [0, 1, 2, 3, 4]
    assert cursor is None


def test_a_page_that_ends_with_a_topic_goes_on_with_the_next(client: RawKafka, broker: Broker, topic: str) -> None:
    later = f"{topic}-later"

    async def make() -> None:
        broker.node.broker.topics.create(later, 1)

    broker.run(make())
    answer = page(client, [later, topic], limit=PARTITIONS)
    assert [row.name for row in answer.topics] == [topic]
    assert answer.next_cursor is not None
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == (later, 0)


def test_unknown_topics_and_wrong_cursors_are_told_topic_by_topic(client: RawKafka, topic: str) -> None:
    answer = page(client, [topic, "nobody-made-this", "not a name"])
    assert [(row.name, row.error_code) for row in answer.topics] == [
        ("nobody-made-this", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("not a name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic, ErrorCode.NONE),
    ]
    foreign = page(client, [topic], cursor=Cursor(topic_name="zzz", partition_index=0))
    assert [row.error_code for row in foreign.topics] == [ErrorCode.INVALID_REQUEST]


def test_an_election_is_never_needed(client: RawKafka, topic: str) -> None:
    request = ElectLeadersRequest(
        topic_partitions=[
            TopicPartitions(topic=topic, partitions=[0, 99]),
            TopicPartitions(topic="nobody-made-this", partitions=[0]),
        ]
    )
    answer = client.ask(request, 2, ElectLeadersResponse)
    codes = [row.error_code for result in answer.replica_election_results for row in result.partition_result]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.error_code, codes) == (ErrorCode.NONE, [ErrorCode.ELECTION_NOT_NEEDED, unknown, unknown])
    everything = client.ask(ElectLeadersRequest(topic_partitions=None), 2, ElectLeadersResponse)
    assert all(not result.partition_result for result in everything.replica_election_results)
    odd = client.ask(ElectLeadersRequest(election_type=5, topic_partitions=[]), 2, ElectLeadersResponse)
    assert odd.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([1], ErrorCode.NONE),
        ([1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_partitions_stay_where_they_are(
    client: RawKafka, topic: str, replicas: list[int] | None, code: ErrorCode
) -> None:
    asked = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[asked])])
    answer = client.ask(request, 1, AlterPartitionReassignmentsResponse)
    assert answer.responses[0].partitions[0].error_code == code
    ongoing = client.ask(ListPartitionReassignmentsRequest(), 0, ListPartitionReassignmentsResponse)
    assert ongoing.topics == []


def test_the_sizes_of_logs_and_the_room_on_the_disk_are_told(server: Server, tmp_path: Path) -> None:
    with RawKafka(server.kafka) as client:
        records = PartitionProduceData(index=0, records=batch([b"x" * 1000]))
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[records])]
        )
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12, MetadataResponse)
        client.ask(request, 12, ProduceResponse)
        asked = [DescribableLogDirTopic(topic="t", partitions=[0, 7]), DescribableLogDirTopic(topic="no")]
        [result] = client.ask(DescribeLogDirsRequest(topics=asked), 4, DescribeLogDirsResponse).results
        assert result.log_dir == str(tmp_path / "data")
        [described] = result.topics
        assert [partition.partition_index for partition in described.partitions] == [0]
        assert described.partitions[0].partition_size > 1000
        assert result.total_bytes == shutil.disk_usage(tmp_path).total
        [everything] = client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse).results
        assert "t" in [row.name for row in everything.topics]


def test_the_quorum_is_this_node(client: RawKafka, topic: str) -> None:
    def ask(name: str) -> DescribeQuorumResponse:
        asked = TopicData(topic_name=name, partitions=[PartitionData(partition_index=0)])
        return client.ask(DescribeQuorumRequest(topics=[asked]), 2, DescribeQuorumResponse)

    [partition] = ask("__cluster_metadata").topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.NONE, 1)
    assert [voter.replica_id for voter in partition.current_voters] == [1]
    assert ask(topic).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_features_that_there_are_not_cannot_be_set(client: RawKafka) -> None:
    def update(*updates: FeatureUpdateKey) -> int:
        return client.ask(UpdateFeaturesRequest(feature_updates=list(updates)), 1, UpdateFeaturesResponse).error_code

    assert update() == ErrorCode.NONE
    assert update(FeatureUpdateKey(feature="nobody", max_version_level=1)) == ErrorCode.INVALID_UPDATE_VERSION
