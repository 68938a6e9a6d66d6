"""Committing, fetching, deleting and expiring the offsets of a group: who may, and which facts it makes.

An offset expires a retention after the group became empty; for consumers that were never members, after its commit; and
in a Stable group of consumers, after its commit if nobody reads its topic any more. In a rebalance nothing expires.
"""

from __future__ import annotations

from collections.abc import Callable

from trunkline.coordination.classic import ClassicGroup
from trunkline.coordination.commands import (
    CommitOffsets,
    CommitReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchOffsets,
    FetchReply,
    GroupSettings,
    GroupState,
    OffsetToCommit,
    PartitionResults,
)
from trunkline.coordination.consumer_group import ConsumerGroup
from trunkline.coordination.facts import Committed, OffsetCommitted, OffsetDeleted
from trunkline.coordination.subscription import CONSUMER, topics_of_all
from trunkline.coordination.topic_view import TopicView
from trunkline.model.errors import (
    GroupNotEmpty,
    GroupSubscribed,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownGroup,
    UnknownMember,
)
from trunkline.model.ids import MemberId

OffsetFact = OffsetCommitted | OffsetDeleted
Group = ClassicGroup | ConsumerGroup


def check_commit(group: Group | None, commit: CommitOffsets, view: TopicView, now_ms: int) -> None:
    """Raises unless this member may commit now. A member's commit shows that it lives."""
    if commit.generation < 0 and (group is None or group.state is GroupState.EMPTY):
        return
    if group is None:
        raise UnknownGroup(f"there is no group {commit.group_id}")
    if commit.generation < 0 and not commit.member_id and commit.instance_id is None:
        raise UnknownMember(f"group {group.id} has members: only they may commit, with their ids and generation")
    if isinstance(group, ConsumerGroup):
        _check_consumer_commit(group, commit, view, now_ms)
        return
    member = group.active(commit.member_id, commit.instance_id, commit.generation)
    if group.state is GroupState.COMPLETING_REBALANCE:
        raise RebalanceInProgress(f"group {group.id} rebalances: fetch the assignment before committing")
    group.touch(member, now_ms)


def _check_consumer_commit(group: ConsumerGroup, commit: CommitOffsets, view: TopicView, now_ms: int) -> None:
    """A commit may be on its way while its member gets a new epoch: it counts for what the member had before too."""
    pairs = (
        (view.topics[name].id, one.partition)
        for name, offsets in commit.topics
        if name in view.topics
        for one in offsets
    )
    if group.had_since(commit.member_id, commit.generation, pairs):
        return
    committer = group.committer(commit.member_id, commit.generation)
    if committer.classic is not None:
        group.touch(committer, now_ms)


def commit_offsets(
    commit: CommitOffsets, settings: GroupSettings, now_ms: int, record: Callable[[OffsetFact], None]
) -> CommitReply:
    expires_ms = None if commit.retention_ms is None else now_ms + commit.retention_ms

    def commit_one(topic: str, one: OffsetToCommit) -> OffsetMetadataTooLarge | None:
        size_bytes = len(one.metadata.encode())
        if size_bytes > settings.max_offset_metadata_bytes:
            return OffsetMetadataTooLarge(
                f"{size_bytes} bytes of metadata for {topic}-{one.partition}, "
                f"at most {settings.max_offset_metadata_bytes} are kept"
            )
        committed = Committed(one.offset, one.leader_epoch, one.metadata, now_ms, expires_ms)
        record(OffsetCommitted(commit.group_id, topic, one.partition, committed))
        return None

    return CommitReply(
        tuple(
            (topic, tuple((one.partition, commit_one(topic, one)) for one in offsets))
            for topic, offsets in commit.topics
        )
    )


def fetch_offsets(group: Group | None, fetch: FetchOffsets) -> FetchReply:
    if group is None:
        return FetchReply(
            tuple((topic, tuple((partition, None) for partition in asked)) for topic, asked in fetch.topics or ())
        )
    if isinstance(group, ConsumerGroup) and not (fetch.member_id is None and fetch.epoch < 0):
        group.committer(fetch.member_id or MemberId(""), fetch.epoch)
    offsets = group.offsets
    if fetch.topics is None:
        return FetchReply(tuple((topic, tuple(offsets.of(topic).items())) for topic in offsets.topics()))
    return FetchReply(
        tuple(
            (topic, tuple((partition, offsets.of(topic).get(partition)) for partition in asked))
            for topic, asked in fetch.topics
        )
    )


def delete_offsets(
    group: Group | None, delete: DeleteOffsets, view: TopicView, record: Callable[[OffsetFact], None]
) -> DeleteOffsetsReply:
    if group is None:
        raise UnknownGroup(f"there is no group {delete.group_id}")
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        raise GroupNotEmpty(f"group {group.id} has members: what they read is not known, so its offsets stay")
    is_read = _is_read_in(group, view)
    results: PartitionResults = ()
    for topic, partitions in delete.topics:
        if is_read(topic):
            error = GroupSubscribed(f"members of group {group.id} read {topic}: its offsets are in use")
            results += ((topic, tuple((partition, error) for partition in partitions)),)
            continue
        for partition in set(partitions) & group.offsets.of(topic).keys():
            record(OffsetDeleted(group.id, topic, partition))
        results += ((topic, tuple((partition, None) for partition in partitions)),)
    return DeleteOffsetsReply(results)


def _is_read_in(group: Group, view: TopicView) -> Callable[[str], bool]:
    """Whether a topic is one that members read. If that cannot be known, consumers are taken to read all."""
    if isinstance(group, ConsumerGroup):
        return group.subscribed(view).__contains__
    if group.protocol_type != CONSUMER:
        return lambda topic: False
    if len(group.roster) and group.protocol is None:
        return lambda topic: True
    topics = topics_of_all(member.subscription(group.protocol) for member in group.roster)
    return (lambda topic: True) if topics is None else topics.__contains__


def delete_all_offsets(group: Group, record: Callable[[OffsetFact], None]) -> None:
    for topic, partition, _ in group.offsets:
        record(OffsetDeleted(group.id, topic, partition))


def forget_topic(group: Group, topic: str, record: Callable[[OffsetFact], None]) -> bool:
    """Whether there was something to forget."""
    partitions = list(group.offsets.of(topic))
    for partition in partitions:
        record(OffsetDeleted(group.id, topic, partition))
    return bool(partitions)


def expire_offsets(
    group: Group, settings: GroupSettings, now_ms: int, view: TopicView, record: Callable[[OffsetFact], None]
) -> int | None:
    """Deletes what has expired. When the next offset will, as things stand; None: not before something changes."""
    if group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        return None
    if group.state is GroupState.STABLE and group.protocol_type != CONSUMER:
        return None
    since_empty_ms = group.since_ms if group.state is GroupState.EMPTY and group.protocol_type is not None else None
    is_read = _is_read_in(group, view)
    next_ms: int | None = None
    for topic, partition, committed in group.offsets:
        if is_read(topic):
            continue
        at_ms = expiry_ms(committed, since_empty_ms, settings)
        if at_ms <= now_ms:
            record(OffsetDeleted(group.id, topic, partition))
        elif next_ms is None or at_ms < next_ms:
            next_ms = at_ms
    return next_ms


def expiry_ms(committed: Committed, since_empty_ms: int | None, settings: GroupSettings) -> int:
    if committed.expires_ms is not None:
        return committed.expires_ms
    start_ms = committed.committed_ms if since_empty_ms is None else since_empty_ms
    return start_ms + settings.offsets_retention_ms
