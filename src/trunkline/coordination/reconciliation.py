"""How a member gets from what it has to what it is to have, step by step, each step confirmed by its heartbeats.

               gave it up (it says what it owns)                all that was missing is free
    UNREVOKED ───────────────────────────────────▶ UNRELEASED ───────────────────────────────▶ STABLE
        ▲                                            ▲    │ a new target: something to give up    │
        └────────────────────────────────────────────┼────┴───────────────────────────────────────┘
                                                     └─── a new target: something others still have

A partition is in `assigned` or `revoking` of one member at most, so nobody is given what another still reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trunkline.coordination.consumer_facts import ConsumerMember, MemberState
from trunkline.coordination.partitions import NONE, Partitions, common, each, of, together, without
from trunkline.model.ids import MemberId, TopicId

OwnerOf = Callable[[tuple[TopicId, int]], MemberId | None]


def reconcile(member: ConsumerMember, target_epoch: int, owned: Partitions | None, owner_of: OwnerOf) -> ConsumerMember:
    """The member one step further, or the same. `owned` is what it says it has; None: it did not say."""
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED:
        if _has_any(owned, member.revoking):
            return member
        epoch += 1
    assigned = common(member.assigned, member.target)
    giving_up = without(member.assigned, assigned)
    if giving_up and _has_any(owned, giving_up):
        return _moved(member, MemberState.UNREVOKED, epoch, assigned, giving_up)
    missing = without(member.target, assigned)
    free = of(pair for pair in each(missing) if owner_of(pair) in (None, member.id))
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED
    return _moved(member, state, target_epoch, together(assigned, free), NONE)


def _has_any(owned: Partitions | None, partitions: Partitions) -> bool:
    """Who does not say what it owns may own everything."""
    return owned is None or bool(common(owned, partitions))


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Partitions, revoking: Partitions
) -> ConsumerMember:
    same = (member.state, member.epoch, member.assigned, member.revoking) == (state, epoch, assigned, revoking)
    if same:
        return member
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoking=revoking)
