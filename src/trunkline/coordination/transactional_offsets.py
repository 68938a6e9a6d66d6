"""Offsets that a transaction commits for a group: checked when they come, committed when the transaction is (KIP-447).

Until then they wait with the transaction, not here. A producer that is not a member may bring them, as producers did
before they could say which member they work for; one that says so must be of the present generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trunkline.coordination.commands import (
    ApplyOffsets,
    CheckedOffsets,
    CheckOffsets,
    CommitReply,
    GroupSettings,
    GroupState,
)
from trunkline.coordination.committing import Group
from trunkline.coordination.consumer_group import ConsumerGroup
from trunkline.coordination.facts import Committed, OffsetCommitted
from trunkline.coordination.transaction_facts import PendingOffset
from trunkline.model.errors import IllegalGeneration, OffsetMetadataTooLarge, TrunklineError
from trunkline.model.ids import GroupId


def check(group: Group | None, ask: CheckOffsets, settings: GroupSettings, now_ms: int) -> CheckedOffsets:
    """UnknownMember, FencedInstance, IllegalGeneration: a producer that works for a member that is no more."""
    _check_member(group, ask)
    accepted: list[PendingOffset] = []
    results: list[tuple[str, tuple[tuple[int, TrunklineError | None], ...]]] = []
    for topic, offsets in ask.topics:
        of_topic: list[tuple[int, TrunklineError | None]] = []
        for one in offsets:
            size_bytes = len(one.metadata.encode())
            if size_bytes > settings.max_offset_metadata_bytes:
                of_topic.append((one.partition, OffsetMetadataTooLarge(f"{size_bytes} bytes of metadata")))
                continue
            committed = Committed(one.offset, one.leader_epoch, one.metadata, now_ms)
            accepted.append(PendingOffset(ask.group_id, topic, one.partition, committed))
            of_topic.append((one.partition, None))
        results.append((topic, tuple(of_topic)))
    return CheckedOffsets(tuple(results), tuple(accepted))


def _check_member(group: Group | None, ask: CheckOffsets) -> None:
    if group is None:
        if ask.generation >= 0:
            raise IllegalGeneration(f"there is no group {ask.group_id}, so it has no generation {ask.generation}")
        return
    if ask.generation < 0 and group.state is GroupState.EMPTY:
        return
    if ask.generation < 0 and not ask.member_id and ask.instance_id is None:
        return
    if isinstance(group, ConsumerGroup):
        group.committer(ask.member_id, ask.generation)
    else:
        group.active(ask.member_id, ask.instance_id, ask.generation)


def apply(ask: ApplyOffsets, groups: Mapping[GroupId, Group], record: Callable[[OffsetCommitted], None]) -> CommitReply:
    for pending in ask.offsets:
        group = groups.get(pending.group_id)
        known = group.offsets.of(pending.topic).get(pending.partition) if group is not None else None
        if known is None or known.committed_ms <= pending.committed.committed_ms:
            record(OffsetCommitted(pending.group_id, pending.topic, pending.partition, pending.committed))
    return CommitReply(())
