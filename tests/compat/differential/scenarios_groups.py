"""The classic group protocol, used rightly and wrongly."""

from __future__ import annotations

import time
from typing import Any

from tests.compat.differential.batches import produce
from tests.compat.differential.peer import Peer
from tests.compat.differential.registry import scenario
from tests.support.raw_kafka import RawKafka

from trunkline.wire.kafka.apis import ApiKey

RANGE = [("range", b"meta")]


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, version 0."""
    body = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + body + b"\xff\xff\xff\xff"


class Group:
    """One group, with the requests of its members at chosen versions."""

    def __init__(self, peer: Peer, word: str = "g", **versions: int) -> None:
        self.peer, self.id = peer, peer.name(word)
        self.versions = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3, **versions}

    def joining(self, member: str = "", **more: Any) -> dict[str, Any]:
        protocols = more.pop("protocols", RANGE)
        values = {
            "group_id": self.id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 5_000,
            "member_id": member,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": data} for name, data in protocols],
        }
        return {**values, **more}

    def join(self, step: str, member: str = "", line: RawKafka | None = None, **more: Any) -> Any:
        version = more.pop("version", self.versions["JoinGroup"])
        return self.peer.ask(step, "JoinGroup", version, line, **self.joining(member, **more))

    def enter(self, step: str, **more: Any) -> Any:
        """A first member, through the required id; its join is complete."""
        first = self.join(f"{step}: first", **more)
        return self.join(f"{step}: second", first.member_id, **more) if first.error_code == 79 else first

    def sync(self, step: str, member: str, generation: int, *shares: tuple[str, bytes], **more: Any) -> Any:
        rows = [{"member_id": who, "assignment": what} for who, what in shares]
        values = {"group_id": self.id, "generation_id": generation, "member_id": member, "assignments": rows}
        version = self.versions["SyncGroup"]
        if version >= 5:
            values |= {"protocol_type": "consumer", "protocol_name": "range"}
        line = more.pop("line", None)
        return self.peer.ask(step, "SyncGroup", version, line, **{**values, **more})

    def beat(self, step: str, member: str, generation: int, **more: Any) -> Any:
        values = {"group_id": self.id, "generation_id": generation, "member_id": member}
        return self.peer.ask(step, "Heartbeat", self.versions["Heartbeat"], **{**values, **more})

    def leave(self, step: str, *members: dict[str, Any], **more: Any) -> Any:
        version = self.versions["LeaveGroup"]
        if version >= 3:
            return self.peer.ask(step, "LeaveGroup", version, **{"group_id": self.id, "members": list(members), **more})
        values = {"group_id": self.id, "member_id": members[0]["member_id"]}
        return self.peer.ask(step, "LeaveGroup", version, **{**values, **more})

    def describe(self, step: str) -> Any:
        return self.peer.ask(step, "DescribeGroups", 5, groups=[self.id])

    def stable(self, **more: Any) -> Any:
        """One member that has its share."""
        joined = self.enter("start", **more)
        self.sync("start: sync", joined.member_id, joined.generation_id, (joined.member_id, b"share"))
        return joined


@scenario(ApiKey.JOIN_GROUP)
def join(peer: Peer, version: int) -> None:
    group = Group(peer, JoinGroup=version)
    joined = group.enter("one")
    group.describe("joined")
    group.join("again", joined.member_id)
    group.sync("sync", joined.member_id, joined.generation_id, (joined.member_id, b"share"))
    group.describe("stable")
    group.join("leader joins again", joined.member_id)
    group.beat("between", joined.member_id, joined.generation_id)
    group.leave("leave", {"member_id": joined.member_id})
    group.describe("left")
    group.enter("and back")


@scenario(ApiKey.JOIN_GROUP)
def join_wrongly(peer: Peer, version: int) -> None:
    group = Group(peer, JoinGroup=version)
    group.join("empty group id", group_id="")
    group.join("unknown member, unknown group", "nobody")
    for timeout in (0, -1, 5_999, 1_800_001, 2**31 - 1):
        group.join(f"session timeout {timeout}", session_timeout_ms=timeout)
    group.join("no protocols", protocols=[])
    group.join("empty type", protocol_type="")
    group.join("empty protocol name", protocols=[("", b"")])
    group.describe("still nothing")
    joined = group.enter("one")
    group.join("unknown member", "nobody")
    group.join("other type", protocol_type="connect")
    group.join("no shared protocol", protocols=[("roundrobin", b"")])
    group.join("no protocols, known group", protocols=[])
    group.join("known member, other type", joined.member_id, protocol_type="connect")
    group.join("known member, other protocol", joined.member_id, protocols=[("other", b"")])
    group.describe("after all")
    if version >= 1:
        fast = Group(peer, "fast", JoinGroup=version)
        fast.enter("rebalance timeout 0", rebalance_timeout_ms=0)
        fast = Group(peer, "negative", JoinGroup=version)
        fast.enter("rebalance timeout -1", rebalance_timeout_ms=-1)


@scenario(ApiKey.JOIN_GROUP)
def two_members(peer: Peer, version: int) -> None:
    group = Group(peer, JoinGroup=version)
    both = [("range", b"1"), ("sticky", b"s1")]
    first = group.enter("one", protocols=both)
    group.sync("one: sync", first.member_id, first.generation_id, (first.member_id, b"all"))
    other = peer.open()
    mine = [("range", b"2"), ("other", b"o2")]
    if version >= 4:
        wanted = group.join("two: id", line=other, protocols=mine)
        peer.send(other, "JoinGroup", version, **group.joining(wanted.member_id, protocols=mine))
    else:
        peer.send(other, "JoinGroup", version, **group.joining(protocols=mine))
    _until_state(peer, group.id, "PreparingRebalance")
    group.beat("one hears of it", first.member_id, first.generation_id)
    group.sync("sync meanwhile", first.member_id, first.generation_id)
    group.describe("preparing")
    again = group.join("one joins again", first.member_id, protocols=both)
    second = peer.receive("two: joined", other)
    group.describe("completing")
    group.beat("heartbeat before sync", first.member_id, again.generation_id)
    group.sync("old generation", first.member_id, first.generation_id)
    share = {"group_id": group.id, "generation_id": again.generation_id}
    peer.send(other, "SyncGroup", 3, **share, member_id=second.member_id, assignments=[])
    shares = ((first.member_id, b"half"), (second.member_id, b"other half"), ("stranger", b"x"))
    group.sync("leader assigns", first.member_id, again.generation_id, *shares)
    peer.receive("two: share", other)
    group.sync("sync again", second.member_id, again.generation_id)
    group.sync("follower assigns", second.member_id, again.generation_id, (second.member_id, b"everything"))
    group.describe("stable")
    group.join("follower joins unchanged", second.member_id, line=other, protocols=mine)
    group.leave("two leaves", {"member_id": second.member_id})
    group.beat("one hears of that", first.member_id, again.generation_id)


def _until_state(peer: Peer, group: str, state: str) -> None:
    deadline = time.monotonic() + 5
    while peer.silently("DescribeGroups", 0, groups=[group]).groups[0].group_state != state:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{group} did not become {state}")
        time.sleep(0.01)


@scenario(ApiKey.JOIN_GROUP, since=5)
def static_members(peer: Peer, version: int) -> None:
    group = Group(peer, JoinGroup=version)
    me: dict[str, Any] = {"group_instance_id": "i1"}
    first = group.join("first", **me)
    group.sync("first: sync", first.member_id, first.generation_id, (first.member_id, b"share"), **me)
    group.describe("stable")
    second = group.join("comes back", **me)
    group.beat("old id", first.member_id, first.generation_id, **me)
    group.beat("old id without instance", first.member_id, first.generation_id)
    group.beat("wrong instance", second.member_id, second.generation_id, group_instance_id="i9")
    group.beat("new id", second.member_id, second.generation_id, **me)
    group.sync("old id syncs", first.member_id, first.generation_id, **me)
    group.sync("new id syncs", second.member_id, second.generation_id, **me)
    group.join("old id joins", first.member_id, **me)
    group.join("unknown id with instance", "nobody", **me)
    group.join("unknown instance with an id", "nobody", group_instance_id="i7")
    group.join("other protocols", second.member_id, protocols=[("range", b"new")], **me)
    group.describe("after that")
    group.leave("old id leaves", {"member_id": first.member_id, "group_instance_id": "i1"})
    group.leave("unknown instance leaves", {"member_id": "", "group_instance_id": "i9"})
    group.leave("by instance", {"member_id": "", "group_instance_id": "i1"})
    group.describe("left")
    third = group.join("changed protocols come back", protocols=[("range", b"x"), ("sticky", b"y")], **me)
    group.sync("third: sync", third.member_id, third.generation_id, (third.member_id, b"share"), **me)
    group.join("back with other protocols", protocols=[("sticky", b"z")], **me)
    group.describe("at last")


@scenario(ApiKey.SYNC_GROUP)
def sync(peer: Peer, version: int) -> None:
    group = Group(peer, SyncGroup=version)
    group.sync("unknown group", "nobody", 1)
    group.sync("empty group id", "nobody", 1, group_id="")
    joined = group.enter("one")
    group.sync("unknown member", "nobody", joined.generation_id)
    group.sync("empty member", "", joined.generation_id)
    for generation in (0, -1, 99):
        group.sync(f"generation {generation}", joined.member_id, generation)
    if version >= 5:
        group.sync("other type", joined.member_id, joined.generation_id, protocol_type="connect")
        group.sync("other protocol", joined.member_id, joined.generation_id, protocol_name="sticky")
        group.sync("no type", joined.member_id, joined.generation_id, protocol_type=None)
        group.sync("no protocol", joined.member_id, joined.generation_id, protocol_name=None)
        group.sync("neither", joined.member_id, joined.generation_id, protocol_type=None, protocol_name=None)
    if version >= 3:
        group.sync("unknown instance", joined.member_id, joined.generation_id, group_instance_id="i9")
    group.sync("no shares", joined.member_id, joined.generation_id)
    group.sync("again", joined.member_id, joined.generation_id)
    group.sync("too late", joined.member_id, joined.generation_id, (joined.member_id, b"late"))
    group.describe("after all")


@scenario(ApiKey.HEARTBEAT)
def heartbeat(peer: Peer, version: int) -> None:
    group = Group(peer, Heartbeat=version)
    group.beat("unknown group", "nobody", 1)
    group.beat("empty group id", "nobody", 1, group_id="")
    new = group.join("id")
    group.beat("pending member", new.member_id, -1)
    group.beat("pending member, generation 0", new.member_id, 0)
    joined = group.join("joined", new.member_id)
    group.beat("not synced", joined.member_id, joined.generation_id)
    group.sync("sync", joined.member_id, joined.generation_id, (joined.member_id, b"share"))
    group.beat("fine", joined.member_id, joined.generation_id)
    for generation in (0, -1, 99):
        group.beat(f"generation {generation}", joined.member_id, generation)
    group.beat("unknown member", "nobody", joined.generation_id)
    group.beat("empty member", "", joined.generation_id)
    if version >= 3:
        group.beat("unknown instance", joined.member_id, joined.generation_id, group_instance_id="i9")
        group.beat("empty instance", joined.member_id, joined.generation_id, group_instance_id="")
    group.leave("leave", {"member_id": joined.member_id})
    group.beat("empty group", joined.member_id, joined.generation_id)


@scenario(ApiKey.LEAVE_GROUP)
def leave(peer: Peer, version: int) -> None:
    group = Group(peer, LeaveGroup=version)
    group.leave("unknown group", {"member_id": "nobody"})
    group.leave("empty group id", {"member_id": "nobody"}, group_id="")
    new = group.join("id")
    group.leave("pending member", {"member_id": new.member_id})
    group.leave("pending member again", {"member_id": new.member_id})
    joined = group.stable()
    group.leave("unknown member", {"member_id": "nobody"})
    group.leave("empty member", {"member_id": ""})
    if version >= 3:
        group.leave("nobody")
        group.leave("two", {"member_id": "nobody"}, {"member_id": joined.member_id})
        group.leave("again", {"member_id": joined.member_id}, {"member_id": joined.member_id})
    else:
        group.leave("fine", {"member_id": joined.member_id})
        group.leave("again", {"member_id": joined.member_id})
    group.describe("left")


@scenario(ApiKey.DESCRIBE_GROUPS)
def describe(peer: Peer, version: int) -> None:
    group = Group(peer)
    topic = peer.topic("one")

    def ask(step: str, *groups: str, **more: Any) -> None:
        peer.ask(step, "DescribeGroups", version, groups=list(groups), **more)

    ask("none")
    ask("unknown", group.id)
    ask("empty id", "")
    group.join("id")
    ask("pending only", group.id)
    joined = group.enter("one", protocols=[("range", subscription(topic))])
    ask("completing", group.id)
    group.sync("sync", joined.member_id, joined.generation_id, (joined.member_id, b"share"))
    ask("stable", group.id)
    ask("twice", group.id, group.id)
    ask("mixed", group.id, peer.name("no"))
    if version >= 3:
        ask("operations", group.id, include_authorized_operations=True)
        ask("operations of an unknown one", peer.name("no"), include_authorized_operations=True)
    group.leave("leave", {"member_id": joined.member_id})
    _until_state(peer, group.id, "Empty")
    ask("left", group.id)
    commit = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 0}]}]
    simple = peer.name("simple")
    peer.silently("OffsetCommit", 7, group_id=simple, generation_id_or_member_epoch=-1, topics=commit)
    ask("simple", simple)


@scenario(ApiKey.LIST_GROUPS)
def listing(peer: Peer, version: int) -> None:
    topic = peer.topic("one")
    group = Group(peer, "stable")
    group.stable()
    commit = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 0}]}]
    simple = peer.name("simple")
    peer.silently("OffsetCommit", 7, group_id=simple, generation_id_or_member_epoch=-1, topics=commit)
    empty = Group(peer, "empty")
    gone = empty.stable()
    empty.leave("leave", {"member_id": gone.member_id})

    def ask(step: str, **values: Any) -> None:
        answer = peer.silently("ListGroups", version, **values)
        mine = [peer.plain.struct(each) for each in answer.groups if each.group_id.startswith(peer.prefix)]
        peer.note(step, [answer.error_code, sorted(mine, key=str)])

    ask("all")
    if version >= 4:
        for states in (["Stable"], ["stable"], ["Empty"], ["Stable", "Empty"], ["NoSuchState"], [""], ["Stable", "x"]):
            ask(f"states {states}", states_filter=states)
    if version >= 5:
        for types in (["classic"], ["Classic"], ["consumer"], ["NoSuchType"], [""], ["classic", "x"], ["share"]):
            ask(f"types {types}", types_filter=types)
        ask("both", types_filter=["classic"], states_filter=["Stable"])


@scenario(ApiKey.DELETE_GROUPS)
def delete(peer: Peer, version: int) -> None:
    topic = peer.topic("one")

    def ask(step: str, *groups: str) -> None:
        peer.ask(step, "DeleteGroups", version, groups_names=list(groups))

    group = Group(peer)
    ask("none")
    ask("unknown", group.id)
    ask("empty id", "")
    joined = group.stable()
    ask("not empty", group.id)
    group.leave("leave", {"member_id": joined.member_id})
    ask("empty", group.id)
    ask("again", group.id)
    group.describe("gone")
    commit = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 3}]}]
    simple, other = peer.name("simple"), peer.name("other")
    for each in (simple, other):
        peer.silently("OffsetCommit", 7, group_id=each, generation_id_or_member_epoch=-1, topics=commit)
    ask("twice", simple, simple)
    ask("mixed", other, peer.name("no"))
    for each in (simple, other):
        peer.ask(f"offsets of {each[-6:]}", "OffsetFetch", 7, group_id=each, topics=None)
    pending = Group(peer, "pending")
    pending.join("pending")
    ask("pending member", pending.id)
    produce(peer, topic, [b"a"])
