"""Batches as their topic wants them stored: `compression.type` other than `producer`."""

from __future__ import annotations

from trunkline.model.errors import BatchTooLarge
from trunkline.model.topic import TopicConfig
from trunkline.record.batch import Batches
from trunkline.record.compression import Compression
from trunkline.record.recompress import recompressed


def stored_as(config: TopicConfig, batches: Batches) -> Batches:
    """BatchTooLarge for what is too large as it came; what becomes too large is the log's to refuse."""
    for header, _ in batches:
        if header.size_bytes > config.max_message_bytes:
            raise BatchTooLarge(
                f"A batch of {header.size_bytes} bytes is larger than max.message.bytes ({config.max_message_bytes})."
            )
    assert config.compression is not None
    return recompressed(batches, Compression[config.compression.upper()], config.compression_level)
