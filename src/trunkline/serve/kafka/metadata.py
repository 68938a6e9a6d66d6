"""Metadata (key 3), versions 0-13, and DescribeCluster (key 60), versions 0-2: which topics there are, and where.

A topic that is asked for by name and not there is created on first use (where client and settings allow it) and is in
the same answer: Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION once and creates it meanwhile, and kafkajs's subscribe
gives up on that. The one node is leader, replica and controller of everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trunkline.model.errors import TrunklineError, UnknownTopic
from trunkline.model.ids import NO_TOPIC_ID, TopicId
from trunkline.model.topic import RESERVED_TOPICS, Topic, check_topic_name
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.wire.kafka.messages.describe_cluster_request import DescribeClusterRequest
from trunkline.wire.kafka.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from trunkline.wire.kafka.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from trunkline.wire.kafka.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

# Without an authorizer everybody may do everything: the bits of all operations a resource knows.
TOPIC_OPERATIONS: Final = 0b1101_1111_1000
CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000
NOT_ASKED: Final = -(2**31)


def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    if call.version < 12 and any(asked.name is None or asked.topic_id != NO_TOPIC_ID for asked in request.topics or ()):
        return _refused(request.topics or ())
    everything = request.topics is None or (call.version == 0 and not request.topics)
    if everything:
        topics = [_topic(call, request, topic) for topic in call.broker.topics.image.values()]
    else:
        answers = [_asked(call, request, asked) for asked in request.topics or ()]
        topics = list({(topic.name, topic.topic_id): topic for topic in answers}.values())  # each once, as in Kafka
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=call.broker.node_id, host=call.host, port=call.port)],
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.node_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _refused(topics: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    """Topic ids have a place in the request from version 10 on, and a meaning from version 12 on only."""
    return MetadataResponse(
        cluster_id=None,
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=asked.name or "", topic_id=asked.topic_id)
            for asked in topics
        ],
    )


def _asked(call: Call, request: MetadataRequest, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    try:
        if asked.topic_id != NO_TOPIC_ID:
            topic = call.broker.topics.with_id(TopicId(asked.topic_id))
        else:
            topic = _named(call, asked.name or "", create=request.allow_auto_topic_creation or call.version < 4)
    except TrunklineError as error:
        name = None if asked.topic_id != NO_TOPIC_ID and call.version >= 12 else asked.name or ""
        return MetadataResponseTopic(error_code=code_of(error), name=name, topic_id=asked.topic_id)
    return _topic(call, request, topic)


def _named(call: Call, name: str, *, create: bool) -> Topic:
    topics = call.broker.topics
    check_topic_name(name)
    try:
        return topics.named(name)
    except UnknownTopic:
        if not (create and call.broker.auto_create_topics) or name in RESERVED_TOPICS:
            raise
    return topics.create(name)


def _topic(call: Call, request: MetadataRequest, topic: Topic) -> MetadataResponseTopic:
    node = call.broker.node_id
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=partition.index,
                leader_id=node,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[node],
                isr_nodes=[node],
            )
            for partition in call.broker.topics.partitions_of(topic)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED,
    )


def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != 1:
        known = request.endpoint_type == 2
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="This is a broker: ask it for brokers (endpoint type 1).",
        )
    node = call.broker.node_id
    return DescribeClusterResponse(
        cluster_id=call.broker.cluster_id,
        controller_id=node,
        brokers=[DescribeClusterBroker(broker_id=node, host=call.host, port=call.port)],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
