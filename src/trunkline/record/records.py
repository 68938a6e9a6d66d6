"""Records and batches of them: for what the broker writes itself and for tools that look inside; not for hot paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trunkline.model import limits
from trunkline.model.errors import CorruptBatch, InvalidRecord
from trunkline.record.batch import (
    APPEND_TIME_BIT,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
    set_crc,
)
from trunkline.record.compression import NONE, Buffer, Compression, DecompressedTooLarge, compress, decompress
from trunkline.record.varint import read_varint, write_varint

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One record. When it is encoded its offset comes from the batch, not from here."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    is_append_time: bool = False,
) -> bytearray:
    """One batch of all `records`, numbered from `base_offset` in the order given."""
    if not records:
        raise InvalidRecord("A batch holds at least one record.")
    base_timestamp = records[0].timestamp
    body = bytearray()
    for delta, record in enumerate(records):
        _write_record(body, record, delta, record.timestamp - base_timestamp)
    packed = compress(compression, body)
    attributes = (
        int(compression)
        | (APPEND_TIME_BIT if is_append_time else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
    )
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        HEADER_BYTES + len(packed) - LENGTH_END,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        len(records) - 1,
        base_timestamp,
        max(record.timestamp for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch += packed
    set_crc(batch)
    return batch


def decode_records(batch: Buffer) -> list[Record]:
    """The records of the one batch that `batch` starts with. Its checksum is not looked at."""
    view = memoryview(batch)
    header = read_header(view)
    if header.magic != MAGIC or not HEADER_BYTES <= header.size_bytes <= len(view):
        raise CorruptBatch(f"Not a whole record batch v2: {header!r} in {len(view)} bytes.")
    body = decompress(header.compression, view[HEADER_BYTES : header.size_bytes], limits.MAX_DECOMPRESSED_BYTES)
    records: list[Record] = []
    position = 0
    for _ in range(header.record_count):
        record, position = _read_record(body, position, header)
        records.append(record)
    if position != len(body):
        raise InvalidRecord(f"{len(body) - position} bytes follow the {header.record_count} records of a batch.")
    return records


def oldest_timestamp(header: BatchHeader, batch: memoryview, limit_bytes: int = limits.RECOMPRESSED_BYTES) -> int:
    """Of the records in a batch; of one that takes more than `limit_bytes` to open, that of its first record."""
    if header.record_count == 1 or header.size_bytes > limit_bytes:
        return header.base_timestamp
    try:
        body = decompress(header.compression, batch[HEADER_BYTES:], limit_bytes)
    except DecompressedTooLarge:
        return header.base_timestamp
    oldest, position = header.base_timestamp, 0
    for _ in range(header.record_count):
        length, position = read_varint(body, position)
        if length < 0:
            raise InvalidRecord(f"A record claims {length} bytes.")
        delta, _ = read_varint(body, position + 1)
        oldest = min(oldest, header.base_timestamp + delta)
        position += length
    return oldest


def _write_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, value)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value


def _read_record(body: memoryview, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varint(body, position)
    end = position + length
    if length < 0 or end > len(body):
        raise InvalidRecord(f"A record claims {length} bytes where {len(body) - position} remain.")
    timestamp_delta, position = read_varint(body, position + 1)
    offset_delta, position = read_varint(body, position)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise InvalidRecord(f"A record has offset delta {offset_delta}, its batch ends at {header.last_offset_delta}.")
    key, position = _read_bytes(body, position, end)
    value, position = _read_bytes(body, position, end)
    headers, position = _read_headers(body, position, end)
    if position != end:
        raise InvalidRecord(f"A record says {length} bytes but ends {end - position} bytes off.")
    timestamp = header.max_timestamp if header.is_append_time else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_headers(body: memoryview, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(body, position)
    if not 0 <= count <= end - position:
        raise InvalidRecord(f"A record claims {count} headers.")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end)
        value, position = _read_bytes(body, position, end)
        if name is None:
            raise InvalidRecord("A header has no name.")
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise InvalidRecord("The name of a header is not UTF-8.") from None
    return tuple(headers), position


def _read_bytes(body: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise InvalidRecord(f"A field of {length} bytes does not fit into its record.")
    return bytes(body[position : position + length]), position + length
