"""What a topic's configs let in: sizes, timestamps, keys."""

from __future__ import annotations

from collections.abc import Sequence

from trunkline.model.errors import BatchTooLarge, InvalidRecord, InvalidTimestamp
from trunkline.model.topic import NO_LIMIT, TimestampType, TopicConfig
from trunkline.record.batch import BatchHeader
from trunkline.record.records import oldest_timestamp


def check_batches(batches: Sequence[tuple[BatchHeader, memoryview]], config: TopicConfig, now_ms: int) -> int:
    """How many bytes they are together. BatchTooLarge, InvalidTimestamp, InvalidRecord."""
    size = 0
    create_time = config.timestamp_type is TimestampType.CREATE
    for header, batch in batches:
        size += header.size_bytes
        if header.size_bytes > config.max_message_bytes:
            raise BatchTooLarge(
                f"A batch of {header.size_bytes} bytes is larger than max.message.bytes ({config.max_message_bytes})."
            )
        if create_time and header.max_timestamp >= 0:
            _check_times(header, batch, config, now_ms)
        if header.unkeyed and config.compacted:
            raise InvalidRecord("A record without a key was sent to a compacted topic.")
    if size > config.segment_bytes:
        raise BatchTooLarge(f"{size} bytes at once are larger than segment.bytes ({config.segment_bytes}).")
    return size


def _check_times(header: BatchHeader, batch: memoryview, config: TopicConfig, now_ms: int) -> None:
    if header.max_timestamp - now_ms > config.timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"Timestamp {header.max_timestamp} is more than message.timestamp.after.max.ms "
            f"({config.timestamp_after_max_ms}) after the broker's time {now_ms}."
        )
    if config.timestamp_before_max_ms == NO_LIMIT:
        return
    oldest = oldest_timestamp(header, batch)
    if now_ms - oldest > config.timestamp_before_max_ms:
        raise InvalidTimestamp(
            f"Timestamp {oldest} is more than message.timestamp.before.max.ms "
            f"({config.timestamp_before_max_ms}) before the broker's time {now_ms}."
        )
