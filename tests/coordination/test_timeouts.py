"""Who is not heard of in time is removed; who waits for the coordinator, or is heard of, never is."""

from __future__ import annotations

from tests.coordination.desk import Desk

from trunkline.coordination.commands import GroupSettings, GroupState, HeartbeatReply, JoinReply
from trunkline.model.errors import RebalanceInProgress, UnknownMember


def test_a_silent_member_is_removed_after_its_session_and_the_others_rebalance() -> None:
    desk = Desk()
    leader, silent = desk.stable(2)
    desk.pass_time(9_999)
    desk.got(desk.heartbeat(leader), HeartbeatReply)
    desk.pass_time(1)
    desk.got(desk.heartbeat(leader), RebalanceInProgress)
    assert len(desk.got(desk.join(leader.id), JoinReply).members) == 1
    desk.got(desk.join(silent.id), UnknownMember)


def test_heartbeats_and_commits_keep_a_member() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    for turn in range(10):
        desk.pass_time(9_000)
        if turn % 2:
            desk.got(desk.heartbeat(only), HeartbeatReply)
        else:
            assert desk.commit_error(desk.commit(turn, only)) is None
    assert desk.state() is GroupState.STABLE


def test_heartbeats_during_a_rebalance_keep_a_member_that_is_slow_to_join() -> None:
    desk = Desk()
    slow, quick = desk.stable(2)
    back = desk.join(quick.id, protocols=(("range", b"changed"),))
    for _ in range(5):
        desk.pass_time(9_000)
        desk.got(desk.heartbeat(slow), RebalanceInProgress)
    desk.join(slow.id)
    assert desk.joined(back).generation == 2


def test_one_that_waits_in_a_join_needs_no_heartbeat() -> None:
    desk = Desk()
    slow, waiting = desk.stable(2, rebalance_ms=60_000)
    back = desk.join(waiting.id, protocols=(("range", b"changed"),))
    for _ in range(6):
        desk.pass_time(9_000)
        desk.heartbeat(slow)
    desk.join(slow.id)
    me = desk.joined(back)
    desk.pass_time(9_999)
    desk.got(desk.heartbeat(me), HeartbeatReply)


def test_one_that_waits_for_the_leaders_assignment_needs_no_heartbeat() -> None:
    desk = Desk()
    leader, follower = desk.completing(2)
    waiting = desk.sync(follower)
    for _ in range(5):
        desk.pass_time(9_000)
        desk.got(desk.heartbeat(leader), HeartbeatReply)
    desk.sync(leader, {follower.id: b"F"})
    assert desk.assignment(waiting) == b"F"
    desk.pass_time(9_999)
    desk.got(desk.heartbeat(follower), HeartbeatReply)


def test_after_waiting_in_vain_for_a_leader_a_session_starts_anew() -> None:
    desk = Desk()
    _, follower = desk.completing(2)
    waiting = desk.sync(follower)
    desk.pass_time(9_500)  # the leader was not heard of for ten seconds
    desk.got(waiting, RebalanceInProgress)
    desk.pass_time(9_600)
    assert desk.got(desk.join(follower.id), JoinReply).leader == follower.id


def test_a_member_that_does_not_join_in_time_is_removed() -> None:
    desk = Desk()
    slow, quick = desk.stable(2, session_ms=600_000, rebalance_ms=30_000)
    back = desk.join(quick.id, protocols=(("range", b"changed"),), session_ms=600_000, rebalance_ms=30_000)
    desk.pass_time(29_999)
    assert desk.waits(back)
    desk.pass_time(1)
    assert len(desk.got(back, JoinReply).members) == 1
    desk.got(desk.heartbeat(slow), UnknownMember)


def test_the_longest_rebalance_timeout_of_all_members_counts() -> None:
    desk = Desk()
    tickets = [desk.join(session_ms=600_000, rebalance_ms=ms) for ms in (30_000, 90_000)]
    desk.pass_time(500)
    members = [desk.joined(ticket) for ticket in tickets]
    desk.sync_all(members)
    back = desk.join(members[0].id, session_ms=600_000, rebalance_ms=30_000)
    desk.pass_time(89_999)
    assert desk.waits(back)
    desk.pass_time(1)
    assert desk.joined(back).generation == 2


def test_a_member_that_never_fetches_its_assignment_is_removed() -> None:
    desk = Desk()
    leader, lazy = desk.completing(2, session_ms=600_000, rebalance_ms=30_000)
    desk.sync(leader)
    assert desk.state() is GroupState.STABLE
    desk.pass_time(30_000)
    desk.got(desk.heartbeat(lazy), UnknownMember)
    desk.got(desk.heartbeat(leader), RebalanceInProgress)


def test_a_leader_that_never_assigns_is_removed_and_the_waiting_are_sent_back_to_join() -> None:
    desk = Desk()
    leader, follower = desk.completing(2, session_ms=600_000, rebalance_ms=30_000)
    waiting = desk.sync(follower)
    desk.pass_time(30_000)
    desk.got(waiting, RebalanceInProgress)
    assert desk.got(desk.join(follower.id), JoinReply).leader == follower.id
    desk.got(desk.heartbeat(leader), UnknownMember)


def test_an_id_that_is_not_used_within_the_session_timeout_is_taken_back() -> None:
    desk = Desk()
    (only,) = desk.stable(1, session_ms=60_000)
    pending = desk.pending()  # 10 s
    back = desk.join(only.id, session_ms=60_000)
    desk.pass_time(9_999)
    assert desk.waits(back)
    desk.pass_time(1)
    assert desk.joined(back).generation == 2
    desk.got(desk.join(pending), UnknownMember)


def test_a_first_join_that_waits_too_long_is_told_to_start_over() -> None:
    desk = Desk(GroupSettings(new_member_join_timeout_ms=300_000))
    (slow,) = desk.stable(1, session_ms=60_000, rebalance_ms=900_000)
    newcomer = desk.join()
    for _ in range(10):
        desk.pass_time(29_999)
        desk.got(desk.heartbeat(slow), RebalanceInProgress)
        assert desk.waits(newcomer)
    desk.pass_time(10)
    desk.got(newcomer, UnknownMember)


def test_a_lone_newcomer_that_gives_up_leaves_an_empty_group() -> None:
    desk = Desk(GroupSettings(initial_rebalance_delay_ms=3_000, new_member_join_timeout_ms=1_000))
    newcomer = desk.join()
    desk.pass_time(1_000)
    desk.got(newcomer, UnknownMember)
    assert desk.state() is GroupState.EMPTY


def test_after_a_restart_members_have_a_whole_session_to_be_heard_of() -> None:
    desk = Desk()
    leader, silent = desk.stable(2)
    desk.now_ms += 3_600_000
    desk.restart()
    desk.pass_time(9_999)
    desk.got(desk.heartbeat(leader), HeartbeatReply)
    desk.pass_time(1)
    desk.got(desk.heartbeat(silent), UnknownMember)


def test_nothing_to_wait_for_is_no_deadline() -> None:
    assert Desk().coordinator.next_deadline_ms() is None


def test_a_broker_that_stood_still_does_not_blame_its_members() -> None:
    desk = Desk()
    leader, silent = desk.stable(2)
    desk.now_ms += 60_000  # a suspended machine, or a clock set right
    desk.pass_time(4_000)
    desk.got(desk.heartbeat(leader), HeartbeatReply)
    desk.pass_time(2_000)
    desk.got(desk.heartbeat(leader), RebalanceInProgress)
    desk.got(desk.heartbeat(silent), UnknownMember)
