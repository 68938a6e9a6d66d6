"""Produce (key 0), versions 3-13: record batches v2 to one or many partitions, by topic name or (13) by id.

acks=1 and acks=all mean the same on one node: answered after the journal is synced (or once written, where the topic's
durability is `os`). acks=0 is not answered; where it fails the connection is closed, as Kafka does, so that the client
looks where the topic is now. A partition's error never touches another one. Where Kafka takes one batch per partition,
several are taken here. Transactional batches must belong to a partition that was added to their transaction; from
version 12 on they add it by themselves (KIP-890). Before that, a transaction that is just ending is told as
NOT_ENOUGH_REPLICAS, which all retry.
"""

from __future__ import annotations

import asyncio
from typing import Final

from trunkline.broker.partition import Partition
from trunkline.model.errors import (
    ConcurrentTransactions,
    InvalidRecord,
    InvalidRequest,
    InvalidTopicName,
    RecordWithoutKey,
    RequestTimedOut,
    TransactionAbortable,
    TrunklineError,
    UnsupportedCompression,
)
from trunkline.model.ids import TopicId
from trunkline.record.batch import ATTRIBUTES_LOW_AT, CODEC_MASK
from trunkline.record.compression import Compression
from trunkline.record.records import decode_records
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of, text_of
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from trunkline.wire.kafka.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

ZSTD_SINCE_VERSION: Final = 7
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
        _close_if_refused(answers)
        return None
    response = ProduceResponse(responses=answers)
    deadline_ms = call.broker.now_ms() + max(request.timeout_ms, 0)
    safe = call.broker.durability.wait(last_ticket, deadline_ms)
    return response if safe is None else _once(safe, response)


def _close_if_refused(answers: list[TopicProduceResponse]) -> None:
    for topic in answers:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                raise InvalidRequest(f"acks=0 failed with {ErrorCode(partition.error_code).name}")


def _append(
    call: Call, request: ProduceRequest, topic: TopicProduceData, data: PartitionProduceData
) -> tuple[PartitionProduceResponse, int]:
    try:
        if request.acks not in (-1, 0, 1):
            return _refused_with(data.index, ErrorCode.INVALID_REQUIRED_ACKS), 0
        partition = _partition(call, topic, data.index)
        if partition.topic.internal:
            raise InvalidTopicName(f"Topic {partition.topic.name!r} is the broker's own: clients may only read it.")
        if not data.records:
            raise InvalidRecord("The request holds no record batch for this partition.")
        attributes = data.records[ATTRIBUTES_LOW_AT] if len(data.records) > ATTRIBUTES_LOW_AT else 0
        if call.version < ZSTD_SINCE_VERSION and attributes & CODEC_MASK == Compression.ZSTD:
            raise UnsupportedCompression(f"Produce version {call.version} has no zstd, version 7 has.")
        appended, ticket = call.broker.publish(
            partition, memoryview(data.records), request.transactional_id, implicit=call.version >= _IMPLICIT
        )
    except TrunklineError as error:
        call.broker.stats.count_error(type(error).__name__)
        return _refused(call, data, error), 0
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


def _refused_with(index: int, code: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)


def _refused(call: Call, data: PartitionProduceData, error: TrunklineError) -> PartitionProduceResponse:
    records = []
    if isinstance(error, RecordWithoutKey) and data.records:
        records = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text_of(error))
            for index, record in enumerate(decode_records(data.records))
            if record.key is None
        ]
    code = code_of(error)
    if isinstance(error, TransactionAbortable) and call.version < _ABORTABLE:
        code = ErrorCode.INVALID_TXN_STATE
    elif isinstance(error, ConcurrentTransactions):
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    return PartitionProduceResponse(
        index=data.index, error_code=code, base_offset=-1, record_errors=records, error_message=text_of(error)
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
