"""Static members (KIP-345): one that restarts within its session gets its place back, and nobody rebalances."""

from __future__ import annotations

from tests.coordination.desk import Desk, Me, subscription

from trunkline.coordination.commands import (
    GroupSettings,
    GroupState,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    LeavingMember,
)
from trunkline.model.errors import FencedInstance, GroupFull, RebalanceInProgress, UnknownMember
from trunkline.model.ids import MemberId


def static_pair(desk: Desk, **join: object) -> tuple[Me, Me]:
    """A leader of instance a and a follower of instance b, Stable."""
    tickets = [desk.join(instance=name, **join) for name in "ab"]  # type: ignore[arg-type]
    desk.pass_time(500)
    leader, follower = desk.joined(tickets[0], "a"), desk.joined(tickets[1], "b")
    desk.sync_all([leader, follower])
    return leader, follower


def test_a_follower_that_restarts_keeps_its_assignment_without_a_rebalance() -> None:
    desk = Desk()
    leader, follower = static_pair(desk)
    reply = desk.got(desk.join(instance="b"), JoinReply)
    assert reply.member_id.startswith("b-")
    assert reply.member_id != follower.id
    assert reply.generation == 1
    assert reply.leader == leader.id
    assert desk.state() is GroupState.STABLE
    assert desk.assignment(desk.sync(Me(reply.member_id, 1, "b"))) == b"for " + follower.id.encode()
    desk.got(desk.heartbeat(leader), HeartbeatReply)


def test_whoever_still_uses_the_old_id_is_fenced() -> None:
    desk = Desk()
    _, follower = static_pair(desk)
    desk.join(instance="b")
    for ticket in (
        desk.heartbeat(follower),
        desk.sync(follower),
        desk.commit(1, follower),
        desk.join(follower.id, instance="b"),
    ):
        desk.got(ticket, FencedInstance)
    result = desk.got(desk.leave(LeavingMember(follower.id, "b")), LeaveReply).results[0]
    assert isinstance(result.error, FencedInstance)


def test_a_leader_that_restarts_is_told_its_old_id_so_that_it_does_not_assign() -> None:
    desk = Desk()
    leader, _ = static_pair(desk)
    reply = desk.got(desk.join(instance="a"), JoinReply)
    assert reply.leader == leader.id != reply.member_id
    assert reply.members == ()
    assert not reply.skip_assignment
    assert desk.state() is GroupState.STABLE


def test_a_leader_that_can_skip_the_assignment_is_told_to() -> None:
    desk = Desk()
    static_pair(desk)
    reply = desk.got(desk.join(instance="a", can_skip=True), JoinReply)
    assert reply.leader == reply.member_id
    assert reply.skip_assignment
    assert len(reply.members) == 2
    follower = desk.got(desk.join(instance="b", can_skip=True), JoinReply)
    assert not follower.skip_assignment
    assert follower.leader == reply.member_id


def test_one_that_restarts_gets_its_place_back_in_a_full_group() -> None:
    desk = Desk(GroupSettings(max_members=2))
    static_pair(desk)
    desk.got(desk.join(instance="c"), GroupFull)
    assert desk.got(desk.join(instance="b"), JoinReply).generation == 1


def test_the_new_id_survives_a_restart_of_the_broker() -> None:
    desk = Desk()
    static_pair(desk)
    replaced = desk.joined(desk.join(instance="b"), "b")
    desk.restart()
    desk.got(desk.heartbeat(replaced), HeartbeatReply)


def test_one_that_comes_back_with_other_protocols_starts_a_rebalance_if_the_choice_changes() -> None:
    desk = Desk()
    both = (("range", subscription("orders")), ("sticky", subscription("orders")))
    leader, _ = static_pair(desk, protocols=both)
    back = desk.join(instance="b", protocols=both[1:])
    assert desk.waits(back)
    desk.got(desk.heartbeat(leader), RebalanceInProgress)
    desk.join(leader.id, instance="a", protocols=both)
    assert desk.got(back, JoinReply).protocol == "sticky"


def test_one_that_restarts_before_the_assignment_is_there_starts_the_rebalance_anew() -> None:
    desk = Desk()
    tickets = [desk.join(instance=name) for name in "abc"]
    desk.pass_time(500)
    leader, follower, waiter = (desk.joined(ticket, name) for ticket, name in zip(tickets, "abc", strict=True))
    waiting, doubled = desk.sync(waiter), desk.sync(follower)
    back = desk.join(instance="b")
    desk.got(doubled, FencedInstance)
    desk.got(waiting, RebalanceInProgress)
    desk.join(leader.id, instance="a")
    desk.join(waiter.id, instance="c")
    assert desk.joined(back).generation == 2


def test_one_that_restarts_while_its_join_waits_fences_the_waiting_one() -> None:
    desk = Desk()
    first = desk.join(instance="a")
    second = desk.join(instance="a")
    desk.got(first, FencedInstance)
    desk.pass_time(500)
    assert len(desk.got(second, JoinReply).members) == 1


def test_a_static_member_may_stay_away_through_a_rebalance_within_its_session() -> None:
    desk = Desk()
    _, follower = static_pair(desk, session_ms=600_000, rebalance_ms=5_000)
    newcomer = desk.join(rebalance_ms=5_000)
    desk.pass_time(5_000)
    members = {member.member_id for member in desk.got(newcomer, JoinReply).members}
    assert follower.id in members
    assert len(members) == 3


def test_when_no_member_comes_back_the_rebalance_waits_for_their_sessions_to_end() -> None:
    desk = Desk()
    leader, _ = static_pair(desk, session_ms=60_000, rebalance_ms=0)
    desk.leave(LeavingMember(leader.id, "a"))
    desk.pass_time(10_000)
    assert desk.state() is GroupState.PREPARING_REBALANCE
    desk.pass_time(60_000)
    assert desk.state() is GroupState.EMPTY


def test_somebody_else_can_remove_a_static_member_by_its_instance_id() -> None:
    desk = Desk()
    leader, follower = static_pair(desk)
    reply = desk.got(desk.leave(LeavingMember(MemberId(""), "b"), LeavingMember(MemberId(""), "nobody")), LeaveReply)
    assert reply.results[0].error is None
    assert isinstance(reply.results[1].error, UnknownMember)
    desk.got(desk.heartbeat(follower), UnknownMember)
    desk.got(desk.heartbeat(leader), RebalanceInProgress)


def test_a_static_member_whose_session_ended_is_gone_and_may_come_anew() -> None:
    desk = Desk()
    leader, _ = static_pair(desk)
    desk.pass_time(9_000)
    desk.heartbeat(leader)
    desk.pass_time(2_000)
    desk.got(desk.heartbeat(leader), RebalanceInProgress)
    back = desk.join(instance="b")
    desk.join(leader.id, instance="a")
    assert desk.joined(back).generation == 2


def test_one_that_restarts_before_it_fetched_its_assignment_is_still_expected_to() -> None:
    desk = Desk()
    tickets = [desk.join(instance=name, rebalance_ms=20_000, session_ms=600_000) for name in "ab"]
    desk.pass_time(500)
    leader = desk.joined(tickets[0], "a")
    desk.sync(leader)
    replaced = desk.joined(desk.join(instance="b", rebalance_ms=20_000, session_ms=600_000), "b")
    desk.pass_time(20_000)
    desk.got(desk.heartbeat(replaced), UnknownMember)
