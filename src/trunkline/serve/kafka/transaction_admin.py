"""What administrators ask about transactions: DescribeTransactions (key 65), version 0; ListTransactions (66), 0-2;
DescribeProducers (61), 0; WriteTxnMarkers (27), 1-2, by which `kafka-transactions.sh abort` ends a hanging one.

There is one coordinator whose epoch is always 0. The pattern of ListTransactions 2 is one of Python's regular
expressions, of which RE2's are a part, and must match the whole id.
"""

from __future__ import annotations

import re
from typing import cast

from trunkline.broker.partition import Partition
from trunkline.coordination.transaction_commands import DescribeTransaction, ListTransactions, TransactionList
from trunkline.coordination.transaction_facts import Transaction, TransactionState
from trunkline.model.errors import TrunklineError
from trunkline.record.control import Marker
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.wire.kafka.messages.describe_producers_request import DescribeProducersRequest
from trunkline.wire.kafka.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from trunkline.wire.kafka.messages.describe_transactions_request import DescribeTransactionsRequest
from trunkline.wire.kafka.messages.describe_transactions_response import DescribeTransactionsResponse, TopicData
from trunkline.wire.kafka.messages.describe_transactions_response import TransactionState as Described
from trunkline.wire.kafka.messages.list_transactions_request import ListTransactionsRequest
from trunkline.wire.kafka.messages.list_transactions_response import ListTransactionsResponse
from trunkline.wire.kafka.messages.list_transactions_response import TransactionState as Listed
from trunkline.wire.kafka.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from trunkline.wire.kafka.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

_COORDINATOR_EPOCH = 0
_NO_COORDINATOR_EPOCH = -1


def describe_transactions(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_described(call, transactional_id) for transactional_id in request.transactional_ids]
    )


def _described(call: Call, transactional_id: str) -> Described:
    try:
        one = cast(Transaction, call.broker.transactions.ask(DescribeTransaction(transactional_id))[0])
    except TrunklineError as error:
        return Described(transactional_id=transactional_id, error_code=code_of(error))
    by_topic: dict[str, list[int]] = {}
    for place in sorted(one.partitions):
        by_topic.setdefault(place.topic, []).append(place.partition)
    return Described(
        transactional_id=transactional_id,
        transaction_state=one.state.value,
        transaction_timeout_ms=one.timeout_ms,
        transaction_start_time_ms=one.started_ms,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()],
    )


def list_transactions(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    try:
        pattern = re.compile(request.transactional_id_pattern or ".*", re.DOTALL)
    except re.error:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    names = {state.value for state in TransactionState} | {"Dead", "PrepareEpochFence"}
    now_ms = call.broker.now_ms()
    found = cast(TransactionList, call.broker.transactions.ask(ListTransactions())[0])
    return ListTransactionsResponse(
        unknown_state_filters=[state for state in request.state_filters if state not in names],
        transaction_states=[
            Listed(transactional_id=name, producer_id=one.producer_id, transaction_state=one.state.value)
            for name, one in found.transactions
            if (not request.state_filters or one.state.value in request.state_filters)
            and (not request.producer_id_filters or one.producer_id in request.producer_id_filters)
            and (request.duration_filter < 0 or 0 <= one.started_ms < now_ms - request.duration_filter)
            and pattern.fullmatch(name)
        ],
    )


def describe_producers(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_producers(call, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _producers(call: Call, topic: str, index: int) -> PartitionResponse:
    try:
        partition = call.broker.topics.partition(topic, index)
    except TrunklineError as error:
        return PartitionResponse(partition_index=index, error_code=code_of(error), error_message=str(error))
    return PartitionResponse(partition_index=index, active_producers=_active(partition))


def _active(partition: Partition) -> list[ProducerState]:
    producers = partition.log.producers
    found: list[ProducerState] = []
    for producer_id, state in producers.snapshot().items():
        last = state.batches[-1] if state.batches else None
        transaction = producers.transactions.open.get(producer_id)
        found.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=last.last_sequence if last else -1,
                last_timestamp=last.timestamp if last else -1,
                coordinator_epoch=_COORDINATOR_EPOCH if state.ended else _NO_COORDINATOR_EPOCH,
                current_txn_start_offset=transaction.first_offset if transaction else -1,
            )
        )
    return found


async def write_txn_markers(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    tickets: list[int] = []
    results = [
        WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(
                            partition_index=index, error_code=_write(call, marker, topic.name, index, tickets)
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    await call.broker.transactions.safe(max(tickets, default=0))
    return WriteTxnMarkersResponse(markers=results)


def _write(call: Call, marker: WritableTxnMarker, topic: str, index: int, tickets: list[int]) -> ErrorCode:
    transactions = call.broker.transactions
    try:
        partition = call.broker.topics.partition(topic, index)
        transactions.check_marker(partition, marker.producer_id, marker.producer_epoch)
        end = Marker(marker.transaction_result, marker.coordinator_epoch)
        tickets.append(transactions.write_marker(partition, marker.producer_id, marker.producer_epoch, end))
    except TrunklineError as error:
        return code_of(error)
    return ErrorCode.NONE
