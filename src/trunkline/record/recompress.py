"""Batches in another codec than they came in, for topics that ask for one (`compression.type`).

Everything but the codec, the length and the checksum stays: offsets, times, producer, sequences, the order of records.
"""

from __future__ import annotations

from trunkline.model.limits import RECOMPRESSED_BYTES
from trunkline.record.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_END,
    Batches,
    BatchHeader,
    read_header,
    set_codec,
)
from trunkline.record.compression import Compression, DecompressedTooLarge, compress, decompress


def recompressed(batches: Batches, to: Compression, level: int | None = None) -> Batches:
    """Batches whose records take more than RECOMPRESSED_BYTES stay as they came: the loop cannot wait for them."""
    return [
        (header, batch) if header.attributes & CODEC_MASK == to else _recompressed(header, batch, to, level)
        for header, batch in batches
    ]


def _recompressed(
    header: BatchHeader, batch: memoryview, to: Compression, level: int | None
) -> tuple[BatchHeader, memoryview]:
    try:
        body = decompress(header.compression, batch[HEADER_BYTES:], RECOMPRESSED_BYTES)
    except DecompressedTooLarge:
        return header, batch
    if len(body) > RECOMPRESSED_BYTES:
        return header, batch
    packed = compress(to, body, level)
    again = bytearray(batch[:HEADER_BYTES])
    again += packed
    set_codec(again, to, len(again) - LENGTH_END)
    changed = read_header(again)
    changed.unkeyed = header.unkeyed
    return changed, memoryview(again)
