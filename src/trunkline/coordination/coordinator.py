"""All groups of the node behind one door: a command or the passing of time in, replies and facts out.

The contract with whoever runs it:

    outcome = coordinator.handle(command, now_ms)      facts are applied already (`replay`, as in recovery)
    write outcome.facts, in the order in which outcomes were made, each outcome's facts in one write
    then send outcome.replies                          also those of an outcome without facts: they may tell of facts
                                                       of an earlier one that is still being written

If the write fails, every reply of that outcome is replaced by an error that clients retry. What was applied stays, so
the facts must be kept and written before any later ones (the last of each key is enough). A retry is answered from what
stands: the same commit again, the assignment that a sync missed. Until it is written, a crash leads back to an older
generation and older offsets: records are delivered again, none is lost.

`tick` is due at `next_deadline_ms`, which every call may change. Time is the wall clock in ms, as commits and expiry
outlive restarts. A tick that comes late (the process stood still, the clock jumped) says nothing about members, whose
heartbeats may wait unread: they are given the time that was missed, and a little more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from sys import intern
from typing import Final

from trunkline.coordination import classic_members, committing, migration, transactional_offsets
from trunkline.coordination.classic import ClassicGroup
from trunkline.coordination.commands import (
    ApplyOffsets,
    CheckOffsets,
    Command,
    CommitOffsets,
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribedMember,
    DescribeGroup,
    FetchOffsets,
    GroupDescription,
    GroupList,
    GroupSettings,
    GroupState,
    Heartbeat,
    HeartbeatReply,
    Join,
    Leave,
    LeaveReply,
    LeaveResult,
    ListedGroup,
    ListGroups,
    Outcome,
    Reply,
    Sync,
)
from trunkline.coordination.committing import Group
from trunkline.coordination.consumer_facts import (
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMember,
    ConsumerMemberDeleted,
)
from trunkline.coordination.consumer_group import ConsumerGroup, check_heartbeat
from trunkline.coordination.deadlines import Deadlines, Key, Timeout
from trunkline.coordination.facts import Fact, GroupDeleted, GroupStored, OffsetCommitted, OffsetDeleted
from trunkline.coordination.topic_view import NoTopics, TopicSource, TopicWatch
from trunkline.model.errors import (
    GroupNotEmpty,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    TrunklineError,
    UnknownGroup,
    UnknownMember,
)
from trunkline.model.ids import GroupId, MemberId

_LATE_MS: Final = 1_000
_GRACE_MS: Final = 5_000
_TIMES_OF_MEMBERS: Final = frozenset((Timeout.SESSION, Timeout.JOIN, Timeout.SYNC, Timeout.REVOKE))


class Coordinator:
    def __init__(
        self, settings: GroupSettings, new_member_suffix: Callable[[], str], topics: TopicSource | None = None
    ) -> None:
        self._settings = settings
        self._new_member_suffix = new_member_suffix
        self._topics = TopicWatch(topics or NoTopics())
        self._groups: dict[GroupId, Group] = {}
        self._deadlines = Deadlines()

    # ── commands and time ───────────────────────────────────────────────────────────────────────

    def handle(self, command: Command, now_ms: int) -> Outcome:
        """Never raises a TrunklineError: it is the answer then."""
        out = Outcome()
        try:
            reply = self._answer(command, now_ms, out)
        except TrunklineError as error:
            out.answer(command.ticket, error)
        else:
            if reply is not None:
                out.answer(command.ticket, reply)
        return out

    def _answer(self, command: Command, now_ms: int, out: Outcome) -> Reply | None:
        """None when the answer is given already, or comes later."""
        match command:
            case Heartbeat():
                return self._heartbeat(command, now_ms)
            case CommitOffsets():
                return self._commit(command, now_ms, out)
            case ConsumerHeartbeat():
                return self._consumer_heartbeat(command, now_ms, out)
            case FetchOffsets():
                return committing.fetch_offsets(self._groups.get(command.group_id), command)
            case Join():
                self._join(command, now_ms, out)
                return None
            case Sync():
                group = self._with_members(command.group_id)
                if isinstance(group, ConsumerGroup):
                    return classic_members.sync(group, command, self._topics.view(), now_ms)
                group.sync(command, now_ms, out)
                return None
            case Leave():
                return self._leave(command, now_ms, out)
            case DeleteOffsets():
                return self._delete_offsets(command, now_ms, out)
            case CheckOffsets():
                asked = self._groups.get(command.group_id)
                return transactional_offsets.check(asked, command, self._settings, now_ms)
            case ApplyOffsets():
                return self._apply_offsets(command, now_ms, out)
            case DeleteGroups():
                return self._delete_groups(command, out)
            case DescribeGroup():
                return self._describe(command)
            case DescribeConsumerGroup():
                return self._describe_consumer(command)
            case ListGroups():
                return self._list(command)

    def tick(self, now_ms: int) -> Outcome:
        out = Outcome()
        next_ms = self._deadlines.next_ms()
        if next_ms is not None and now_ms - next_ms > _LATE_MS:
            self._deadlines.postpone(now_ms - next_ms + _GRACE_MS, _TIMES_OF_MEMBERS)
        for key in self._deadlines.take_due(now_ms):
            group = self._groups.get(key.group_id)
            if group is None:
                continue
            if key.timeout is Timeout.EXPIRY:
                self._expire(group, now_ms, out)
            elif isinstance(group, ConsumerGroup):
                if group.is_late(key.timeout, key.member_id):
                    group.remove((key.member_id,), self._topics.view(), now_ms, self._recorder(out))
                    self._after_removal(group, now_ms, out)
            else:
                group.time_is_up(key.timeout, key.member_id, now_ms, out)
        return out

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def forget_topic(self, topic: str, now_ms: int) -> Outcome:
        """The topic was deleted: what was committed for it means nothing to one made again under its name."""
        out = Outcome()
        for group in self._groups.values():
            if committing.forget_topic(group, topic, self._recorder(out)):
                self._look_after(group, now_ms)
        return out

    # ── facts: the only place where what lasts changes ──────────────────────────────────────────

    def replay(self, fact: Fact) -> None:
        match fact:
            case OffsetCommitted():
                self._group(fact.group_id).offsets.replay(fact)
            case OffsetDeleted():
                group = self._groups.get(fact.group_id)
                if group is not None:
                    group.offsets.replay(fact)
            case GroupStored():
                self._classic_group(fact.group_id).replay(fact)
            case ConsumerGroupStored() | ConsumerMember():
                self._consumer_group(fact.group_id).replay(fact)
            case ConsumerMemberDeleted():
                group = self._groups.get(fact.group_id)
                if isinstance(group, ConsumerGroup):
                    group.replay(fact)
            case GroupDeleted() | ConsumerGroupDeleted():
                group = self._groups.get(fact.group_id)
                kind = ClassicGroup if isinstance(fact, GroupDeleted) else ConsumerGroup
                if isinstance(group, kind):
                    self._forget(group)

    def loaded(self, now_ms: int) -> None:
        """All facts were replayed: from now on members have a session's time to be heard of again."""
        for index, group in enumerate(self._groups.values()):
            group.restart_sessions(now_ms)
            check_ms = now_ms + self._settings.expiry_check_ms + index  # not all groups at once
            self._deadlines.bring_forward(Key(group.id, Timeout.EXPIRY), check_ms)

    def snapshot(self) -> list[Fact]:
        """The fewest facts that say it all. A group that is neither stored nor has offsets does not last."""
        facts: list[Fact] = []
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                facts += group.snapshot()
            elif group.stored is not None:
                facts.append(group.stored)
            facts += [OffsetCommitted(group.id, topic, partition, one) for topic, partition, one in group.offsets]
        return facts

    def _recorder(self, out: Outcome) -> Callable[[Fact], None]:
        def record(fact: Fact) -> None:
            self.replay(fact)
            out.facts.append(fact)

        return record

    def _group(self, group_id: GroupId) -> Group:
        """The group, of whatever type. One that only offsets were committed for is a classic one without members."""
        return self._groups.get(group_id) or self._classic_group(group_id)

    def _classic_group(self, group_id: GroupId) -> ClassicGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        fresh = ClassicGroup(GroupId(intern(group_id)), self._settings, self._deadlines)
        self._take_over(group, fresh)
        return fresh

    def _consumer_group(self, group_id: GroupId) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        fresh = ConsumerGroup(GroupId(intern(group_id)), self._settings, self._deadlines)
        self._take_over(group, fresh)
        return fresh

    def _take_over(self, before: Group | None, after: Group) -> None:
        """A group of another type in the place of one, with its offsets."""
        if before is not None:
            before.forget_deadlines()
            after.offsets = before.offsets
        self._groups[after.id] = after

    def _forget(self, group: Group) -> None:
        """Its members and its type. Where it still has offsets it is about to become a group of another type."""
        group.forget_deadlines()
        del self._groups[group.id]
        if group.offsets:
            self._classic_group(group.id).offsets = group.offsets

    # ── membership ──────────────────────────────────────────────────────────────────────────────

    def _join(self, join: Join, now_ms: int, out: Outcome) -> None:
        _check_group_id(join.group_id)
        least_ms, most_ms = self._settings.min_session_timeout_ms, self._settings.max_session_timeout_ms
        if not least_ms <= join.session_timeout_ms <= most_ms:
            raise InvalidSessionTimeout(
                f"a session timeout of {join.session_timeout_ms} ms: from {least_ms} to {most_ms} is allowed"
            )
        if not join.protocol_type or not join.protocols:
            raise InconsistentProtocol("a member must name its protocol type and at least one protocol")
        group = self._groups.get(join.group_id)
        if group is None:
            if join.member_id:
                raise UnknownMember(f"there is no group {join.group_id}: join again without a member id")
            group = self._classic_group(join.group_id)
            group.since_ms = now_ms
            self._look_after(group, now_ms)
        if isinstance(group, ConsumerGroup):
            if group.members:
                self._join_consumer_group(group, _tidy(join), now_ms, out)
                return
            group = self._become_classic(group, now_ms, out)
        group.join(_tidy(join), self._new_member_suffix, now_ms, out)

    def _heartbeat(self, heartbeat: Heartbeat, now_ms: int) -> HeartbeatReply:
        group = self._with_members(heartbeat.group_id)
        if isinstance(group, ConsumerGroup):
            return classic_members.heartbeat(group, heartbeat, now_ms)
        member = group.active(heartbeat.member_id, heartbeat.instance_id, heartbeat.generation)
        group.heartbeat(member, now_ms)
        return HeartbeatReply()

    def _with_members(self, group_id: GroupId) -> Group:
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise UnknownMember(f"there is no group {group_id}: join again without a member id")
        return group

    def _become_classic(self, group: ConsumerGroup, now_ms: int, out: Outcome) -> ClassicGroup:
        """It is empty: nothing but its offsets stays."""
        self._recorder(out)(ConsumerGroupDeleted(group.id))
        classic = self._classic_group(group.id)
        classic.since_ms = now_ms
        self._look_after(classic, now_ms)
        return classic

    # ── groups of type "consumer" ───────────────────────────────────────────────────────────────

    def _consumer_heartbeat(self, beat: ConsumerHeartbeat, now_ms: int, out: Outcome) -> ConsumerHeartbeatReply:
        check_heartbeat(beat)
        view, record = self._topics.view(), self._recorder(out)
        if beat.pattern:
            view.check(beat.pattern)
        group = self._groups.get(beat.group_id)
        if not isinstance(group, ConsumerGroup):
            group = self._become_consumer(beat, group, now_ms, out)
        if not beat.member_id:
            beat = replace(beat, member_id=MemberId(self._new_member_suffix()))
        reply = group.heartbeat(beat, view, now_ms, record)
        if beat.epoch < 0:
            self._after_removal(group, now_ms, out)
        return reply

    def _become_consumer(
        self, beat: ConsumerHeartbeat, group: ClassicGroup | None, now_ms: int, out: Outcome
    ) -> ConsumerGroup:
        if beat.epoch != 0:
            if group is None and beat.epoch > 0:
                raise UnknownGroup(f"Consumer group {beat.group_id} not found.")
            why = "not found" if group is None else "is not a consumer group"
            raise UnknownGroup(f"Group {beat.group_id} {why}.")
        record = self._recorder(out)
        if group is not None and group.state is not GroupState.EMPTY:
            facts = migration.upgrade(group, self._settings.max_members, self._topics.view())
            group.call_off(out)
            for fact in facts:
                record(fact)
        elif group is not None and group.stored is not None:
            record(GroupDeleted(group.id))
        consumer = self._consumer_group(beat.group_id)
        consumer.restart_sessions(now_ms)
        self._look_after(consumer, now_ms)
        return consumer

    def _join_consumer_group(self, group: ConsumerGroup, join: Join, now_ms: int, out: Outcome) -> None:
        def new_member_id() -> MemberId:
            return MemberId(
                f"{join.client_id if join.instance_id is None else join.instance_id}-{self._new_member_suffix()}"
            )

        reply = classic_members.join(
            group, join, self._settings, new_member_id, self._topics.view(), now_ms, self._recorder(out)
        )
        out.answer(join.ticket, reply)
        self._after_removal(group, now_ms, out)

    def _after_removal(self, group: ConsumerGroup, now_ms: int, out: Outcome) -> None:
        """Somebody went: where only members of the classic protocol are left, it is a classic group again."""
        if not migration.is_all_classic(group):
            self._look_after(group, now_ms)
            return
        joins = list(migration.joins_of(group))
        for fact in migration.downgrade(group, self._topics.view(), now_ms):
            self._recorder(out)(fact)
        classic = self._classic_group(group.id)
        classic.know_protocols(joins)
        classic.restart_sessions(now_ms)
        classic.start_rebalance(now_ms, out)

    def _describe_consumer(self, describe: DescribeConsumerGroup) -> ConsumerGroupDescription:
        group = self._groups.get(describe.group_id)
        if not isinstance(group, ConsumerGroup):
            why = "not found" if group is None else "is not a consumer group"
            raise UnknownGroup(f"Group {describe.group_id} {why}.")
        return ConsumerGroupDescription(
            group.id, group.state, group.epoch, group.assignment_epoch, group.assignor, tuple(group.members.values())
        )

    def _leave(self, leave: Leave, now_ms: int, out: Outcome) -> LeaveReply:
        _check_group_id(leave.group_id)
        group = self._groups.get(leave.group_id)
        errors: Iterable[TrunklineError | None]
        if group is None:
            errors = [UnknownMember(f"there is no group {leave.group_id}") for _ in leave.members]
        elif isinstance(group, ConsumerGroup):
            errors = classic_members.leave(group, leave.members, self._topics.view(), now_ms, self._recorder(out))
            self._after_removal(group, now_ms, out)
        else:
            errors = group.leave(leave.members, now_ms, out)
        return LeaveReply(
            tuple(
                LeaveResult(one.member_id, one.instance_id, error)
                for one, error in zip(leave.members, errors, strict=True)
            )
        )

    # ── offsets ─────────────────────────────────────────────────────────────────────────────────

    def _commit(self, commit: CommitOffsets, now_ms: int, out: Outcome) -> Reply:
        group = self._groups.get(commit.group_id)
        committing.check_commit(group, commit, self._topics.view(), now_ms)
        reply = committing.commit_offsets(commit, self._settings, now_ms, self._recorder(out))
        if out.facts:
            retention_ms = self._settings.offsets_retention_ms if commit.retention_ms is None else commit.retention_ms
            self._deadlines.bring_forward(Key(commit.group_id, Timeout.EXPIRY), now_ms + retention_ms)
        return reply

    def _apply_offsets(self, apply: ApplyOffsets, now_ms: int, out: Outcome) -> Reply:
        reply = transactional_offsets.apply(apply, self._groups, self._recorder(out))
        for group_id in {pending.group_id for pending in apply.offsets}:
            expiry_ms = now_ms + self._settings.offsets_retention_ms
            self._deadlines.bring_forward(Key(group_id, Timeout.EXPIRY), expiry_ms)
        return reply

    def _delete_offsets(self, delete: DeleteOffsets, now_ms: int, out: Outcome) -> Reply:
        _check_group_id(delete.group_id)
        group = self._groups.get(delete.group_id)
        reply = committing.delete_offsets(group, delete, self._topics.view(), self._recorder(out))
        if group is not None:
            self._look_after(group, now_ms)
        return reply

    def _look_after(self, group: Group, now_ms: int) -> None:
        """It may have nothing left to be kept for: see to it in a while."""
        if group.state is GroupState.EMPTY:
            self._deadlines.bring_forward(Key(group.id, Timeout.EXPIRY), now_ms + self._settings.expiry_check_ms)

    def _expire(self, group: Group, now_ms: int, out: Outcome) -> None:
        soonest_ms = now_ms + max(self._settings.expiry_check_ms, 1)
        next_ms = committing.expire_offsets(group, self._settings, now_ms, self._topics.view(), self._recorder(out))
        empty = group.state is GroupState.EMPTY and not group.offsets
        pending = isinstance(group, ClassicGroup) and bool(group.roster.pending)
        if empty and not pending and group.since_ms + self._settings.expiry_check_ms <= now_ms:
            self._recorder(out)(_deletion(group))
        elif empty:
            self._deadlines.set(Key(group.id, Timeout.EXPIRY), soonest_ms)
        elif next_ms is not None:
            self._deadlines.set(Key(group.id, Timeout.EXPIRY), max(next_ms, soonest_ms))

    # ── groups as a whole ───────────────────────────────────────────────────────────────────────

    def _delete_groups(self, delete: DeleteGroups, out: Outcome) -> DeleteGroupsReply:
        return DeleteGroupsReply(tuple((group_id, self._delete(group_id, out)) for group_id in delete.group_ids))

    def _delete(self, group_id: GroupId, out: Outcome) -> TrunklineError | None:
        group = self._groups.get(group_id)
        if group is None:
            return UnknownGroup(f"there is no group {group_id}")
        if group.state is not GroupState.EMPTY:
            return GroupNotEmpty(f"group {group_id} has members: they must leave first")
        record = self._recorder(out)
        committing.delete_all_offsets(group, record)
        record(_deletion(group))
        return None

    def _describe(self, describe: DescribeGroup) -> GroupDescription:
        group = self._groups.get(describe.group_id)
        if not isinstance(group, ClassicGroup):
            reason = "" if group is None else f"Group {group.id} is not a classic group."
            return GroupDescription(describe.group_id, GroupState.DEAD, "", "", (), reason)
        protocol = group.protocol if group.state is GroupState.STABLE else None
        members = tuple(
            DescribedMember(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.subscription(protocol),
                member.assignment,
            )
            for member in group.roster
        )
        return GroupDescription(group.id, group.state, group.protocol_type or "", protocol or "", members)

    def _list(self, listing: ListGroups) -> GroupList:
        states = {state.strip().lower() for state in listing.states}
        types = {kind.strip().lower() for kind in listing.types}
        listed = (
            ListedGroup(group.id, group.protocol_type or "", group.state, _type_of(group))
            for group in self._groups.values()
            if not types or _type_of(group) in types
        )
        return GroupList(tuple(one for one in listed if not states or one.state.value.lower() in states))


def _type_of(group: Group) -> str:
    return "consumer" if isinstance(group, ConsumerGroup) else "classic"


def _deletion(group: Group) -> Fact:
    return ConsumerGroupDeleted(group.id) if isinstance(group, ConsumerGroup) else GroupDeleted(group.id)


def _check_group_id(group_id: GroupId) -> None:
    if not group_id:
        raise InvalidGroupId("a group with members needs a name")


def _tidy(join: Join) -> Join:
    """A protocol named twice counts once, and no wait is shorter than none."""
    protocols = tuple({intern(name): (intern(name), data) for name, data in reversed(join.protocols)}.values())[::-1]
    return replace(join, protocols=protocols, rebalance_timeout_ms=max(join.rebalance_timeout_ms, 0))
