"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

from tests.compat.differential.batches import TIME_MS, produce
from tests.compat.differential.peer import Peer
from tests.compat.differential.registry import scenario

from trunkline.record.compression import Compression
from trunkline.wire.kafka.apis import ApiKey


class Finder:
    def __init__(self, peer: Peer, version: int, topic: str) -> None:
        self.peer, self.version, self.topic = peer, version, topic

    def ask(self, step: str, *stamps: int, partition: int = 0, epoch: int = -1, **more: Any) -> None:
        rows = [{"partition_index": partition, "timestamp": stamp, "current_leader_epoch": epoch} for stamp in stamps]
        topics = [{"name": self.topic, "partitions": rows}]
        values = {"replica_id": -1, "topics": topics, "timeout_ms": 5_000}
        self.peer.ask(step, "ListOffsets", self.version, **{**values, **more})


@scenario(ApiKey.LIST_OFFSETS)
def find(peer: Peer, version: int) -> None:
    finder = Finder(peer, version, peer.topic("one", 2))
    special = (-1, -2, -3, -4, -5, -6, -7, -100)
    for stamp in special:
        finder.ask(f"empty: {stamp}", stamp)
    finder.ask("empty: time 0", 0)
    for delta in (0, 1000, 500, 3000):
        produce(peer, finder.topic, [b"a", b"b"], timestamp=TIME_MS + delta)
    produce(peer, finder.topic, [b"c", b"d"], timestamp=TIME_MS + 4000, compression=Compression.GZIP)
    for stamp in special:
        finder.ask(f"special {stamp}", stamp)
        finder.ask(f"special {stamp}, committed", stamp, isolation_level=1)
    for delta in (-1, 0, 1, 400, 700, 1000, 1001, 2999, 3000, 3001, 4000, 4001):
        finder.ask(f"time {delta}", TIME_MS + delta)
    finder.ask("time 0", 0)
    finder.ask("last time there is", 2**63 - 1)
    finder.ask("unknown partition", -1, partition=7)
    finder.ask("negative partition", -1, partition=-1)
    finder.ask("twice", -1, -2)
    finder.ask("no partitions")
    finder.ask("no topics", topics=[])
    finder.ask("isolation 2", -1, isolation_level=2)
    finder.ask("replica -2", -1, replica_id=-2)
    finder.ask("replica 5", -1, replica_id=5)
    if version >= 4:
        for epoch in (0, 1, -2, 99):
            finder.ask(f"epoch {epoch}", -1, epoch=epoch)
            finder.ask(f"epoch {epoch} by time", TIME_MS, epoch=epoch)
    finder.topic = peer.name("no")
    finder.ask("unknown topic", -1)
    finder.topic = "a b"
    finder.ask("bad topic", -1)


@scenario(ApiKey.LIST_OFFSETS)
def after_deletion(peer: Peer, version: int) -> None:
    finder = Finder(peer, version, peer.topic("one"))
    for delta in range(3):
        produce(peer, finder.topic, [b"a", b"b"], timestamp=TIME_MS + delta)
    for offset in (3, 6):
        cut = [{"name": finder.topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
        peer.silently("DeleteRecords", 2, topics=cut, timeout_ms=10_000)
        for stamp in (-1, -2, -3, -4, TIME_MS, TIME_MS + 1, TIME_MS + 2, TIME_MS + 3):
            finder.ask(f"cut {offset}: {stamp}", stamp)


@scenario(ApiKey.LIST_OFFSETS)
def append_time(peer: Peer, version: int) -> None:
    finder = Finder(peer, version, peer.topic("one", message_timestamp_type="LogAppendTime"))
    produce(peer, finder.topic, [b"a", b"b"])
    produce(peer, finder.topic, [b"c", b"d"])
    for stamp in (-1, -2, -3, TIME_MS):
        finder.ask(f"{stamp}", stamp)


@scenario(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def leader_epochs(peer: Peer, version: int) -> None:
    topic = peer.topic("one", 2)
    produce(peer, topic, [b"a", b"b"])

    def ask(step: str, epoch: int, current: int = -1, partition: int = 0, name: str = topic) -> None:
        row = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
        topics = [{"topic": name, "partitions": [row]}]
        peer.ask(step, "OffsetForLeaderEpoch", version, replica_id=-1, topics=topics)

    for epoch in (0, -1, 1, 99, -2):
        ask(f"epoch {epoch}", epoch)
        ask(f"epoch {epoch}, empty", epoch, partition=1)
    for current in (0, 1, 99, -2):
        ask(f"current {current}", 0, current)
    ask("unknown partition", 0, partition=9)
    ask("negative partition", 0, partition=-1)
    ask("unknown topic", 0, name=peer.name("no"))
    ask("bad topic", 0, name="a b")
    peer.ask("none", "OffsetForLeaderEpoch", version, replica_id=-1, topics=[])
    peer.ask("no partitions", "OffsetForLeaderEpoch", version, replica_id=-1, topics=[{"topic": topic}])
    rows = [{"partition": 0, "leader_epoch": 0}] * 2
    peer.ask("twice", "OffsetForLeaderEpoch", version, replica_id=-1, topics=[{"topic": topic, "partitions": rows}])
    if version >= 3:
        rows = rows[:1]
        peer.ask(
            "debugger", "OffsetForLeaderEpoch", version, replica_id=-2, topics=[{"topic": topic, "partitions": rows}]
        )
