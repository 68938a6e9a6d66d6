"""Every state × every input: what is answered, in one table."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.coordination.desk import Desk, G, Me, subscription

from trunkline.coordination.commands import (
    CommitReply,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchOffsets,
    FetchReply,
    GroupDescription,
    GroupState,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    LeavingMember,
    SyncReply,
    Ticket,
)
from trunkline.model.errors import (
    FencedInstance,
    GroupNotEmpty,
    GroupSubscribed,
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownGroup,
    UnknownMember,
)
from trunkline.model.ids import MemberId

GHOST = Me(MemberId("ghost"), 1)
SIMPLE = Me(MemberId(""), -1)


class Scene:
    """A group in the wanted state, its leader, a follower, and a static member."""

    def __init__(self, state: str) -> None:
        self.desk = desk = Desk()
        self.leader, self.follower, self.static = GHOST, GHOST, GHOST
        if state == "None":
            return
        tickets = [desk.join(), desk.join(), desk.join(instance="i")]
        desk.pass_time(500)
        self.leader, self.follower = (desk.joined(ticket) for ticket in tickets[:2])
        self.static = desk.joined(tickets[2], "i")
        members = [self.leader, self.follower, self.static]
        if state != "Completing":
            desk.sync_all(members)
        if state == "Empty":
            desk.leave(*(LeavingMember(me.id) for me in members))
        if state == "Preparing":
            desk.join()
        expected = {"Empty": "Empty", "Stable": "Stable"}.get(state, f"{state}Rebalance")
        assert desk.state() is GroupState(expected)


def _delete_group(scene: Scene) -> Ticket:
    return scene.desk.send(DeleteGroups(scene.desk.ticket(), (G,)))


def _delete_offsets(topic: str) -> Callable[[Scene], Ticket]:
    return lambda scene: scene.desk.send(DeleteOffsets(scene.desk.ticket(), G, ((topic, (0,)),)))


def _leave(scene: Scene, member_id: str, instance: str | None = None) -> Ticket:
    return scene.desk.leave(LeavingMember(MemberId(member_id), instance))


INPUTS: dict[str, Callable[[Scene], Ticket]] = {
    "join, new": lambda s: s.desk.join(),
    "join, new, id required": lambda s: s.desk.join(needs_id=True),
    "join, new static": lambda s: s.desk.join(instance="other"),
    "join, known static, no id": lambda s: s.desk.join(instance="i"),
    "join, known static, wrong id": lambda s: s.desk.join("ghost", instance="i"),
    "join, leader": lambda s: s.desk.join(s.leader.id),
    "join, follower": lambda s: s.desk.join(s.follower.id),
    "join, follower, changed": lambda s: s.desk.join(s.follower.id, protocols=(("range", subscription("new")),)),
    "join, unknown": lambda s: s.desk.join("ghost"),
    "join, other type": lambda s: s.desk.join(protocol_type="connect"),
    "join, no protocol": lambda s: s.desk.join(protocols=()),
    "sync, leader": lambda s: s.desk.sync(s.leader),
    "sync, follower": lambda s: s.desk.sync(s.follower),
    "sync, unknown": lambda s: s.desk.sync(GHOST),
    "sync, old generation": lambda s: s.desk.sync(Me(s.leader.id, 0)),
    "sync, fenced": lambda s: s.desk.sync(Me(s.leader.id, 1, "i")),
    "heartbeat": lambda s: s.desk.heartbeat(s.follower),
    "heartbeat, unknown": lambda s: s.desk.heartbeat(GHOST),
    "heartbeat, old generation": lambda s: s.desk.heartbeat(Me(s.follower.id, 0)),
    "heartbeat, fenced": lambda s: s.desk.heartbeat(Me(s.follower.id, 1, "i")),
    "heartbeat, unknown instance": lambda s: s.desk.heartbeat(Me(s.follower.id, 1, "x")),
    "leave": lambda s: _leave(s, s.follower.id),
    "leave, unknown": lambda s: _leave(s, "ghost"),
    "leave, by instance": lambda s: _leave(s, "", "i"),
    "leave, unknown instance": lambda s: _leave(s, "", "x"),
    "leave, nobody": lambda s: _leave(s, ""),
    "leave, fenced": lambda s: _leave(s, "ghost", "i"),
    "commit": lambda s: s.desk.commit(1, s.follower),
    "commit, static": lambda s: s.desk.commit(1, s.static),
    "commit, unknown": lambda s: s.desk.commit(1, GHOST),
    "commit, old generation": lambda s: s.desk.commit(1, Me(s.follower.id, 0)),
    "commit, fenced": lambda s: s.desk.commit(1, Me(s.follower.id, 1, "i")),
    "commit, simple": lambda s: s.desk.commit(1, SIMPLE),
    "commit, simple with id": lambda s: s.desk.commit(1, Me(s.follower.id, -1)),
    "fetch": lambda s: s.desk.send(FetchOffsets(s.desk.ticket(), G)),
    "delete read offsets": _delete_offsets("orders"),
    "delete unread offsets": _delete_offsets("other"),
    "delete group": _delete_group,
    "describe": lambda s: Ticket(max(s.desk.answers)) if s.desk.describe() else Ticket(0),
}

W = "waits"
INC, RIP, UM, IG, FI = InconsistentProtocol, RebalanceInProgress, UnknownMember, IllegalGeneration, FencedInstance
TABLE: dict[str, tuple[type | str, ...]] = {
    # input                          None              Empty             Preparing        Completing       Stable
    "join, new": (W, W, W, W, W),
    "join, new, id required": (MemberIdRequired,) * 5,
    "join, new static": (W, W, W, W, W),
    "join, known static, no id": (W, W, W, W, JoinReply),
    "join, known static, wrong id": (UM, UM, FI, FI, FI),
    "join, leader": (UM, UM, W, JoinReply, W),
    "join, follower": (UM, UM, W, JoinReply, JoinReply),
    "join, follower, changed": (UM, UM, W, W, W),
    "join, unknown": (UM, UM, UM, UM, UM),
    "join, other type": (W, W, INC, INC, INC),
    "join, no protocol": (INC, INC, INC, INC, INC),
    "sync, leader": (UM, UM, RIP, SyncReply, SyncReply),
    "sync, follower": (UM, UM, RIP, W, SyncReply),
    "sync, unknown": (UM, UM, UM, UM, UM),
    "sync, old generation": (UM, UM, IG, IG, IG),
    "sync, fenced": (UM, UM, FI, FI, FI),
    "heartbeat": (UM, UM, RIP, HeartbeatReply, HeartbeatReply),
    "heartbeat, unknown": (UM, UM, UM, UM, UM),
    "heartbeat, old generation": (UM, UM, IG, IG, IG),
    "heartbeat, fenced": (UM, UM, FI, FI, FI),
    "heartbeat, unknown instance": (UM, UM, UM, UM, UM),
    "leave": (UM, UM, LeaveReply, LeaveReply, LeaveReply),
    "leave, unknown": (UM, UM, UM, UM, UM),
    "leave, by instance": (UM, UM, LeaveReply, LeaveReply, LeaveReply),
    "leave, unknown instance": (UM, UM, UM, UM, UM),
    "leave, nobody": (UM, UM, UM, UM, UM),
    "leave, fenced": (UM, UM, FI, FI, FI),
    "commit": (UnknownGroup, UM, CommitReply, RIP, CommitReply),
    "commit, static": (UnknownGroup, UM, CommitReply, RIP, CommitReply),
    "commit, unknown": (UnknownGroup, UM, UM, UM, UM),
    "commit, old generation": (UnknownGroup, UM, IG, IG, IG),
    "commit, fenced": (UnknownGroup, UM, FI, FI, FI),
    "commit, simple": (CommitReply, CommitReply, UM, UM, UM),
    "commit, simple with id": (CommitReply, CommitReply, IG, IG, IG),
    "fetch": (FetchReply,) * 5,
    "delete read offsets": (
        UnknownGroup,
        DeleteOffsetsReply,
        GroupSubscribed,
        GroupSubscribed,
        GroupSubscribed,
    ),
    "delete unread offsets": (UnknownGroup, *(DeleteOffsetsReply,) * 4),
    "delete group": (UnknownGroup, DeleteGroupsReply, GroupNotEmpty, GroupNotEmpty, GroupNotEmpty),
    "describe": (GroupDescription,) * 5,
}
STATES = ("None", "Empty", "Preparing", "Completing", "Stable")


def test_the_table_is_complete() -> None:
    assert TABLE.keys() == INPUTS.keys()
    assert {len(row) for row in TABLE.values()} == {len(STATES)}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("input_", INPUTS)
def test_each_input_in_each_state(state: str, input_: str) -> None:
    scene = Scene(state)
    ticket = INPUTS[input_](scene)
    assert _outcome(scene.desk, ticket) == TABLE[input_][STATES.index(state)]


def _outcome(desk: Desk, ticket: Ticket) -> type | str:
    """The class of the answer, or of the error of its only part."""
    answer = desk.answers.get(ticket)
    if answer is None:
        return W
    error: Exception | None = None
    if isinstance(answer, LeaveReply):
        error = answer.results[0].error
    elif isinstance(answer, CommitReply | DeleteOffsetsReply):
        error = answer.topics[0][1][0][1]
    elif isinstance(answer, DeleteGroupsReply):
        error = answer.results[0][1]
    return type(error or answer)
