"""The codecs of a record batch: none, gzip, snappy (xerial framing), lz4 (frame), zstd.

Decompression writes into a buffer of a given largest size and raises once it is full: what a batch claims or
contains never decides how much memory is taken.

    xerial:  82 'SNAPPY' 00 | version u32 = 1 | compatible u32 = 1 | (length u32 | raw snappy block)*
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import cramjam

from trunkline.model import limits
from trunkline.model.errors import CorruptBatch, UnsupportedCompression

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The value is the codec's number in the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressedTooLarge(CorruptBatch):
    """The records become larger than the caller takes."""


NONE: Final = Compression.NONE
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")
_FIRST_TRY_BYTES: Final = 256 * 1024
_OUTPUT_IS_FULL: Final = "failed to write whole buffer"
_INTO: Final[dict[Compression, Callable[[Any, Any], int]]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def codec(number: int) -> Compression:
    """UnsupportedCompression for a number that no codec has."""
    try:
        return Compression(number)
    except ValueError:
        raise UnsupportedCompression(f"Compression type {number} is unknown: use gzip, snappy, lz4 or zstd.") from None


def compress(compression: Compression, data: Buffer, level: int | None = None) -> Buffer:
    """`level` None is the codec's own default; none and snappy have no levels."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return memoryview(cramjam.gzip.compress(data, level))
        case Compression.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Compression.LZ4:
            return memoryview(cramjam.lz4.compress(data, level))
        case Compression.ZSTD:
            return memoryview(cramjam.zstd.compress(data, level))


def decompress(compression: Compression, data: memoryview, limit: int = limits.MAX_DECOMPRESSED_BYTES) -> memoryview:
    """At most `limit` bytes. DecompressedTooLarge past that, CorruptBatch for bytes that the codec did not write."""
    if compression is Compression.NONE:
        return data
    if compression is Compression.SNAPPY:
        return _decompress_snappy(data, limit)
    into = _INTO[compression]
    first = bytearray(min(_FIRST_TRY_BYTES, limit))
    try:
        return memoryview(first)[: into(data, first)]
    except cramjam.DecompressionError as error:
        if _OUTPUT_IS_FULL not in str(error):
            raise _corrupt(compression, error) from None
    if limit <= _FIRST_TRY_BYTES:
        raise _too_large(limit)
    # Anonymous pages are taken only as they are written, so the limit itself costs nothing.
    large = memoryview(mmap.mmap(-1, limit))
    try:
        return large[: into(data, large)]
    except cramjam.DecompressionError as error:
        if _OUTPUT_IS_FULL in str(error):
            raise _too_large(limit) from None
        raise _corrupt(compression, error) from None


def _compress_xerial(data: memoryview) -> bytearray:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += _LENGTH.pack(len(block))
        out += block
    return out


def _decompress_snappy(data: memoryview, limit: int) -> memoryview:
    blocks = _xerial_blocks(data) if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC else [data]
    try:
        # Sizes are read first, so that nothing is allocated for blocks that together are too large.
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        total = sum(sizes)
        if total > limit:
            raise _too_large(limit)
        out = memoryview(bytearray(total)) if total <= _FIRST_TRY_BYTES else memoryview(mmap.mmap(-1, total))
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            if size:
                position += cramjam.snappy.decompress_raw_into(block, out[position : position + size])
    except cramjam.DecompressionError as error:
        raise _corrupt(Compression.SNAPPY, error) from None
    return out


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks: list[memoryview] = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            raise CorruptBatch("A snappy stream ends in the middle of a block length.")
        (length,) = _LENGTH.unpack_from(data, position)
        position += 4
        if not 0 < length <= len(data) - position:
            raise CorruptBatch(f"A snappy block of {length} bytes is claimed where {len(data) - position} remain.")
        blocks.append(data[position : position + length])
        position += length
    return blocks


def _corrupt(compression: Compression, error: Exception) -> CorruptBatch:
    return CorruptBatch(f"The records cannot be decompressed as {compression.name.lower()}: {error}")


def _too_large(limit: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"The records decompress to more than {limit} bytes: send smaller batches.")
