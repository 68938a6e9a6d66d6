"""Committed offsets: OffsetCommit (key 8), versions 2-10; OffsetFetch (9), 1-10; OffsetDelete (47), 0.

From version 10 on topics are named by id; an id nobody knows is UNKNOWN_TOPIC_ID for its partitions. Commits for a
partition that does not exist are UNKNOWN_TOPIC_OR_PARTITION and touch nothing else. What is answered survives kill -9.
Where an open transaction may yet change an offset, who asks for stable ones (7) gets UNSTABLE_OFFSET_COMMIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from trunkline.coordination import commands as ask
from trunkline.coordination.commands import Ticket
from trunkline.coordination.facts import Committed
from trunkline.model.errors import TrunklineError
from trunkline.model.ids import Epoch, GroupId, MemberId, Offset, TopicId
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.serve.kafka.groups import group_code_of
from trunkline.wire.kafka.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from trunkline.wire.kafka.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from trunkline.wire.kafka.messages.offset_delete_request import OffsetDeleteRequest
from trunkline.wire.kafka.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from trunkline.wire.kafka.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from trunkline.wire.kafka.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)


def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    answers = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=each.partition_index) for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    accepted: list[tuple[str, tuple[ask.OffsetToCommit, ...]]] = []
    slots: list[list[OffsetCommitResponsePartition]] = []
    for topic, answer in zip(request.topics, answers, strict=True):
        name, offsets, places = _to_commit(call, topic, answer)
        if offsets:
            accepted.append((name, offsets))
            slots.append(places)
    if accepted or not request.topics:
        _commit(call, request, tuple(accepted), slots)
    return OffsetCommitResponse(topics=answers)


def _to_commit(
    call: Call, topic: OffsetCommitRequestTopic, answer: OffsetCommitResponseTopic
) -> tuple[str, tuple[ask.OffsetToCommit, ...], list[OffsetCommitResponsePartition]]:
    """What of a topic can be committed, with the places of its answers; the rest is answered here."""
    offsets: list[ask.OffsetToCommit] = []
    places: list[OffsetCommitResponsePartition] = []
    name = topic.name
    for each, place in zip(topic.partitions, answer.partitions, strict=True):
        try:
            if call.version >= 10:
                name = call.broker.topics.with_id(TopicId(topic.topic_id)).name
            call.broker.topics.partition(name, each.partition_index)
        except TrunklineError as error:
            place.error_code = code_of(error)
        else:
            offsets.append(
                ask.OffsetToCommit(
                    each.partition_index,
                    Offset(each.committed_offset),
                    Epoch(each.committed_leader_epoch),
                    each.committed_metadata or "",
                )
            )
            places.append(place)
    return name, tuple(offsets), places


def _commit(
    call: Call,
    request: OffsetCommitRequest,
    topics: tuple[tuple[str, tuple[ask.OffsetToCommit, ...]], ...],
    slots: list[list[OffsetCommitResponsePartition]],
) -> None:
    def command(ticket: Ticket) -> ask.CommitOffsets:
        return ask.CommitOffsets(
            ticket,
            GroupId(request.group_id),
            MemberId(request.member_id),
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            topics,
            request.retention_time_ms if request.retention_time_ms >= 0 else None,
        )

    try:
        reply = cast(ask.CommitReply, call.broker.groups.ask(command))
    except TrunklineError as error:
        code = group_code_of(error)
        if code == ErrorCode.GROUP_ID_NOT_FOUND and call.version < 9:
            code = ErrorCode.ILLEGAL_GENERATION  # what clients of the time before KIP-848 understand
        for places in slots:
            for place in places:
                place.error_code = code
        return
    for places, (_, results) in zip(slots, reply.topics, strict=True):
        for place, (_, failure) in zip(places, results, strict=True):
            place.error_code = code_of(failure) if failure else ErrorCode.NONE


# ── fetching ────────────────────────────────────────────────────────────────────────────────────

P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)
Found = tuple[str, Sequence[tuple[int, Committed | None]]]


def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if call.version >= 8:
        groups = [_group(call, group) for group in request.groups]
        for answer in groups:
            _mark_unstable(call, request, answer.group_id, answer.topics)
        return OffsetFetchResponse(groups=groups)
    asked = None
    if request.topics is not None:
        asked = tuple((topic.name, tuple(topic.partition_indexes)) for topic in request.topics)
    try:
        found = _fetch(call, request.group_id, asked)
    except TrunklineError as error:
        return OffsetFetchResponse(error_code=group_code_of(error))
    topics = [
        OffsetFetchResponseTopic(
            name=name,
            partitions=[
                _filled(OffsetFetchResponsePartition(partition_index=index), committed)
                for index, committed in partitions
            ],
        )
        for name, partitions in found
    ]
    _mark_unstable(call, request, request.group_id, topics)
    return OffsetFetchResponse(topics=topics)


def _mark_unstable(
    call: Call,
    request: OffsetFetchRequest,
    group_id: str,
    topics: Sequence[OffsetFetchResponseTopic] | Sequence[OffsetFetchResponseTopics],
) -> None:
    transactions = call.broker.transactions
    if not request.require_stable or not transactions.has_pending:
        return
    for topic in topics:
        for partition in topic.partitions:
            if transactions.is_pending(GroupId(group_id), topic.name, partition.partition_index):
                partition.committed_offset, partition.committed_leader_epoch, partition.metadata = -1, -1, ""
                partition.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT


def _group(call: Call, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    by_id = call.version >= 10
    asked: list[tuple[str, tuple[int, ...]]] | None = None
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        asked = []
        for topic in group.topics:
            try:
                name = call.broker.topics.with_id(TopicId(topic.topic_id)).name if by_id else topic.name
            except TrunklineError as error:
                unknown.append(_unknown(topic.topic_id, topic.partition_indexes, code_of(error)))
            else:
                asked.append((name, tuple(topic.partition_indexes)))
    try:
        found = _fetch(call, group.group_id, None if asked is None else tuple(asked), group)
    except TrunklineError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=group_code_of(error))
    image = call.broker.topics.image
    topics = [
        OffsetFetchResponseTopics(
            name=name,
            topic_id=image[name].id if name in image else bytes(16),
            partitions=[
                _filled(OffsetFetchResponsePartitions(partition_index=index), committed)
                for index, committed in partitions
            ],
        )
        for name, partitions in found
        if name in image or not by_id
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics + unknown)


def _fetch(
    call: Call,
    group_id: str,
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None,
    asking: OffsetFetchRequestGroup | None = None,
) -> Sequence[Found]:
    member_id = None if asking is None or asking.member_id is None else MemberId(asking.member_id)
    epoch = -1 if asking is None else asking.member_epoch
    reply = call.broker.groups.ask(lambda ticket: ask.FetchOffsets(ticket, GroupId(group_id), topics, member_id, epoch))
    return cast(ask.FetchReply, reply).topics


def _filled(partition: P, committed: Committed | None) -> P:
    partition.committed_offset, partition.metadata = -1, ""
    if committed is not None:
        partition.committed_offset = committed.offset
        partition.committed_leader_epoch = committed.leader_epoch
        partition.metadata = committed.metadata
    return partition


def _unknown(topic_id: bytes, indexes: Sequence[int], code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=code)
            for index in indexes
        ],
    )


# ── deleting ────────────────────────────────────────────────────────────────────────────────────


def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    topics: list[tuple[str, tuple[int, ...]]] = []
    unknown: list[tuple[str, int]] = []
    for topic in request.topics:
        known = call.broker.topics.image.get(topic.name)
        count = known.partitions if known is not None else 0
        indexes = [each.partition_index for each in topic.partitions]
        topics.append((topic.name, tuple(index for index in indexes if 0 <= index < count)))
        unknown += [(topic.name, index) for index in indexes if not 0 <= index < count]
    try:
        reply = call.broker.groups.ask(
            lambda ticket: ask.DeleteOffsets(ticket, GroupId(request.group_id), tuple(topics))
        )
    except TrunklineError as error:
        return OffsetDeleteResponse(error_code=group_code_of(error))
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=index, error_code=code_of(error) if error else ErrorCode.NONE
                    )
                    for index, error in results
                ]
                + [
                    OffsetDeleteResponsePartition(
                        partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                    for topic_name, index in unknown
                    if topic_name == name
                ],
            )
            for name, results in cast(ask.DeleteOffsetsReply, reply).topics
        ]
    )
