"""What one node answers to questions about a cluster and its disks.

ElectLeaders (key 43), versions 0-2: the one node leads everything, an election is never needed.
AlterPartitionReassignments (45), 0-1: staying on this node succeeds, any other place is refused. ListPartitionReassign-
ments (46), 0: none is ever on its way.
DescribeLogDirs (35), 1-5: the data directory ("memory" where there is none). AlterReplicaLogDirs (34), 1-2: there is no
other directory, LOG_DIR_NOT_FOUND.
DescribeQuorum (55), 0-2: a quorum of this node over "__cluster_metadata", whose length is the number of changes since
the start; that topic cannot be read.
UpdateFeatures (57), 0-2: features.py holds those that there are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import Final

from trunkline.model.errors import (
    ElectionNotNeeded,
    InvalidReplicaAssignment,
    NoReassignment,
    TrunklineError,
)
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of, text_of
from trunkline.serve.kafka.features import check_update
from trunkline.wire.kafka.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from trunkline.wire.kafka.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from trunkline.wire.kafka.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from trunkline.wire.kafka.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from trunkline.wire.kafka.messages.describe_log_dirs_request import DescribeLogDirsRequest
from trunkline.wire.kafka.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from trunkline.wire.kafka.messages.describe_quorum_request import DescribeQuorumRequest
from trunkline.wire.kafka.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from trunkline.wire.kafka.messages.elect_leaders_request import ElectLeadersRequest
from trunkline.wire.kafka.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from trunkline.wire.kafka.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from trunkline.wire.kafka.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from trunkline.wire.kafka.messages.update_features_request import UpdateFeaturesRequest
from trunkline.wire.kafka.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

METADATA_TOPIC: Final = "__cluster_metadata"
_PREFERRED, _UNCLEAN = 0, 1
_IN_MEMORY: Final = "memory"
_QUORUM_EPOCH: Final = 1


def elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        why = f"Unknown election type {request.election_type}"
        return ElectLeadersResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            replica_election_results=[
                ReplicaElectionResult(
                    topic=topic.topic,
                    partition_result=[
                        PartitionResult(partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=why)
                        for index in topic.partitions
                    ],
                )
                for topic in request.topic_partitions or ()
            ],
        )
    if request.topic_partitions is None:
        names: Iterable[tuple[str, Sequence[int]]] = ((name, ()) for name in call.broker.topics.image)
    else:
        names = ((topic.topic, topic.partitions) for topic in request.topic_partitions)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=[_elect(call, name, index) for index in indexes])
            for name, indexes in names
        ]
    )


def _elect(call: Call, topic: str, index: int) -> PartitionResult:
    try:
        call.broker.topics.partition(topic, index)
        raise ElectionNotNeeded("Leader election not needed for topic partition: this node leads all of them.")
    except TrunklineError as error:
        return PartitionResult(partition_id=index, error_code=code_of(error), error_message=text_of(error))


def alter_partition_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _reassign(call, topic.name, asked.partition_index, asked.replicas) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(call: Call, topic: str, index: int, replicas: Sequence[int] | None) -> ReassignablePartitionResponse:
    answer = ReassignablePartitionResponse(partition_index=index, error_message=None)
    try:
        call.broker.topics.partition(topic, index)
        if replicas is None:
            raise NoReassignment(f"Partition {topic}-{index} is not on its way anywhere.")
        if list(replicas) != [call.broker.node_id]:
            raise InvalidReplicaAssignment(
                f"Replicas {list(replicas)} cannot be: node {call.broker.node_id} is the only one, and holds each once."
            )
    except NoReassignment as error:
        answer.error_code = code_of(error)
    except TrunklineError as error:
        answer.error_code, answer.error_message = code_of(error), text_of(error)
    return answer


def list_partition_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)


def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    topics = call.broker.topics
    wanted: list[tuple[str, Sequence[int]]]
    if request.topics is None:
        wanted = [(topic.name, range(topic.partitions)) for topic in topics.image.values()]
    else:
        wanted = [
            (asked.topic, [index for index in asked.partitions if 0 <= index < topics.named(asked.topic).partitions])
            for asked in request.topics
            if asked.topic in topics.image
        ]
    result = DescribeLogDirsResult(
        log_dir=str(call.broker.data.absolute()) if call.broker.data is not None else _IN_MEMORY,
        topics=[
            DescribeLogDirsTopic(
                name=name,
                partitions=[
                    DescribeLogDirsPartition(
                        partition_index=index, partition_size=topics.partition(name, index).log.size_bytes
                    )
                    for index in indexes
                ],
            )
            for name, indexes in wanted
            if indexes
        ],
    )
    if call.broker.data is not None:
        try:
            space = shutil.disk_usage(call.broker.data)
        except OSError:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            result.total_bytes, result.usable_bytes = space.total, space.free
    return DescribeLogDirsResponse(results=[result])


def alter_replica_log_dirs(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    here = str(call.broker.data.absolute()) if call.broker.data is not None else _IN_MEMORY
    results: list[AlterReplicaLogDirTopicResult] = []
    for directory in request.dirs:
        code = ErrorCode.NONE if directory.path == here else ErrorCode.LOG_DIR_NOT_FOUND
        results += [
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for topic in directory.topics
        ]
    return AlterReplicaLogDirsResponse(results=results)


def describe_quorum(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    node = call.broker.node_id
    topics = [
        TopicData(
            topic_name=topic.topic_name,
            partitions=[_quorum(call, topic.topic_name, asked.partition_index) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    known = any(partition.error_code == ErrorCode.NONE for topic in topics for partition in topic.partitions)
    listener = Listener(name="PLAINTEXT", host=call.host, port=call.port)
    return DescribeQuorumResponse(
        error_message="", topics=topics, nodes=[Node(node_id=node, listeners=[listener])] if known else []
    )


def _quorum(call: Call, topic: str, index: int) -> PartitionData:
    if (topic, index) != (METADATA_TOPIC, 0):
        return PartitionData(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"Partition {topic}-{index} belongs to no quorum, {METADATA_TOPIC}-0 does.",
        )
    changes, now_ms = call.broker.topics.version, call.broker.now_ms()
    voter = ReplicaState(
        replica_id=call.broker.node_id,
        log_end_offset=changes,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=0,
        error_message="",
        leader_id=call.broker.node_id,
        leader_epoch=_QUORUM_EPOCH,
        high_watermark=changes,
        current_voters=[voter],
    )


def update_features(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    try:
        for update in request.feature_updates:
            check_update(update.feature, update.max_version_level)
    except TrunklineError as error:
        return UpdateFeaturesResponse(error_code=code_of(error), error_message=text_of(error))
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message="NONE") for update in request.feature_updates
    ]
    return UpdateFeaturesResponse(error_message=None, results=results if call.version < 2 else [])
