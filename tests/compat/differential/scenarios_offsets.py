"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

import time
from typing import Any

from tests.compat.differential.peer import Peer
from tests.compat.differential.plain import NOBODY
from tests.compat.differential.registry import scenario
from tests.compat.differential.scenarios_groups import Group, subscription

from trunkline.wire.kafka.apis import ApiKey


def row(partition: int, offset: int, metadata: str | None = "", epoch: int = -1) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": metadata,
        "committed_leader_epoch": epoch,
    }


class Committer:
    def __init__(self, peer: Peer, version: int, topic: str, group: str) -> None:
        self.peer, self.version, self.topic, self.group = peer, version, topic, group
        self.id = peer.topic_id(topic)

    def ask(self, step: str, *rows: dict[str, Any], member: str = "", generation: int = -1, **more: Any) -> None:
        topics = [{"name": self.topic, "topic_id": self.id, "partitions": list(rows)}]
        values = {"group_id": self.group, "generation_id_or_member_epoch": generation, "member_id": member}
        self.peer.ask(step, "OffsetCommit", self.version, **{**values, "topics": topics, **more})

    def look(self, step: str) -> None:
        self.peer.ask(step, "OffsetFetch", 7, group_id=self.group, topics=None)


@scenario(ApiKey.OFFSET_COMMIT)
def simple_commits(peer: Peer, version: int) -> None:
    committer = Committer(peer, version, peer.topic("one", 3), peer.name("g"))
    committer.ask("nothing", topics=[])
    committer.ask("no partitions")
    committer.ask("one", row(0, 5))
    committer.ask("metadata", row(0, 6, "hello"), row(1, 7, None, 3))
    committer.look("then")
    committer.ask("negative", row(0, -1))
    committer.ask("very negative", row(1, -5))
    committer.ask("huge", row(2, 2**63 - 1))
    committer.look("then")
    committer.ask("unknown partition", row(9, 5), row(0, 8))
    committer.ask("negative partition", row(-1, 5))
    committer.ask("largest metadata", row(0, 9, "x" * 4096))
    committer.ask("too much metadata", row(0, 10, "x" * 4097), row(1, 10))
    committer.ask("epoch -2", row(1, 11, "", -2))
    committer.ask("twice", row(0, 12), row(0, 13))
    committer.look("then")
    committer.ask("empty group id", row(0, 5), group_id="")
    committer.ask("member id without generation", row(0, 14), member="nobody")
    committer.ask("generation 0", row(0, 15), generation=0)
    committer.ask("generation 0, new group", row(0, 15), generation=0, group_id=peer.name("new"))
    committer.ask("generation -2", row(0, 16), generation=-2)
    if version >= 7:
        committer.ask("instance id", row(0, 17), group_instance_id="i1")
    if version <= 4:
        committer.ask("retention", row(0, 18), retention_time_ms=100_000)
    committer.look("at last")
    committer.topic, committer.id = peer.name("no"), NOBODY
    committer.ask("unknown topic", row(0, 5))
    committer.topic, committer.id = "a b", bytes(16)
    committer.ask("bad topic", row(0, 5))


@scenario(ApiKey.OFFSET_COMMIT)
def member_commits(peer: Peer, version: int) -> None:
    group = Group(peer)
    committer = Committer(peer, version, peer.topic("one", 3), group.id)
    new = group.join("id")
    committer.ask("pending member", row(0, 1), member=new.member_id, generation=-1)
    joined = group.join("join", new.member_id)
    me = {"member": joined.member_id, "generation": joined.generation_id}
    committer.ask("before sync", row(0, 1), **me)
    group.sync("sync", joined.member_id, joined.generation_id, (joined.member_id, b"share"))
    committer.ask("fine", row(0, 2), **me)
    committer.ask("no id", row(0, 3))
    committer.ask("unknown member", row(0, 3), member="nobody", generation=joined.generation_id)
    for generation in (-1, 0, 99):
        committer.ask(f"generation {generation}", row(0, 3), member=joined.member_id, generation=generation)
    if version >= 7:
        committer.ask("unknown instance", row(0, 4), group_instance_id="i9", **me)
    group.leave("leave", {"member_id": joined.member_id})
    committer.ask("after leaving", row(0, 5), **me)
    committer.ask("simple after leaving", row(0, 6))
    committer.look("then")


@scenario(ApiKey.OFFSET_FETCH)
def look_up(peer: Peer, version: int) -> None:
    topic, other = peer.topic("one", 3), peer.topic("two")
    ids = {topic: peer.topic_id(topic), other: peer.topic_id(other), peer.name("no"): NOBODY}
    group = peer.name("g")
    commit = [
        {"name": topic, "partitions": [row(0, 5, "hello", 0), row(2, 7)]},
        {"name": other, "partitions": [row(0, 1, None, 2)]},
    ]
    peer.silently("OffsetCommit", 7, group_id=group, generation_id_or_member_epoch=-1, topics=commit)

    def topics(wanted: dict[str, list[int]] | None) -> list[dict[str, Any]] | None:
        if wanted is None:
            return None
        return [
            {"name": name, "topic_id": ids.get(name, NOBODY), "partition_indexes": each}
            for name, each in wanted.items()
        ]

    def ask(step: str, wanted: dict[str, list[int]] | None, who: str = group, **more: Any) -> None:
        if version >= 8:
            one = {"group_id": who, "topics": topics(wanted), "member_id": None, "member_epoch": -1, **more}
            peer.ask(step, "OffsetFetch", version, groups=[one])
        else:
            peer.ask(step, "OffsetFetch", version, group_id=who, topics=topics(wanted))

    ask("some", {topic: [0, 1, 2], other: [0]})
    ask("unknown partition", {topic: [9, -1]})
    ask("unknown topic", {peer.name("no"): [0]})
    ask("mixed", {topic: [0], peer.name("no"): [0, 1]})
    ask("no partitions", {topic: []})
    ask("a partition twice", {topic: [0, 0]})
    ask("no topics", {})
    ask("unknown group", {topic: [0]}, peer.name("nogroup"))
    ask("empty group", {topic: [0]}, "")
    if version >= 2:
        ask("all", None)
        ask("all of an unknown group", None, peer.name("nogroup"))
    if version >= 7:
        if version == 7:
            peer.ask("stable", "OffsetFetch", version, group_id=group, topics=topics({topic: [0]}), require_stable=True)
        else:
            rows = [{"group_id": group, "topics": topics({topic: [0]})}]
            peer.ask("stable", "OffsetFetch", version, groups=rows, require_stable=True)
    if version >= 8:
        several = [
            {"group_id": group, "topics": topics({topic: [0]})},
            {"group_id": peer.name("nogroup"), "topics": topics({topic: [0]})},
            {"group_id": peer.name("h"), "topics": None},
        ]
        peer.ask("several groups", "OffsetFetch", version, groups=several)
        peer.ask("no groups", "OffsetFetch", version, groups=[])
        peer.ask("a group twice", "OffsetFetch", version, groups=several[:1] * 2)
    if version >= 9:
        ask("with a member", {topic: [0]}, member_id="nobody", member_epoch=3)
        ask("with a member, unknown group", {topic: [0]}, peer.name("nogroup"), member_id="nobody", member_epoch=3)
    peer.silently("DeleteTopics", 1, topic_names=[other], timeout_ms=10_000)
    _until_forgotten(peer, group, other)
    ask("deleted topic", {other: [0]})
    if version >= 2:
        ask("all after deletion", None)


def _until_forgotten(peer: Peer, group: str, topic: str) -> None:
    """Kafka forgets the offsets of a deleted topic a moment later."""
    deadline = time.monotonic() + 5
    rows = [{"name": topic, "partition_indexes": [0]}]
    while True:
        answer = peer.silently("OffsetFetch", 7, group_id=group, topics=rows)
        if answer.topics[0].partitions[0].committed_offset == -1 or time.monotonic() > deadline:
            return
        time.sleep(0.02)


@scenario(ApiKey.OFFSET_DELETE)
def forget(peer: Peer, version: int) -> None:
    topic, other = peer.topic("one", 2), peer.topic("two")
    group = Group(peer)

    def ask(step: str, wanted: dict[str, list[int]], who: str = group.id) -> None:
        rows = [
            {"name": name, "partitions": [{"partition_index": index} for index in each]}
            for name, each in wanted.items()
        ]
        peer.ask(step, "OffsetDelete", version, group_id=who, topics=rows)

    ask("unknown group", {topic: [0]})
    ask("empty group id", {topic: [0]}, "")
    commit = [{"name": name, "partitions": [row(0, 5)]} for name in (topic, other)]
    peer.silently("OffsetCommit", 7, group_id=group.id, generation_id_or_member_epoch=-1, topics=commit)
    ask("nothing", {})
    ask("no partitions", {topic: []})
    ask("not committed", {topic: [1]})
    ask("unknown partition", {topic: [9]})
    ask("unknown topic", {peer.name("no"): [0]})
    ask("one", {topic: [0]})
    ask("twice", {other: [0, 0]})
    peer.ask("left over", "OffsetFetch", 7, group_id=group.id, topics=None)
    ask("of an emptied group", {topic: [0]})
    peer.silently("OffsetCommit", 7, group_id=group.id, generation_id_or_member_epoch=-1, topics=commit)
    joined = group.enter("member", protocols=[("range", subscription(topic))])
    ask("while it rebalances", {topic: [0], other: [0]})
    group.sync("sync", joined.member_id, joined.generation_id, (joined.member_id, b"share"))
    ask("subscribed and not", {topic: [0], other: [0]})
    peer.ask("left over at last", "OffsetFetch", 7, group_id=group.id, topics=None)
    connect = Group(peer, "connect")
    connect.enter("other kind", protocol_type="connect")
    ask("other kind of group", {topic: [0]}, connect.id)
