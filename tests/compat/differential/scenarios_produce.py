"""Produce: what is taken, what is refused, and what a refusal says."""

from __future__ import annotations

from typing import Any

from tests.compat.differential import batches as lies
from tests.compat.differential.batches import TIME_MS, batch, lie
from tests.compat.differential.peer import Peer, request
from tests.compat.differential.plain import NOBODY
from tests.compat.differential.registry import scenario

from trunkline.record.compression import Compression
from trunkline.record.records import Record, encode_batch
from trunkline.wire.kafka.apis import ApiKey


class Writer:
    """Produces to one topic, by name or (from version 13 on) by id."""

    def __init__(self, peer: Peer, version: int, topic: str) -> None:
        self.peer, self.version, self.topic = peer, version, topic
        self.id = peer.topic_id(topic)

    def message(self, parts: list[tuple[int, bytes | None]], **more: Any) -> dict[str, Any]:
        data = [{"index": index, "records": records} for index, records in parts]
        topics = [{"name": self.topic, "topic_id": self.id, "partition_data": data}]
        return {"acks": -1, "timeout_ms": 10_000, "transactional_id": None, "topic_data": topics, **more}

    def ask(self, step: str, records: bytes | None, index: int = 0, **more: Any) -> Any:
        return self.peer.ask(step, "Produce", self.version, **self.message([(index, records)], **more))

    def end(self, step: str, index: int = 0) -> None:
        """Where the log ends now."""
        rows = [{"partition_index": index, "timestamp": -1}]
        topics = [{"name": self.topic, "partitions": rows}]
        answer = self.peer.silently("ListOffsets", 7, replica_id=-1, topics=topics)
        self.peer.note(f"{step}: end", answer.topics[0].partitions[0].offset)


@scenario(ApiKey.PRODUCE)
def good(peer: Peer, version: int) -> None:
    writer = Writer(peer, version, peer.topic("one", 2))
    writer.ask("one", batch([b"a"]))
    writer.ask("three", batch([b"a", b"b", b"c"]))
    writer.ask("acks 1", batch([b"a"]), acks=1)
    writer.ask("timeout 0", batch([b"a"]), acks=1, timeout_ms=0)
    two = writer.message([(0, batch([b"a"])), (1, batch([b"a"]))])
    peer.ask("two partitions", "Produce", version, **two)
    for acks in (2, -2, 32767):
        writer.ask(f"acks {acks}", batch([b"a"]), acks=acks)
    writer.ask("leader epoch of its own", lie(lies.leader_epoch(55)))
    peer.ask("no topics", "Produce", version, **{**writer.message([]), "topic_data": []})
    peer.ask("no partitions", "Produce", version, **writer.message([]))
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        writer.ask(f"codec {codec.name}", batch([b"a" * 100, b"b"], compression=codec))
    writer.end("all")


@scenario(ApiKey.PRODUCE)
def unusual(peer: Peer, version: int) -> None:
    """What no client sends: Trunkline takes some of it that Kafka refuses, and the other way round."""
    writer = Writer(peer, version, peer.topic("one", 9))
    fine = batch([b"a", b"b"])
    writer.ask("several batches", fine + fine, 0)
    writer.ask("base offset of its own", lie(lies.base_offset(100)), 1)
    writer.ask("negative base offset", lie(lies.base_offset(-5)), 2)
    peer.ask("a partition twice", "Produce", version, **writer.message([(3, fine), (3, fine)]))
    twice = writer.message([(4, fine)])
    twice["topic_data"] = twice["topic_data"] * 2
    peer.ask("a topic twice", "Produce", version, **twice)
    writer.ask("one and a half", fine + fine[:50], 5)
    writer.ask("first delta 1", lie(lies.byte(3, 2)), 6)
    writer.ask("base time is in the future", lie(lies.base_timestamp(TIME_MS * 3 // 2)), 7)
    null = writer.message([(8, None)])
    peer.ask("null", "Produce", version, peer.open(2), **null)


@scenario(ApiKey.PRODUCE)
def unanswered(peer: Peer, version: int) -> None:
    writer = Writer(peer, version, peer.topic("one"))
    line = peer.open()
    line.send_bytes(b"".join(map(bytes, _frame(writer.message([(0, batch([b"a"]))], acks=0), version))))
    peer.ask("the next request", "DescribeCluster", 0, line)
    line = peer.open()
    line.send_bytes(b"".join(map(bytes, _frame(writer.message([(9, batch([b"a"]))], acks=0), version))))
    peer.ask("after an error", "DescribeCluster", 0, line)


def _frame(values: dict[str, Any], version: int) -> Any:
    from trunkline.wire.kafka.frame import encode_request

    return encode_request(request("Produce", **values), version, 77, "raw")


@scenario(ApiKey.PRODUCE)
def wrong_places(peer: Peer, version: int) -> None:
    writer = Writer(peer, version, peer.topic("one"))
    writer.ask("unknown partition", batch([b"a"]), 5)
    writer.ask("negative partition", batch([b"a"]), -1)
    mixed = writer.message([(0, batch([b"a"])), (5, batch([b"a"]))])
    peer.ask("one good one bad", "Produce", version, **mixed)
    writer.topic, writer.id = "__consumer_offsets", peer.topic_id("__consumer_offsets")
    writer.ask("internal topic", batch([b"a"]))
    writer.topic, writer.id = peer.name("no"), NOBODY
    writer.ask("unknown topic", batch([b"a"]))
    writer.topic, writer.id = "a b", bytes(16)
    writer.ask("bad topic", batch([b"a"]))
    writer.topic = ""
    writer.ask("empty topic", batch([b"a"]))


@scenario(ApiKey.PRODUCE)
def bad_batches(peer: Peer, version: int) -> None:
    writer = Writer(peer, version, peer.topic("one", max_message_bytes="2000"))
    fine = batch([b"a", b"b"])
    writer.ask("empty", b"")
    writer.ask("a few bytes", b"hello")
    writer.ask("half a header", fine[:40])
    writer.ask("half a batch", fine[:-3])
    writer.ask("one and some zeros", fine + bytes(30))
    writer.ask("one and many zeros", fine + bytes(100))
    writer.ask("wrong checksum", lie(lies.byte(8, 0x77), with_crc=False))
    writer.ask("good and wrong checksum", fine + lie(lies.byte(8, 0x77), with_crc=False))
    for number in (0, 1, 3, -1, 127):
        writer.ask(f"magic {number}", lie(lies.magic(number), with_crc=False))
    for number in (0, -1, 10, 48, 49, 2**31 - 1):
        writer.ask(f"length {number}", lie(lies.length(number), with_crc=False))
    for codec in (5, 6, 7):
        writer.ask(f"codec {codec}", lie(lies.attributes(codec)))
    writer.ask("claims gzip", lie(lies.attributes(1)))
    writer.ask("claims snappy", lie(lies.attributes(2)))
    writer.ask("claims lz4", lie(lies.attributes(3)))
    writer.ask("claims zstd", lie(lies.attributes(4)))
    writer.ask("control", lie(lies.attributes(0x20)))
    writer.ask("transactional", lie(lies.attributes(0x10)))
    writer.ask("transactional control", lie(lies.attributes(0x30)))
    writer.ask("append time", lie(lies.attributes(0x08)))
    writer.ask("delete horizon", lie(lies.attributes(0x40)))
    writer.ask("unused attributes", lie(lies.attributes(0x0F80)))
    for number in (0, 1, 3, -1, 2**31 - 1):
        writer.ask(f"count {number}", lie(lies.count(number)))
    for number in (0, 2, 5, -1, 2**31 - 1):
        writer.ask(f"last offset delta {number}", lie(lies.last_offset_delta(number)))
    writer.ask(
        "gap: delta and count agree not", lie(lambda data: (lies.count(2)(data), lies.last_offset_delta(9)(data))[0])
    )
    writer.ask("record length 0", lie(lies.byte(0, 0)))
    writer.ask("record too long", lie(lies.byte(0, 100)))
    writer.ask("record length negative", lie(lies.byte(0, 1)))
    writer.ask("record attributes", lie(lies.byte(1, 5)))
    writer.ask("key longer than the record", lie(lies.byte(4, 120)))
    writer.ask("key length -2", lie(lies.byte(4, 3)))
    writer.ask("too large", batch([b"x" * 3000]))
    writer.ask("small and too large", fine + batch([b"x" * 3000]))
    writer.ask("too large compressed", batch([bytes(range(256)) * 20], compression=Compression.GZIP))
    writer.ask("small when compressed", batch([b"x" * 5000], compression=Compression.GZIP))
    writer.end("all")


@scenario(ApiKey.PRODUCE)
def times(peer: Peer, version: int) -> None:
    writer = Writer(peer, version, peer.topic("create"))
    writer.ask("no time", batch([b"a"], timestamp=-1))
    writer.ask("time -2", batch([b"a"], timestamp=-2))
    writer.ask("very negative", batch([b"a"], timestamp=-(2**62)))
    writer.ask("time 0", batch([b"a"], timestamp=0))
    writer.ask("far future", batch([b"a"], timestamp=TIME_MS * 3 // 2))
    writer.ask("max is smaller", lie(lies.max_timestamp(TIME_MS - 10)))
    writer.ask("max is larger", lie(lies.max_timestamp(TIME_MS + 10)))
    for stamp in (-1, -3):
        rows = [{"partition_index": 0, "timestamp": stamp}]
        topics = [{"name": writer.topic, "partitions": rows}]
        peer.ask(f"look up {stamp}", "ListOffsets", 7, replica_id=-1, topics=topics)
    strict: dict[str, Any] = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"}
    writer = Writer(peer, version, peer.topic("strict", **strict))
    writer.ask("strict: too old", batch([b"a"]))
    writer.ask("strict: no time", batch([b"a"], timestamp=-1))
    writer = Writer(peer, version, peer.topic("append", message_timestamp_type="LogAppendTime"))
    writer.ask("append time", batch([b"a"]))
    writer.ask("append time, far future", batch([b"a"], timestamp=TIME_MS * 3 // 2))


@scenario(ApiKey.PRODUCE)
def compacted(peer: Peer, version: int) -> None:
    writer = Writer(peer, version, peer.topic("one", cleanup_policy="compact"))
    writer.ask("keyed", batch([b"a"]))
    unkeyed = [Record(0, TIME_MS, None, b"a"), Record(0, TIME_MS, b"k", b"b"), Record(0, TIME_MS, None, b"c")]
    writer.ask("unkeyed", bytes(encode_batch(unkeyed)))
    writer.ask("unkeyed compressed", bytes(encode_batch(unkeyed, compression=Compression.GZIP)))
    writer.ask("keyed and unkeyed", batch([b"a"]) + bytes(encode_batch(unkeyed)))
    writer.end("all")


@scenario(ApiKey.PRODUCE)
def idempotence(peer: Peer, version: int) -> None:
    writer = Writer(peer, version, peer.topic("one", 3))
    number = peer.silently("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1).producer_id
    other = peer.silently("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1).producer_id

    def ask(step: str, sequence: int, epoch: int = 0, count: int = 2, index: int = 0, who: int = number) -> None:
        values = [b"v%d" % each for each in range(count)]
        data = batch(values, producer_id=who, producer_epoch=epoch, base_sequence=sequence)
        writer.ask(step, data, index)

    ask("first", 0)
    ask("first again", 0)
    ask("gap", 5)
    ask("next", 2)
    ask("overlap", 3)
    ask("part of an old one", 0, count=1)
    for sequence in (4, 6, 8, 10, 12):
        ask(f"sequence {sequence}", sequence)
    ask("one of the last five", 4)
    ask("older than the last five", 0)
    ask("no sequence", -1)
    ask("sequence -2", -2)
    ask("no epoch", 14, epoch=-1)
    ask("new epoch, wrong start", 5, epoch=1)
    ask("new epoch", 0, epoch=1)
    ask("old epoch", 14, epoch=0)
    ask("old epoch from 0", 0, epoch=0)
    ask("epoch jumps", 0, epoch=9)
    ask("unknown producer starts anywhere", 7, index=1)
    ask("and goes on", 9, index=1)
    ask("unknown epoch starts anywhere", 7, epoch=4, index=1)
    ask("producer nobody knows", 0, who=987_654_321)
    ask("wrap-around starts", 2**31 - 2, count=2, index=2, who=other)
    ask("wrapped", 0, count=2, index=2, who=other)
    ask("wrapped again", 0, count=2, index=2, who=other)
    ask("after the wrap", 2, count=3, index=2, who=other)
    ask("across starts", 2**31 - 2, count=1, index=2, who=number)
    ask("across", 2**31 - 1, count=3, index=2, who=number)
    ask("across again", 2**31 - 1, count=3, index=2, who=number)
    ask("after", 2, count=1, index=2, who=number)
    writer.end("wrap", 2)
    epochless = lie(lies.producer(number, -1, 0))
    writer.ask("id without epoch", epochless, 1)
    writer.ask("epoch without id", lie(lies.producer(-1, 3, 0)), 1)
    writer.ask("sequence without id", lie(lies.producer(-1, -1, 3)), 1)
    writer.ask("id -2", lie(lies.producer(-2, 0, 0)), 1)
    writer.end("all")


@scenario(ApiKey.PRODUCE)
def transactional(peer: Peer, version: int) -> None:
    writer = Writer(peer, version, peer.topic("one"))
    writer.ask("transactional id, plain batch", batch([b"a"]), transactional_id=peer.name("t"))
    writer.ask("empty transactional id", batch([b"a"]), transactional_id="")
    claimed = lie(lies.attributes(0x10), producer_id=5, producer_epoch=0, base_sequence=0)
    writer.ask("transactional batch without an id", claimed)
    writer.ask("transactional batch with an id", claimed, transactional_id=peer.name("t"))
