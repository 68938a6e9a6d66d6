"""DescribeTopicPartitions (key 75), version 0: topics in the order of their names, page by page.

An answer holds at most the partitions that the client asks for and PAGE_PARTITIONS; its cursor says where the next page
begins. A cursor whose topic is gone goes on with the one after it.
"""

from __future__ import annotations

from typing import Final

from trunkline.broker.partition import Partition
from trunkline.model.errors import InvalidRequest, TrunklineError
from trunkline.model.topic import Topic, check_topic_name
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.serve.kafka.metadata import TOPIC_OPERATIONS
from trunkline.wire.kafka.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from trunkline.wire.kafka.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PAGE_PARTITIONS: Final = 2000


def describe_topic_partitions(call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    try:
        names = _names(call, request)
    except InvalidRequest:
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=ErrorCode.INVALID_REQUEST)
                for topic in request.topics
            ]
        )
    response = DescribeTopicPartitionsResponse()
    room = max(min(request.response_partition_limit, PAGE_PARTITIONS), 1)
    first = request.cursor.partition_index if request.cursor is not None else 0
    for name in names:
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        begin = first if request.cursor is not None and name == request.cursor.topic_name else 0
        try:
            topic = _topic(call, name)
        except TrunklineError as error:
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(
                    name=name, error_code=code_of(error), topic_authorized_operations=TOPIC_OPERATIONS
                )
            )
            continue
        shown = call.broker.topics.partitions_of(topic)[begin : begin + room]
        response.topics.append(_described(call, topic, shown))
        room -= len(shown)
        if begin + len(shown) < topic.partitions and shown:
            response.next_cursor = Cursor(topic_name=name, partition_index=begin + len(shown))
            break
    return response


def _names(call: Call, request: DescribeTopicPartitionsRequest) -> list[str]:
    """From the cursor on. InvalidRequest for a cursor that belongs to another list of topics."""
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        raise InvalidRequest("The cursor names no partition of the topics that are asked for.")
    names = sorted(asked or call.broker.topics.image)
    return [name for name in names if cursor is None or name >= cursor.topic_name]


def _topic(call: Call, name: str) -> Topic:
    check_topic_name(name)
    return call.broker.topics.named(name)


def _described(call: Call, topic: Topic, partitions: list[Partition]) -> DescribeTopicPartitionsResponseTopic:
    node = call.broker.node_id
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=partition.index,
                leader_id=node,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[node],
                isr_nodes=[node],
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for partition in partitions
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
