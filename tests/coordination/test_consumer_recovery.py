"""Groups of the consumer protocol, and groups that change their protocol: the log alone leads to where they were."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordination.consumers import beat, described, join, make_beat
from tests.coordination.desk import Desk, G, Me, durable, subscription

from trunkline.coordination.commands import (
    ConsumerHeartbeatReply,
    DeleteGroups,
    GroupSettings,
    JoinReply,
    LeavingMember,
    Ticket,
)
from trunkline.coordination.facts import decode, encode
from trunkline.coordination.partitions import Partitions
from trunkline.model.errors import MemberIdRequired, TrunklineError
from trunkline.model.ids import MemberId

SETTINGS = GroupSettings(offsets_retention_ms=120_000, expiry_check_ms=30_000, max_members=4)
WISHES: tuple[dict[str, object], ...] = (
    {"topics": ("orders",)},
    {"topics": ("orders", "old"), "assignor": "range"},
    {"pattern": "o.*"},
    {"topics": ("nothing",)},
)
who = st.integers(0, 4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), who, st.integers(0, len(WISHES) - 1)),
        st.tuples(st.just("beat"), who, st.integers(0, 2)),
        st.tuples(st.just("beat"), who, st.integers(0, 2)),
        st.tuples(st.just("leave"), who, st.integers(0, 1)),
        st.tuples(st.just("commit"), who, st.integers(0, 3)),
        st.tuples(st.just("topics"), st.integers(1, 6), st.integers(0, 2)),
        st.tuples(st.just("classic join"), who, st.just(0)),
        st.tuples(st.just("classic sync"), who, st.just(0)),
        st.tuples(st.just("classic beat"), who, st.just(0)),
        st.tuples(st.just("classic leave"), who, st.just(0)),
        st.tuples(st.just("delete group"), st.just(0), st.just(0)),
        st.tuples(st.just("time"), st.just(0), st.sampled_from([200, 3_000, 20_000, 46_000, 130_000])),
        st.tuples(st.just("broker restart"), st.just(0), st.just(0)),
    ),
    max_size=50,
)


class Life:
    """Members (the last two static) of the new protocol and of the old one, in one group."""

    def __init__(self) -> None:
        self.desk = Desk(SETTINGS)
        self.desk.topics.set("orders", 3)
        self.epochs = [0] * 5
        self.owned: list[Partitions] = [{}] * 5
        self.classic = [Me(MemberId(""), -1)] * 5
        self.joins: dict[int, Ticket] = {}

    def do(self, step: str, who: int, number: int) -> None:
        desk, instance = self.desk, "abcde"[who % 5] if who >= 3 else None
        self._learn()
        if step == "join":
            wish = WISHES[number]
            self._beat(who, 0, owned={}, rebalance_timeout_ms=10_000, instance_id=instance, **wish)
        elif step == "beat":
            owned: Partitions | None = None if number == 0 else self.owned[who] if number == 1 else {}
            self._beat(who, self.epochs[who], owned=owned, instance_id=instance)
        elif step == "leave":
            self._beat(who, -2 if number and instance else -1, instance_id=instance)
        elif step == "commit":
            desk.commit(number, Me(MemberId(f"m{who}"), self.epochs[who]), partition=number)
        elif step == "topics":
            name = ("orders", "old", "other")[number]
            if who == 6:
                desk.topics.delete(name)
            else:
                desk.topics.set(name, who)
        elif step == "delete group":
            desk.send(DeleteGroups(desk.ticket(), (G,)))
        elif step == "time":
            desk.pass_time(number)
        elif step == "broker restart":
            desk.restart()
        else:
            self._classic(step, who)

    def _beat(self, who: int, epoch: int, **more: object) -> None:
        # Static members have one id per life, so that taking over from oneself is tried as well.
        command = make_beat(self.desk, f"m{who}", epoch, **more)  # type: ignore[arg-type]
        self.desk.send(command)
        answer = self.desk.answers[command.ticket]
        if isinstance(answer, ConsumerHeartbeatReply):
            self.epochs[who] = max(answer.epoch, 0)
            if answer.assignment is not None:
                self.owned[who] = answer.assignment
        else:
            assert isinstance(answer, TrunklineError)
            self.epochs[who], self.owned[who] = 0, {}

    def _classic(self, step: str, who: int) -> None:
        me = self.classic[who]
        if step == "classic join":
            protocols = (("range", subscription("orders")), ("sticky", subscription("orders")))
            self.joins[who] = self.desk.join(me.id, needs_id=who % 2 == 0, protocols=protocols, rebalance_ms=10_000)
        elif step == "classic sync":
            self.desk.sync(me, {me.id: b""})
        elif step == "classic beat":
            self.desk.heartbeat(me)
        else:
            self.desk.leave(LeavingMember(me.id))

    def _learn(self) -> None:
        for who, ticket in list(self.joins.items()):
            answer = self.desk.answers.get(ticket)
            if answer is not None:
                del self.joins[who]
            if isinstance(answer, JoinReply):
                self.classic[who] = Me(answer.member_id, answer.generation)
            elif isinstance(answer, MemberIdRequired):
                self.classic[who] = Me(answer.member_id, -1)
            elif answer is not None:
                self.classic[who] = Me(MemberId(""), -1)


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
    for fact in desk.coordinator.snapshot():
        assert decode(*encode(fact)) == fact


def test_members_go_on_after_a_restart_as_if_nothing_had_been() -> None:
    desk = Desk()
    orders = desk.topics.set("orders", 4)
    first, second = join(desk, "a"), join(desk, "b")
    beat(desk, "a", first.epoch)
    before = described(desk)
    desk.restart()
    assert described(desk) == before
    assert beat(desk, "a", first.epoch, {orders: (0, 1)}).epoch == second.epoch
    desk.restart()
    assert beat(desk, "b", second.epoch).assignment == {orders: (2, 3)}
    desk.restart()
    assert beat(desk, "b", second.epoch).assignment is None


def test_a_member_that_never_comes_back_after_a_restart_is_fenced() -> None:
    desk = Desk()
    orders = desk.topics.set("orders", 4)
    first, second = join(desk, "a", rebalance_ms=10_000), join(desk, "b")
    beat(desk, "a", first.epoch)
    desk.restart()
    desk.pass_time(11_000)
    assert beat(desk, "b", second.epoch).assignment == {orders: (0, 1, 2, 3)}, "what it had to give up is free"


def test_topics_that_changed_while_the_broker_was_down_are_seen() -> None:
    desk = Desk()
    orders = desk.topics.set("orders", 4)
    epoch = join(desk, "a").epoch
    desk.topics.set("orders", 5)
    desk.restart()
    assert beat(desk, "a", epoch).assignment == {orders: (0, 1, 2, 3, 4)}
