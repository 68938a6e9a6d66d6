"""Facts kept in an internal topic, so that a state machine is rebuilt from them after any end of the process.

Facts are keyed, and the last one per key is enough. When the topic has grown by several times the present state, the
whole state is written once more and what stands before it is cut off: a restart reads little, however long the history.

    ─── old facts ───┼── snapshot ──┼── facts since ──▶
                     └ log start, once the snapshot is written
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from trunkline.broker.durability import Durability
from trunkline.broker.partition import Partition
from trunkline.broker.topics import Topics
from trunkline.model.ids import Offset
from trunkline.record.batch import read_header
from trunkline.record.records import Record, decode_records, encode_batch

KeyValue = tuple[bytes, bytes | None]

_FACTS_PER_BATCH: Final = 1000
_LEAST_GROWTH_BYTES: Final = 4 * 1024 * 1024
_GROWTH: Final = 4
_READ_BYTES: Final = 1024 * 1024
_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "max.message.bytes": str(64 * 1024 * 1024),
}


class FactLog:
    """One internal topic with one partition, made when the first fact comes."""

    def __init__(
        self,
        topics: Topics,
        topic: str,
        snapshot: Callable[[], Iterable[KeyValue]],
        now_ms: Callable[[], int],
        durability: Durability,
        *,
        synced: bool = False,
    ) -> None:
        """`synced`: facts go through the journal. Without it only those that are written so."""
        self._topics = topics
        self._topic = topic
        self._durability = durability
        self._synced = synced
        self._snapshot = snapshot
        self._now_ms = now_ms
        self._grown_bytes = 0
        self._snapshot_bytes = 0
        self.behind = False
        """A write failed, so the topic lacks facts that memory has: the next write starts with a snapshot."""

    def write(self, facts: list[KeyValue], *, synced: bool = False) -> int:
        """Facts are safe from kill -9 when this returns; StorageFailed when they are not.

        Answers the ticket at which they are safe from a loss of power, too; 0 where nobody waits for that.
        """
        due = self.behind or self._grown_bytes > max(_LEAST_GROWTH_BYTES, _GROWTH * self._snapshot_bytes)
        self.behind = True
        if due:
            ticket = self._write_snapshot(synced)
        else:
            ticket = self._append(facts, synced)
        self.behind = False
        return ticket

    def read(self) -> Iterator[KeyValue]:
        """Everything that is kept, oldest first. Blocks; only at start."""
        if self._topic not in self._topics.image:
            return
        log = self._partition().log
        offset = Offset(log.log_start)
        while offset < log.end:
            for buffer in log.read(offset, _READ_BYTES, log.end).load().buffers:
                position = 0
                while position < len(buffer):
                    header = read_header(buffer, position)
                    for record in decode_records(buffer[position : position + header.size_bytes]):
                        if record.offset >= offset and record.key is not None:
                            yield record.key, record.value
                    position += header.size_bytes
                    offset = Offset(header.next_offset)
        self._grown_bytes = log.size_bytes

    def _write_snapshot(self, synced: bool) -> int:
        partition = self._partition()
        start = partition.log.end
        self._grown_bytes, ticket = 0, 0
        facts = iter(self._snapshot())
        while chunk := list(islice(facts, _FACTS_PER_BATCH)):
            ticket = self._append(chunk, synced)
        self._grown_bytes, self._snapshot_bytes = 0, self._grown_bytes
        return max(partition.log.delete_records(start) or 0, ticket)

    def _append(self, facts: list[KeyValue], synced: bool) -> int:
        now_ms = self._now_ms()
        batch = encode_batch([Record(0, now_ms, key, value) for key, value in facts])
        partition = self._partition()
        appended = partition.append([(read_header(batch), memoryview(batch))], now_ms, synced)
        self._grown_bytes += len(batch)
        if appended.ticket is None:
            return 0
        self._durability.written(appended.ticket, partition, Offset(partition.log.end), len(batch))
        return appended.ticket

    def _partition(self) -> Partition:
        if self._topic not in self._topics.image:
            durability = "fsync" if self._synced else "os"
            self._topics.create(self._topic, 1, {**_CONFIG, "durability": durability}, internal=True)
        return self._topics.partition(self._topic, 0)
