"""A coordinator with a clock one can turn and a log one can read back: no loop, no disk.

Every fact goes through its bytes on the way to the log, and every ticket may be answered once.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from trunkline.coordination.commands import (
    Command,
    CommitOffsets,
    CommitReply,
    DescribeGroup,
    FetchOffsets,
    FetchReply,
    GroupDescription,
    GroupSettings,
    GroupState,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    LeavingMember,
    OffsetToCommit,
    Outcome,
    Protocols,
    Reply,
    Sync,
    SyncReply,
    Ticket,
)
from trunkline.coordination.coordinator import Coordinator
from trunkline.coordination.facts import Committed, Fact, decode, encode
from trunkline.model.errors import MemberIdRequired, TrunklineError
from trunkline.model.ids import Epoch, GroupId, MemberId, Offset, TopicId
from trunkline.model.topic import Topic, TopicConfig

G = GroupId("readers")
START_MS = 1_700_000_000_000
Expected = TypeVar("Expected")


def subscription(*topics: str, version: int = 3) -> bytes:
    """As consumers send it, with the fields that follow the topics."""
    names = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">iiih", -1, 0, -1, -1)


RANGE: Protocols = (("range", subscription("orders")),)


@dataclass(frozen=True)
class Me:
    """What a member knows of itself after a join."""

    id: MemberId
    generation: int
    instance: str | None = None


class FakeTopics:
    """Topics as a test sets them. Ids are made from a count, so one made again has another id."""

    def __init__(self) -> None:
        self.image: Mapping[str, Topic] = {}
        self._made = 0

    def set(self, name: str, partitions: int) -> TopicId:
        old = self.image.get(name)
        self._made += old is None
        topic_id = TopicId(self._made.to_bytes(16, "big")) if old is None else old.id
        self.image = {**self.image, name: Topic(name, topic_id, partitions, TopicConfig())}
        return topic_id

    def delete(self, name: str) -> None:
        self.image = {one: topic for one, topic in self.image.items() if one != name}


class Desk:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.answers: dict[Ticket, Reply | TrunklineError] = {}
        self._tickets = itertools.count(1)
        self._suffixes = itertools.count(1)
        self.topics = FakeTopics()
        self.coordinator = self._new_coordinator()

    def _new_coordinator(self) -> Coordinator:
        return Coordinator(self.settings, lambda: f"id{next(self._suffixes)}", self.topics)

    # ── commands ────────────────────────────────────────────────────────────────────────────────

    def ticket(self) -> Ticket:
        return Ticket(next(self._tickets))

    def send(self, command: Command) -> Ticket:
        self._take(self.coordinator.handle(command, self.now_ms))
        return command.ticket

    def ask(self, command: Command, expected: type[Expected]) -> Expected:
        return self.got(self.send(command), expected)

    def join(
        self,
        member_id: str = "",
        *,
        group: GroupId = G,
        instance: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        needs_id: bool = False,
        can_skip: bool = False,
        client: str = "app",
        host: str = "/127.0.0.1",
    ) -> Ticket:
        return self.send(
            Join(
                self.ticket(),
                group,
                MemberId(member_id),
                instance,
                client,
                host,
                session_ms,
                rebalance_ms,
                protocol_type,
                protocols,
                needs_member_id=needs_id,
                can_skip_assignment=can_skip,
            )
        )

    def pending(self) -> MemberId:
        """The id of a new member that has not joined with it yet."""
        return self.got(self.join(needs_id=True), MemberIdRequired).member_id

    def sync(
        self,
        me: Me,
        assignments: dict[MemberId, bytes] | None = None,
        *,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Ticket:
        parts = tuple((assignments or {}).items())
        return self.send(Sync(self.ticket(), G, me.id, me.instance, me.generation, parts, protocol_type, protocol))

    def heartbeat(self, me: Me) -> Ticket:
        return self.send(Heartbeat(self.ticket(), G, me.id, me.instance, me.generation))

    def leave(self, *members: LeavingMember) -> Ticket:
        return self.send(Leave(self.ticket(), G, members))

    def commit(
        self,
        offset: int,
        me: Me | None = None,
        *,
        topic: str = "orders",
        partition: int = 0,
        metadata: str = "",
        group: GroupId = G,
        retention_ms: int | None = None,
    ) -> Ticket:
        one = OffsetToCommit(partition, Offset(offset), Epoch(3), metadata)
        who = me or Me(MemberId(""), -1)
        return self.send(
            CommitOffsets(
                self.ticket(),
                group,
                who.id,
                who.instance,
                who.generation,
                ((topic, (one,)),),
                retention_ms=retention_ms,
            )
        )

    def committed(self, topic: str = "orders", partition: int = 0, group: GroupId = G) -> Committed | None:
        reply = self.ask(FetchOffsets(self.ticket(), group, ((topic, (partition,)),)), FetchReply)
        return reply.topics[0][1][0][1]

    def describe(self, group: GroupId = G) -> GroupDescription:
        return self.ask(DescribeGroup(self.ticket(), group), GroupDescription)

    def state(self) -> GroupState:
        return self.describe().state

    # ── time ────────────────────────────────────────────────────────────────────────────────────

    def pass_time(self, ms: int) -> None:
        """Ticks at every deadline on the way."""
        end_ms = self.now_ms + ms
        while (next_ms := self.coordinator.next_deadline_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self._take(self.coordinator.tick(self.now_ms))
        self.now_ms = end_ms

    # ── answers ─────────────────────────────────────────────────────────────────────────────────

    def take(self, outcome: Outcome) -> None:
        self._take(outcome)

    def _take(self, outcome: Outcome) -> None:
        self.log += [encode(fact) for fact in outcome.facts]
        for ticket, answer in outcome.replies:
            assert ticket not in self.answers, "answered twice"
            self.answers[ticket] = answer

    def waits(self, ticket: Ticket) -> bool:
        return ticket not in self.answers

    def got(self, ticket: Ticket, expected: type[Expected]) -> Expected:
        answer = self.answers.get(ticket)
        assert isinstance(answer, expected), f"{expected.__name__} expected, got {answer!r}"
        return answer

    def joined(self, ticket: Ticket, instance: str | None = None) -> Me:
        reply = self.got(ticket, JoinReply)
        return Me(reply.member_id, reply.generation, instance)

    def assignment(self, ticket: Ticket) -> bytes:
        return self.got(ticket, SyncReply).assignment

    def commit_error(self, ticket: Ticket) -> TrunklineError | None:
        return self.got(ticket, CommitReply).topics[0][1][0][1]

    # ── shortcuts into a state ──────────────────────────────────────────────────────────────────

    def completing(self, count: int = 2, **join: object) -> list[Me]:
        """So many members have joined; the first is the leader; nobody has synced."""
        tickets = [self.join(**join) for _ in range(count)]  # type: ignore[arg-type]
        self.pass_time(1_000)
        return [self.joined(ticket) for ticket in tickets]

    def stable(self, count: int = 2, **join: object) -> list[Me]:
        members = self.completing(count, **join)
        self.sync_all(members)
        return members

    def sync_all(self, members: Iterable[Me]) -> None:
        members = list(members)
        tickets = [self.sync(me, {one.id: b"for " + one.id.encode() for one in members}) for me in members]
        for me, ticket in zip(members, tickets, strict=True):
            assert self.assignment(ticket) == b"for " + me.id.encode()

    # ── restart ─────────────────────────────────────────────────────────────────────────────────

    def restart(self) -> None:
        """As after a kill -9: only the log is left."""
        self.coordinator = self.recovered(self.log)
        self.coordinator.loaded(self.now_ms)

    def recovered(self, log: Iterable[tuple[bytes, bytes | None]]) -> Coordinator:
        coordinator = self._new_coordinator()
        for key, value in log:
            coordinator.replay(decode(key, value))
        return coordinator

    def compacted(self) -> list[tuple[bytes, bytes | None]]:
        """The last value of each key, where it was written."""
        last = {key: index for index, (key, _) in enumerate(self.log)}
        return [entry for index, entry in enumerate(self.log) if last[entry[0]] == index]


def durable(coordinator: Coordinator) -> dict[bytes, bytes | None]:
    return dict(encode(fact) for fact in coordinator.snapshot())


def as_facts(log: Iterable[tuple[bytes, bytes | None]]) -> list[Fact]:
    return [decode(key, value) for key, value in log]
