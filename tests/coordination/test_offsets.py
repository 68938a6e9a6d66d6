"""What a group committed is there until it is replaced, deleted, forgotten with its topic, or expired."""

from __future__ import annotations

import pytest
from tests.coordination.desk import Desk, G, subscription

from trunkline.coordination.commands import (
    CommitOffsets,
    CommitReply,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchOffsets,
    FetchReply,
    GroupList,
    GroupSettings,
    GroupState,
    LeavingMember,
    ListGroups,
    OffsetToCommit,
)
from trunkline.coordination.facts import Committed
from trunkline.model import limits
from trunkline.model.errors import (
    GroupNotEmpty,
    GroupSubscribed,
    InvalidGroupId,
    MemberIdRequired,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownGroup,
    UnknownMember,
)
from trunkline.model.ids import Epoch, GroupId, MemberId, Offset

DAY_MS = 24 * 3_600_000


def test_a_consumer_without_a_group_membership_commits_and_fetches() -> None:
    desk = Desk()
    assert desk.commit_error(desk.commit(42, metadata="mine")) is None
    assert desk.committed() == Committed(Offset(42), Epoch(3), "mine", desk.now_ms)
    assert desk.describe().state is GroupState.EMPTY
    desk.commit(7)
    desk.restart()
    found = desk.committed()
    assert found is not None
    assert found.offset == 7


def test_the_empty_group_name_is_good_enough_to_commit_and_fetch() -> None:
    desk = Desk()
    nameless = GroupId("")
    desk.commit(5, group=nameless)
    assert desk.committed(group=nameless) is not None
    desk.got(desk.send(DeleteOffsets(desk.ticket(), nameless, ())), InvalidGroupId)
    reply = desk.ask(DeleteGroups(desk.ticket(), (nameless,)), DeleteGroupsReply)
    assert reply.results == ((nameless, None),)


def test_nothing_is_committed_where_nothing_was() -> None:
    desk = Desk()
    assert desk.committed() is None
    assert desk.ask(FetchOffsets(desk.ticket(), G), FetchReply).topics == ()
    desk.commit(1, topic="orders", partition=1)
    assert desk.committed("orders", 0) is None
    assert desk.committed("other", 1) is None


def test_all_offsets_of_a_group_can_be_fetched_at_once() -> None:
    desk = Desk()
    for topic, partition in (("a", 0), ("a", 7), ("b", 0)):
        desk.commit(partition + 1, topic=topic, partition=partition)
    reply = desk.ask(FetchOffsets(desk.ticket(), G), FetchReply)
    found = {(topic, partition): one.offset for topic, parts in reply.topics for partition, one in parts if one}
    assert found == {("a", 0): 1, ("a", 7): 8, ("b", 0): 1}


def test_metadata_that_is_too_large_is_refused_for_its_partition_only() -> None:
    desk = Desk()
    fits, too_large = "x" * limits.MAX_OFFSET_METADATA_BYTES, "é" * (limits.MAX_OFFSET_METADATA_BYTES // 2 + 1)
    parts = tuple(
        OffsetToCommit(index, Offset(1), Epoch(-1), metadata) for index, metadata in enumerate((fits, too_large))
    )
    command = CommitOffsets(desk.ticket(), G, MemberId(""), None, -1, (("orders", parts),))
    reply = desk.ask(command, CommitReply)
    errors = [error for _, error in reply.topics[0][1]]
    assert errors[0] is None
    assert isinstance(errors[1], OffsetMetadataTooLarge)
    assert desk.committed("orders", 1) is None


def test_a_member_cannot_commit_before_it_has_fetched_its_assignment() -> None:
    desk = Desk()
    (only,) = desk.completing(1)
    desk.got(desk.commit(1, only), RebalanceInProgress)
    desk.sync(only)
    assert desk.commit_error(desk.commit(1, only)) is None


def test_an_outsider_cannot_commit_while_there_are_members() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    desk.got(desk.commit(1), UnknownMember)
    desk.leave(LeavingMember(only.id))
    assert desk.commit_error(desk.commit(1)) is None


# ── deleting ────────────────────────────────────────────────────────────────────────────────────


def delete(desk: Desk, topic: str, *partitions: int) -> list[Exception | None]:
    reply = desk.ask(DeleteOffsets(desk.ticket(), G, ((topic, partitions),)), DeleteOffsetsReply)
    return [error for _, error in reply.topics[0][1]]


def test_offsets_of_topics_that_members_read_cannot_be_deleted() -> None:
    desk = Desk()
    (only,) = desk.stable(1, protocols=(("range", subscription("orders", "payments", version=0)),))
    for topic in ("orders", "payments", "old"):
        desk.commit(1, only, topic=topic)
    for topic in ("orders", "payments"):
        assert isinstance(delete(desk, topic, 0)[0], GroupSubscribed)
    assert delete(desk, "old", 0, 1) == [None, None]
    assert desk.committed("old") is None
    desk.leave(LeavingMember(only.id))
    assert delete(desk, "orders", 0) == [None]
    desk.restart()
    assert desk.committed("orders") is None
    assert desk.committed("payments") is not None


@pytest.mark.parametrize(
    "unreadable", [b"", b"\0", b"\0\1\0\0\0\1\0\5abcd", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\1\xff", b"\xff\xff"]
)
def test_members_whose_subscription_cannot_be_read_may_read_anything(unreadable: bytes) -> None:
    desk = Desk()
    (only,) = desk.stable(1, protocols=(("range", unreadable),))
    desk.commit(1, only)
    assert isinstance(delete(desk, "orders", 0)[0], GroupSubscribed)


def test_offsets_of_a_live_group_of_another_type_cannot_be_deleted() -> None:
    desk = Desk()
    desk.stable(1, protocol_type="connect")
    desk.got(desk.send(DeleteOffsets(desk.ticket(), G, (("orders", (0,)),))), GroupNotEmpty)


def test_a_deleted_group_is_gone_with_its_offsets_also_after_a_restart() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    desk.commit(1, only)
    desk.leave(LeavingMember(only.id))
    other = GroupId("other")
    desk.commit(1, group=other)
    reply = desk.ask(DeleteGroups(desk.ticket(), (G, GroupId("none"))), DeleteGroupsReply)
    assert reply.results[0] == (G, None)
    assert isinstance(reply.results[1][1], UnknownGroup)
    for _ in range(2):
        assert desk.state() is GroupState.DEAD
        assert desk.committed() is None
        assert desk.committed(group=other) is not None
        desk.restart()


def test_a_deleted_topic_is_forgotten_by_all_groups() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    desk.commit(1, only)
    desk.commit(1, only, topic="other")
    desk.commit(1, group=GroupId("second"))
    desk.take(desk.coordinator.forget_topic("orders", desk.now_ms))
    for _ in range(2):
        assert desk.committed() is None
        assert desk.committed(group=GroupId("second")) is None
        assert desk.committed("other") is not None
        desk.restart()
    desk.pass_time(601_000)
    assert desk.describe(GroupId("second")).state is GroupState.DEAD


# ── expiry ──────────────────────────────────────────────────────────────────────────────────────


def test_offsets_of_a_consumer_without_membership_expire_a_retention_after_their_commit() -> None:
    desk = Desk()
    desk.commit(1)
    desk.commit(1, partition=1)
    desk.pass_time(6 * DAY_MS)
    desk.commit(2, partition=1)
    desk.pass_time(DAY_MS)
    assert desk.committed(partition=0) is None
    assert desk.committed(partition=1) is not None
    desk.pass_time(6 * DAY_MS + 600_000)
    assert desk.committed(partition=1) is None
    assert desk.state() is GroupState.DEAD
    assert desk.coordinator.next_deadline_ms() is None


def test_offsets_of_a_group_that_lost_its_members_expire_a_retention_after_that() -> None:
    desk = Desk()
    (only,) = desk.stable(1, session_ms=1_800_000)
    desk.commit(1, only)
    for _ in range(10 * 48):
        desk.pass_time(1_799_000)
        desk.heartbeat(only)
    assert desk.committed() is not None, "ten days old, and in use"
    desk.leave(LeavingMember(only.id))
    desk.pass_time(7 * DAY_MS - 1)
    assert desk.committed() is not None
    desk.restart()
    desk.pass_time(600_001)
    assert desk.committed() is None
    assert desk.state() is GroupState.DEAD


def test_in_a_live_group_offsets_of_topics_that_nobody_reads_expire() -> None:
    desk = Desk(GroupSettings(offsets_retention_ms=3_600_000))
    (only,) = desk.stable(1, session_ms=1_800_000)
    desk.commit(1, only, topic="orders")
    desk.commit(1, only, topic="old")
    for _ in range(4):
        desk.pass_time(1_799_000)
        desk.heartbeat(only)
    assert desk.committed("orders") is not None
    assert desk.committed("old") is None
    assert desk.state() is GroupState.STABLE


def test_a_commit_can_ask_for_a_retention_of_its_own() -> None:
    desk = Desk()
    desk.commit(1, partition=0, retention_ms=3_600_000)
    desk.commit(1, partition=1, retention_ms=30 * DAY_MS)
    desk.pass_time(3_600_000)
    assert desk.committed(partition=0) is None
    desk.pass_time(29 * DAY_MS)
    assert desk.committed(partition=1) is not None
    desk.pass_time(DAY_MS)
    assert desk.committed(partition=1) is None


def test_an_empty_group_without_offsets_disappears_but_not_at_once() -> None:
    desk = Desk()
    (only,) = desk.stable(1)
    desk.leave(LeavingMember(only.id))
    desk.pass_time(599_000)
    assert desk.state() is GroupState.EMPTY
    desk.pass_time(600_000)
    assert desk.state() is GroupState.DEAD
    assert desk.coordinator.snapshot() == []


def test_a_group_that_only_ever_had_a_pending_member_disappears() -> None:
    desk = Desk()
    desk.pending()
    assert desk.state() is GroupState.EMPTY
    desk.pass_time(1_200_000)
    assert desk.state() is GroupState.DEAD
    assert desk.coordinator.next_deadline_ms() is None


def test_an_empty_group_is_kept_for_a_member_that_was_given_an_id() -> None:
    desk = Desk()
    member_id = desk.got(desk.join(needs_id=True, session_ms=1_800_000), MemberIdRequired).member_id
    desk.pass_time(1_700_000)
    assert desk.waits(desk.join(member_id))


# ── listing ─────────────────────────────────────────────────────────────────────────────────────


def test_groups_are_listed_by_state_and_type() -> None:
    desk = Desk()
    desk.stable(1)
    desk.commit(1, group=GroupId("simple"))

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, str]:
        command = ListGroups(desk.ticket(), frozenset(states), frozenset(types))
        return {group.group_id: group.protocol_type for group in desk.ask(command, GroupList).groups}

    assert listed() == {"readers": "consumer", "simple": ""}
    assert listed(("stable",)) == {"readers": "consumer"}
    assert listed((" Empty", "Dead")) == {"simple": ""}
    assert listed(types=("Classic",)) == listed()
    assert listed(types=("consumer", "share")) == {}


def test_a_stable_group_is_described_with_what_its_members_read_and_have() -> None:
    desk = Desk()
    leader, follower = desk.stable(2, client="app", host="/10.0.0.1")
    described = desk.describe()
    assert (described.state, described.protocol_type, described.protocol) == (GroupState.STABLE, "consumer", "range")
    assert [member.member_id for member in described.members] == [leader.id, follower.id]
    first = described.members[0]
    assert (first.client_id, first.client_host, first.subscription, first.assignment) == (
        "app",
        "/10.0.0.1",
        subscription("orders"),
        b"for " + leader.id.encode(),
    )
    desk.join()
    assert [member.subscription for member in desk.describe().members] == [b""] * 3
