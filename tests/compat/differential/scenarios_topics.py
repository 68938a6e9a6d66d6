"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords."""

from __future__ import annotations

from typing import Any

from tests.compat.differential.batches import produce
from tests.compat.differential.peer import Peer
from tests.compat.differential.plain import NOBODY
from tests.compat.differential.registry import scenario
from tests.compat.differential.scenarios_cluster import BAD_NAMES

from trunkline.wire.kafka.apis import ApiKey


def wish(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def placed(*replicas: tuple[int, list[int]]) -> list[dict[str, Any]]:
    return [{"partition_index": index, "broker_ids": brokers} for index, brokers in replicas]


def config(name: str, value: str | None) -> list[dict[str, Any]]:
    return [{"name": name, "value": value}]


@scenario(ApiKey.CREATE_TOPICS)
def create(peer: Peer, version: int) -> None:
    def ask(step: str, *wishes: dict[str, Any], **more: Any) -> None:
        answer = peer.silently("CreateTopics", version, **{"topics": list(wishes), "timeout_ms": 10_000, **more})
        for topic in answer.topics:
            if topic.topic_id != bytes(16):
                peer.plain.topics[topic.topic_id] = f"id of {topic.name.replace(peer.prefix, '~')}"
        peer.note(step, peer.plain.struct(answer))

    def name(word: str) -> str:
        return peer.name(word)

    ask("none")
    ask("one", wish(name("one")))
    ask("again", wish(name("one")))
    ask("again with other layout", wish(name("one"), 3))
    ask("defaults", wish(name("defaults"), -1, -1))
    ask("three partitions", wish(name("three"), 3))
    ask("two at once", wish(name("x1")), wish(name("x2")))
    ask("duplicate", wish(name("x3")), wish(name("x3")), wish(name("x4")))
    ask("one good one bad", wish(name("x5")), wish("a b"))
    for what, bad in BAD_NAMES.items():
        ask(f"bad name: {what}", wish(bad))
    ask("too long name", wish("x" * 250))
    ask("dotted", wish(name("a.b_c")))
    ask("collides", wish(name("a_b.c")))
    ask("collide with each other", wish(name("e.f")), wish(name("e_f")))
    for count in (0, -2, 2**31 - 1):
        ask(f"{count} partitions", wish(name(f"p{count}"), count))
    for factor in (0, -2, 2, 32767):
        ask(f"factor {factor}", wish(name(f"f{factor}"), 1, factor))
    ask("validate only", wish(name("v"), 2), validate_only=True)
    ask("validate existing", wish(name("one")), validate_only=True)
    ask("validate bad", wish(name("v"), 0), validate_only=True)
    ask("after validation", wish(name("v"), 2))
    ask("timeout 0", wish(name("t0")), timeout_ms=0)
    ask("timeout negative", wish(name("t1")), timeout_ms=-1)
    ask("after timeouts", wish(name("t0")), wish(name("t1")))


@scenario(ApiKey.CREATE_TOPICS)
def assignments(peer: Peer, version: int) -> None:
    def ask(step: str, rows: list[dict[str, Any]], partitions: int = -1, factor: int = -1) -> None:
        wanted = wish(peer.name(step.replace(" ", "-")), partitions, factor, assignments=rows)
        answer = peer.silently("CreateTopics", version, topics=[wanted], timeout_ms=10_000)
        for topic in answer.topics:
            topic.topic_id = bytes(16)
            topic.configs = []
        peer.note(step, peer.plain.struct(answer))

    ask("good", placed((0, [1])))
    ask("two", placed((1, [1]), (0, [1])))
    ask("with counts", placed((0, [1])), 1, 1)
    ask("with partitions", placed((0, [1])), 1, -1)
    ask("with factor", placed((0, [1])), -1, 1)
    ask("unknown broker", placed((0, [99])))
    ask("negative broker", placed((0, [-1])))
    ask("broker twice", placed((0, [1, 1])))
    ask("one broker too many", placed((0, [1, 99])))
    ask("no replicas", placed((0, [])))
    ask("gap", placed((0, [1]), (2, [1])))
    ask("from 1", placed((1, [1])))
    ask("negative index", placed((-1, [1])))
    ask("twice", placed((0, [1]), (0, [1])))
    ask("uneven", placed((0, [1]), (1, [1, 99])))


@scenario(ApiKey.CREATE_TOPICS)
def configs(peer: Peer, version: int) -> None:
    def ask(step: str, rows: list[dict[str, Any]]) -> None:
        wanted = wish(peer.name(step.replace(" ", "-").replace("=", "-")), configs=rows)
        answer = peer.silently("CreateTopics", version, topics=[wanted], timeout_ms=10_000)
        for topic in answer.topics:
            topic.topic_id = bytes(16)
            if topic.configs:
                topic.configs = [row for row in topic.configs if row.name in {each["name"] for each in rows}]
        peer.note(step, peer.plain.struct(answer))

    ask("good", config("retention.ms", "1000"))
    ask("two", config("retention.ms", "1000") + config("cleanup.policy", "compact"))
    ask("unknown", config("no.such.thing", "1"))
    ask("null", config("retention.ms", None))
    ask("null of an unknown one", config("no.such.thing", None))
    ask("empty number", config("retention.ms", ""))
    ask("word for a number", config("retention.ms", "soon"))
    ask("blank around", config("retention.ms", " 1000 "))
    ask("below the least", config("retention.ms", "-2"))
    ask("minus one", config("retention.ms", "-1"))
    ask("fraction", config("retention.ms", "1.5"))
    ask("more than a long", config("retention.ms", "9223372036854775808"))
    ask("more than an int", config("segment.bytes", "2147483648"))
    ask("small segment", config("segment.bytes", "13"))
    ask("wrong policy", config("cleanup.policy", "shred"))
    ask("empty policy", config("cleanup.policy", ""))
    ask("both policies", config("cleanup.policy", "compact,delete"))
    ask("policies with blanks", config("cleanup.policy", "compact, delete"))
    ask("policy twice", config("cleanup.policy", "delete,delete"))
    ask("upper case", config("cleanup.policy", "DELETE"))
    ask("boolean", config("preallocate", "true"))
    ask("boolean upper", config("preallocate", "TRUE"))
    ask("wrong boolean", config("preallocate", "yes"))
    ask("double", config("min.cleanable.dirty.ratio", "0.1"))
    ask("double out of range", config("min.cleanable.dirty.ratio", "1.1"))
    ask("wrong double", config("min.cleanable.dirty.ratio", "half"))
    ask("twice", config("retention.ms", "1") + config("retention.ms", "2"))
    ask("compression", config("compression.type", "zstd"))
    ask("wrong compression", config("compression.type", "brotli"))
    ask("time type", config("message.timestamp.type", "LogAppendTime"))
    ask("wrong time type", config("message.timestamp.type", "Whenever"))
    ask("format version", config("message.format.version", "3.0"))
    ask("timestamp difference", config("message.timestamp.difference.max.ms", "5"))
    ask("no message fits", config("max.message.bytes", "0"))
    ask("negative message size", config("max.message.bytes", "-1"))
    ask("isr 0", config("min.insync.replicas", "0"))
    ask("isr 3", config("min.insync.replicas", "3"))
    ask("throttled", config("leader.replication.throttled.replicas", "*"))
    ask("throttled wrongly", config("leader.replication.throttled.replicas", "x"))
    ask("remote", config("remote.storage.enable", "true"))
    ask("local retention", config("local.retention.ms", "5"))
    ask("gzip level", config("compression.gzip.level", "9"))
    ask("wrong gzip level", config("compression.gzip.level", "12"))
    ask("wrong zstd level", config("compression.zstd.level", "99"))
    ask("wrong lz4 level", config("compression.lz4.level", "0"))
    ask("empty name", config("", "1"))


@scenario(ApiKey.DELETE_TOPICS)
def delete(peer: Peer, version: int) -> None:
    def ask(step: str, *names: str | None) -> None:
        if version >= 6:
            states = [{"name": name} for name in names]
            peer.ask(step, "DeleteTopics", version, topics=states, timeout_ms=10_000)
        else:
            peer.ask(step, "DeleteTopics", version, topic_names=list(names), timeout_ms=10_000)

    one, two, three = (peer.topic(word) for word in ("one", "two", "three"))
    ask("none")
    ask("unknown", peer.name("no"))
    ask("bad name", "a b")
    ask("empty name", "")
    ask("one", one)
    ask("again", one)
    peer.ask("made again at once", "CreateTopics", 4, topics=[wish(one, 2)], timeout_ms=10_000)
    ask("and deleted", one)
    ask("duplicate", two, two, three)
    ask("after the duplicate", two)
    peer.topic("four")
    peer.ask("timeout 0", "DeleteTopics", 1, topic_names=[peer.name("four")], timeout_ms=0)


@scenario(ApiKey.DELETE_TOPICS, since=6)
def delete_by_id(peer: Peer, version: int) -> None:
    def ask(step: str, *states: dict[str, Any]) -> None:
        peer.ask(step, "DeleteTopics", version, topics=list(states), timeout_ms=10_000)

    one, two = peer.topic("one"), peer.topic("two")
    first, second = peer.topic_id(one), peer.topic_id(two)
    ask("unknown", {"name": None, "topic_id": NOBODY})
    ask("neither", {"name": None})
    ask("name and id", {"name": one, "topic_id": first})
    ask("id and name twice", {"name": None, "topic_id": first}, {"name": one})
    ask("id twice", {"name": None, "topic_id": first}, {"name": None, "topic_id": first})
    ask("known", {"name": None, "topic_id": first})
    ask("again", {"name": None, "topic_id": first})
    ask("mixed", {"name": None, "topic_id": second}, {"name": peer.name("no")})


@scenario(ApiKey.CREATE_PARTITIONS)
def grow(peer: Peer, version: int) -> None:
    def ask(step: str, *rows: dict[str, Any], validate_only: bool = False) -> None:
        peer.ask(step, "CreatePartitions", version, topics=list(rows), timeout_ms=10_000, validate_only=validate_only)

    def to(count: int, name: str, *replicas: list[int]) -> dict[str, Any]:
        rows = [{"broker_ids": brokers} for brokers in replicas]
        return {"name": name, "count": count, "assignments": rows or None}

    one, two = peer.topic("one"), peer.topic("two", 2)
    ask("none")
    ask("unknown", to(3, peer.name("no")))
    ask("bad name", to(3, "a b"))
    ask("same", to(1, one))
    ask("fewer", to(1, two))
    ask("zero", to(0, one))
    ask("negative", to(-1, one))
    ask("validate", to(3, one), validate_only=True)
    ask("validate bad", to(1, two), validate_only=True)
    ask("grow", to(3, one))
    ask("grow again", to(3, one))
    ask("duplicate", to(4, one), to(5, one), to(3, two))
    ask("assigned", to(5, one, [1], [1]))
    ask("too few assigned", to(7, one, [1]))
    ask("too many assigned", to(6, one, [1], [1]))
    ask("unknown broker", to(6, one, [99]))
    ask("no replicas", to(6, one, []))
    ask("broker twice", to(6, one, [1, 1]))
    ask("other factor", to(6, one, [1, 99]))
    empty: dict[str, Any] = {"name": one, "count": 6, "assignments": []}
    ask("empty assignments", empty)
    peer.settle()
    peer.ask("after all", "Metadata", 4, topics=[{"name": one}, {"name": two}], allow_auto_topic_creation=False)


@scenario(ApiKey.DELETE_RECORDS)
def cut(peer: Peer, version: int) -> None:
    one, compacted = peer.topic("one", 2), peer.topic("compacted", cleanup_policy="compact")

    def ask(step: str, *rows: tuple[int, int], topic: str = one) -> None:
        parts = [{"partition_index": index, "offset": offset} for index, offset in rows]
        peer.ask(step, "DeleteRecords", version, topics=[{"name": topic, "partitions": parts}], timeout_ms=10_000)

    for _ in range(4):
        produce(peer, one, [b"a", b"b", b"c"])
    produce(peer, compacted, [b"a", b"b", b"c"])
    peer.ask("none", "DeleteRecords", version, topics=[], timeout_ms=10_000)
    ask("no partitions")
    ask("unknown partition", (7, 0))
    ask("negative partition", (-1, 0))
    ask("unknown topic", (0, 0), topic=peer.name("no"))
    ask("bad topic", (0, 0), topic="a b")
    ask("internal topic", (0, 0), topic="__consumer_offsets")
    ask("compacted", (0, 1), topic=compacted)
    ask("beyond the end", (0, 13))
    ask("negative", (0, -2))
    ask("zero", (0, 0))
    ask("some", (0, 4))
    ask("below the start", (0, 2))
    ask("the start", (0, 4))
    ask("empty partition", (1, 0))
    ask("empty partition all", (1, -1))
    ask("one good one bad", (0, 5), (9, 5))
    ask("twice", (0, 6), (0, 7))
    ask("all", (0, -1))
    ask("all again", (0, -1))
    where = [{"partition_index": 0, "timestamp": stamp} for stamp in (-2,)]
    peer.ask("start", "ListOffsets", 7, replica_id=-1, topics=[{"name": one, "partitions": where}])
    produce(peer, one, [b"d"])
    where = [{"partition_index": 0, "timestamp": -1}]
    peer.ask("end", "ListOffsets", 7, replica_id=-1, topics=[{"name": one, "partitions": where}])
