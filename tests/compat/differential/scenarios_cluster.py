"""Metadata, DescribeCluster, FindCoordinator, ApiVersions, InitProducerId."""

from __future__ import annotations

from typing import Any

from tests.compat.differential.peer import Peer
from tests.compat.differential.plain import NOBODY
from tests.compat.differential.registry import scenario

from trunkline.wire.kafka.apis import ApiKey

BAD_NAMES = {"empty": "", "dot": ".", "two dots": "..", "blank": "a b", "slash": "a/b", "colon": "a:b", "umlaut": "ä"}


@scenario(ApiKey.METADATA)
def topics(peer: Peer, version: int) -> None:
    one, two = peer.topic("one"), peer.topic("two", 3)
    flags: dict[str, Any] = {"allow_auto_topic_creation": False}
    peer.ask("one", "Metadata", version, topics=[{"name": one}], **flags)
    peer.ask("two", "Metadata", version, topics=[{"name": two}, {"name": one}], **flags)
    peer.ask("twice", "Metadata", version, topics=[{"name": one}, {"name": one}], **flags)
    peer.ask("unknown", "Metadata", version, topics=[{"name": peer.name("no")}, {"name": one}], **flags)
    for what, name in BAD_NAMES.items():
        peer.ask(f"bad name: {what}", "Metadata", version, topics=[{"name": name}], **flags)
    peer.ask("long name", "Metadata", version, topics=[{"name": peer.name("x").ljust(249, "x")}], **flags)
    peer.ask("too long name", "Metadata", version, topics=[{"name": "x" * 250}], **flags)
    if version >= 1:
        peer.ask("none", "Metadata", version, topics=[], **flags)
    peer.ask(
        "operations",
        "Metadata",
        version,
        topics=[{"name": one}],
        include_cluster_authorized_operations=version <= 10,
        include_topic_authorized_operations=True,
        **flags,
    )


@scenario(ApiKey.METADATA)
def everything(peer: Peer, version: int) -> None:
    one = peer.topic("one")
    answer = peer.silently("Metadata", version, topics=None if version else [], allow_auto_topic_creation=False)
    named = [topic for topic in answer.topics if topic.name == one]
    peer.note("mine", [peer.plain.struct(topic) for topic in named])
    inner = [topic for topic in answer.topics if topic.name == "__consumer_offsets"]
    peer.note("internal", [(topic.error_code, topic.is_internal, len(topic.partitions)) for topic in inner])


@scenario(ApiKey.METADATA)
def creation_on_first_use(peer: Peer, version: int) -> None:
    for what, name in BAD_NAMES.items():
        peer.ask(f"bad name: {what}", "Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=True)
    peer.ask("new", "Metadata", version, topics=[{"name": peer.name("new")}], allow_auto_topic_creation=True)
    peer.topic("a-b.c")
    peer.ask("collides", "Metadata", version, topics=[{"name": peer.name("a-b_c")}], allow_auto_topic_creation=True)


@scenario(ApiKey.METADATA, since=10)
def by_id(peer: Peer, version: int) -> None:
    one = peer.topic("one")
    topic_id = peer.topic_id(one)
    flags: dict[str, Any] = {"allow_auto_topic_creation": True}
    peer.ask("known", "Metadata", version, topics=[{"name": None, "topic_id": topic_id}], **flags)
    peer.ask("unknown", "Metadata", version, topics=[{"name": None, "topic_id": NOBODY}], **flags)
    peer.ask("both", "Metadata", version, topics=[{"name": one, "topic_id": topic_id}], **flags)
    peer.ask("other name", "Metadata", version, topics=[{"name": peer.name("x"), "topic_id": topic_id}], **flags)
    peer.ask("neither", "Metadata", version, topics=[{"name": None}], **flags)
    peer.ask("twice", "Metadata", version, topics=[{"name": None, "topic_id": topic_id}] * 2, **flags)
    peer.ask("mixed", "Metadata", version, topics=[{"name": None, "topic_id": topic_id}, {"name": one}], **flags)


@scenario(ApiKey.DESCRIBE_CLUSTER)
def cluster(peer: Peer, version: int) -> None:
    peer.ask("plain", "DescribeCluster", version)
    peer.ask("operations", "DescribeCluster", version, include_cluster_authorized_operations=True)
    if version >= 1:
        for kind in (0, 2, 3, -1):
            peer.ask(f"endpoint type {kind}", "DescribeCluster", version, endpoint_type=kind)
    if version >= 2:
        peer.ask("fenced", "DescribeCluster", version, include_fenced_brokers=True)


@scenario(ApiKey.FIND_COORDINATOR)
def coordinators(peer: Peer, version: int) -> None:
    def ask(step: str, kind: int, *keys: str) -> None:
        if version >= 4:
            peer.ask(step, "FindCoordinator", version, key_type=kind, coordinator_keys=list(keys))
        else:
            peer.ask(step, "FindCoordinator", version, key_type=kind, key=keys[0])

    ask("group", 0, peer.name("g"))
    ask("empty group", 0, "")
    if version >= 1:
        ask("unknown kind", 9, peer.name("g"))
        ask("negative kind", -1, peer.name("g"))
        ask("transaction", 1, peer.name("t"))
        ask("share group", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0")
        ask("bad share key", 2, "g")
    if version >= 4:
        ask("none", 0)
        ask("two", 0, peer.name("g"), peer.name("h"))
        ask("twice", 0, peer.name("g"), peer.name("g"))


@scenario(ApiKey.API_VERSIONS)
def software_names(peer: Peer, version: int) -> None:
    good = {"client_software_name": "raw", "client_software_version": "1.0"}
    answer = peer.silently("ApiVersions", version, **good)
    peer.note("fine", answer.error_code)
    for what, name in {"empty": "", "blank": "a b", "dash": "-a", "dot": "a.", "under": "a_b", "ok": "a-b.c"}.items():
        for field in good:
            answer = peer.silently("ApiVersions", version, **{**good, field: name})
            peer.note(f"{field} {what}", [answer.error_code, bool(answer.api_keys)])


@scenario(ApiKey.API_VERSIONS)
def ranges(peer: Peer, version: int) -> None:
    good = {"client_software_name": "raw", "client_software_version": "1.0"}
    answer = peer.silently("ApiVersions", version, **good)
    for api in answer.api_keys:
        peer.note(f"api {api.api_key}", [api.min_version, api.max_version])
    peer.note("features", sorted(feature.name for feature in answer.supported_features))
    peer.note("finalized", sorted(feature.name for feature in answer.finalized_features))
    peer.note("zk", answer.zk_migration_ready)


@scenario(ApiKey.INIT_PRODUCER_ID)
def producer_ids(peer: Peer, version: int) -> None:
    def ask(step: str, **values: Any) -> None:
        peer.ask(step, "InitProducerId", version, **{"transactional_id": None, "transaction_timeout_ms": 1, **values})

    ask("first")
    ask("second")
    ask("timeout 0", transaction_timeout_ms=0)
    ask("timeout negative", transaction_timeout_ms=-1)
    ask("empty transactional id", transactional_id="")
    if version >= 3:
        ask("known", producer_id=5, producer_epoch=0)
        ask("epoch only", producer_id=-1, producer_epoch=3)
        ask("id only", producer_id=5, producer_epoch=-1)
    ask("transactional", transactional_id=peer.name("t"), transaction_timeout_ms=60_000)
