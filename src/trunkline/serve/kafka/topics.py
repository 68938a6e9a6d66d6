"""CreateTopics (key 19), versions 2-7; DeleteTopics (20), 1-6; CreatePartitions (37), 0-3; DeleteRecords (21), 0-2.

One node: a replication factor of 1 (or -1) is all there is, and assignments may name this node only. Answers come after
the change is durable, so timeouts never apply. A duplicate within one request is INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from trunkline.model.errors import (
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicName,
    TrunklineError,
)
from trunkline.model.ids import NO_TOPIC_ID, NodeId, Offset, TopicId
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.configs import topic_config_rows
from trunkline.serve.kafka.errors import ErrorCode, code_of, text_of
from trunkline.wire.kafka.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from trunkline.wire.kafka.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from trunkline.wire.kafka.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from trunkline.wire.kafka.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from trunkline.wire.kafka.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from trunkline.wire.kafka.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from trunkline.wire.kafka.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from trunkline.wire.kafka.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse


async def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    seen = Counter(topic.name for topic in request.topics)
    results: list[CreatableTopicResult] = []
    for name in seen:
        asked = next(topic for topic in request.topics if topic.name == name)
        try:
            if seen[name] > 1:
                raise InvalidRequest(f"Topic {name!r} stands in the request {seen[name]} times.")
            results.append(_create(call, asked, validate_only=request.validate_only))
            await asyncio.sleep(0)  # each is a sync of the metadata: let the others have their turn between
        except TrunklineError as error:
            results.append(CreatableTopicResult(name=name, error_code=code_of(error), error_message=text_of(error)))
    return CreateTopicsResponse(topics=results)


def _create(call: Call, asked: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    overrides: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise InvalidConfig(f"Null value not supported for topic configs: {config.name}")
        overrides[config.name] = config.value
    count = _checked_layout(asked, call.broker.node_id)
    topic = call.broker.topics.create(asked.name, count, overrides, validate_only=validate_only)
    return CreatableTopicResult(
        name=asked.name,
        topic_id=NO_TOPIC_ID if validate_only else topic.id,
        error_message=None,
        num_partitions=topic.partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(
                name=row.name, value=row.value, config_source=row.source, read_only=False, is_sensitive=False
            )
            for row in topic_config_rows(topic.config)
        ],
    )


def _checked_layout(asked: CreatableTopic, node: NodeId) -> int:
    """The number of partitions asked for, -1 for the default."""
    if not asked.assignments:
        if asked.replication_factor not in (-1, 1):
            raise _unreachable_factor(asked.replication_factor)
        return asked.num_partitions
    if asked.num_partitions != -1 or asked.replication_factor != -1:
        raise InvalidRequest("With assignments, the number of partitions and the replication factor must be -1.")
    indexes = sorted(assignment.partition_index for assignment in asked.assignments)
    if indexes != list(range(len(indexes))):
        raise InvalidReplicaAssignment("Assignments must name the partitions from 0 on, each once.")
    for assignment in asked.assignments:
        _check_replicas(assignment.broker_ids, node)
    return len(indexes)


def _check_replicas(broker_ids: Sequence[int], node: NodeId) -> None:
    if list(broker_ids) != [node]:
        raise InvalidReplicaAssignment(f"Replicas {list(broker_ids)} cannot be: node {node} is the only one.")


def _unreachable_factor(factor: int) -> InvalidReplicationFactor:
    if factor < 1:
        return InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    return InvalidReplicationFactor(
        f"Unable to replicate the partition {factor} time(s): there is one broker. Use a replication factor of 1."
    )


def delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    states = request.topics if call.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    known = [_known_id(call, state) for state in states]
    times = Counter(known)
    answers: dict[bytes | str | None, DeletableTopicResult] = {}
    for state, topic_id in zip(states, known, strict=True):
        answers[topic_id] = _delete(call, state, twice=times[topic_id] > 1)
    return DeleteTopicsResponse(responses=list(answers.values()))


def _known_id(call: Call, state: DeleteTopicState) -> bytes | str | None:
    """The same for two ways to name one topic."""
    topic = call.broker.topics.image.get(state.name or "")
    if topic is not None:
        return topic.id
    return state.name if state.topic_id == NO_TOPIC_ID else state.topic_id


def _delete(call: Call, state: DeleteTopicState, *, twice: bool) -> DeletableTopicResult:
    topics = call.broker.topics
    try:
        if (state.name is None) == (state.topic_id == NO_TOPIC_ID):
            raise InvalidRequest("Name a topic by its name or by its id, not by both and not by neither.")
        if twice:
            raise InvalidRequest("A topic stands in the request more than once.")
        topic = topics.named(state.name) if state.name is not None else topics.with_id(TopicId(state.topic_id))
        if topic.internal:
            raise InvalidRequest(f"Topic {topic.name!r} is the broker's own and cannot be deleted.")
        topics.delete(topic.name)
    except TrunklineError as error:
        return DeletableTopicResult(
            name=state.name, topic_id=state.topic_id, error_code=code_of(error), error_message=text_of(error)
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def create_partitions(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    seen = Counter(topic.name for topic in request.topics)
    results: list[CreatePartitionsTopicResult] = []
    for name in seen:
        asked = next(topic for topic in request.topics if topic.name == name)
        try:
            if seen[name] > 1:
                raise InvalidRequest(f"Topic {name!r} stands in the request {seen[name]} times.")
            _grow(call, asked, validate_only=request.validate_only)
        except TrunklineError as error:
            results.append(
                CreatePartitionsTopicResult(name=name, error_code=code_of(error), error_message=text_of(error))
            )
        else:
            results.append(CreatePartitionsTopicResult(name=name))
    return CreatePartitionsResponse(results=results)


def _grow(call: Call, asked: CreatePartitionsTopic, *, validate_only: bool) -> None:
    topics = call.broker.topics
    topics.add_partitions(asked.name, asked.count, validate_only=True)
    if asked.assignments is not None:
        if len(asked.assignments) != asked.count - topics.named(asked.name).partitions:
            raise InvalidReplicaAssignment("There must be one assignment for each partition that is added.")
        for assignment in asked.assignments:
            _check_replicas(assignment.broker_ids, call.broker.node_id)
    topics.add_partitions(asked.name, asked.count, validate_only=validate_only)


async def delete_records(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=await asyncio.gather(
                    *(_delete_records(call, topic.name, asked, request.timeout_ms) for asked in topic.partitions)
                ),
            )
            for topic in request.topics
        ]
    )


async def _delete_records(
    call: Call, topic: str, asked: DeleteRecordsPartition, timeout_ms: int
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=ErrorCode.NONE
    )
    try:
        partition = call.broker.topics.partition(topic, asked.partition_index)
        if partition.topic.internal:
            raise InvalidTopicName(f"Topic {topic!r} is the broker's own: its records stay.")
        ticket = call.broker.delete_records(partition, Offset(asked.offset))
        safe = call.broker.durability.wait(ticket, call.broker.now_ms() + timeout_ms)
        if safe is not None:
            await safe
        answer.low_watermark = partition.log.log_start
    except TrunklineError as error:
        answer.error_code = code_of(error)
    return answer
