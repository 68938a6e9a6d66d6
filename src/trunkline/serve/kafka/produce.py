"""Produce (key 0), versions 3-13: record batches v2 to one or many partitions, by topic name or (13) by id.

acks=1 and acks=all mean the same on one node: answered after the journal is synced (or once written, where the topic's
durability is `os`). acks=0 is not answered; its errors are counted only. A partition's error never touches another one.
Transactional batches must belong to a partition that was added to their transaction; from version 12 on they add it by
themselves (KIP-890). Before that, a transaction that is just ending is told as NOT_ENOUGH_REPLICAS, which all retry.
"""

from __future__ import annotations

import asyncio
from typing import Final

from trunkline.broker.partition import Partition
from trunkline.model.errors import (
    ConcurrentTransactions,
    CorruptBatch,
    InvalidRecord,
    RequestTimedOut,
    TransactionAbortable,
    TrunklineError,
)
from trunkline.model.ids import TopicId
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from trunkline.wire.kafka.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

_ABORTABLE: Final = 11
_IMPLICIT: Final = 12


def produce(call: Call, request: ProduceRequest) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
    answers: list[TopicProduceResponse] = []
    last_ticket = 0
    for topic in request.topic_data:
        partitions: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            answer, ticket = _append(call, request, topic, data)
            last_ticket = max(last_ticket, ticket)
            partitions.append(answer)
        answers.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions))
    if request.acks == 0:
        return None
    response = ProduceResponse(responses=answers)
    deadline_ms = call.broker.now_ms() + max(request.timeout_ms, 0)
    safe = call.broker.durability.wait(last_ticket, deadline_ms)
    return response if safe is None else _once(safe, response)


def _append(
    call: Call, request: ProduceRequest, topic: TopicProduceData, data: PartitionProduceData
) -> tuple[PartitionProduceResponse, int]:
    try:
        if request.acks not in (-1, 0, 1):
            return PartitionProduceResponse(
                index=data.index, error_code=ErrorCode.INVALID_REQUIRED_ACKS, base_offset=-1
            ), 0
        partition = _partition(call, topic, data.index)
        if not data.records:
            raise CorruptBatch("The request holds no record batch for this partition.")
        appended, ticket = call.broker.publish(
            partition, memoryview(data.records), request.transactional_id, implicit=call.version >= _IMPLICIT
        )
    except TrunklineError as error:
        call.broker.stats.count_error(type(error).__name__)
        return _refused(call, data.index, error), 0
    return (
        PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=partition.log.log_start,
        ),
        ticket,
    )


def _partition(call: Call, topic: TopicProduceData, index: int) -> Partition:
    topics = call.broker.topics
    if call.version >= 13:
        return topics.partition_by_id(TopicId(topic.topic_id), index)
    return topics.partition(topic.name, index)


def _refused(call: Call, index: int, error: TrunklineError) -> PartitionProduceResponse:
    records = []
    if isinstance(error, InvalidRecord):
        records = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message=str(error))]
    code = code_of(error)
    if isinstance(error, TransactionAbortable) and call.version < _ABORTABLE:
        code = ErrorCode.INVALID_TXN_STATE
    elif isinstance(error, ConcurrentTransactions):
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, record_errors=records, error_message=str(error)
    )


def _once(safe: asyncio.Future[None], response: ProduceResponse) -> asyncio.Future[ProduceResponse]:
    """The response as a future that is done when the journal is; no task is made for it."""
    answered: asyncio.Future[ProduceResponse] = safe.get_loop().create_future()

    def answer(done: asyncio.Future[None]) -> None:
        if answered.done():
            return
        if isinstance(done.exception(), RequestTimedOut):
            for topic in response.responses:
                for partition in topic.partition_responses:
                    if partition.error_code == ErrorCode.NONE:
                        partition.error_code = ErrorCode.REQUEST_TIMED_OUT
                        partition.base_offset = -1
        answered.set_result(response)

    safe.add_done_callback(answer)
    return answered
