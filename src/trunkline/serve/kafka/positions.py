"""ListOffsets (key 2), versions 1-11, and OffsetForLeaderEpoch (key 23), versions 2-4: times and epochs to offsets.

ListOffsets: a time with nothing at or after it answers offset -1, timestamp -1, as Kafka does; -1 is the end, -2 and -4
the start, -3 the record with the largest timestamp, -5 and -6 (tiered storage, of which there is none) answer -1;
each only from the version on that brought it, as in Kafka. For readers of committed records (isolation level 1) the end
is the last stable offset. Look-ups by time read the disk, so they run off the loop. OffsetForLeaderEpoch: one node has
one epoch, which ends at the high watermark.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from trunkline.broker.partition import Partition
from trunkline.model.errors import InvalidRequest, TrunklineError
from trunkline.model.ids import Offset
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode, code_of
from trunkline.serve.kafka.fetch import READ_COMMITTED, check_leader_epoch
from trunkline.wire.kafka.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from trunkline.wire.kafka.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from trunkline.wire.kafka.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from trunkline.wire.kafka.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
TIERED: Final = (-5, -6)
SINCE_VERSION: Final = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, -5: 9, -6: 11}
"""When each look-up came; to an older request, and for any other negative time, it is UNSUPPORTED_VERSION."""


async def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    # As in Kafka, a partition that stands in the request twice is refused, and answered once.
    times = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=await asyncio.gather(
                    *(
                        _look_up(
                            call,
                            topic.name,
                            asked,
                            request.isolation_level,
                            twice=times[topic.name, asked.partition_index] > 1,
                        )
                        for asked in {asked.partition_index: asked for asked in topic.partitions}.values()
                    )
                ),
            )
            for topic in request.topics
        ]
    )


async def _look_up(
    call: Call, topic: str, asked: ListOffsetsPartition, isolation_level: int, *, twice: bool
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    if asked.timestamp < 0 and call.version < SINCE_VERSION.get(asked.timestamp, 99):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return answer
    try:
        if twice:
            raise InvalidRequest(f"Partition {topic}-{asked.partition_index} stands in the request more than once.")
        partition = call.broker.topics.partition(topic, asked.partition_index)
        check_leader_epoch(partition, asked.current_leader_epoch)
        end = partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark
        found = await _find(call, partition, asked.timestamp, end)
    except TrunklineError as error:
        answer.error_code = code_of(error)
    else:
        if found is not None:
            answer.offset, answer.timestamp = found
            answer.leader_epoch = partition.leader_epoch
    return answer


async def _find(call: Call, partition: Partition, timestamp: int, end: Offset) -> tuple[int, int] | None:
    """(offset, timestamp) below `end`, or None where there is nothing to be found."""
    if timestamp == LATEST:
        return end, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.log_start, -1
    if timestamp in TIERED:
        return None
    if timestamp == MAX_TIMESTAMP:
        found = await call.broker.run_blocking(partition.log.look_up_max_timestamp(end))
    else:
        found = await call.broker.run_blocking(partition.log.look_up_time(timestamp, end))
    return found


def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_epoch_end(call, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _epoch_end(call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = call.broker.topics.partition(topic, asked.partition)
        check_leader_epoch(partition, asked.current_leader_epoch)
    except TrunklineError as error:
        answer.error_code = code_of(error)
    else:
        if asked.leader_epoch == partition.leader_epoch:
            answer.leader_epoch, answer.end_offset = partition.leader_epoch, partition.high_watermark
    return answer
