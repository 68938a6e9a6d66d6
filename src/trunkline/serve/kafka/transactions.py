"""Transactions: AddPartitionsToTxn (key 24), versions 0-5; AddOffsetsToTxn (25), 0-4; EndTxn (26), 0-5;
TxnOffsetCommit (28), 0-5. InitProducerId is with the producers, what administrators ask is in transaction_admin.

EndTxn 5 is transaction version 2 (KIP-890): it answers with a raised epoch, and Produce 12 and TxnOffsetCommit 5 join
partitions to the transaction by themselves. AddPartitionsToTxn 4 and newer (several transactions at once, or only the
question whether partitions are part of one) is what brokers ask each other; it is answered here, too. A producer that
was fenced is told INVALID_PRODUCER_EPOCH where its version does not know PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from trunkline.broker.transactions import OFFSETS_PLACE
from trunkline.coordination import commands as ask
from trunkline.coordination.commands import Ticket
from trunkline.coordination.transaction_commands import (
    AddOffsets,
    AddPartitions,
    EndTransaction,
    PartitionsNotIn,
    VerifyPartitions,
)
from trunkline.model.errors import ProducerFenced, TransactionAbortable, TrunklineError
from trunkline.model.ids import Epoch, GroupId, MemberId, Offset, TopicPartition
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.serve.kafka.groups import group_code_of
from trunkline.wire.kafka.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from trunkline.wire.kafka.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from trunkline.wire.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from trunkline.wire.kafka.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from trunkline.wire.kafka.messages.end_txn_request import EndTxnRequest
from trunkline.wire.kafka.messages.end_txn_response import EndTxnResponse
from trunkline.wire.kafka.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from trunkline.wire.kafka.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_KNOWS_FENCED = 2
_ABORTABLE_OFFSETS = 4
_IMPLICIT_OFFSETS = 5
_RAISES_EPOCH = 5


def transaction_code_of(error: TrunklineError, *, knows_fenced: bool) -> ErrorCode:
    if isinstance(error, ProducerFenced) and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return group_code_of(error)


# ── joining ─────────────────────────────────────────────────────────────────────────────────────


async def add_partitions_to_txn(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if call.version >= 4:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=_results(one.topics, await _add(call, one)),
                )
                for one in request.transactions
            ]
        )
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(one.topics, await _add(call, one)))


async def _add(call: Call, one: AddPartitionsToTxnTransaction) -> dict[TopicPartition, ErrorCode]:
    """What went wrong, by partition. If one of them does not exist, none is added."""
    places = frozenset(TopicPartition(topic.name, index) for topic in one.topics for index in topic.partitions)
    unknown = {place for place in places if not _exists(call, place)}
    if unknown:
        return {
            place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place in unknown else ErrorCode.OPERATION_NOT_ATTEMPTED
            for place in places
        }
    who = (one.transactional_id, one.producer_id, one.producer_epoch, places)
    try:
        if not one.verify_only:
            await call.broker.transactions.add(AddPartitions(*who))
            return {}
        missing = cast(PartitionsNotIn, call.broker.transactions.ask(VerifyPartitions(*who))[0])
    except TrunklineError as error:
        return dict.fromkeys(places, transaction_code_of(error, knows_fenced=call.version >= _KNOWS_FENCED))
    return dict.fromkeys(missing.partitions, ErrorCode.TRANSACTION_ABORTABLE)


def _exists(call: Call, place: TopicPartition) -> bool:
    topic = call.broker.topics.image.get(place.topic)
    return topic is not None and 0 <= place.partition < topic.partitions


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], wrong: dict[TopicPartition, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=wrong.get(TopicPartition(topic.name, index), ErrorCode.NONE),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


async def add_offsets_to_txn(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """All groups have their offsets in one place, so which group it is does not matter yet."""
    places = frozenset((OFFSETS_PLACE,))
    try:
        await call.broker.transactions.add(
            AddPartitions(request.transactional_id, request.producer_id, request.producer_epoch, places)
        )
    except TrunklineError as error:
        return AddOffsetsToTxnResponse(
            error_code=transaction_code_of(error, knows_fenced=call.version >= _KNOWS_FENCED)
        )
    return AddOffsetsToTxnResponse()


# ── offsets ─────────────────────────────────────────────────────────────────────────────────────


async def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    wrong: dict[TopicPartition, ErrorCode] = {}
    accepted: list[tuple[str, tuple[ask.OffsetToCommit, ...]]] = []
    for topic in request.topics:
        offsets: list[ask.OffsetToCommit] = []
        for each in topic.partitions:
            place = TopicPartition(topic.name, each.partition_index)
            if not _exists(call, place):
                wrong[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            offsets.append(
                ask.OffsetToCommit(
                    each.partition_index,
                    Offset(each.committed_offset),
                    Epoch(each.committed_leader_epoch),
                    each.committed_metadata or "",
                )
            )
        if offsets:
            accepted.append((topic.name, tuple(offsets)))
    if accepted:
        try:
            wrong |= await _add_pending(call, request, tuple(accepted))
        except TrunklineError as error:
            code = _offsets_code_of(call, error)
            for name, offsets_of_topic in accepted:
                wrong |= {TopicPartition(name, one.partition): code for one in offsets_of_topic}
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=wrong.get(TopicPartition(topic.name, each.partition_index), ErrorCode.NONE),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _add_pending(
    call: Call, request: TxnOffsetCommitRequest, topics: tuple[tuple[str, tuple[ask.OffsetToCommit, ...]], ...]
) -> dict[TopicPartition, ErrorCode]:
    """First the transaction, then the member, then both: what is refused leaves nothing behind."""
    transactions = call.broker.transactions
    implicit = call.version >= _IMPLICIT_OFFSETS
    who = (request.transactional_id, request.producer_id, request.producer_epoch)
    missing = cast(PartitionsNotIn, transactions.ask(VerifyPartitions(*who, frozenset((OFFSETS_PLACE,))))[0])
    if missing.partitions and not implicit:
        raise TransactionAbortable(f"No group was added to the transaction of {request.transactional_id}.")

    def command(ticket: Ticket) -> ask.CheckOffsets:
        return ask.CheckOffsets(
            ticket,
            GroupId(request.group_id),
            MemberId(request.member_id),
            request.group_instance_id,
            request.generation_id,
            topics,
        )

    checked = cast(ask.CheckedOffsets, call.broker.groups.ask(command))
    if checked.accepted:
        _, ticket = transactions.ask(AddOffsets(*who, OFFSETS_PLACE, checked.accepted, implicit))
        await transactions.safe(ticket)
    return {
        TopicPartition(name, partition): code_of(error)
        for name, results in checked.topics
        for partition, error in results
        if error is not None
    }


def _offsets_code_of(call: Call, error: TrunklineError) -> ErrorCode:
    if isinstance(error, ProducerFenced):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if isinstance(error, TransactionAbortable) and call.version < _ABORTABLE_OFFSETS:
        return ErrorCode.INVALID_TXN_STATE
    return group_code_of(error)


# ── the end ─────────────────────────────────────────────────────────────────────────────────────


async def end_txn(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    command = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        v2=call.version >= _RAISES_EPOCH,
    )
    try:
        producer = await call.broker.transactions.end(command)
    except TrunklineError as error:
        return EndTxnResponse(error_code=transaction_code_of(error, knows_fenced=call.version >= _KNOWS_FENCED))
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
