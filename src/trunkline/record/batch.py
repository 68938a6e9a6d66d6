"""The record batch (Kafka's version 2): the unit that is produced, stored and fetched, kept as it came.

base offset i64 | length i32 | leader epoch i32 | magic i8 = 2 | crc32c u32 | attributes i16 | last offset delta i32
| base timestamp i64 | max timestamp i64 | producer id i64 | producer epoch i16 | base sequence i32 | count i32 | …

`length` counts what follows it; the crc covers everything from the attributes on, so the broker can set base
offset and leader epoch without touching it. attributes: bits 0-2 codec, 3 append time, 4 transactional, 5 control.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from trunkline.model import limits
from trunkline.model.errors import CorruptBatch, InvalidRecord, UnsupportedBatchFormat
from trunkline.record.compression import Buffer, Compression, DecompressedTooLarge, codec, decompress
from trunkline.record.walk import walk_records

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_END: Final = 12
"""Bytes of a batch that its length field does not count."""
MAGIC: Final = 2
CODEC_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
CRC_FROM: Final = 21
_INT_MAX: Final = 2**31 - 1

_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_EPOCH_AT: Final = 12
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35


class BatchHeader:
    """A batch without its records. `unkeyed`: it was opened, and a record in it has no key."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
        "unkeyed",
    )

    def __init__(
        self,
        base_offset: int,
        length: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = length + LENGTH_END
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count
        self.unkeyed = False

    @property
    def compression(self) -> Compression:
        return codec(self.attributes & CODEC_MASK)

    @property
    def is_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences count on from 0 after 2^31 - 1."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & _INT_MAX

    def __repr__(self) -> str:
        return f"<batch {self.base_offset}..{self.last_offset}, {self.size_bytes} bytes, producer {self.producer_id}>"


Batches = list[tuple[BatchHeader, memoryview]]


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header as it stands, unchecked. CorruptBatch where fewer than 61 bytes remain."""
    try:
        return BatchHeader(*HEADER.unpack_from(buffer, position))
    except struct.error:
        remain = len(buffer) - position
        raise CorruptBatch(f"A batch header of {HEADER_BYTES} bytes is expected where {remain} remain.") from None


def split_batches(records: memoryview) -> list[tuple[BatchHeader, memoryview]]:
    """What a producer sent, batch by batch, checked.

    CorruptBatch: a length or checksum is wrong. InvalidRecord: nothing was sent, or count, deltas or record lengths
    lie, or a client claims a control batch. Batches larger than OPENED_BATCH_BYTES, or whose records are too many or
    too large to walk cheaply, are checked by header and checksum only.
    """
    if not records:
        raise InvalidRecord("A produce request must hold at least one record batch.")
    batches: list[tuple[BatchHeader, memoryview]] = []
    position, size = 0, len(records)
    while position < size:
        header = _checked_header(records, position)
        batch = records[position : position + header.size_bytes]
        _check_produced(header, batch)
        batches.append((header, batch))
        position += header.size_bytes
    return batches


def check_crc(header: BatchHeader, batch: memoryview) -> bool:
    return bool(crc32c(batch[CRC_FROM:]) == header.crc)


def stamp(batch: memoryview | bytearray, base_offset: int, leader_epoch: int) -> None:
    """Set in place what the checksum does not cover."""
    _LONG.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, _EPOCH_AT, leader_epoch)


def stamp_append_time(batch: memoryview | bytearray, now_ms: int) -> None:
    """Make every record of the batch count as written at `now_ms`, in place. The checksum follows."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | APPEND_TIME_BIT)
    _LONG.pack_into(batch, _MAX_TIMESTAMP_AT, now_ms)
    set_crc(batch)


def set_codec(batch: memoryview | bytearray, compression: Compression, length: int) -> None:
    """The records were compressed anew: say how, and how long they are. The checksum follows."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes & ~CODEC_MASK | compression)
    _LENGTH.pack_into(batch, _LENGTH_AT, length)
    set_crc(batch)


def set_crc(batch: memoryview | bytearray) -> None:
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))


def _checked_header(records: memoryview, position: int) -> BatchHeader:
    remain = len(records) - position
    if remain > _MAGIC_AT and (magic := records[position + _MAGIC_AT]) != MAGIC:
        if magic in (0, 1):
            raise UnsupportedBatchFormat(
                f"Message format v{magic} is no longer taken: use a client that writes record batches v2 (Kafka 0.11+)."
            )
        raise CorruptBatch(f"Unknown record batch magic {magic}.")
    header = read_header(records, position)
    if not HEADER_BYTES <= header.size_bytes <= remain:
        raise CorruptBatch(f"A batch claims {header.size_bytes} bytes where {remain} remain.")
    return header


def _check_produced(header: BatchHeader, batch: memoryview) -> None:
    if not check_crc(header, batch):
        raise CorruptBatch(f"The checksum of a batch of {header.size_bytes} bytes is wrong: it was damaged on its way.")
    count = header.record_count
    if count < 1 or count != header.last_offset_delta + 1:
        raise InvalidRecord(f"A batch claims {count} records and a last offset delta of {header.last_offset_delta}.")
    if header.attributes & CONTROL_BIT:
        raise InvalidRecord("Clients may not write control batches.")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecord(f"Producer {header.producer_id} sent a batch without an epoch or a sequence.")
    compression = header.compression
    if header.size_bytes <= limits.OPENED_BATCH_BYTES and count <= limits.OPENED_BATCH_RECORDS:
        try:
            body = decompress(compression, batch[HEADER_BYTES:], limits.OPENED_DECOMPRESSED_BYTES)
        except DecompressedTooLarge:
            return
        header.unkeyed = walk_records(body, count)
