"""The classic group protocol: FindCoordinator (key 10), versions 0-6; JoinGroup (11), 0-9; Heartbeat (12), 0-4;
LeaveGroup (13), 0-5; SyncGroup (14), 0-5; DescribeGroups (15), 0-6; ListGroups (16), 0-5; DeleteGroups (42), 0-2.

This node coordinates every group and every transaction; share groups are not served yet (INVALID_REQUEST).
A disk that takes no facts is COORDINATOR_NOT_AVAILABLE, which every client retries.
"""

from __future__ import annotations

from typing import Final, cast

from trunkline.coordination import commands as ask
from trunkline.coordination.commands import GroupState, Ticket
from trunkline.model.errors import MemberIdRequired, StorageFailed, TrunklineError
from trunkline.model.ids import GroupId, MemberId
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of, text_of
from trunkline.serve.kafka.metadata import NOT_ASKED
from trunkline.serve.kafka.replies import reply_to
from trunkline.wire.kafka.messages.delete_groups_request import DeleteGroupsRequest
from trunkline.wire.kafka.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from trunkline.wire.kafka.messages.describe_groups_request import DescribeGroupsRequest
from trunkline.wire.kafka.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from trunkline.wire.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from trunkline.wire.kafka.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from trunkline.wire.kafka.messages.heartbeat_request import HeartbeatRequest
from trunkline.wire.kafka.messages.heartbeat_response import HeartbeatResponse
from trunkline.wire.kafka.messages.join_group_request import JoinGroupRequest
from trunkline.wire.kafka.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from trunkline.wire.kafka.messages.leave_group_request import LeaveGroupRequest
from trunkline.wire.kafka.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from trunkline.wire.kafka.messages.list_groups_request import ListGroupsRequest
from trunkline.wire.kafka.messages.list_groups_response import ListedGroup, ListGroupsResponse
from trunkline.wire.kafka.messages.sync_group_request import SyncGroupRequest
from trunkline.wire.kafka.messages.sync_group_response import SyncGroupResponse

GROUP_OPERATIONS: Final = 0b1101_0100_1000
_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1


def group_code_of(error: TrunklineError) -> ErrorCode:
    """As code_of, for requests in which a storage error is the coordinator's."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if isinstance(error, StorageFailed) else code_of(error)


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if call.version >= 4 else [request.key]
    found = [_coordinator(call, request.key_type, key) for key in keys]
    if call.version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    [only] = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _coordinator(call: Call, key_type: int, key: str) -> Coordinator:
    if key_type in (_GROUP_KEY, _TRANSACTION_KEY):
        return Coordinator(key=key, node_id=call.broker.node_id, host=call.host, port=call.port, error_message=None)
    return Coordinator(
        key=key,
        node_id=-1,
        port=-1,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="Only consumer groups and transactions have a coordinator here: share groups are not served yet.",
    )


# ── membership ──────────────────────────────────────────────────────────────────────────────────


async def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    def command(ticket: Ticket) -> ask.Join:
        return ask.Join(
            ticket,
            GroupId(request.group_id),
            MemberId(request.member_id),
            request.group_instance_id,
            call.client_id,
            f"/{call.client_host}",
            request.session_timeout_ms,
            request.rebalance_timeout_ms if call.version >= 1 else request.session_timeout_ms,
            request.protocol_type,
            tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            request.reason or "",
            needs_member_id=call.version >= 4,
            can_skip_assignment=call.version >= 9,
        )

    nameless = None if call.version >= 7 else ""
    try:
        reply = await reply_to(call, command, ask.JoinReply)
    except MemberIdRequired as error:
        return JoinGroupResponse(error_code=code_of(error), protocol_name=nameless, member_id=error.member_id)
    except TrunklineError as error:
        return JoinGroupResponse(error_code=group_code_of(error), protocol_name=nameless, member_id=request.member_id)
    return JoinGroupResponse(
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=nameless if reply.protocol is None else reply.protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.subscription
            )
            for member in reply.members
        ],
    )


async def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def command(ticket: Ticket) -> ask.Sync:
        return ask.Sync(
            ticket,
            GroupId(request.group_id),
            MemberId(request.member_id),
            request.group_instance_id,
            request.generation_id,
            tuple((MemberId(each.member_id), each.assignment) for each in request.assignments),
            request.protocol_type,
            request.protocol_name,
        )

    try:
        reply = await reply_to(call, command, ask.SyncReply)
    except TrunklineError as error:
        return SyncGroupResponse(error_code=group_code_of(error))
    return SyncGroupResponse(
        protocol_type=reply.protocol_type, protocol_name=reply.protocol, assignment=reply.assignment
    )


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    try:
        call.broker.groups.ask(
            lambda ticket: ask.Heartbeat(
                ticket,
                GroupId(request.group_id),
                MemberId(request.member_id),
                request.group_instance_id,
                request.generation_id,
            )
        )
    except TrunklineError as error:
        return HeartbeatResponse(error_code=group_code_of(error))
    return HeartbeatResponse()


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if call.version >= 3:
        leaving = tuple(
            ask.LeavingMember(MemberId(member.member_id), member.group_instance_id, member.reason or "")
            for member in request.members
        )
    else:
        leaving = (ask.LeavingMember(MemberId(request.member_id)),)
    try:
        reply = call.broker.groups.ask(lambda ticket: ask.Leave(ticket, GroupId(request.group_id), leaving))
    except TrunklineError as error:
        return LeaveGroupResponse(error_code=group_code_of(error))
    members = [
        MemberResponse(
            member_id=result.member_id,
            group_instance_id=result.instance_id,
            error_code=code_of(result.error) if result.error else ErrorCode.NONE,
        )
        for result in cast(ask.LeaveReply, reply).results
    ]
    if call.version >= 3:
        return LeaveGroupResponse(members=members)
    return LeaveGroupResponse(error_code=members[0].error_code)


# ── groups as a whole ───────────────────────────────────────────────────────────────────────────


def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    return DescribeGroupsResponse(groups=[_describe(call, group_id, operations) for group_id in request.groups])


def _describe(call: Call, group_id: str, operations: int) -> DescribedGroup:
    try:
        reply = call.broker.groups.ask(lambda ticket: ask.DescribeGroup(ticket, GroupId(group_id)))
    except TrunklineError as error:
        return DescribedGroup(
            group_id=group_id, group_state="Dead", error_code=group_code_of(error), error_message=text_of(error)
        )
    group = cast(ask.GroupDescription, reply)
    missing = group.state is GroupState.DEAD and call.version >= 6
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
        error_message=(group.reason or f"Group {group_id} not found.") if missing else None,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.subscription,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=NOT_ASKED if missing else operations,
    )


def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    reply = call.broker.groups.ask(
        lambda ticket: ask.ListGroups(ticket, frozenset(request.states_filter), frozenset(request.types_filter))
    )
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state.value,
                group_type=group.type,
            )
            for group in cast(ask.GroupList, reply).groups
        ]
    )


def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    group_ids = tuple(map(GroupId, dict.fromkeys(request.groups_names)))
    try:
        reply = call.broker.groups.ask(lambda ticket: ask.DeleteGroups(ticket, group_ids))
    except TrunklineError as error:
        results = [DeletableGroupResult(group_id=group_id, error_code=group_code_of(error)) for group_id in group_ids]
    else:
        results = [
            DeletableGroupResult(group_id=group_id, error_code=code_of(error) if error else ErrorCode.NONE)
            for group_id, error in cast(ask.DeleteGroupsReply, reply).results
        ]
    return DeleteGroupsResponse(results=results)
