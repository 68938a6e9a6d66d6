"""One group of type "consumer" (KIP-848): members heartbeat, the broker assigns, and each moves over at its own pace.

    a member comes, goes or subscribes anew, topics change  ──▶  group epoch + 1                     Assigning
    the next heartbeat                                      ──▶  a target for everybody, its epoch   Reconciling
    each member's heartbeats                                ──▶  it gives up, then gets; its epoch   Stable

Nobody waits for anybody except for a partition that is still in use. A member that does not give up in its rebalance
timeout, or is not heard of in the session timeout, is fenced: removed, and told so if it comes back. Static members
(with an instance id) that say they will be back (epoch -2) keep their place for the session timeout.

Everything lasts: `replay` alone changes it, in life and in recovery. Behaves as Apache Kafka's groups of this type,
with one difference: a member that waits for others is asked to heartbeat sooner, so that it gets its partitions soon
after they are free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from sys import intern

from trunkline.coordination.assignors import ASSIGNORS, DEFAULT, Candidate
from trunkline.coordination.commands import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    GroupSettings,
    GroupState,
)
from trunkline.coordination.consumer_facts import (
    ConsumerFact,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMember,
    ConsumerMemberDeleted,
    MemberState,
)
from trunkline.coordination.deadlines import Deadlines, GroupTimers, Timeout
from trunkline.coordination.offsets import CommittedOffsets
from trunkline.coordination.partitions import Partitions, common, each, without
from trunkline.coordination.reconciliation import reconcile
from trunkline.coordination.subscription import CONSUMER
from trunkline.coordination.topic_view import NO_DIGEST, TopicView
from trunkline.model.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    IllegalGeneration,
    InvalidRequest,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)
from trunkline.model.ids import GroupId, MemberId, TopicId

Record = Callable[[ConsumerFact], None]
"""Applies a fact and remembers it to be written."""


class ConsumerGroup:
    __slots__ = (
        "_assigned_ms",
        "_by_instance",
        "_owners",
        "_seen_serial",
        "_settings",
        "_timers",
        "id",
        "members",
        "offsets",
        "stored",
    )

    def __init__(self, group_id: GroupId, settings: GroupSettings, deadlines: Deadlines) -> None:
        self.id = group_id
        self.members: dict[MemberId, ConsumerMember] = {}
        self.offsets = CommittedOffsets()
        self.stored = ConsumerGroupStored(group_id, 0, 0, NO_DIGEST, 0)
        self._by_instance: dict[str, MemberId] = {}
        self._owners: dict[tuple[TopicId, int], tuple[MemberId, int]] = {}
        """Who has a partition, or has not given it up yet, and in which of its epochs at the latest it got it."""
        self._seen_serial = 0
        self._assigned_ms = 0
        self._settings = settings
        self._timers = GroupTimers(deadlines, group_id)

    # ── facts: the only place where what lasts changes ──────────────────────────────────────────

    def replay(self, fact: ConsumerFact) -> None:
        match fact:
            case ConsumerMember():
                owned = self._forget(fact.id)
                self.members[fact.id] = fact
                if fact.instance_id is not None:
                    self._by_instance[fact.instance_id] = fact.id
                for pair in (*each(fact.assigned), *each(fact.revoking)):
                    self._owners[pair] = owned.get(pair) or (fact.id, fact.epoch)
            case ConsumerMemberDeleted(_, member_id):
                self._forget(member_id)
                self.members.pop(member_id, None)
            case ConsumerGroupStored():
                self.stored = fact
            case ConsumerGroupDeleted():
                pass  # the coordinator forgets the whole group

    def _forget(self, member_id: MemberId) -> dict[tuple[TopicId, int], tuple[MemberId, int]]:
        """The member is no more, or about to be replaced; gives what it owned."""
        owned: dict[tuple[TopicId, int], tuple[MemberId, int]] = {}
        member = self.members.get(member_id)
        if member is None:
            return owned
        if member.instance_id is not None and self._by_instance.get(member.instance_id) == member_id:
            del self._by_instance[member.instance_id]
        for pair in (*each(member.assigned), *each(member.revoking)):
            if self.owner_of(pair) == member_id:
                owned[pair] = self._owners.pop(pair)
        return owned

    def snapshot(self) -> Iterator[ConsumerFact]:
        if self.epoch:
            yield self.stored
        yield from self.members.values()

    # ── how it stands ───────────────────────────────────────────────────────────────────────────

    @property
    def epoch(self) -> int:
        return self.stored.epoch

    @property
    def assignment_epoch(self) -> int:
        return self.stored.assignment_epoch

    @property
    def since_ms(self) -> int:
        return self.stored.since_ms

    @property
    def protocol_type(self) -> str:
        return CONSUMER

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(self._is_settled(member) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def _is_settled(self, member: ConsumerMember) -> bool:
        return member.state is MemberState.STABLE and member.epoch == self.assignment_epoch

    @property
    def assignor(self) -> str:
        """The one that most members ask for."""
        asked = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return asked.most_common(1)[0][0] if asked else DEFAULT

    def owner_of(self, pair: tuple[TopicId, int]) -> MemberId | None:
        owner = self._owners.get(pair)
        return None if owner is None else owner[0]

    def had_since(self, member_id: MemberId, epoch: int, pairs: Iterable[tuple[TopicId, int]]) -> bool:
        """Whether all of these were this member's in this epoch of it, and still are in its present, later one."""
        member = self.members.get(member_id)
        if member is None or member.classic is not None or not 0 < epoch < member.epoch:
            return False
        owners = [self._owners.get(pair) for pair in pairs]
        return all(owner is not None and owner[0] == member_id and owner[1] <= epoch for owner in owners)

    def is_something_free_for(self, member: ConsumerMember) -> bool:
        """Whether all that it still waits for can be had."""
        missing = without(member.target, member.assigned)
        return all(self.owner_of(pair) in (None, member.id) for pair in each(missing))

    def of_instance(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self._by_instance.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    def subscribed(self, view: TopicView) -> frozenset[str]:
        """Names that members gave or whose patterns match, whether there is such a topic or not."""
        return _names_of(self.members.values(), view)

    def committer(self, member_id: MemberId, epoch: int) -> ConsumerMember:
        """The member, if it may commit and fetch offsets in this epoch."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"Member {member_id} is not a member of group {self.id}.")
        if epoch != member.epoch:
            if member.classic is not None:
                raise IllegalGeneration(f"generation {epoch} of member {member_id} is over, it is {member.epoch} now")
            raise StaleMemberEpoch(f"epoch {epoch} of member {member_id} is over, it is {member.epoch} now")
        return member

    # ── heartbeats ──────────────────────────────────────────────────────────────────────────────

    def heartbeat(
        self, beat: ConsumerHeartbeat, view: TopicView, now_ms: int, record: Record
    ) -> ConsumerHeartbeatReply:
        """The beat was checked, and its pattern is usable in the present view."""
        if beat.epoch < 0:
            return self._leave(beat, view, now_ms, record)
        before = self._admit(beat, record)
        self._timers.set_session(before.id, now_ms + self._settings.consumer_session_timeout_ms)
        all_assigned = self.epoch == self.assignment_epoch and self._seen_serial == view.serial
        if beat.says_nothing_new and all_assigned and self._is_settled(before):
            return ConsumerHeartbeatReply(before.id, before.epoch, self._settings.consumer_heartbeat_interval_ms)
        updated = _updated(before, beat)
        resubscribed = (updated.topics, updated.pattern) != (before.topics, before.pattern)
        moved = self.advance(updated, beat.owned, view, now_ms, record, resubscribed=resubscribed)
        changed = moved.assigned != before.assigned
        return ConsumerHeartbeatReply(
            moved.id,
            moved.epoch,
            self._interval_ms(moved),
            moved.assigned if beat.epoch == 0 or beat.is_full or changed else None,
        )

    def advance(
        self,
        member: ConsumerMember,
        owned: Partitions | None,
        view: TopicView,
        now_ms: int,
        record: Record,
        *,
        resubscribed: bool,
    ) -> ConsumerMember:
        """With the member as it is now: a new epoch and target for all if they are due, and its own next step."""
        members = {**self.members, member.id: member}
        epoch, digest = self.epoch or 1, self.stored.metadata_digest
        if resubscribed or self._seen_serial != view.serial:
            digest = view.digest(_names_of(members.values(), view))
            epoch += resubscribed or digest != self.stored.metadata_digest
            self._seen_serial = view.serial
        if epoch > self.assignment_epoch and self._must_wait(len(members), now_ms):
            if epoch > self.epoch:
                record(replace(self.stored, epoch=epoch, metadata_digest=digest))
        elif epoch > self.assignment_epoch:
            self._assigned_ms = now_ms
            targets = self._targets(members, view)
            record(replace(self.stored, epoch=epoch, assignment_epoch=epoch, metadata_digest=digest))
            for one in tuple(self.members.values()):
                if one.id != member.id and one.target != targets[one.id]:
                    record(replace(one, target=targets[one.id]))
            member = replace(member, target=targets[member.id])
        moved = reconcile(member, self.assignment_epoch, owned, self.owner_of)
        if moved != self.members.get(moved.id):
            record(moved)
            self._watch_revocation(moved, now_ms)
        return moved

    def _must_wait(self, members: int, now_ms: int) -> bool:
        """A large group was shared out a moment ago: more may come, and one target for all of them will do."""
        is_large = members >= self._settings.consumer_large_group
        return is_large and 0 <= now_ms - self._assigned_ms < self._settings.consumer_assignment_interval_ms

    def _interval_ms(self, member: ConsumerMember) -> int:
        usual_ms = self._settings.consumer_heartbeat_interval_ms
        if member.state is MemberState.UNRELEASED or self.epoch > self.assignment_epoch:
            return min(usual_ms, self._settings.consumer_waiting_interval_ms)
        return usual_ms

    def _targets(self, members: dict[MemberId, ConsumerMember], view: TopicView) -> dict[MemberId, Partitions]:
        ids: dict[tuple[tuple[str, ...], str | None], frozenset[TopicId]] = {}
        candidates = []
        counts: dict[TopicId, int] = {}
        for member in members.values():
            subscription = (member.topics, member.pattern)
            wanted = ids.get(subscription)
            if wanted is None:
                topics = [view.topics[name] for name in _names_of((member,), view) if name in view.topics]
                counts.update((topic.id, topic.partitions) for topic in topics)
                wanted = ids[subscription] = frozenset(topic.id for topic in topics)
            candidates.append(Candidate(member.id, member.instance_id, wanted, member.target))
        asked = Counter(member.assignor for member in members.values() if member.assignor is not None)
        name = asked.most_common(1)[0][0] if asked else DEFAULT
        return ASSIGNORS.get(name, ASSIGNORS[DEFAULT])(candidates, counts)

    def _watch_revocation(self, member: ConsumerMember, now_ms: int) -> None:
        if member.state is MemberState.UNREVOKED and member.classic is None:
            self._timers.set_member(Timeout.REVOKE, member.id, now_ms + member.rebalance_timeout_ms)
        else:
            self._timers.cancel_member(Timeout.REVOKE, member.id)

    # ── who may come in ─────────────────────────────────────────────────────────────────────────

    def _admit(self, beat: ConsumerHeartbeat, record: Record) -> ConsumerMember:
        """The member that beats; for one that is new, or a static one that restarted, as it begins."""
        known = self.members.get(beat.member_id)
        if known is None and len(self.members) >= self._settings.max_members:
            raise GroupFull(
                f"The consumer group has reached its maximum capacity of {self._settings.max_members} members."
            )
        if beat.instance_id is not None:
            return self._admit_static(beat, beat.instance_id, record)
        if known is None:
            if beat.epoch != 0:
                raise UnknownMember(f"Member {beat.member_id} is not a member of group {self.id}.")
            return ConsumerMember(self.id, beat.member_id)
        _check_epoch(known, beat)
        return known

    def _admit_static(self, beat: ConsumerHeartbeat, instance_id: str, record: Record) -> ConsumerMember:
        holder = self.of_instance(instance_id)
        if beat.epoch != 0:
            holder = self._holder(holder, beat)
            _check_epoch(holder, beat)
            return holder
        if holder is None:
            return ConsumerMember(self.id, beat.member_id)
        if holder.classic is None and holder.epoch != LEAVES_FOR_A_WHILE:
            raise UnreleasedInstance(
                f"Static member {beat.member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {holder.id} member."
            )
        return self.replace_static(holder, beat.member_id, record)

    def replace_static(self, holder: ConsumerMember, member_id: MemberId, record: Record) -> ConsumerMember:
        """The same place under a new id, from epoch 0."""
        self._timers.cancel_member_all(holder.id)
        record(ConsumerMemberDeleted(self.id, holder.id))
        return replace(holder, id=member_id, epoch=0, previous_epoch=0)

    def _holder(self, holder: ConsumerMember | None, beat: ConsumerHeartbeat) -> ConsumerMember:
        if holder is None:
            raise UnknownMember(f"Instance id {beat.instance_id} is unknown.")
        if holder.id != beat.member_id:
            raise FencedInstance(
                f"Static member {beat.member_id} with instance id {beat.instance_id} was fenced by member {holder.id}."
            )
        return holder

    # ── who goes ────────────────────────────────────────────────────────────────────────────────

    def _leave(self, beat: ConsumerHeartbeat, view: TopicView, now_ms: int, record: Record) -> ConsumerHeartbeatReply:
        if beat.instance_id is None:
            member = self.members.get(beat.member_id)
            if member is None:
                raise UnknownMember(f"Member {beat.member_id} is not a member of group {self.id}.")
        else:
            member = self._holder(self.of_instance(beat.instance_id), beat)
        if beat.epoch == LEAVES_FOR_A_WHILE and beat.instance_id is not None:
            record(replace(member, epoch=LEAVES_FOR_A_WHILE, revoking={}))
            self._timers.cancel_member(Timeout.REVOKE, member.id)
        else:
            self.remove((member.id,), view, now_ms, record)
        return ConsumerHeartbeatReply(member.id, beat.epoch, 0)

    def remove(self, member_ids: Iterable[MemberId], view: TopicView, now_ms: int, record: Record) -> None:
        """They are no members any more; the others get their partitions with their next heartbeats."""
        for member_id in member_ids:
            self._timers.cancel_member_all(member_id)
            record(ConsumerMemberDeleted(self.id, member_id))
        record(
            replace(
                self.stored,
                epoch=self.epoch + 1,
                metadata_digest=view.digest(self.subscribed(view)),
                since_ms=self.since_ms if self.members else now_ms,
            )
        )

    def is_late(self, timeout: Timeout, member_id: MemberId) -> bool:
        """A member's time is up: whether it is to be removed."""
        member = self.members.get(member_id)
        return member is not None and (timeout is not Timeout.REVOKE or member.state is MemberState.UNREVOKED)

    # ── time ────────────────────────────────────────────────────────────────────────────────────

    def touch(self, member: ConsumerMember, now_ms: int) -> None:
        timeout_ms = self._settings.consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._timers.set_session(member.id, now_ms + timeout_ms)

    def await_join(self, member: ConsumerMember, now_ms: int) -> None:
        """A member of the classic protocol was told to join again; from then on its time runs."""
        self._timers.bring_forward_member(Timeout.JOIN, member.id, now_ms + member.rebalance_timeout_ms)

    def await_sync(self, member: ConsumerMember, now_ms: int) -> None:
        self._timers.cancel_member(Timeout.JOIN, member.id)
        self._timers.set_member(Timeout.SYNC, member.id, now_ms + member.rebalance_timeout_ms)

    def synced(self, member: ConsumerMember) -> None:
        self._timers.cancel_member(Timeout.SYNC, member.id)

    def restart_sessions(self, now_ms: int) -> None:
        for member in self.members.values():
            self.touch(member, now_ms)
            self._watch_revocation(member, now_ms)

    def forget_deadlines(self) -> None:
        self._timers.cancel_all(tuple(self.members))


def check_heartbeat(beat: ConsumerHeartbeat) -> None:
    """InvalidRequest or UnsupportedAssignor unless it makes sense by itself."""
    for value, name in ((beat.group_id, "GroupId"), (beat.instance_id, "InstanceId"), (beat.rack_id, "RackId")):
        if value is not None and not value.strip():
            raise InvalidRequest(f"{name} can't be empty.")
    if (beat.must_have_id or beat.epoch != 0) and not beat.member_id.strip():
        raise InvalidRequest("MemberId can't be empty.")
    if beat.epoch == 0:
        if beat.rebalance_timeout_ms is None:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if beat.owned is None or beat.owned:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if beat.topics is None and beat.pattern is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif beat.epoch == LEAVES_FOR_A_WHILE:
        if beat.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif beat.epoch < LEAVES:
        raise InvalidRequest("MemberEpoch is invalid.")
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        raise UnsupportedAssignor(
            f"ServerAssignor {beat.assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}."
        )


def _check_epoch(member: ConsumerMember, beat: ConsumerHeartbeat) -> None:
    """A member that missed the answer with its new epoch comes with the one before, and has not more than it may.

    One that joins again has given up everything, and may always.
    """
    if beat.epoch > member.epoch:
        raise FencedMemberEpoch(
            f"The consumer group member has a greater member epoch ({beat.epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )
    if 0 < beat.epoch < member.epoch:
        within = beat.owned is not None and common(beat.owned, member.assigned) == beat.owned
        if beat.epoch != member.previous_epoch or not within:
            raise FencedMemberEpoch(
                f"The consumer group member has a smaller member epoch ({beat.epoch}) than the one known by the group "
                f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
            )


def _updated(member: ConsumerMember, beat: ConsumerHeartbeat) -> ConsumerMember:
    """What a heartbeat does not say stays as it is; an empty pattern takes the pattern away."""
    return replace(
        member,
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=intern(beat.client_id),
        client_host=intern(beat.client_host),
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if beat.rebalance_timeout_ms is None else beat.rebalance_timeout_ms
        ),
        assignor=member.assignor if beat.assignor is None else beat.assignor,
        topics=member.topics if beat.topics is None else tuple(sorted({intern(topic) for topic in beat.topics})),
        pattern=member.pattern if beat.pattern is None else beat.pattern or None,
        classic=None,
    )


def _names_of(members: Iterable[ConsumerMember], view: TopicView) -> frozenset[str]:
    names: set[str] = set()
    for topics, pattern in {(member.topics, member.pattern) for member in members}:
        names.update(topics)
        if pattern is not None:
            names |= view.matching(pattern)
    return frozenset(names)
