"""Members of the consumer protocol at a desk: what they know, what they say, what they own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.coordination.desk import Desk, G

from trunkline.coordination.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    DescribeConsumerGroup,
    Ticket,
)
from trunkline.coordination.partitions import Partitions
from trunkline.model.ids import GroupId, MemberId


def make_beat(
    desk: Desk,
    member: str,
    epoch: int,
    *,
    topics: tuple[str, ...] | None = None,
    owned: Partitions | None = None,
    group: GroupId = G,
    **more: Any,
) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        desk.ticket(),
        group,
        MemberId(member),
        epoch,
        topics=topics,
        owned=owned,
        client_id="app",
        client_host="/127.0.0.1",
        **more,
    )


def join(desk: Desk, member: str, *topics: str, rebalance_ms: int = 60_000, **more: Any) -> ConsumerHeartbeatReply:
    wanted = topics or (None if "pattern" in more else ("orders",))
    return desk.ask(
        make_beat(desk, member, 0, topics=wanted, owned={}, rebalance_timeout_ms=rebalance_ms, **more),
        ConsumerHeartbeatReply,
    )


def beat(desk: Desk, member: str, epoch: int, owned: Partitions | None = None, **more: Any) -> ConsumerHeartbeatReply:
    return desk.ask(make_beat(desk, member, epoch, owned=owned, **more), ConsumerHeartbeatReply)


def send(desk: Desk, member: str, epoch: int, **more: Any) -> Ticket:
    return desk.send(make_beat(desk, member, epoch, **more))


def described(desk: Desk, group: GroupId = G) -> ConsumerGroupDescription:
    return desk.ask(DescribeConsumerGroup(desk.ticket(), group), ConsumerGroupDescription)


@dataclass
class Client:
    """A client that does as it is told, at once."""

    desk: Desk
    id: str
    topics: tuple[str, ...] = ("orders",)
    instance: str | None = None
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)

    def join(self, **more: Any) -> Client:
        reply = join(self.desk, self.id, *self.topics, instance_id=self.instance, **more)
        self.epoch, self.owned = reply.epoch, reply.assignment or {}
        return self

    def beat(self) -> Client:
        """Says what it owns, takes over what it is told, and says so if it gave something up."""
        reply = beat(self.desk, self.id, self.epoch, self.owned, instance_id=self.instance)
        self.epoch = reply.epoch
        if reply.assignment is not None and reply.assignment != self.owned:
            self.owned = reply.assignment
            self.beat()
        return self

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))


def settle(*clients: Client) -> None:
    for _ in range(3):
        for client in clients:
            client.beat()
