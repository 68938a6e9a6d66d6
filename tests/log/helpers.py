"""A log under test: a disk, a clock that stands still, and batches that say what they are."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.log.disk import Disk
from trunkline.log.partition_log import Appended, PartitionLog
from trunkline.log.store import LogSettings, LogStore
from trunkline.model.ids import TopicId
from trunkline.model.topic import Topic, TopicConfig
from trunkline.record.batch import BatchHeader, read_header
from trunkline.record.records import Record, decode_records, encode_batch

NOW_MS = 1_700_000_000_000
SMALL = LogSettings(journal_file_bytes=16 * 1024, hot_tail_bytes=1 << 20, salt=lambda: 7, monotonic=lambda: 0.0)
COLD = LogSettings(journal_file_bytes=16 * 1024, hot_tail_bytes=0, salt=lambda: 7, monotonic=lambda: 0.0)


def topic(name: str = "orders", partitions: int = 1, memory: bool = False, **configs: str | int) -> Topic:
    config = TopicConfig.parse({key.replace("_", "."): str(value) for key, value in configs.items()})
    return Topic(name, TopicId(name.encode().ljust(16, b"\0")), partitions, config, memory=memory)


def open_store(disk: Disk, *topics: Topic, settings: LogSettings = SMALL) -> LogStore:
    known: Mapping[TopicId, Topic] = {topic.id: topic for topic in topics}
    return LogStore.open(disk, settings, known, lambda: NOW_MS)


def batch(
    *values: bytes,
    timestamp: int = NOW_MS,
    key: bytes | None = b"k",
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamps: tuple[int, ...] = (),
) -> tuple[BatchHeader, memoryview]:
    stamps = timestamps or (timestamp,) * len(values)
    records = [Record(0, stamp, key, value) for stamp, value in zip(stamps, values, strict=True)]
    producer_id, epoch, sequence = producer
    data = encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return read_header(data), memoryview(data)


def append(log: PartitionLog, *values: bytes, now_ms: int = NOW_MS, timestamp: int = NOW_MS) -> Appended:
    return log.append([batch(*values, timestamp=timestamp)], now_ms)


def checkpoint(store: LogStore) -> None:
    plan = store.begin_checkpoint()
    assert plan is not None
    plan.write()
    store.finish_checkpoint(plan)


def flush(store: LogStore) -> int:
    assert store.journal is not None
    return store.journal.flush()


def records(log: PartitionLog, start: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Everything from `start` on, read as a consumer would."""
    offset = log.log_start if start is None else start
    found: list[Record] = []
    while offset < log.end:
        read = log.read(offset, max_bytes, log.end).load()
        if not read.buffers:
            break
        for buffer in read.buffers:
            found += [record for record in decode_buffer(buffer) if record.offset >= offset]
        offset = read.next_offset
    return found


def values(log: PartitionLog, start: int | None = None, max_bytes: int = 1 << 20) -> list[bytes | None]:
    return [record.value for record in records(log, start, max_bytes)]


def decode_buffer(buffer: memoryview) -> list[Record]:
    found: list[Record] = []
    position = 0
    while position < len(buffer):
        header = read_header(buffer, position)
        found += decode_records(buffer[position : position + header.size_bytes])
        position += header.size_bytes
    return found
