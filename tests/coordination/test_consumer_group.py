"""Groups of the consumer protocol: the broker assigns, members follow, and nobody reads what another still has."""

from __future__ import annotations

import pytest
from tests.coordination.consumers import Client, beat, described, join, make_beat, send, settle
from tests.coordination.desk import Desk, G, Me

from trunkline.coordination.commands import (
    ConsumerHeartbeatReply,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchOffsets,
    FetchReply,
    GroupList,
    GroupSettings,
    GroupState,
    Leave,
    LeaveReply,
    LeavingMember,
    ListGroups,
)
from trunkline.coordination.consumer_facts import MemberState
from trunkline.model.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    GroupSubscribed,
    InvalidPattern,
    InvalidRequest,
    StaleMemberEpoch,
    TrunklineError,
    UnknownGroup,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)
from trunkline.model.ids import MemberId


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.topics.set("orders", 6)
    return desk


def test_the_first_member_gets_everything_at_once(desk: Desk) -> None:
    reply = join(desk, "a")
    assert reply.assignment == {desk.topics.image["orders"].id: (0, 1, 2, 3, 4, 5)}
    assert reply.interval_ms == 5_000
    assert described(desk).state is GroupState.STABLE


def test_a_second_member_gets_its_half_only_after_the_first_gave_it_up(desk: Desk) -> None:
    orders = desk.topics.image["orders"].id
    first = join(desk, "a")
    second = join(desk, "b")
    assert second.assignment == {}
    assert second.interval_ms < 1_000, "one that waits comes back soon"
    told = beat(desk, "a", first.epoch)
    assert told.assignment == {orders: (0, 1, 2)}
    assert told.epoch == first.epoch, "it stays in its epoch until it has given up"
    assert beat(desk, "b", second.epoch).assignment is None
    assert beat(desk, "a", first.epoch, {orders: (0, 1, 2, 3)}).epoch == first.epoch, "not all is given up yet"
    assert beat(desk, "a", first.epoch, {orders: (0, 1, 2)}).epoch == second.epoch
    assert beat(desk, "b", second.epoch).assignment == {orders: (3, 4, 5)}
    assert described(desk).state is GroupState.STABLE


def test_a_settled_member_is_not_told_its_assignment_again_unless_it_asks_for_all(desk: Desk) -> None:
    reply = join(desk, "a")
    assert beat(desk, "a", reply.epoch).assignment is None
    full = beat(desk, "a", reply.epoch, reply.assignment, topics=("orders",), rebalance_timeout_ms=60_000)
    assert full.assignment == reply.assignment


def test_what_a_member_leaves_behind_goes_to_the_others(desk: Desk) -> None:
    clients = [Client(desk, name).join() for name in "abc"]
    settle(*clients)
    assert [one.count for one in clients] == [2, 2, 2]
    assert beat(desk, "a", -1).epoch == -1
    assert described(desk).state is GroupState.ASSIGNING
    settle(*clients[1:])
    assert [one.count for one in clients[1:]] == [3, 3]
    beat(desk, "b", -1)
    beat(desk, "c", -1)
    assert described(desk).state is GroupState.EMPTY


def test_new_partitions_and_new_topics_reach_members_with_their_next_heartbeat(desk: Desk) -> None:
    client = Client(desk, "a", ("later", "orders")).join()
    desk.topics.set("orders", 8)
    assert client.beat().count == 8
    desk.topics.set("later", 3)
    assert client.beat().count == 11
    desk.topics.delete("orders")
    assert client.beat().count == 3
    desk.topics.set("other", 5)
    epoch = client.epoch
    assert client.beat().epoch == epoch, "a topic nobody asked for changes nothing"


def test_a_topic_made_again_under_its_name_is_assigned_anew(desk: Desk) -> None:
    client = Client(desk, "a").join()
    desk.topics.delete("orders")
    again = desk.topics.set("orders", 2)
    client.beat()
    assert client.owned == {again: (0, 1)}


def test_a_pattern_finds_topics_that_are_there_and_those_that_come(desk: Desk) -> None:
    old = desk.topics.set("topic-1", 1)
    reply = join(desk, "a", pattern="^topic-.*")
    assert reply.assignment == {old: (0,)}
    new = desk.topics.set("topic-2", 2)
    assert beat(desk, "a", reply.epoch).assignment == {old: (0,), new: (0, 1)}
    member = described(desk).members[0]
    assert (member.topics, member.pattern) == ((), "^topic-.*")
    both = beat(desk, "a", member.epoch, topics=("orders",), owned=None)
    assert set(both.assignment or {}) == {old, new, desk.topics.image["orders"].id}, "names and a pattern add up"
    only_names = beat(desk, "a", both.epoch, both.assignment, pattern="")
    assert only_names.assignment == {desk.topics.image["orders"].id: (0, 1, 2, 3, 4, 5)}


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=x)", r"\1", "x" * 2_000, "(a{1000}){1000}"])
def test_a_pattern_that_cannot_be_used_is_refused_and_leaves_no_group(desk: Desk, pattern: str) -> None:
    ticket = send(desk, "a", 0, pattern=pattern, owned={}, rebalance_timeout_ms=1_000)
    desk.got(ticket, InvalidPattern)
    assert desk.ask(ListGroups(desk.ticket()), GroupList).groups == ()


def test_assignors_are_chosen_by_most_members(desk: Desk) -> None:
    join(desk, "a", assignor="range")
    assert described(desk).assignor == "range"
    join(desk, "b", assignor="uniform")
    join(desk, "c", assignor="uniform")
    assert described(desk).assignor == "uniform"


def test_members_of_a_large_group_that_come_at_once_are_assigned_together() -> None:
    desk = Desk(GroupSettings(consumer_large_group=3))
    desk.topics.set("orders", 6)
    first, second = Client(desk, "a").join(), Client(desk, "b").join()
    settle(first, second)
    third, fourth = join(desk, "c"), join(desk, "d")
    assert (third.assignment, fourth.assignment) == ({}, {})
    assert max(third.interval_ms, fourth.interval_ms) < 1_000
    assert described(desk).state is GroupState.ASSIGNING
    desk.pass_time(1_000)
    clients = [first, second, Client(desk, "c", epoch=third.epoch), Client(desk, "d", epoch=fourth.epoch)]
    settle(*clients)
    assert sorted(one.count for one in clients) == [1, 1, 2, 2]
    assert described(desk).state is GroupState.STABLE
    assert described(desk).epoch == described(desk).assignment_epoch


# ── time ────────────────────────────────────────────────────────────────────────────────────────


def test_a_member_that_does_not_give_up_in_time_is_fenced(desk: Desk) -> None:
    slow = join(desk, "slow", rebalance_ms=10_000)
    waiting = join(desk, "b")
    beat(desk, "slow", slow.epoch)
    for _ in range(11):
        desk.pass_time(1_000)
        answer = desk.answers[send(desk, "slow", slow.epoch)]
    assert isinstance(answer, UnknownMember)
    assert beat(desk, "b", waiting.epoch).assignment == {desk.topics.image["orders"].id: (0, 1, 2, 3, 4, 5)}


def test_a_member_that_gives_up_in_time_stays(desk: Desk) -> None:
    first = Client(desk, "a").join(rebalance_ms=10_000)
    join(desk, "b")
    first.beat()
    desk.pass_time(20_000)
    assert first.beat().count == 3


def test_a_member_not_heard_of_is_fenced_after_the_session_timeout(desk: Desk) -> None:
    reply = join(desk, "a")
    desk.pass_time(44_000)
    beat(desk, "a", reply.epoch)
    desk.pass_time(44_000)
    beat(desk, "a", reply.epoch)
    desk.pass_time(46_000)
    desk.got(send(desk, "a", reply.epoch), UnknownMember)
    assert described(desk).state is GroupState.EMPTY


# ── static members ──────────────────────────────────────────────────────────────────────────────


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(desk: Desk) -> None:
    one = Client(desk, "one-1", instance="one").join()
    other = Client(desk, "two-1", instance="two").join()
    settle(one, other)
    epoch = described(desk).epoch
    assert beat(desk, "one-1", -2, instance_id="one").epoch == -2
    back = Client(desk, "one-2", instance="one").join()
    assert back.owned == one.owned
    assert described(desk).epoch == epoch
    desk.got(send(desk, "one-1", one.epoch, instance_id="one"), FencedInstance)
    desk.got(send(desk, "one-1", -1, instance_id="one"), FencedInstance)


def test_an_instance_id_in_use_cannot_be_taken(desk: Desk) -> None:
    join(desk, "one-1", instance_id="one")
    ticket = send(desk, "one-2", 0, topics=("orders",), owned={}, rebalance_timeout_ms=1_000, instance_id="one")
    desk.got(ticket, UnreleasedInstance)
    desk.got(send(desk, "one-1", 2, instance_id="unknown"), UnknownMember)


def test_a_static_member_that_stays_away_is_removed_after_the_session_timeout(desk: Desk) -> None:
    join(desk, "one-1", instance_id="one")
    beat(desk, "one-1", -2, instance_id="one")
    desk.pass_time(46_000)
    assert described(desk).state is GroupState.EMPTY


# ── every state and input ───────────────────────────────────────────────────────────────────────


def in_state(desk: Desk, state: MemberState) -> tuple[int, object]:
    """Member "m" in this state, with its epoch and what it owns."""
    orders = desk.topics.image["orders"].id
    if state is MemberState.STABLE:
        return join(desk, "m").epoch, {orders: (0, 1, 2, 3, 4, 5)}
    if state is MemberState.UNREVOKED:
        epoch = join(desk, "m").epoch
        join(desk, "other")
        beat(desk, "m", epoch)
        return epoch, {orders: (0, 1, 2, 3, 4, 5)}
    join(desk, "other")
    return join(desk, "m").epoch, {}


INPUTS: dict[str, type[TrunklineError] | MemberState | None] = {
    "beat": None,
    "owned": None,
    "joins again": None,
    "ahead": FencedMemberEpoch,
    "behind": FencedMemberEpoch,
    "leaves": MemberState.STABLE,
    "leaves as static": InvalidRequest,
    "epoch -3": InvalidRequest,
    "bad assignor": UnsupportedAssignor,
    "bad pattern": InvalidPattern,
    "as an instance": UnknownMember,
}


@pytest.mark.parametrize("state", MemberState)
@pytest.mark.parametrize("what", INPUTS)
def test_every_input_in_every_state(desk: Desk, state: MemberState, what: str) -> None:
    epoch, owned = in_state(desk, state)
    before = next(member for member in described(desk).members if member.id == "m")
    assert before.state is state
    rejoin: dict[str, object] = {"topics": ("orders",), "owned": {}, "rebalance_timeout_ms": 60_000}
    more: dict[str, tuple[int, dict[str, object]]] = {
        "beat": (epoch, {}),
        "owned": (epoch, {"owned": owned}),
        "joins again": (0, rejoin),
        "ahead": (epoch + 1, {}),
        "behind": (epoch - 1, {}),
        "leaves": (-1, {}),
        "leaves as static": (-2, {}),
        "epoch -3": (-3, {}),
        "bad assignor": (epoch, {"assignor": "nobody"}),
        "bad pattern": (epoch, {"pattern": "("}),
        "as an instance": (epoch, {"instance_id": "x"}),
    }
    sent_epoch, said = more[what]
    answer = desk.answers[send(desk, "m", sent_epoch, **said)]
    members = {str(member.id): member for member in described(desk).members}
    expected = INPUTS[what]
    if what == "leaves":
        assert isinstance(answer, ConsumerHeartbeatReply)
        assert "m" not in members
    elif what == "joins again":
        assert isinstance(answer, ConsumerHeartbeatReply)
        assert answer.assignment == members["m"].assigned, "it has nothing, and is told all that it has"
        assert members["m"].state is not MemberState.UNREVOKED
    elif expected is None:
        assert isinstance(answer, ConsumerHeartbeatReply)
        assert members["m"] == before, "nothing has changed: it gave nothing up and nothing was free"
    else:
        assert isinstance(expected, type)
        assert isinstance(answer, expected)
        assert members["m"] == before


def test_a_member_that_missed_its_answer_comes_with_its_epoch_before(desk: Desk) -> None:
    orders = desk.topics.image["orders"].id
    first = join(desk, "a")
    second = join(desk, "b")
    beat(desk, "a", first.epoch)
    beat(desk, "a", first.epoch, {orders: (0, 1, 2)})
    assert beat(desk, "a", first.epoch, {orders: (0, 1)}).epoch == second.epoch
    desk.got(send(desk, "a", first.epoch, owned={orders: (0, 1, 2, 3)}), FencedMemberEpoch)
    desk.got(send(desk, "a", first.epoch), FencedMemberEpoch)


@pytest.mark.parametrize(
    ("epoch", "more"),
    [
        (0, {"topics": ("orders",), "owned": {}}),
        (0, {"topics": ("orders",), "rebalance_timeout_ms": 1}),
        (0, {"topics": ("orders",), "rebalance_timeout_ms": 1, "owned": {bytes(16): (1,)}}),
        (0, {"rebalance_timeout_ms": 1, "owned": {}}),
        (0, {"topics": ("orders",), "rebalance_timeout_ms": 1, "owned": {}, "instance_id": ""}),
        (0, {"topics": ("orders",), "rebalance_timeout_ms": 1, "owned": {}, "rack_id": " "}),
    ],
)
def test_a_first_heartbeat_must_say_what_is_needed(desk: Desk, epoch: int, more: dict[str, object]) -> None:
    desk.got(send(desk, "a", epoch, **more), InvalidRequest)


def test_ids_are_made_by_members_or_given_to_old_ones(desk: Desk) -> None:
    more: dict[str, object] = {"topics": ("orders",), "owned": {}, "rebalance_timeout_ms": 1_000}
    desk.got(send(desk, "", 0, **more), InvalidRequest)
    assert desk.got(send(desk, "", 0, must_have_id=False, **more), ConsumerHeartbeatReply).member_id


def test_who_is_not_known_is_told_so(desk: Desk) -> None:
    desk.got(send(desk, "a", 3), UnknownGroup)
    desk.got(send(desk, "a", -1), UnknownGroup)
    join(desk, "a")
    desk.got(send(desk, "b", 3), UnknownMember)
    desk.got(send(desk, "b", -1), UnknownMember)


def test_a_full_group_takes_nobody_else() -> None:
    desk = Desk(GroupSettings(max_members=1))
    join(desk, "a")
    desk.got(send(desk, "b", 0, topics=("orders",), owned={}, rebalance_timeout_ms=1), GroupFull)
    beat(desk, "a", 2)


# ── offsets and the group as a whole ────────────────────────────────────────────────────────────


def test_members_commit_in_their_epoch_only(desk: Desk) -> None:
    epoch = join(desk, "a").epoch
    assert desk.commit_error(desk.commit(5, Me(MemberId("a"), epoch))) is None
    desk.got(desk.commit(6, Me(MemberId("a"), epoch + 1)), StaleMemberEpoch)
    desk.got(desk.commit(6, Me(MemberId("a"), epoch - 1)), StaleMemberEpoch)
    desk.got(desk.commit(6, Me(MemberId("x"), epoch)), UnknownMember)
    desk.got(desk.commit(6), UnknownMember)
    committed = desk.committed()
    assert committed is not None
    assert committed.offset == 5
    topics = (("orders", (0,)),)
    desk.ask(FetchOffsets(desk.ticket(), G, topics, MemberId("a"), epoch), FetchReply)
    desk.got(desk.send(FetchOffsets(desk.ticket(), G, topics, MemberId("a"), epoch + 1)), StaleMemberEpoch)
    desk.got(desk.send(FetchOffsets(desk.ticket(), G, topics, MemberId("x"), epoch)), UnknownMember)


def test_a_commit_sent_before_a_new_epoch_counts_for_what_the_member_kept(desk: Desk) -> None:
    first = Client(desk, "a").join()
    old = first.epoch
    join(desk, "b")
    first.beat()
    assert first.epoch > old
    assert first.count == 3
    assert desk.commit_error(desk.commit(5, Me(MemberId("a"), old), partition=0)) is None
    desk.got(desk.commit(5, Me(MemberId("a"), old), partition=5), StaleMemberEpoch)


def test_offsets_of_a_topic_that_is_read_and_a_group_with_members_stay(desk: Desk) -> None:
    epoch = join(desk, "a", pattern="ord.*").epoch
    desk.commit(5, Me(MemberId("a"), epoch))
    delete = DeleteOffsets(desk.ticket(), G, (("orders", (0,)), ("other", (0,))))
    results = dict(desk.ask(delete, DeleteOffsetsReply).topics)
    assert isinstance(results["orders"][0][1], GroupSubscribed)
    assert results["other"][0][1] is None
    [(_, refused)] = desk.ask(DeleteGroups(desk.ticket(), (G,)), DeleteGroupsReply).results
    assert isinstance(refused, GroupNotEmpty)
    beat(desk, "a", -1)
    assert desk.commit_error(desk.commit(7)) is None, "an empty group takes the commits of an administrator"
    [(_, done)] = desk.ask(DeleteGroups(desk.ticket(), (G,)), DeleteGroupsReply).results
    assert done is None
    assert desk.committed() is None


def test_the_group_is_listed_with_its_type_and_is_no_classic_one(desk: Desk) -> None:
    join(desk, "a")
    [listed] = desk.ask(ListGroups(desk.ticket(), types=frozenset(("Consumer",))), GroupList).groups
    assert (listed.type, listed.protocol_type, listed.state) == ("consumer", "consumer", GroupState.STABLE)
    assert not desk.ask(ListGroups(desk.ticket(), types=frozenset(("classic",))), GroupList).groups
    assert desk.describe().state is GroupState.DEAD


def test_an_administrator_removes_members_by_either_id(desk: Desk) -> None:
    join(desk, "a")
    join(desk, "s", instance_id="static")
    members = (LeavingMember(MemberId("a")), LeavingMember(MemberId(""), "static"), LeavingMember(MemberId("x")))
    results = desk.ask(Leave(desk.ticket(), G, members), LeaveReply).results
    assert [type(result.error) for result in results] == [type(None), type(None), UnknownMember]
    assert described(desk).state is GroupState.EMPTY


def test_committed_offsets_of_an_empty_group_expire() -> None:
    desk = Desk(GroupSettings(offsets_retention_ms=100_000, expiry_check_ms=10_000))
    desk.topics.set("orders", 1)
    epoch = join(desk, "a").epoch
    desk.commit(5, Me(MemberId("a"), epoch))
    for _ in range(20):
        desk.pass_time(10_000)
        beat(desk, "a", epoch)
    assert desk.committed() is not None, "it is read"
    beat(desk, "a", -1)
    desk.pass_time(300_000)
    assert desk.committed() is None
    assert not desk.coordinator.snapshot()


def test_make_beat_is_full_only_with_everything() -> None:
    desk = Desk()
    assert make_beat(desk, "a", 1, topics=(), owned={}, rebalance_timeout_ms=1).is_full
    assert not make_beat(desk, "a", 1, topics=(), owned={}).is_full
