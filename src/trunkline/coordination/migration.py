"""A group from one protocol to the other while it runs, as facts: what it becomes, and the end of what it was.

A classic group becomes one of type "consumer" when the first member of the new protocol comes; when the last one goes
and members of the classic protocol are left, it becomes a classic group again and rebalances. Its offsets stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.coordination.classic import ClassicGroup
from trunkline.coordination.commands import Join, Ticket
from trunkline.coordination.consumer_facts import (
    ClassicMembership,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMember,
    ConsumerMemberDeleted,
)
from trunkline.coordination.consumer_group import ConsumerGroup
from trunkline.coordination.embedded import by_id, read_assignment, read_subscription, write_assignment
from trunkline.coordination.facts import Fact, GroupDeleted, GroupStored, StoredMember
from trunkline.coordination.members import Member
from trunkline.coordination.packing import Malformed
from trunkline.coordination.subscription import CONSUMER
from trunkline.coordination.topic_view import NO_DIGEST, TopicView
from trunkline.model.errors import UnknownGroup


def upgrade(group: ClassicGroup, max_members: int, view: TopicView) -> list[Fact]:
    """UnknownGroup where it cannot be. The members keep what they were last assigned."""
    cannot = f"Cannot upgrade classic group {group.id} to consumer group because"
    if group.protocol_type != CONSUMER:
        raise UnknownGroup(f"{cannot} the group does not use the consumer embedded protocol.")
    if len(group.roster) > max_members:
        raise UnknownGroup(f"{cannot} the group size exceeds the consumer group maximum size.")
    try:
        members = [_upgraded(group, member, view) for member in group.roster]
    except Malformed:
        raise UnknownGroup(f"{cannot} the embedded consumer protocol is malformed.") from None
    stored: list[Fact] = [GroupDeleted(group.id)] if group.stored is not None else []
    return [*stored, ConsumerGroupStored(group.id, group.generation, group.generation, NO_DIGEST, 0), *members]


def _upgraded(group: ClassicGroup, member: Member, view: TopicView) -> ConsumerMember:
    subscription = read_subscription(member.subscription(group.protocol) or member.protocols[0][1])
    assigned = by_id(read_assignment(member.assignment), view)
    return ConsumerMember(
        group.id,
        member.id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        topics=subscription.topics,
        classic=ClassicMembership(member.session_timeout_ms, member.protocols),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=assigned,
        target=assigned,
    )


def is_all_classic(group: ConsumerGroup) -> bool:
    return bool(group.members) and all(member.classic is not None for member in group.members.values())


def downgrade(group: ConsumerGroup, view: TopicView, now_ms: int) -> list[Fact]:
    """For a group in which only members of the classic protocol are left."""
    members = [(member, member.classic) for member in group.members.values() if member.classic is not None]
    shared = set[str].intersection(*({name for name, _ in classic.protocols} for _, classic in members))
    protocol = next(name for name, _ in members[0][1].protocols if name in shared)
    stored = GroupStored(
        group.id,
        CONSUMER,
        group.assignment_epoch,
        protocol,
        members[0][0].id,
        now_ms,
        tuple(_downgraded(member, classic, protocol, view) for member, classic in members),
    )
    deleted = (ConsumerMemberDeleted(group.id, member.id) for member, _ in members)
    return [*deleted, ConsumerGroupDeleted(group.id), stored]


def _downgraded(member: ConsumerMember, classic: ClassicMembership, protocol: str, view: TopicView) -> StoredMember:
    subscription = dict(classic.protocols)[protocol]
    return StoredMember(
        member.id,
        member.instance_id,
        member.client_id,
        member.client_host,
        classic.session_timeout_ms,
        member.rebalance_timeout_ms,
        subscription,
        write_assignment(read_subscription(subscription).version, member.assigned, view),
    )


def joins_of(group: ConsumerGroup) -> Iterator[Join]:
    """All protocols that its classic members know: the fact of a classic group has the chosen one only."""
    for member in group.members.values():
        if member.classic is not None:
            yield Join(
                Ticket(0),
                group.id,
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.classic.session_timeout_ms,
                member.rebalance_timeout_ms,
                CONSUMER,
                member.classic.protocols,
            )
