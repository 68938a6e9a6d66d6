"""Groups of type "consumer" (KIP-848): ConsumerGroupHeartbeat (key 68), versions 0-1; ConsumerGroupDescribe (69), 0-1.

Regular expressions over topic names (version 1) are read as RE2 does, see coordination/pattern.py; which topics they
match is known at once, so a member has its partitions with its first answer. Racks are kept and shown; a single node
has none to assign by. A disk that takes no facts is COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from trunkline.coordination import commands as ask
from trunkline.coordination.commands import Ticket
from trunkline.coordination.consumer_facts import ConsumerMember
from trunkline.coordination.partitions import Partitions, of, together
from trunkline.model.errors import TrunklineError
from trunkline.model.ids import GroupId, MemberId, TopicId
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.groups import GROUP_OPERATIONS, group_code_of
from trunkline.serve.kafka.metadata import NOT_ASKED
from trunkline.wire.kafka.messages import consumer_group_heartbeat_response as beat_response
from trunkline.wire.kafka.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from trunkline.wire.kafka.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from trunkline.wire.kafka.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from trunkline.wire.kafka.messages.consumer_group_heartbeat_request import TopicPartitions as Owned
from trunkline.wire.kafka.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def consumer_group_heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    def command(ticket: Ticket) -> ask.ConsumerHeartbeat:
        return ask.ConsumerHeartbeat(
            ticket,
            GroupId(request.group_id),
            MemberId(request.member_id),
            request.member_epoch,
            request.instance_id,
            request.rack_id,
            None if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms,
            None if request.subscribed_topic_names is None else tuple(request.subscribed_topic_names),
            request.subscribed_topic_regex,
            request.server_assignor,
            None if request.topic_partitions is None else _owned(request.topic_partitions),
            call.client_id,
            f"/{call.client_host}",
            must_have_id=call.version >= 1,
        )

    try:
        reply = cast(ask.ConsumerHeartbeatReply, call.broker.groups.ask(command))
    except TrunklineError as error:
        return ConsumerGroupHeartbeatResponse(error_code=group_code_of(error), error_message=str(error))
    return ConsumerGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.interval_ms,
        assignment=None if reply.assignment is None else _assigned(reply.assignment),
    )


def _owned(topics: Iterable[Owned]) -> Partitions:
    return of((TopicId(bytes(topic.topic_id)), index) for topic in topics for index in topic.partitions)


def _assigned(partitions: Partitions) -> beat_response.Assignment:
    return beat_response.Assignment(
        topic_partitions=[
            beat_response.TopicPartitions(topic_id=topic_id, partitions=list(indexes))
            for topic_id, indexes in partitions.items()
        ]
    )


def consumer_group_describe(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    return ConsumerGroupDescribeResponse(
        groups=[_describe(call, GroupId(group_id), operations) for group_id in request.group_ids]
    )


def _describe(call: Call, group_id: GroupId, operations: int) -> DescribedGroup:
    try:
        reply = call.broker.groups.ask(lambda ticket: ask.DescribeConsumerGroup(ticket, group_id))
    except TrunklineError as error:
        return DescribedGroup(group_id=group_id, error_code=group_code_of(error), error_message=str(error))
    group = cast(ask.ConsumerGroupDescription, reply)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(call, member) for member in group.members],
        authorized_operations=operations,
    )


def _member(call: Call, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern or "",
        assignment=_described(call, together(member.assigned, member.revoking)),
        target_assignment=_described(call, member.target),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _described(call: Call, partitions: Partitions) -> Assignment:
    """Topics that were deleted meanwhile are left out: they have no name."""
    names = {topic.id: topic.name for topic in call.broker.topics.image.values() if topic.id in partitions}
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=list(indexes))
            for topic_id, indexes in partitions.items()
            if topic_id in names
        ]
    )
