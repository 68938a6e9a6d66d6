"""One consumer group of the classic protocol: members join, a leader assigns, everybody fetches its part.

                     first join                       all have joined, or time is up
        Empty ────────────────────▶ PreparingRebalance ──────────────────────▶ CompletingRebalance
          ▲                          │      ▲      ▲                                │        │
          └──────── nobody joined ───┘      │      └── joins, leaves, time-outs ────┘        │ the leader's sync:
                                            │                                                ▼ facts
                                            └──── joins, leaves, time-outs ──────────────  Stable

What outlives a restart is the last GroupStored: `replay` alone sets it, in life and in recovery, and the group becomes
what it says, Stable or Empty. All else (who waits, who is pending, the rebalance under way) is forgotten at a restart;
members then come back with the ids and the generation that they have. Behaves as Apache Kafka's classic groups; the
differences: a join or sync shows that its member lives, a member that leaves while it waits is answered, and a pending
member that leaves starts no rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from trunkline.coordination.commands import (
    GroupSettings,
    GroupState,
    Join,
    JoinReply,
    LeavingMember,
    Outcome,
    Sync,
    SyncReply,
)
from trunkline.coordination.deadlines import Deadlines, GroupTimers, Timeout
from trunkline.coordination.facts import GroupStored
from trunkline.coordination.members import Member, Roster
from trunkline.coordination.offsets import CommittedOffsets
from trunkline.model.errors import (
    FencedInstance,
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    TrunklineError,
    UnknownMember,
)
from trunkline.model.ids import GroupId, MemberId

_LONGEST_PREFIX: Final = 249
"""Of a member id, from the client's own name for itself: what is made of it must fit everywhere it is told."""


class ClassicGroup:
    __slots__ = (
        "_extend_initial_delay",
        "_initial_delay_left_ms",
        "_settings",
        "_timers",
        "generation",
        "id",
        "offsets",
        "protocol",
        "protocol_type",
        "roster",
        "since_ms",
        "state",
        "stored",
    )

    def __init__(self, group_id: GroupId, settings: GroupSettings, deadlines: Deadlines) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.since_ms = 0
        self.roster = Roster()
        self.offsets = CommittedOffsets()
        self.stored: GroupStored | None = None
        self._settings = settings
        self._timers = GroupTimers(deadlines, group_id)
        self._initial_delay_left_ms: int | None = None
        """None unless the rebalance started from Empty: how much longer it may be delayed for more members."""
        self._extend_initial_delay = False

    # ── facts: the only place where what lasts changes ──────────────────────────────────────────

    def replay(self, fact: GroupStored) -> None:
        self.stored = fact
        self.protocol_type = fact.protocol_type
        self.generation = fact.generation
        self.protocol = fact.protocol
        self.since_ms = fact.since_ms
        self.roster.become(fact.members, fact.protocol, fact.leader)
        self.state = GroupState.STABLE if fact.members else GroupState.EMPTY

    def _store(self, assignments: Mapping[MemberId, bytes], now_ms: int, out: Outcome) -> None:
        fact = GroupStored(
            self.id,
            self.protocol_type,
            self.generation,
            self.protocol,
            self.roster.leader_id,
            now_ms,
            tuple(member.stored(self.protocol, assignments.get(member.id, b"")) for member in self.roster),
        )
        self.replay(fact)
        out.facts.append(fact)
        self._timers.bring_forward(Timeout.EXPIRY, now_ms + self._settings.expiry_check_ms)

    # ── join ────────────────────────────────────────────────────────────────────────────────────

    def join(self, join: Join, new_suffix: Callable[[], str], now_ms: int, out: Outcome) -> None:
        self._refuse_when_full(join, now_ms, out)
        same_type = self.protocol_type == join.protocol_type
        if self.state is not GroupState.EMPTY and not (same_type and self.roster.shares_a_protocol(join.protocols)):
            raise InconsistentProtocol(
                f"group {self.id} is of type {self.protocol_type!r} and its members share no protocol with "
                f"{[name for name, _ in join.protocols]} of type {join.protocol_type!r}"
            )
        if not join.member_id:
            self._join_without_id(join, new_suffix, now_ms, out)
        elif join.member_id in self.roster.pending and join.instance_id is None:
            self._add(join, join.member_id, now_ms, out)
        else:
            self._rejoin(join, self.roster.known(join.member_id, join.instance_id), now_ms, out)

    def _refuse_when_full(self, join: Join, now_ms: int, out: Outcome) -> None:
        """While members join, those that have joined count, so that the last to come back is the one too many."""
        member = self.roster.get(join.member_id) if join.member_id else self.roster.of_instance(join.instance_id)
        most = self._settings.max_members
        if self.state is GroupState.EMPTY:
            full = False
        elif self.state is GroupState.PREPARING_REBALANCE:
            full = (member is None or member.join_ticket is None) and self.roster.waiting_joins >= most
        else:
            full = member is None and len(self.roster) >= most
        if not full and (join.member_id or len(self.roster.pending) < most):
            return
        if member is not None:
            self._drop(member, out)
            self._rebalance(now_ms, out)
        self.roster.pending.discard(join.member_id)
        raise GroupFull(f"group {self.id} has {most} members, which is the most a group may have")

    def _join_without_id(self, join: Join, new_suffix: Callable[[], str], now_ms: int, out: Outcome) -> None:
        prefix = join.client_id if join.instance_id is None else join.instance_id
        member_id = MemberId(f"{prefix[:_LONGEST_PREFIX]}-{new_suffix()}")
        before = self.roster.of_instance(join.instance_id)
        if before is not None:
            self._replace(before, join, member_id, now_ms, out)
        elif join.instance_id is None and join.needs_member_id:
            self.roster.pending.add(member_id)
            self._timers.set_session(member_id, now_ms + join.session_timeout_ms)
            raise MemberIdRequired(member_id)
        else:
            self._add(join, member_id, now_ms, out)

    def _add(self, join: Join, member_id: MemberId, now_ms: int, out: Outcome) -> None:
        member = Member.joining(join, member_id)
        member.is_new = True
        if not len(self.roster):
            self.protocol_type = join.protocol_type
        self._extend_initial_delay = self.state is GroupState.PREPARING_REBALANCE
        self.roster.add(member)
        self.roster.park_join(member, join.ticket)
        self._timers.set_session(member_id, now_ms + self._settings.new_member_join_timeout_ms)
        self._rebalance(now_ms, out)

    def _rejoin(self, join: Join, member: Member, now_ms: int, out: Outcome) -> None:
        """One that brings nothing new is told the present generation: it has probably missed the answer."""
        self.touch(member, now_ms)
        settled = self.state is GroupState.COMPLETING_REBALANCE or (
            self.state is GroupState.STABLE and member.id != self.roster.leader_id
        )
        if settled and member.protocols == join.protocols:
            out.answer(join.ticket, self._joined(member))
        else:
            self.roster.update(member, join)
            out.answer(self.roster.park_join(member, join.ticket), _superseded(member))
            self._rebalance(now_ms, out)

    def _replace(self, before: Member, join: Join, member_id: MemberId, now_ms: int, out: Outcome) -> None:
        """A static member that has restarted: it takes over its old place, and whoever still uses that is fenced."""
        leader_before = self.roster.leader_id or before.id
        member = Member.joining(join, member_id)
        for ticket in self.roster.replace(before, member):
            out.answer(ticket, FencedInstance(f"{member.id} took over instance {member.instance_id} from {before.id}"))
        self._timers.cancel_session(before.id)
        self.touch(member, now_ms)
        if self.state is GroupState.STABLE and self.roster.choose_protocol() == self.protocol:
            self._store({one.id: one.assignment for one in self.roster}, now_ms, out)
            reply = self._joined(member, skip_assignment=member.id == self.roster.leader_id)
            if not join.can_skip_assignment:  # a leader that is told of its old id does not assign either
                reply = replace(reply, leader=leader_before, members=(), skip_assignment=False)
            out.answer(join.ticket, reply)
        else:
            self.roster.park_join(member, join.ticket)
            self._rebalance(now_ms, out)

    def _joined(self, member: Member, *, skip_assignment: bool = False) -> JoinReply:
        leader_id = self.roster.leader_id or MemberId("")
        members = self.roster.subscriptions(self.protocol) if member.id == leader_id else ()
        return JoinReply(
            member.id, self.generation, self.protocol_type, self.protocol, leader_id, members, skip_assignment
        )

    # ── rebalance ───────────────────────────────────────────────────────────────────────────────

    def _rebalance(self, now_ms: int, out: Outcome) -> None:
        """Somebody came, went or changed: start a rebalance, or see whether the one under way is complete."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._prepare(now_ms, out)
        elif self._initial_delay_left_ms is None and self.roster.all_joined:
            self._complete_join(now_ms, out)

    def know_protocols(self, joins: Iterable[Join]) -> None:
        """All protocols that its members can follow, where the fact that made it has only one."""
        for join in joins:
            member = self.roster.get(join.member_id)
            if member is not None:
                self.roster.update(member, join)

    def start_rebalance(self, now_ms: int, out: Outcome) -> None:
        self._rebalance(now_ms, out)

    def call_off(self, out: Outcome) -> None:
        """Whoever waits is told to join again: the group is about to be of another type."""
        for member in self.roster:
            for ticket in (self.roster.take_join(member), self.roster.take_sync(member)):
                out.answer(ticket, RebalanceInProgress(f"group {self.id} rebalances: join again"))

    def _prepare(self, now_ms: int, out: Outcome) -> None:
        from_empty = self.state is GroupState.EMPTY
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._call_off_syncs(now_ms, out)
        self.roster.unsynced.clear()
        self._timers.cancel(Timeout.SYNC)
        self.state = GroupState.PREPARING_REBALANCE
        if from_empty:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._initial_delay_left_ms = max(self.roster.patience_ms - delay_ms, 0)
            self._extend_initial_delay = False
            self._timers.set(Timeout.JOIN, now_ms + delay_ms)
        elif self.roster.all_joined or not len(self.roster):
            self._complete_join(now_ms, out)
        else:
            self._timers.set(Timeout.JOIN, now_ms + self.roster.patience_ms)

    def _call_off_syncs(self, now_ms: int, out: Outcome) -> None:
        for member in self.roster:
            member.assignment = b""
            ticket = self.roster.take_sync(member)
            if ticket is not None:
                out.answer(ticket, RebalanceInProgress(f"group {self.id} rebalances: join again"))
                self.touch(member, now_ms)

    def _join_time_is_up(self, now_ms: int, out: Outcome) -> None:
        left_ms = self._initial_delay_left_ms
        if left_ms and self._extend_initial_delay:
            delay_ms = min(self._settings.initial_rebalance_delay_ms, left_ms)
            self._initial_delay_left_ms = left_ms - delay_ms
            self._extend_initial_delay = False
            self._timers.set(Timeout.JOIN, now_ms + delay_ms)
        else:
            self._complete_join(now_ms, out)

    def _complete_join(self, now_ms: int, out: Outcome) -> None:
        """The next generation: those that joined, and static members, which may be away as long as their session."""
        self._timers.cancel(Timeout.JOIN)
        for member in [one for one in self.roster if one.join_ticket is None and one.instance_id is None]:
            self._drop(member, out)
        if len(self.roster) and not self.roster.elect_joined_leader():
            self._timers.set(Timeout.JOIN, now_ms + self.roster.patience_ms)
            return
        self._initial_delay_left_ms = None
        self.generation += 1
        self.since_ms = now_ms
        if not len(self.roster):
            self.protocol = None
            self._store({}, now_ms, out)
            return
        self.protocol = self.roster.choose_protocol()
        self.state = GroupState.COMPLETING_REBALANCE
        for member in self.roster:
            out.answer(self.roster.take_join(member), self._joined(member))
            member.is_new = False
            self.touch(member, now_ms)
            self.roster.unsynced.add(member.id)
        self._timers.set(Timeout.SYNC, now_ms + self.roster.patience_ms)

    # ── sync ────────────────────────────────────────────────────────────────────────────────────

    def sync(self, sync: Sync, now_ms: int, out: Outcome) -> None:
        member = self.active(sync.member_id, sync.instance_id, sync.generation)
        if _differs(sync.protocol_type, self.protocol_type) or _differs(sync.protocol, self.protocol):
            raise InconsistentProtocol(
                f"group {self.id} follows {self.protocol} of type {self.protocol_type}, "
                f"not {sync.protocol} of type {sync.protocol_type}"
            )
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group {self.id} rebalances: join again")
        self.touch(member, now_ms)
        self.roster.unsynced.discard(member.id)
        if not self.roster.unsynced:
            self._timers.cancel(Timeout.SYNC)
        if self.state is GroupState.STABLE:
            out.answer(sync.ticket, self._assigned(member))
            return
        out.answer(self.roster.park_sync(member, sync.ticket), _superseded(member))
        if member.id == self.roster.leader_id:
            self._store(dict(sync.assignments), now_ms, out)
            for one in self.roster:
                ticket = self.roster.take_sync(one)
                if ticket is not None:
                    out.answer(ticket, self._assigned(one))
                    self.touch(one, now_ms)

    def _assigned(self, member: Member) -> SyncReply:
        return SyncReply(self.protocol_type, self.protocol, member.assignment)

    # ── life and death of members ───────────────────────────────────────────────────────────────

    def active(self, member_id: MemberId, instance_id: str | None, generation: int) -> Member:
        """The member, if it is who it says and of this generation."""
        member = self.roster.known(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGeneration(f"generation {generation} of group {self.id} is over, it is {self.generation} now")
        return member

    def heartbeat(self, member: Member, now_ms: int) -> None:
        self.touch(member, now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group {self.id} rebalances: join again")

    def touch(self, member: Member, now_ms: int) -> None:
        """It was heard of. One in its first join has a longer time than its session's, from its start."""
        if not member.is_new:
            self._timers.set_session(member.id, now_ms + member.session_timeout_ms)

    def leave(self, leaving: Iterable[LeavingMember], now_ms: int, out: Outcome) -> list[TrunklineError | None]:
        """What went wrong with each of them. A pending member that goes may be the one for whom all others waited."""
        before = len(self.roster)
        errors = [self._leave(one, out) for one in leaving]
        if len(self.roster) < before or self.state is GroupState.PREPARING_REBALANCE:
            self._rebalance(now_ms, out)
        return errors

    def _leave(self, leaving: LeavingMember, out: Outcome) -> TrunklineError | None:
        if leaving.member_id in self.roster.pending:
            self.roster.pending.discard(leaving.member_id)
            self._timers.cancel_session(leaving.member_id)
            return None
        member = self.roster.of_instance(leaving.instance_id)
        if leaving.member_id or member is None:
            try:
                member = self.roster.known(leaving.member_id, leaving.instance_id)
            except TrunklineError as error:
                return error
        self._drop(member, out)
        return None

    def _drop(self, member: Member, out: Outcome) -> None:
        self._timers.cancel_session(member.id)
        for ticket in self.roster.remove(member):
            out.answer(ticket, UnknownMember(f"{member.id} was removed from group {self.id}: join again without an id"))

    def time_is_up(self, timeout: Timeout, member_id: MemberId, now_ms: int, out: Outcome) -> None:
        if timeout is Timeout.SESSION:
            self._session_is_over(member_id, now_ms, out)
        elif timeout is Timeout.JOIN:
            self._join_time_is_up(now_ms, out)
        elif timeout is Timeout.SYNC:
            self._drop_unsynced(now_ms, out)

    def _session_is_over(self, member_id: MemberId, now_ms: int, out: Outcome) -> None:
        member = self.roster.get(member_id)
        if member is None:
            self.roster.pending.discard(member_id)
        elif member.waits and not member.is_new:
            return  # its deadline is set again when it is answered
        else:
            self._drop(member, out)
        if self.state is not GroupState.PREPARING_REBALANCE:
            if member is not None:
                self._prepare(now_ms, out)
        elif self.roster.all_joined:
            self._complete_join(now_ms, out)

    def _drop_unsynced(self, now_ms: int, out: Outcome) -> None:
        unsynced = [one for one in self.roster if one.id in self.roster.unsynced]
        for member in unsynced:
            self._drop(member, out)
        if unsynced:
            self._prepare(now_ms, out)

    def restart_sessions(self, now_ms: int) -> None:
        for member in self.roster:
            self.touch(member, now_ms)

    def forget_deadlines(self) -> None:
        self._timers.cancel_all((*self.roster.pending, *(member.id for member in self.roster)))


def _superseded(member: Member) -> TrunklineError:
    return NotCoordinator(f"a newer request of {member.id} took the place of this one")


def _differs(asked: str | None, present: str | None) -> bool:
    return asked is not None and present is not None and asked != present
