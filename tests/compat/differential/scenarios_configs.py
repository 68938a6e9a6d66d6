"""DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from typing import Any

from tests.compat.differential.peer import Peer
from tests.compat.differential.registry import scenario

from trunkline.wire.kafka.apis import ApiKey

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


@scenario(ApiKey.DESCRIBE_CONFIGS)
def of_topics(peer: Peer, version: int) -> None:
    one = peer.topic("one", retention_ms="5000", cleanup_policy="compact,delete")

    def ask(step: str, *resources: dict[str, Any], **more: Any) -> None:
        peer.ask(step, "DescribeConfigs", version, resources=list(resources), **more)

    ask("none")
    ask("all", resource(TOPIC, one))
    ask("synonyms", resource(TOPIC, one), include_synonyms=True)
    ask("documentation", resource(TOPIC, one), include_documentation=version >= 3)
    ask("some", resource(TOPIC, one, ["retention.ms", "segment.bytes"]))
    ask("no keys", resource(TOPIC, one, []))
    ask("unknown key", resource(TOPIC, one, ["no.such.thing"]))
    ask("unknown topic", resource(TOPIC, peer.name("no")))
    ask("bad topic", resource(TOPIC, "a b"))
    ask("empty topic", resource(TOPIC, ""))
    ask("twice", resource(TOPIC, one, ["retention.ms"]), resource(TOPIC, one, ["retention.ms"]))
    ask("mixed", resource(TOPIC, one, ["retention.ms"]), resource(TOPIC, peer.name("no")))


@scenario(ApiKey.DESCRIBE_CONFIGS)
def of_others(peer: Peer, version: int) -> None:
    keys = ["message.max.bytes", "num.partitions", "log.retention.ms", "auto.create.topics.enable", "no.such.thing"]
    for name in ("1", "", "99", "abc", "-1"):
        step = f"broker {name}"
        values = [resource(BROKER, name, keys)]
        peer.ask(step, "DescribeConfigs", version, resources=values, include_synonyms=False)
    for kind in (0, 1, 3, LOGGER, METRICS, GROUP, 64, -1):
        peer.ask(f"type {kind}", "DescribeConfigs", version, resources=[resource(kind, "1", [])])
        peer.ask(f"type {kind} without a name", "DescribeConfigs", version, resources=[resource(kind, "", [])])


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def alter(peer: Peer, version: int) -> None:
    one = peer.topic("one")

    def ask(step: str, *rows: tuple[int, str, str | None], name: str = one, kind: int = TOPIC, **more: Any) -> None:
        configs = [{"config_operation": how, "name": key, "value": value} for how, key, value in rows]
        one_resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        peer.ask(step, "IncrementalAlterConfigs", version, **{"resources": [one_resource], **more})
        peer.settle()
        shown = peer.silently(
            "DescribeConfigs", 4, resources=[resource(TOPIC, one, ["retention.ms", "cleanup.policy", "segment.ms"])]
        )
        rows_now = shown.results[0].configs
        peer.note(f"{step}: then", {row.name: [row.value, row.config_source] for row in rows_now})

    ask("nothing", resources=[])
    ask("no configs")
    ask("set", (SET, "retention.ms", "5000"))
    ask("set again", (SET, "retention.ms", "5000"))
    ask("two", (SET, "retention.ms", "6000"), (SET, "segment.ms", "7000"))
    ask("one good one bad", (SET, "retention.ms", "1"), (SET, "segment.ms", "x"))
    ask("same key twice", (SET, "retention.ms", "1"), (SET, "retention.ms", "2"))
    ask("unknown", (SET, "no.such.thing", "1"))
    ask("delete unknown", (DELETE, "no.such.thing", None))
    ask("bad value", (SET, "retention.ms", "soon"))
    ask("null", (SET, "retention.ms", None))
    ask("delete", (DELETE, "retention.ms", None))
    ask("delete with a value", (DELETE, "segment.ms", "5"))
    ask("delete again", (DELETE, "segment.ms", None))
    ask("append", (APPEND, "cleanup.policy", "compact"))
    ask("append again", (APPEND, "cleanup.policy", "compact"))
    ask("append wrong", (APPEND, "cleanup.policy", "shred"))
    ask("subtract", (SUBTRACT, "cleanup.policy", "delete"))
    ask("subtract what is not there", (SUBTRACT, "cleanup.policy", "delete"))
    ask("append two", (APPEND, "cleanup.policy", "delete,compact"))
    ask("subtract all", (SUBTRACT, "cleanup.policy", "delete,compact"))
    ask("append null", (APPEND, "cleanup.policy", None))
    ask("append to a number", (APPEND, "retention.ms", "5"))
    ask("subtract from a number", (SUBTRACT, "retention.ms", "5"))
    ask("append to unknown", (APPEND, "no.such.thing", "5"))
    ask("operation 9", (9, "retention.ms", "5"))
    ask("operation -1", (-1, "retention.ms", "5"))
    ask("validate", (SET, "retention.ms", "77"), validate_only=True)
    ask("validate bad", (SET, "retention.ms", "x"), validate_only=True)
    ask("unknown topic", (SET, "retention.ms", "5"), name=peer.name("no"))
    ask("bad topic", (SET, "retention.ms", "5"), name="a b")
    ask("empty topic", (SET, "retention.ms", "5"), name="")
    ask("empty value", (SET, "retention.ms", ""))
    ask("empty key", (SET, "", "5"))
    for kind in (0, 1, METRICS, GROUP, 99):
        ask(f"type {kind}", (SET, "retention.ms", "5"), kind=kind, name="thing")
    ask("broker, wrong id", (SET, "log.retention.ms", "5"), kind=BROKER, name="99")
    ask("broker, no id", (SET, "log.retention.ms", "5"), kind=BROKER, name="abc")
    twice = {"resource_type": TOPIC, "resource_name": one}
    rows = [{"config_operation": SET, "name": "retention.ms", "value": "5"}]
    ask("resource twice", resources=[{**twice, "configs": rows}, {**twice, "configs": rows}])
