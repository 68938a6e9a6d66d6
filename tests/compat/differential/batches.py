"""Record batches for scenarios: good ones, and ones with a chosen lie in them."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.compat.differential.peer import Peer
from tests.support import raw_kafka

from trunkline.record.batch import set_crc

_DAY_MS = 86_400_000
TIME_MS = (int(time.time() * 1000) // _DAY_MS - 2) * _DAY_MS
"""Old enough not to be taken for now, young enough to be kept: both brokers delete what is past its retention."""


def batch(values: Sequence[bytes], *, timestamp: int = TIME_MS, **how: Any) -> bytes:
    return raw_kafka.batch(values, timestamp=timestamp, **how)


def produce(peer: Peer, topic: str, values: list[bytes], partition: int = 0, **how: Any) -> Any:
    """Prepares: appends one batch."""
    data = [{"index": partition, "records": batch(values, **how)}]
    topics = [{"name": topic, "partition_data": data}]
    answer = peer.silently("Produce", 9, acks=-1, timeout_ms=10_000, topic_data=topics)
    code = answer.responses[0].partition_responses[0].error_code
    if code:
        raise RuntimeError(f"produce to {topic}: error {code}")
    return answer


def lie(
    change: Callable[[bytearray], None], values: list[bytes] | None = None, *, with_crc: bool = True, **how: Any
) -> bytes:
    """A batch that was changed; its checksum fits again, unless told not to."""
    data = bytearray(batch(values or [b"a", b"b"], **how))
    change(data)
    if with_crc:
        set_crc(data)
    return bytes(data)


def field(at: int, form: str, value: int) -> Callable[[bytearray], None]:
    """Overwrites one field of the batch header."""

    def change(data: bytearray) -> None:
        struct.pack_into(form, data, at, value)

    return change


def base_offset(value: int) -> Callable[[bytearray], None]:
    return field(0, ">q", value)


def length(value: int) -> Callable[[bytearray], None]:
    return field(8, ">i", value)


def leader_epoch(value: int) -> Callable[[bytearray], None]:
    return field(12, ">i", value)


def magic(value: int) -> Callable[[bytearray], None]:
    return field(16, ">b", value)


def attributes(value: int) -> Callable[[bytearray], None]:
    return field(21, ">h", value)


def last_offset_delta(value: int) -> Callable[[bytearray], None]:
    return field(23, ">i", value)


def base_timestamp(value: int) -> Callable[[bytearray], None]:
    return field(27, ">q", value)


def max_timestamp(value: int) -> Callable[[bytearray], None]:
    return field(35, ">q", value)


def producer(producer_id: int, epoch: int, sequence: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        struct.pack_into(">qhi", data, 43, producer_id, epoch, sequence)

    return change


def count(value: int) -> Callable[[bytearray], None]:
    return field(57, ">i", value)


def byte(at: int, value: int) -> Callable[[bytearray], None]:
    """Overwrites one byte of the records: 0 is the first one's length, 3 its offset delta."""

    def change(data: bytearray) -> None:
        data[61 + at] = value

    return change
