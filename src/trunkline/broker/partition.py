"""One partition and its one owner: the log, how far it is safe, and who waits for more.

    log start             high watermark                end
    ─────┼──────────────────────┼────────────────────────┼─────▶
         │   readers see this   │ written, not yet safe  │

The high watermark moves only when the journal says so, or at once where the topic's durability is `os`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trunkline.log.partition_log import Appended, PartitionLog
from trunkline.model.ids import Epoch, Offset
from trunkline.model.topic import Topic
from trunkline.record.batch import BatchHeader


class Watcher(Protocol):
    """Who is told that a partition has more to read, or is gone."""

    def more(self, size_bytes: int, /) -> None: ...

    def wake(self) -> None: ...


class Partition:
    __slots__ = ("closed", "high_watermark", "index", "leader_epoch", "log", "polls", "topic")

    def __init__(self, topic: Topic, index: int, log: PartitionLog) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.high_watermark = Offset(log.end)
        self.leader_epoch = Epoch(0)
        self.closed = False
        self.polls: set[Watcher] = set()

    def append(self, batches: Sequence[tuple[BatchHeader, memoryview]], now_ms: int) -> Appended:
        """Write, and say what it got. What needs no journal is visible at once."""
        appended = self.log.append(batches, now_ms)
        if appended.ticket is None and not appended.duplicate:
            self.advance(Offset(self.log.end), sum(header.size_bytes for header, _ in batches))
        return appended

    def advance(self, to: Offset, size_bytes: int) -> None:
        """Everything below `to` is safe: show it to those who wait."""
        if to > self.high_watermark:
            self.high_watermark = to
            for poll in tuple(self.polls):
                poll.more(size_bytes)

    def close(self) -> None:
        """The partition is gone: whoever waits on it looks again, and learns so."""
        self.closed = True
        for poll in tuple(self.polls):
            poll.wake()
