"""Fetch (key 1), versions 4-18: stored batches as they are, by topic name or (13) by id, with long polls.

Fetch sessions come later: a client that asks for one (session id 0, epoch 0) gets a full answer and session id 0, which
means that none was made; going on with a session is FETCH_SESSION_ID_NOT_FOUND. The first batch is given even where it
is larger than the limits. Readers of committed records (isolation level 1) get what is below the last stable offset,
and which transactions in it were aborted. Followers are not served (there is one node): replica ids are ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Final

from trunkline.broker.fetching import Got, Want
from trunkline.broker.partition import Partition
from trunkline.model.errors import (
    FencedLeaderEpoch,
    TrunklineError,
    UnknownLeaderEpoch,
    UnknownPartition,
    UnknownTopic,
    UnknownTopicId,
)
from trunkline.model.ids import NO_EPOCH, Offset, TopicId
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from trunkline.wire.kafka.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

NEW_SESSION: Final = 0
NO_SESSION: Final = -1
NOT_THERE: Final = (UnknownTopic, UnknownTopicId, UnknownPartition)
READ_COMMITTED: Final = 1


def fetch(call: Call, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    if request.session_epoch not in (NEW_SESSION, NO_SESSION):
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    wants, refused = _wants(call, request)
    # As in Kafka, a partition that is not there does not end the wait for the others: clients would ask without pause.
    at_once = any(not isinstance(error, NOT_THERE) for error in refused.values())
    result = call.broker.fetch(
        wants,
        min_bytes=0 if at_once else request.min_bytes,
        max_bytes=request.max_bytes,
        wait_ms=request.max_wait_ms,
    )
    if isinstance(result, list):
        return _response(call, request, refused, result)
    return _later(call, request, refused, result)


async def _later(
    call: Call, request: FetchRequest, refused: dict[int, TrunklineError], result: Awaitable[list[Got]]
) -> FetchResponse:
    return _response(call, request, refused, await result)


def check_leader_epoch(partition: Partition, epoch: int) -> None:
    """A client that knows another epoch than ours must first look up the metadata again."""
    if epoch == NO_EPOCH or epoch == partition.leader_epoch:
        return
    name = f"{partition.topic.name}-{partition.index}"
    if epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(f"Leader epoch {epoch} of {name} is over, it is {partition.leader_epoch} now.")
    raise UnknownLeaderEpoch(f"Leader epoch {epoch} of {name} is not known here yet, it is {partition.leader_epoch}.")


def _wants(call: Call, request: FetchRequest) -> tuple[list[Want], dict[int, TrunklineError]]:
    """What to read, and by position in the request what cannot be."""
    wants: list[Want] = []
    refused: dict[int, TrunklineError] = {}
    topics = call.broker.topics
    by_id = call.version >= 13
    committed = request.isolation_level == READ_COMMITTED
    for position, (topic, asked) in enumerate(_each(request)):
        try:
            if by_id:
                partition = topics.partition_by_id(TopicId(topic.topic_id), asked.partition)
            else:
                partition = topics.partition(topic.topic, asked.partition)
            check_leader_epoch(partition, max(asked.current_leader_epoch, NO_EPOCH))  # Kafka's leniency, in Fetch only
        except TrunklineError as error:
            refused[position] = error
        else:
            wants.append(Want(partition, Offset(asked.fetch_offset), asked.partition_max_bytes, committed))
    return wants, refused


def _each(request: FetchRequest) -> Iterator[tuple[FetchTopic, FetchPartition]]:
    for topic in request.topics:
        for asked in topic.partitions:
            yield topic, asked


def _response(
    call: Call, request: FetchRequest, refused: dict[int, TrunklineError], answers: Sequence[Got]
) -> FetchResponse:
    given = iter(answers)
    position = 0
    responses: list[FetchableTopicResponse] = []
    bytes_out = 0
    for topic in request.topics:
        partitions: list[PartitionData] = []
        for asked in topic.partitions:
            error = refused.get(position)
            position += 1
            got = Got(error=error) if error is not None else next(given)
            bytes_out += sum(map(len, got.buffers))
            partitions.append(_partition(asked.partition, got, committed_only=request.isolation_level == 1))
        responses.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
    call.broker.stats.bytes_out += bytes_out
    return FetchResponse(responses=responses)


def _partition(index: int, got: Got, *, committed_only: bool) -> PartitionData:
    aborted: list[AbortedTransaction] | None = [] if committed_only else None
    if got.error is not None:
        # Kafka's own habit: no list where reading failed, an empty one where there is nothing to read from.
        aborted = [] if isinstance(got.error, NOT_THERE) else None
        return PartitionData(
            partition_index=index,
            error_code=code_of(got.error),
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=aborted,
            records=b"",
        )
    return PartitionData(
        partition_index=index,
        high_watermark=got.high_watermark,
        last_stable_offset=got.last_stable,
        log_start_offset=got.log_start,
        aborted_transactions=None
        if got.aborted is None
        else [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in got.aborted],
        records=got.buffers or b"",
    )
