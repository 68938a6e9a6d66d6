"""Recovery from facts equals life: whatever happened, the log alone leads to the same groups and offsets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordination.desk import Desk, Me, as_facts, durable, subscription

from trunkline.coordination.commands import (
    DeleteGroups,
    DeleteOffsets,
    GroupSettings,
    GroupState,
    HeartbeatReply,
    JoinReply,
    LeavingMember,
    Protocols,
    SyncReply,
    Ticket,
)
from trunkline.coordination.facts import encode
from trunkline.model.errors import MemberIdRequired
from trunkline.model.ids import GroupId, MemberId

G = GroupId("readers")
PROTOCOLS: tuple[Protocols, ...] = (
    (("range", subscription("orders")), ("sticky", subscription("orders"))),
    (("sticky", subscription("orders", "old")), ("range", subscription("orders", "old"))),
    (("sticky", b"unreadable"),),
)
SETTINGS = GroupSettings(offsets_retention_ms=120_000, expiry_check_ms=30_000, max_members=4)
who = st.integers(0, 4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("settle"), st.just(0), st.integers(1, 31)),
        st.tuples(st.just("join"), who, st.integers(0, len(PROTOCOLS) - 1)),
        st.tuples(st.just("sync"), who, st.just(0)),
        st.tuples(st.just("heartbeat"), who, st.just(0)),
        st.tuples(st.just("leave"), who, st.just(0)),
        st.tuples(st.just("restart member"), who, st.just(0)),
        st.tuples(st.just("commit"), who, st.integers(0, 3)),
        st.tuples(st.just("simple commit"), st.just(0), st.integers(0, 3)),
        st.tuples(st.just("delete offsets"), st.just(0), st.integers(0, 3)),
        st.tuples(st.just("delete group"), st.just(0), st.just(0)),
        st.tuples(st.just("forget topic"), st.just(0), st.integers(0, 3)),
        st.tuples(st.just("time"), st.just(0), st.sampled_from([50, 200, 3_000, 9_000, 31_000, 130_000])),
        st.tuples(st.just("broker restart"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Life:
    """Five members (the last two static) that know what their last answers told them."""

    def __init__(self) -> None:
        self.desk = Desk(SETTINGS)
        self.me = [Me(MemberId(""), -1, "abcde"[index] if index >= 3 else None) for index in range(5)]
        self.joins: dict[int, Ticket] = {}

    def do(self, step: str, who: int, number: int) -> None:
        desk = self.desk
        self._learn()
        me = self.me[who]
        topic = "old" if number > 1 else "orders"
        if step == "settle":
            self._settle([one for one in range(5) if number >> one & 1])
        elif step == "join":
            self._join(who, PROTOCOLS[number])
        elif step == "sync":
            self._sync(who)
        elif step == "heartbeat":
            desk.heartbeat(me)
        elif step == "leave":
            desk.leave(LeavingMember(me.id, me.instance))
        elif step == "restart member":
            self.me[who] = Me(MemberId(""), -1, me.instance)
        elif step == "commit":
            desk.commit(number, me, topic=topic, partition=number % 2)
        elif step == "simple commit":
            desk.commit(number, topic=topic, partition=number % 2, retention_ms=60_000 if number == 3 else None)
        elif step == "delete offsets":
            desk.send(DeleteOffsets(desk.ticket(), G, ((topic, (number % 2,)),)))
        elif step == "delete group":
            desk.send(DeleteGroups(desk.ticket(), (G,)))
        elif step == "forget topic":
            desk.take(desk.coordinator.forget_topic(topic, desk.now_ms))
        elif step == "time":
            desk.pass_time(number)
        else:
            desk.restart()

    def _settle(self, some: list[int]) -> None:
        """These join until they have, then fetch their assignment: mostly that is a stable group."""
        for _ in range(2):
            for who in some:
                self._join(who, PROTOCOLS[who % 2])
            self.desk.pass_time(300)
            self._learn()
        for who in some:
            self._sync(who)

    def _join(self, who: int, protocols: Protocols) -> None:
        me = self.me[who]
        self.joins[who] = self.desk.join(
            me.id, instance=me.instance, needs_id=True, can_skip=who == 3, rebalance_ms=20_000, protocols=protocols
        )

    def _sync(self, who: int) -> None:
        me = self.me[who]
        self.desk.sync(me, {one.id: f"{one.id} in {me.generation}".encode() for one in self.me if one.id})

    def _learn(self) -> None:
        for who, ticket in list(self.joins.items()):
            answer = self.desk.answers.get(ticket)
            if answer is not None:
                del self.joins[who]
            if isinstance(answer, JoinReply):
                self.me[who] = Me(answer.member_id, answer.generation, self.me[who].instance)
            elif isinstance(answer, MemberIdRequired):
                self.me[who] = Me(answer.member_id, -1, None)


@settings(max_examples=500, deadline=None)
@given(steps)
def test_recovery_equals_life(steps: list[tuple[str, int, int]]) -> None:
    life = Life()
    for step in steps:
        life.do(*step)
    desk = life.desk
    alive = durable(desk.coordinator)
    assert durable(desk.recovered(desk.log)) == alive
    assert durable(desk.recovered(desk.compacted())) == alive
    assert durable(desk.recovered(encode(fact) for fact in desk.coordinator.snapshot())) == alive
    before = desk.describe()
    if before.state in (GroupState.STABLE, GroupState.EMPTY) and alive:
        desk.restart()
        assert desk.describe() == before


def test_members_go_on_after_a_restart_as_if_nothing_had_been() -> None:
    desk = Desk()
    leader, follower = desk.stable(2)
    desk.commit(5, follower)
    before = desk.describe()
    desk.restart()
    assert desk.describe() == before
    desk.got(desk.heartbeat(leader), HeartbeatReply)
    assert desk.commit_error(desk.commit(6, follower)) is None
    assert desk.got(desk.sync(follower), SyncReply).assignment == b"for " + follower.id.encode()
    assert desk.waits(desk.join(leader.id))
    assert desk.joined(desk.join(follower.id)).generation == 2


def test_a_restart_in_a_rebalance_leads_back_to_the_last_settled_generation() -> None:
    desk = Desk()
    leader, follower = desk.stable(2)
    desk.join()
    desk.join(leader.id)
    desk.restart()
    assert desk.state() is GroupState.STABLE
    desk.got(desk.heartbeat(follower), HeartbeatReply)
    assert desk.waits(desk.join(leader.id)), "the leader asks again and so starts the rebalance again"


def test_a_snapshot_is_the_log_without_what_was_replaced() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    for offset in range(100):
        desk.commit(offset, only)
    facts = desk.coordinator.snapshot()
    assert len(facts) == 2
    assert set(facts) == set(as_facts(desk.compacted()))
