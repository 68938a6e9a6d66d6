"""Fetch (key 1), versions 4-18: stored batches as they are, by topic name or (13) by id, with long polls.

Fetch sessions (7+) are kept in fetch_sessions.py: an incremental request costs what it changes and what there is to
tell, not the size of the session. The first batch is given even where it is larger than the limits. Followers are not
served (there is one node): replica ids are ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from trunkline.broker.fetching import Got, Want, load, read_now
from trunkline.broker.partition import Partition
from trunkline.broker.quotas import QuotaKey
from trunkline.broker.waiting import LongPoll
from trunkline.model.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    TrunklineError,
    UnknownLeaderEpoch,
    UnknownPartition,
    UnknownTopic,
    UnknownTopicId,
)
from trunkline.model.ids import NO_EPOCH, Offset, TopicId
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.serve.kafka.fetch_sessions import FINAL, FULL, NO_SESSION, Entry, FetchSession
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from trunkline.wire.kafka.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

READ_COMMITTED: Final = 1
NOT_THERE: Final = (UnknownTopic, UnknownTopicId, UnknownPartition)
Refused = Mapping[int, TrunklineError]
"""By position in what was asked for: why nothing can be read."""


def fetch(call: Call, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    if request.session_epoch not in (FULL, FINAL):
        return _incremental(call, request)
    if request.session_id != NO_SESSION:
        call.fetch_sessions.close(request.session_id)
    return _full(call, request, keep=request.session_epoch == FULL)


# ── whole requests ──────────────────────────────────────────────────────────────────────────────


def _full(call: Call, request: FetchRequest, *, keep: bool) -> FetchResponse | Awaitable[FetchResponse]:
    """`keep`: make a session of it, where there is room for one."""
    wants, refused = _wants(call, request)
    result = call.broker.fetch(
        wants,
        min_bytes=0 if _end_the_wait(refused) else request.min_bytes,
        max_bytes=_max_bytes(call, request),
        wait_ms=request.max_wait_ms,
    )
    if isinstance(result, list):
        return _answered(call, request, wants, refused, result, keep)
    return _later(call, request, wants, refused, result, keep)


def _max_bytes(call: Call, request: FetchRequest) -> int:
    """A client with a quota gets no more at once than it may take in the quota's window."""
    quotas = call.broker.quotas
    most = quotas.most_at_once(QuotaKey.FETCH, call.client_id) if quotas.active else None
    return request.max_bytes if most is None else min(request.max_bytes, int(most))


def _end_the_wait(refused: Refused) -> bool:
    """As in Kafka, a partition that is not there does not end the wait for others: clients would ask without pause."""
    return any(not isinstance(error, NOT_THERE) for error in refused.values())


async def _later(
    call: Call, request: FetchRequest, wants: list[Want], refused: Refused, result: Awaitable[list[Got]], keep: bool
) -> FetchResponse:
    return _answered(call, request, wants, refused, await result, keep)


def _answered(
    call: Call, request: FetchRequest, wants: list[Want], refused: Refused, answers: list[Got], keep: bool
) -> FetchResponse:
    if refused:
        answers = list(_in_order(answers, refused, len(answers) + len(refused)))
    response = _response(call, request, answers)
    if keep:
        session = call.fetch_sessions.open(len(answers), call.version >= 13, call.broker.now_ms())
        if session is not None:
            found = iter(wants)
            partitions = (None if at in refused else next(found).partition for at in range(len(answers)))
            call.fetch_sessions.begin(session, request.topics, partitions, answers)
            response.session_id = session.id
    return response


def _in_order(answers: Sequence[Got], refused: Refused, count: int) -> Iterator[Got]:
    """One for each partition that was asked for: what was read, and why it was not."""
    given = iter(answers)
    for position in range(count):
        error = refused.get(position)
        yield next(given) if error is None else Got(error=error)


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
            wants.append(Want(partition, Offset(asked.fetch_offset), asked.partition_max_bytes))
    return wants, refused


def _each(request: FetchRequest) -> Iterator[tuple[FetchTopic, FetchPartition]]:
    for topic in request.topics:
        for asked in topic.partitions:
            yield topic, asked


def _response(call: Call, request: FetchRequest, answers: Sequence[Got]) -> FetchResponse:
    given = iter(answers)
    committed = request.isolation_level == READ_COMMITTED
    responses = [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[_partition(asked.partition, next(given), committed) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    _count_bytes(call, answers)
    return FetchResponse(responses=responses)


def _count_bytes(call: Call, answers: Iterable[Got]) -> None:
    call.broker.stats.bytes_out += sum(sum(map(len, got.buffers)) for got in answers)


def _partition(index: int, got: Got, committed: bool) -> PartitionData:
    aborted: list[AbortedTransaction] | None = [] if committed else None
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
        last_stable_offset=got.high_watermark,
        log_start_offset=got.log_start,
        aborted_transactions=aborted,
        records=got.buffers or b"",
    )


# ── changes only ────────────────────────────────────────────────────────────────────────────────


def _incremental(call: Call, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    sessions = call.fetch_sessions
    session = sessions.resume(request.session_id, request.session_epoch, by_id=call.version >= 13)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    if not sessions.ask(session, request.topics, request.forgotten_topics_data, call.broker.now_ms()):
        return _full(call, request, keep=False)
    epoch = session.epoch
    entries, wants, refused = session.pending(lambda entry: _find(call, entry), call.broker.now_ms())
    answers, total_bytes, any_cold = read_now(wants, _max_bytes(call, request))
    enough = total_bytes >= request.min_bytes or any_cold or _end_the_wait(refused) or any(got.error for got in answers)
    if not enough and request.max_wait_ms > 0 and len(refused) < len(session):
        poll = session.poll(wants, request.min_bytes - total_bytes, request.max_wait_ms / 1000)
        return _after_poll(call, request, session, epoch, poll)
    if any_cold:
        return _after_load(call, request, session, epoch, entries, answers, refused)
    return _news(call, request, session, epoch, entries, answers, refused)


async def _after_poll(
    call: Call, request: FetchRequest, session: FetchSession, epoch: int, poll: LongPoll
) -> FetchResponse:
    try:
        await poll.sleep()
    finally:
        session.poll_ended(poll)
    if session.epoch != epoch:
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
    entries, wants, refused = session.pending(lambda entry: _find(call, entry), call.broker.now_ms())
    answers, _, any_cold = read_now(wants, _max_bytes(call, request))
    if any_cold:
        return await _after_load(call, request, session, epoch, entries, answers, refused)
    return _news(call, request, session, epoch, entries, answers, refused)


async def _after_load(
    call: Call,
    request: FetchRequest,
    session: FetchSession,
    epoch: int,
    entries: list[Entry],
    answers: list[Got],
    refused: Refused,
) -> FetchResponse:
    await load(answers, call.broker.run_blocking)
    return _news(call, request, session, epoch, entries, answers, refused)


def _news(
    call: Call,
    request: FetchRequest,
    session: FetchSession,
    epoch: int,
    entries: list[Entry],
    answers: list[Got],
    refused: Refused,
) -> FetchResponse:
    """The partitions that have something to tell, by topic. A later request of the session makes this one void."""
    response = FetchResponse(session_id=session.id)
    if session.epoch != epoch:
        response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return response
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    for entry, got in zip(entries, _in_order(answers, refused, len(entries)), strict=True):
        if session.told(entry, got):
            of = entry.topic_id if session.by_id else entry.topic
            topic = topics.get(of)
            if topic is None:
                topic = topics[of] = FetchableTopicResponse(topic=entry.topic, topic_id=entry.topic_id)
            topic.partitions.append(_partition(entry.index, got, request.isolation_level == READ_COMMITTED))
    response.responses = list(topics.values())
    _count_bytes(call, answers)
    return response


def _find(call: Call, entry: Entry) -> Partition:
    """The partition as it stands: topics are made, deleted, and made again while a session goes on."""
    topics = call.broker.topics
    partition = entry.partition
    if partition is None or partition.closed:
        if call.version < 13:
            partition = topics.partition(entry.topic, entry.index)
        elif partition is None:
            partition = topics.partition_by_id(TopicId(entry.topic_id), entry.index)
        elif partition.topic.name in topics.image:
            raise InconsistentTopicId(f"Topic {partition.topic.name!r} was made anew: it has another id now.")
        else:
            raise UnknownPartition(f"Topic {partition.topic.name!r} was deleted.")
    check_leader_epoch(partition, max(entry.leader_epoch, NO_EPOCH))
    return partition
