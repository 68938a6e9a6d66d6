"""Members of the classic protocol in a group of type "consumer", so that a group moves over member by member.

They join, sync and heartbeat as ever, and nobody waits: a join is one step of reconciliation with what its subscription
says it owns, its generation is the member's epoch, a sync hands out what the broker assigned. A heartbeat that finds
more to be done answers that the group rebalances, and so makes the member join again. Who does not join or sync in its
rebalance timeout after that is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from sys import intern

from trunkline.coordination.commands import (
    GroupSettings,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    LeavingMember,
    Sync,
    SyncReply,
)
from trunkline.coordination.consumer_facts import ClassicMembership, ConsumerMember, MemberState
from trunkline.coordination.consumer_group import ConsumerGroup, Record
from trunkline.coordination.embedded import Subscription, by_id, read_subscription, write_assignment
from trunkline.coordination.packing import Malformed
from trunkline.coordination.subscription import CONSUMER
from trunkline.coordination.topic_view import TopicView
from trunkline.model.errors import (
    FencedInstance,
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    TrunklineError,
    UnknownMember,
)
from trunkline.model.ids import MemberId


def join(
    group: ConsumerGroup,
    join: Join,
    settings: GroupSettings,
    new_member_id: Callable[[], MemberId],
    view: TopicView,
    now_ms: int,
    record: Record,
) -> JoinReply:
    if join.member_id not in group.members and len(group.members) >= settings.max_members:
        raise GroupFull(f"group {group.id} has {settings.max_members} members, which is the most a group may have")
    if join.protocol_type != CONSUMER or not _shares_a_protocol(group, join):
        raise InconsistentProtocol(f"group {group.id} cannot follow {[name for name, _ in join.protocols]}")
    subscription = _subscription(join)
    if not join.member_id and join.instance_id is None and join.needs_member_id:
        raise MemberIdRequired(new_member_id())
    before = _admitted(group, join, new_member_id, record)
    updated = replace(
        before,
        instance_id=join.instance_id,
        rack_id=subscription.rack_id,
        client_id=intern(join.client_id),
        client_host=intern(join.client_host),
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        topics=subscription.topics,
        pattern=None,
        classic=ClassicMembership(join.session_timeout_ms, join.protocols),
    )
    moved = group.advance(
        updated,
        by_id(subscription.owned, view),
        view,
        now_ms,
        record,
        resubscribed=(updated.topics, updated.pattern) != (before.topics, before.pattern),
    )
    group.touch(moved, now_ms)
    group.await_sync(moved, now_ms)
    return JoinReply(moved.id, moved.epoch, CONSUMER, join.protocols[0][0], MemberId(""), ())


def _shares_a_protocol(group: ConsumerGroup, join: Join) -> bool:
    """One that all members of the classic protocol know: it would be followed if only they were left."""
    others = [one.classic for one in group.members.values() if one.classic is not None and one.id != join.member_id]
    names = {name for name, _ in join.protocols}
    return any(all(name in dict(other.protocols) for other in others) for name in names)


def _subscription(join: Join) -> Subscription:
    try:
        return read_subscription(join.protocols[0][1])
    except Malformed as bad:
        raise InconsistentProtocol(f"a subscription that cannot be read: {bad}") from None


def _admitted(
    group: ConsumerGroup, join: Join, new_member_id: Callable[[], MemberId], record: Record
) -> ConsumerMember:
    if join.instance_id is None:
        member_id = join.member_id or new_member_id()
        return group.members.get(member_id) or ConsumerMember(group.id, member_id)
    holder = group.of_instance(join.instance_id)
    if join.member_id:
        return _known(group, join.member_id, join.instance_id)
    if holder is None:
        return ConsumerMember(group.id, new_member_id())
    return group.replace_static(holder, new_member_id(), record)


def _known(group: ConsumerGroup, member_id: MemberId, instance_id: str | None) -> ConsumerMember:
    member = group.members.get(member_id)
    if instance_id is not None:
        holder = group.of_instance(instance_id)
        if holder is not None and holder.id != member_id:
            raise FencedInstance(f"{holder.id} is the member of instance {instance_id} now, not {member_id}")
        member = holder
    if member is None:
        raise UnknownMember(f"Member {member_id} is not a member of group {group.id}.")
    return member


def _known_classic(
    group: ConsumerGroup, member_id: MemberId, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMembership]:
    member = _known(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMember(f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise IllegalGeneration(f"generation {generation} of member {member_id} is over, it is {member.epoch} now")
    return member, member.classic


def sync(group: ConsumerGroup, sync: Sync, view: TopicView, now_ms: int) -> SyncReply:
    member, classic = _known_classic(group, sync.member_id, sync.instance_id, sync.generation)
    if sync.protocol_type not in (None, CONSUMER) or sync.protocol not in (None, classic.protocols[0][0]):
        raise InconsistentProtocol(f"member {member.id} was to follow {classic.protocols[0][0]} of type {CONSUMER}")
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        group.await_join(member, now_ms)
        raise RebalanceInProgress(f"group {group.id} rebalances: join again")
    group.synced(member)
    group.touch(member, now_ms)
    version = read_subscription(classic.protocols[0][1]).version
    return SyncReply(sync.protocol_type, sync.protocol, write_assignment(version, member.assigned, view))


def heartbeat(group: ConsumerGroup, heartbeat: Heartbeat, now_ms: int) -> HeartbeatReply:
    member, _ = _known_classic(group, heartbeat.member_id, heartbeat.instance_id, heartbeat.generation)
    group.touch(member, now_ms)
    could_get = member.state is MemberState.UNRELEASED and group.is_something_free_for(member)
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED or could_get:
        group.await_join(member, now_ms)
        raise RebalanceInProgress(f"group {group.id} rebalances: join again")
    return HeartbeatReply()


def leave(
    group: ConsumerGroup, leaving: Iterable[LeavingMember], view: TopicView, now_ms: int, record: Record
) -> list[TrunklineError | None]:
    """Of members of either protocol: this is how an administrator removes one."""
    errors: list[TrunklineError | None] = []
    gone: dict[MemberId, None] = {}
    for one in leaving:
        holder = group.of_instance(one.instance_id)
        try:
            by_instance = not one.member_id and holder is not None
            member = holder if by_instance else _known(group, one.member_id, one.instance_id)
        except TrunklineError as error:
            errors.append(error)
        else:
            assert member is not None
            gone[member.id] = None
            errors.append(None)
    if gone:
        group.remove(gone, view, now_ms, record)
    return errors
