"""Looking at the keys of a batch, and taking records out of it without touching the others.

Records carry their offset and time relative to the batch. A batch keeps both bases when some of its records go, so what
stays is copied byte by byte; only a new delete horizon, which takes the place of the base timestamp, writes the times
of all records anew. The first and last offset of a batch never change, nor what its producer numbered it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trunkline.model.errors import InvalidRecord
from trunkline.record.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    set_crc,
)
from trunkline.record.compression import compress, decompress
from trunkline.record.varint import read_varint, write_varint

NO_TIMESTAMP: Final = -1
AT_ONCE: Final = 100
"""Records that are looked at before others get their turn."""


KeyedRecord = tuple[int, int, int, bytes | None, bool]
"""Where a record starts and ends in its batch's body, its offset delta, its key, and whether its value is null."""


def read_body(header: BatchHeader, batch: memoryview) -> bytes:
    """The records, decompressed. CorruptBatch."""
    return bytes(decompress(header.compression, batch[HEADER_BYTES:]))


def read_keys(body: bytes, count: int, breathe: Callable[[], None]) -> list[KeyedRecord]:
    """InvalidRecord where the records are not `count`, or not as long as they say. `breathe` is called now and then."""
    found: list[KeyedRecord] = []
    position = 0
    try:
        for first in range(0, count, AT_ONCE):
            if first:
                breathe()
            position = _read_some(body, position, min(count - first, AT_ONCE), found)
    except IndexError:
        raise InvalidRecord(f"The batch ends before its {count} records do.") from None
    if position != len(body):
        raise InvalidRecord(f"{len(body) - position} bytes follow the {count} records that the batch claims.")
    return found


def _read_some(body: bytes, position: int, count: int, found: list[KeyedRecord]) -> int:
    """Numbers of one and two bytes are taken apart in place: this loop is most of what cleaning costs."""
    add, size = found.append, len(body)
    for _ in range(count):
        start = position
        low = body[position]
        if low < 0x80:
            position += 1
            end = position + (low >> 1)
        elif (high := body[position + 1]) < 0x80:
            position += 2
            end = position + ((low & 0x7F | high << 7) >> 1)
        else:
            length, position = _number(body, position)
            end = position + length
        if end > size or end <= position:
            raise InvalidRecord(f"A record of {end - position} bytes is claimed where {size - position} remain.")
        position += 1
        while body[position] >= 0x80:
            position += 1
        low = body[position + 1]
        if low < 0x80:
            delta = low >> 1
            position += 2
        elif (high := body[position + 2]) < 0x80:
            delta = (low & 0x7F | high << 7) >> 1
            position += 3
        else:
            delta, position = _number(body, position + 1)
        low = body[position]
        if low < 0x80 and not low & 1:
            value_at = position + 1 + (low >> 1)
            key: bytes | None = body[position + 1 : value_at]
        else:
            length, position = _number(body, position)
            value_at = position + max(length, 0)
            key = body[position:value_at] if length >= 0 else None
        if value_at >= end:
            raise InvalidRecord("A key does not fit into its record.")
        add((start, end, delta, key, body[value_at] == 1))
        position = end
    return position


def keep_records(
    header: BatchHeader, body: bytes, kept: Sequence[KeyedRecord], delete_horizon_ms: int | None
) -> bytearray:
    """The batch with only the records that are `kept`. A horizon is one that it did not have before."""
    parts = [body[record[0] : record[1]] for record in kept]
    base_timestamp, max_timestamp, attributes = header.base_timestamp, header.max_timestamp, header.attributes
    if not header.is_append_time:
        deltas = [_timestamp_delta(part) for part in parts]
        max_timestamp = base_timestamp + max(deltas)
        if delete_horizon_ms is not None:
            shift = base_timestamp - delete_horizon_ms
            parts = [_with_timestamp_delta(part, delta + shift) for part, delta in zip(parts, deltas, strict=True)]
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON_BIT
    packed = compress(header.compression, b"".join(parts))
    return _batch(header, attributes, base_timestamp, max_timestamp, len(parts), packed)


def keep_nothing(header: BatchHeader) -> bytearray:
    """The batch without any record: it says only what offsets, and what sequences, were there.

    It has no time, so that no look-up by time takes it for a record.
    """
    return _batch(header, header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT), NO_TIMESTAMP, NO_TIMESTAMP, 0, b"")


def _batch(
    header: BatchHeader,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    packed: bytes | bytearray | memoryview,
) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        HEADER_BYTES + len(packed) - LENGTH_END,
        header.leader_epoch,
        MAGIC,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    batch += packed
    set_crc(batch)
    return batch


def _timestamp_delta(record: bytes) -> int:
    at = 1
    while record[at - 1] >= 0x80:
        at += 1
    low = record[at + 1]
    return (low >> 1) ^ -(low & 1) if low < 0x80 else _number(record, at + 1)[0]


def _with_timestamp_delta(record: bytes, delta: int) -> bytes:
    _, position = _number(record, 0)
    _, rest = _number(record, position + 1)
    inner = bytearray(record[position : position + 1])
    write_varint(inner, delta)
    inner += record[rest:]
    whole = bytearray()
    write_varint(whole, len(inner))
    return bytes(whole + inner)


def _number(body: bytes, position: int) -> tuple[int, int]:
    return read_varint(memoryview(body), position)
