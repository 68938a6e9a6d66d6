"""A group moves from the classic protocol to the new one and back, member by member, without stopping."""

from __future__ import annotations

import struct

import pytest
from tests.coordination.consumers import beat, described, join, send
from tests.coordination.desk import Desk, G, Me, durable

from trunkline.coordination.commands import GroupState, HeartbeatReply, LeavingMember, Protocols, SyncReply
from trunkline.model.errors import (
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownGroup,
    UnknownMember,
)
from trunkline.model.ids import MemberId, TopicId


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def parts(*indexes: int) -> bytes:
    if not indexes:
        return struct.pack(">i", 0)
    return struct.pack(">i", 1) + text("orders") + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)


def cooperative(*owned: int) -> Protocols:
    data = struct.pack(">hi", 1, 1) + text("orders") + struct.pack(">i", -1) + parts(*owned)
    return (("cooperative-sticky", data), ("range", data))


def assignment(*indexes: int) -> bytes:
    return struct.pack(">h", 1) + parts(*indexes) + struct.pack(">i", -1)


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.topics.set("orders", 4)
    return desk


@pytest.fixture
def orders(desk: Desk) -> TopicId:
    return desk.topics.image["orders"].id


def classic_group(desk: Desk) -> Me:
    """One classic member that reads everything."""
    ticket = desk.join(protocols=cooperative())
    desk.pass_time(200)
    me = desk.joined(ticket)
    desk.got(desk.sync(me, {me.id: assignment(0, 1, 2, 3)}), SyncReply)
    return me


def test_the_first_member_of_the_new_protocol_takes_its_share_from_a_classic_one(desk: Desk, orders: TopicId) -> None:
    old = classic_group(desk)
    desk.commit(7, old)
    new = join(desk, "new")
    assert new.assignment == {}
    committed = desk.committed()
    assert committed is not None
    assert committed.offset == 7
    desk.got(desk.heartbeat(old), RebalanceInProgress)
    again = desk.joined(desk.join(old.id, protocols=cooperative(0, 1, 2, 3)))
    assert desk.assignment(desk.sync(again)) == assignment(0, 1), "it is told what it keeps"
    desk.got(desk.heartbeat(again), RebalanceInProgress)
    assert beat(desk, "new", new.epoch).assignment is None, "the classic member has not given up yet"
    settled = desk.joined(desk.join(old.id, protocols=cooperative(0, 1)))
    assert desk.assignment(desk.sync(settled)) == assignment(0, 1)
    desk.got(desk.heartbeat(settled), HeartbeatReply)
    assert beat(desk, "new", new.epoch).assignment == {orders: (2, 3)}
    assert described(desk).state is GroupState.STABLE
    assert desk.commit_error(desk.commit(9, settled)) is None
    desk.got(desk.commit(9, old), IllegalGeneration)


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group_behind(desk: Desk) -> None:
    old = classic_group(desk)
    join(desk, "new")
    desk.joined(desk.join(old.id, protocols=cooperative()))
    beat(desk, "new", -1)
    assert desk.state() is GroupState.PREPARING_REBALANCE
    alive = durable(desk.coordinator)
    assert durable(desk.recovered(desk.log)) == alive
    again = desk.joined(desk.join(old.id, protocols=cooperative()))
    assert desk.assignment(desk.sync(again, {old.id: assignment(0, 1, 2, 3)})) == assignment(0, 1, 2, 3)
    assert desk.state() is GroupState.STABLE


def test_a_rebalance_under_way_is_called_off_and_its_members_come_over(desk: Desk) -> None:
    waiting = desk.join(protocols=cooperative())
    new = join(desk, "new")
    desk.got(waiting, RebalanceInProgress)
    assert {member.id for member in described(desk).members} == {"new", "app-id1"}
    assert new.assignment is not None


def test_classic_members_join_a_group_of_the_new_protocol(desk: Desk, orders: TopicId) -> None:
    new = join(desk, "new")
    given = desk.got(desk.join(needs_id=True, protocols=cooperative()), MemberIdRequired).member_id
    old = desk.joined(desk.join(given, protocols=cooperative()))
    assert desk.assignment(desk.sync(old)) == assignment()
    desk.got(desk.heartbeat(old), HeartbeatReply)
    beat(desk, "new", new.epoch)
    beat(desk, "new", new.epoch, {orders: (0, 1)})
    desk.got(desk.heartbeat(old), RebalanceInProgress)
    again = desk.joined(desk.join(given, protocols=cooperative()))
    assert desk.assignment(desk.sync(again)) == assignment(2, 3)
    desk.leave(LeavingMember(given))
    assert beat(desk, "new", again.generation).assignment == {orders: (0, 1, 2, 3)}


def test_a_classic_member_that_does_not_join_again_is_removed(desk: Desk, orders: TopicId) -> None:
    old = classic_group(desk)
    epoch = join(desk, "new").epoch
    for _ in range(8):
        desk.heartbeat(old)
        desk.pass_time(9_000)
        epoch = beat(desk, "new", epoch).epoch
    desk.got(desk.heartbeat(old), UnknownMember)
    assert beat(desk, "new", described(desk).epoch).assignment is None
    assert described(desk).members[0].assigned == {orders: (0, 1, 2, 3)}


def test_a_classic_group_of_another_kind_cannot_be_joined(desk: Desk) -> None:
    desk.join(protocol_type="connect", protocols=(("default", b"x"),))
    more: dict[str, object] = {"topics": ("orders",), "owned": {}, "rebalance_timeout_ms": 1}
    desk.got(send(desk, "new", 0, **more), UnknownGroup)
    desk.pass_time(200)
    assert desk.state() is GroupState.COMPLETING_REBALANCE, "it goes on undisturbed"


def test_members_of_another_kind_cannot_join_a_group_of_the_new_protocol(desk: Desk) -> None:
    join(desk, "new")
    desk.got(desk.join(protocol_type="connect", protocols=(("default", b"x"),)), InconsistentProtocol)
    desk.got(desk.join(protocols=(("range", b"unreadable"),)), InconsistentProtocol)
    desk.got(desk.heartbeat(Me(MemberId("new"), 2)), UnknownMember)
    desk.got(desk.sync(Me(MemberId("new"), 2)), UnknownMember)


@pytest.mark.parametrize("first", ["classic", "consumer"])
def test_an_empty_group_takes_either_protocol_and_keeps_its_offsets(desk: Desk, first: str) -> None:
    if first == "classic":
        old = classic_group(desk)
        desk.commit(5, old)
        desk.leave(LeavingMember(old.id))
        join(desk, "new")
        assert described(desk).state is GroupState.STABLE
    else:
        desk.commit(5, Me(MemberId("new"), join(desk, "new").epoch))
        beat(desk, "new", -1)
        classic_group(desk)
        assert desk.state() is GroupState.STABLE
    committed = desk.committed()
    assert committed is not None
    assert committed.offset == 5
    for log in (desk.log, desk.compacted()):
        assert durable(desk.recovered(log)) == durable(desk.coordinator)
    assert G in {group.group_id for group in desk.coordinator.snapshot()}
