"""Members come, go and change, and the group agrees on who does what."""

from __future__ import annotations

from tests.coordination.desk import RANGE, Desk, Me, as_facts, subscription

from trunkline.coordination.commands import (
    GroupSettings,
    GroupState,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    LeavingMember,
    SyncReply,
)
from trunkline.coordination.facts import GroupStored
from trunkline.model.errors import (
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMember,
)
from trunkline.model.ids import GroupId, MemberId


def test_a_first_member_waits_for_others_then_leads_them() -> None:
    desk = Desk()
    first = desk.join()
    desk.pass_time(50)
    second = desk.join()
    assert desk.waits(first)
    assert desk.waits(second)
    desk.pass_time(200)
    leader, follower = desk.got(first, JoinReply), desk.got(second, JoinReply)
    assert leader.leader == follower.leader == leader.member_id
    assert {member.member_id for member in leader.members} == {leader.member_id, follower.member_id}
    assert leader.members[0].subscription == subscription("orders")
    assert follower.members == ()
    assert leader.generation == follower.generation == 1
    assert (leader.protocol_type, leader.protocol) == ("consumer", "range")


def test_followers_get_their_assignment_when_the_leader_brings_it() -> None:
    desk = Desk()
    leader, follower = desk.completing(2)
    waiting = desk.sync(follower)
    assert desk.waits(waiting)
    assert not desk.log
    own = desk.sync(leader, {leader.id: b"L", follower.id: b"F"})
    assert (desk.assignment(own), desk.assignment(waiting)) == (b"L", b"F")
    assert desk.state() is GroupState.STABLE
    assert len(desk.log) == 1


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    desk = Desk()
    leader, follower = desk.completing(2)
    desk.sync(leader, {leader.id: b"L", MemberId("a stranger"): b"S"})
    assert desk.assignment(desk.sync(follower)) == b""


def test_a_new_member_is_given_an_id_and_asked_to_come_back_with_it() -> None:
    desk = Desk()
    member_id = desk.got(desk.join(needs_id=True, client="app"), MemberIdRequired).member_id
    assert member_id.startswith("app-")
    ticket = desk.join(member_id)
    desk.pass_time(200)
    assert desk.joined(ticket).id == member_id


def test_the_initial_delay_is_extended_while_members_come_but_not_past_the_rebalance_timeout() -> None:
    desk = Desk(GroupSettings(initial_rebalance_delay_ms=1_000))
    first = desk.join(rebalance_ms=3_500)
    for _ in range(3):
        desk.pass_time(900)
        desk.join(rebalance_ms=3_500)
        assert desk.waits(first)
    desk.pass_time(700)  # 3.4 s after the first
    assert desk.waits(first)
    desk.join(rebalance_ms=3_500)
    desk.pass_time(100)
    assert len(desk.got(first, JoinReply).members) == 5


def test_a_newcomer_makes_everybody_join_again_and_keeps_the_leader() -> None:
    desk = Desk()
    leader, follower = desk.stable(2)
    newcomer = desk.join()
    assert desk.state() is GroupState.PREPARING_REBALANCE
    for me in (leader, follower):
        desk.got(desk.heartbeat(me), RebalanceInProgress)
    tickets = [desk.join(leader.id), desk.join(follower.id)]
    members = [desk.joined(ticket) for ticket in (*tickets, newcomer)]
    assert {me.generation for me in members} == {2}
    assert desk.got(newcomer, JoinReply).leader == leader.id
    desk.sync_all(members)
    assert desk.state() is GroupState.STABLE


def test_a_leader_that_leaves_is_followed_by_another() -> None:
    desk = Desk()
    leader, follower = desk.stable(2)
    reply = desk.got(desk.leave(LeavingMember(leader.id)), LeaveReply)
    assert [result.error for result in reply.results] == [None]
    desk.got(desk.heartbeat(follower), RebalanceInProgress)
    assert desk.got(desk.join(follower.id), JoinReply).leader == follower.id


def test_a_leader_that_does_not_come_back_in_time_loses_the_lead() -> None:
    desk = Desk()
    leader, follower = desk.stable(2, session_ms=120_000)
    newcomer = desk.join()
    back = desk.join(follower.id)
    desk.pass_time(60_000)
    assert desk.got(back, JoinReply).leader == follower.id
    assert {member.member_id for member in desk.got(back, JoinReply).members} == {follower.id, desk.joined(newcomer).id}
    desk.got(desk.heartbeat(leader), UnknownMember)


def test_the_last_to_leave_empties_the_group() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    desk.leave(LeavingMember(only.id))
    assert desk.state() is GroupState.EMPTY
    desk.got(desk.heartbeat(only), UnknownMember)
    restarted = Desk()
    restarted.log = desk.log
    restarted.restart()
    assert restarted.state() is GroupState.EMPTY


def test_leaving_twice_in_one_request_counts_once() -> None:
    desk = Desk()
    leader, _ = desk.stable(2)
    reply = desk.got(desk.leave(LeavingMember(leader.id), LeavingMember(leader.id)), LeaveReply)
    assert reply.results[0].error is None
    assert isinstance(reply.results[1].error, UnknownMember)


def test_leaving_is_answered_per_member_even_without_a_group() -> None:
    desk = Desk()
    reply = desk.got(desk.leave(LeavingMember(MemberId("ghost"), "i", "why")), LeaveReply)
    assert isinstance(reply.results[0].error, UnknownMember)
    assert (reply.results[0].member_id, reply.results[0].instance_id) == ("ghost", "i")


def test_one_that_leaves_while_it_waits_is_answered() -> None:
    desk = Desk()
    leader, follower = desk.completing(2)
    waiting = desk.sync(follower)
    desk.leave(LeavingMember(follower.id))
    desk.got(waiting, UnknownMember)
    rejoin = desk.join(leader.id)
    newcomer = desk.join()
    desk.leave(LeavingMember(desk.joined(rejoin).id))
    assert desk.waits(newcomer) or desk.got(newcomer, JoinReply)


def test_the_others_do_not_wait_for_a_pending_member_that_left() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    pending = desk.pending()
    back = desk.join(only.id)
    assert desk.waits(back)
    reply = desk.got(desk.leave(LeavingMember(pending)), LeaveReply)
    assert reply.results[0].error is None
    assert desk.joined(back).generation == 2


def test_a_pending_member_that_leaves_disturbs_nobody() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    desk.leave(LeavingMember(desk.pending()))
    desk.got(desk.heartbeat(only), HeartbeatReply)


def test_a_join_sent_again_takes_the_place_of_the_first() -> None:
    desk = Desk()
    leader, follower = desk.stable(2)
    first = desk.join(leader.id)
    again = desk.join(leader.id)
    desk.got(first, NotCoordinator)
    assert desk.waits(again)
    desk.join(follower.id)
    assert desk.joined(again).generation == 2


def test_a_sync_sent_again_takes_the_place_of_the_first() -> None:
    desk = Desk()
    leader, follower = desk.completing(2)
    first = desk.sync(follower)
    again = desk.sync(follower)
    desk.got(first, NotCoordinator)
    desk.sync(leader, {follower.id: b"F"})
    assert desk.assignment(again) == b"F"


def test_a_member_that_missed_the_answer_to_its_join_is_told_again() -> None:
    desk = Desk()
    leader, follower = desk.completing(2)
    assert len(desk.got(desk.join(leader.id), JoinReply).members) == 2
    assert desk.joined(desk.join(follower.id)) == follower
    desk.sync_all([leader, follower])
    assert desk.joined(desk.join(follower.id)) == follower
    assert desk.state() is GroupState.STABLE


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    desk = Desk()
    leader, _ = desk.stable(2)
    assert desk.waits(desk.join(leader.id))
    assert desk.state() is GroupState.PREPARING_REBALANCE


def test_a_changed_subscription_starts_a_rebalance() -> None:
    desk = Desk()
    leader, follower = desk.stable(2)
    changed = desk.join(follower.id, protocols=(("range", subscription("orders", "payments")),))
    rejoined = desk.got(desk.join(leader.id), JoinReply)
    assert rejoined.members[1].subscription == subscription("orders", "payments")
    assert desk.joined(changed).generation == 2


def test_a_changed_subscription_while_others_wait_for_the_leader_sends_them_back_to_join() -> None:
    desk = Desk()
    leader, one, other = desk.completing(3)
    waiting = desk.sync(one)
    desk.join(other.id, protocols=(("range", subscription("payments")),))
    desk.got(waiting, RebalanceInProgress)
    desk.got(desk.sync(leader), RebalanceInProgress)


def test_the_protocol_that_all_know_and_most_like_is_chosen() -> None:
    desk = Desk()
    a, b, c = ("sticky", b""), ("range", b""), ("own", b"")
    tickets = [desk.join(protocols=protocols) for protocols in ((c, a, b), (b, a), (b, a))]
    desk.pass_time(500)
    assert {desk.got(ticket, JoinReply).protocol for ticket in tickets} == {"range"}


def test_a_member_that_shares_no_protocol_is_refused() -> None:
    desk = Desk()
    leader, _ = desk.stable(2)
    desk.got(desk.join(protocols=(("own", b""),)), InconsistentProtocol)
    desk.got(desk.join(protocol_type="connect"), InconsistentProtocol)
    desk.got(desk.join(leader.id, protocols=()), InconsistentProtocol)
    assert desk.state() is GroupState.STABLE


def test_a_first_member_must_name_a_type_and_a_protocol() -> None:
    desk = Desk()
    desk.got(desk.join(protocols=()), InconsistentProtocol)
    desk.got(desk.join(protocol_type=""), InconsistentProtocol)
    assert desk.state() is GroupState.DEAD, "a refused join makes no group"


def test_a_sync_that_names_another_protocol_is_refused() -> None:
    desk = Desk()
    (only,) = desk.completing(1)
    desk.got(desk.sync(only, protocol_type="consumer", protocol="sticky"), InconsistentProtocol)
    desk.got(desk.sync(only, protocol_type="connect", protocol="range"), InconsistentProtocol)
    desk.got(desk.sync(only, protocol_type="consumer", protocol="range"), SyncReply)


def test_an_older_generation_is_over() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    old = Me(only.id, only.generation - 1)
    for ticket in (desk.heartbeat(old), desk.sync(old), desk.commit(1, old)):
        desk.got(ticket, IllegalGeneration)


def test_a_full_group_refuses_newcomers_and_keeps_its_members() -> None:
    desk = Desk(GroupSettings(max_members=2))
    leader, follower = desk.stable(2)
    desk.got(desk.join(), GroupFull)
    desk.got(desk.join(needs_id=True), GroupFull)
    assert desk.waits(desk.join(leader.id))
    assert desk.joined(desk.join(follower.id)).generation == 2


def test_ids_given_out_are_bounded_too() -> None:
    desk = Desk(GroupSettings(max_members=3))
    for _ in range(3):
        desk.pending()
    desk.got(desk.join(needs_id=True), GroupFull)


def test_groups_with_members_need_a_name_and_a_sane_session_timeout() -> None:
    desk = Desk()
    desk.got(desk.join(group=GroupId("")), InvalidGroupId)
    desk.got(desk.join(session_ms=5_999), InvalidSessionTimeout)
    desk.got(desk.join(session_ms=1_800_001), InvalidSessionTimeout)


def test_a_protocol_named_twice_counts_once() -> None:
    desk = Desk()
    leader, follower = desk.stable(2, protocols=(*RANGE, *RANGE))
    desk.leave(LeavingMember(leader.id))
    assert desk.got(desk.join(follower.id), JoinReply).protocol == "range"


def test_what_is_written_is_one_fact_per_settled_generation() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    desk.join(only.id)
    desk.sync_all([Me(only.id, 2)])
    desk.leave(LeavingMember(only.id))
    stored = [(fact.generation, len(fact.members)) for fact in as_facts(desk.log) if isinstance(fact, GroupStored)]
    assert stored == [(1, 1), (2, 1), (3, 0)]
