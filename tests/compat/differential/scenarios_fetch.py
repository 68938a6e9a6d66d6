"""Fetch: limits, ends, epochs, sessions."""

from __future__ import annotations

from typing import Any

from tests.compat.differential.batches import produce
from tests.compat.differential.peer import Peer
from tests.compat.differential.plain import NOBODY
from tests.compat.differential.registry import scenario
from tests.support.raw_kafka import RawKafka

from trunkline.wire.kafka.apis import ApiKey


class Reader:
    def __init__(self, peer: Peer, version: int, topic: str) -> None:
        self.peer, self.version, self.topic = peer, version, topic
        self.id = peer.topic_id(topic)

    def topics(self, *parts: dict[str, Any]) -> list[dict[str, Any]]:
        full = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, **part} for part in parts]
        return [{"topic": self.topic, "topic_id": self.id, "partitions": full}]

    def ask(self, step: str, *parts: dict[str, Any], line: RawKafka | None = None, **more: Any) -> Any:
        values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
        return self.peer.ask(
            step, "Fetch", self.version, line, **{"topics": self.topics(*parts), "replica_id": -1, **values, **more}
        )


@scenario(ApiKey.FETCH)
def read(peer: Peer, version: int) -> None:
    topic = peer.topic("one", 3)
    reader = Reader(peer, version, topic)
    reader.ask("empty", {})
    for _ in range(3):
        produce(peer, topic, [b"a" * 50, b"b" * 50])
        produce(peer, topic, [b"c" * 50], 1)
    reader.ask("from the start", {})
    reader.ask("inside a batch", {"fetch_offset": 3})
    reader.ask("the end", {"fetch_offset": 6})
    reader.ask("the end, waiting", {"fetch_offset": 6}, max_wait_ms=50)
    reader.ask("beyond the end", {"fetch_offset": 7})
    reader.ask("far beyond", {"fetch_offset": 2**62})
    reader.ask("negative", {"fetch_offset": -1})
    reader.ask("very negative", {"fetch_offset": -(2**62)})
    reader.ask("several", {}, {"partition": 1}, {"partition": 2})
    reader.ask("unknown partition", {"partition": 9})
    reader.ask("negative partition", {"partition": -1})
    patient = {"max_wait_ms": 60_000, "min_bytes": 1 << 19}
    reader.ask("one good one bad", {}, {"partition": 9}, line=peer.open(1.5), **patient)
    reader.ask("out of range does not wait", {"fetch_offset": 99}, max_wait_ms=60_000, min_bytes=1 << 19)
    reader.ask("twice", {}, {})
    reader.ask("no partitions")
    reader.ask("no topics", topics=[])
    reader.ask("no topics, waiting", topics=[], max_wait_ms=100)
    reader.ask("committed only", {}, isolation_level=1)
    reader.ask("isolation level 2", {}, isolation_level=2)
    reader.topic, reader.id = peer.name("no"), NOBODY
    reader.ask("unknown topic", {})
    reader.topic, reader.id = "a b", bytes(16)
    reader.ask("bad topic", {})


@scenario(ApiKey.FETCH)
def limits(peer: Peer, version: int) -> None:
    topic = peer.topic("one", 3)
    reader = Reader(peer, version, topic)
    for _ in range(3):
        for index in range(3):
            produce(peer, topic, [b"a" * 100], index)
    size = 61 + 100 + 12
    for most in (0, 1, size - 1, size, size + 5, 2 * size + 20, -1, 2**31 - 1):
        reader.ask(f"partition limit {most}", {"partition_max_bytes": most})
        reader.ask(f"limit {most}", {}, max_bytes=most)
        reader.ask(f"limit {most}, three partitions", {}, {"partition": 1}, {"partition": 2}, max_bytes=most)
    small = [{"partition": index, "partition_max_bytes": 1} for index in range(3)]
    reader.ask("three small ones", *small)
    reader.ask("first is at its end", {"fetch_offset": 3}, {"partition": 1, "partition_max_bytes": 1})
    reader.ask("least 0", {"fetch_offset": 3}, min_bytes=0, max_wait_ms=60_000)
    reader.ask("least -1", {"fetch_offset": 3}, min_bytes=-1, max_wait_ms=60_000)
    reader.ask("wait -1", {"fetch_offset": 3}, max_wait_ms=-1)


@scenario(ApiKey.FETCH)
def after_deletion(peer: Peer, version: int) -> None:
    topic = peer.topic("one")
    reader = Reader(peer, version, topic)
    for _ in range(3):
        produce(peer, topic, [b"a", b"b"])
    cut = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}]
    peer.silently("DeleteRecords", 2, topics=cut, timeout_ms=10_000)
    for offset in (0, 2, 3, 4, 6, 7):
        reader.ask(f"offset {offset}", {"fetch_offset": offset})
        reader.ask(f"offset {offset}, committed", {"fetch_offset": offset}, isolation_level=1)


@scenario(ApiKey.FETCH, since=9)
def epochs(peer: Peer, version: int) -> None:
    topic = peer.topic("one")
    reader = Reader(peer, version, topic)
    produce(peer, topic, [b"a", b"b"])
    for epoch in (-1, 0, 1, -2, 99):
        reader.ask(f"epoch {epoch}", {"current_leader_epoch": epoch})
    if version >= 12:
        for epoch in (-1, 0, 1, -2, 99):
            reader.ask(f"last fetched {epoch}", {"last_fetched_epoch": epoch, "fetch_offset": 1})
            reader.ask(f"last fetched {epoch} at the end", {"last_fetched_epoch": epoch, "fetch_offset": 2})
            reader.ask(f"last fetched {epoch} beyond", {"last_fetched_epoch": epoch, "fetch_offset": 9})


@scenario(ApiKey.FETCH, since=7)
def sessions(peer: Peer, version: int) -> None:
    topic = peer.topic("one")
    reader = Reader(peer, version, topic)
    produce(peer, topic, [b"a"])
    reader.ask("none wanted", {}, session_id=0, session_epoch=-1)
    reader.ask("one wanted", {}, session_id=0, session_epoch=0)
    reader.ask("unknown", {}, session_id=123_456, session_epoch=1)
    reader.ask("unknown, close", {}, session_id=123_456, session_epoch=-1)
    reader.ask("unknown, restart", {}, session_id=123_456, session_epoch=0)
    reader.ask("no id but an epoch", {}, session_id=0, session_epoch=5)
    reader.ask("negative epoch", {}, session_id=0, session_epoch=-2)
    gone = [{"topic": topic, "topic_id": reader.id, "partitions": [0]}]
    reader.ask("forgetting without a session", {}, forgotten_topics_data=gone)


@scenario(ApiKey.FETCH)
def followers(peer: Peer, version: int) -> None:
    topic = peer.topic("one")
    reader = Reader(peer, version, topic)
    produce(peer, topic, [b"a"])
    for replica in (-1, -2, -3):
        if version >= 15:
            reader.ask(f"replica {replica}", {}, replica_state={"replica_id": replica, "replica_epoch": -1})
        else:
            reader.ask(f"replica {replica}", {}, replica_id=replica)
    if version >= 11:
        reader.ask("rack", {}, rack_id="somewhere")
