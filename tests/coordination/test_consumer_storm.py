"""Members of the consumer protocol that come, go, crash, restart and revoke slowly, while topics change: a seeded
simulation with connections that break.

What counts is what a member really reads: from the answer that gives it a partition until it has stopped, which it says
in the heartbeat after. Nobody ever reads what another reads, epochs only grow, and when the storm is over it settles.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial

import pytest
from tests.coordination.consumers import described, make_beat
from tests.coordination.desk import Desk

from trunkline.coordination.commands import ConsumerHeartbeatReply, GroupSettings, GroupState, Reply
from trunkline.coordination.partitions import Partitions, common, count, each, without
from trunkline.model.errors import (
    FencedInstance,
    FencedMemberEpoch,
    TrunklineError,
    UnknownMember,
    UnreleasedInstance,
)
from trunkline.model.ids import TopicId

SESSION_MS, REBALANCE_MS = 10_000, 6_000
SETTINGS = GroupSettings(consumer_session_timeout_ms=SESSION_MS, consumer_heartbeat_interval_ms=1_000)


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.desk = Desk(SETTINGS)
        self.calm = False
        self.clients: dict[str, Client] = {}
        self.readers: dict[tuple[TopicId, int], str] = {}
        self.names = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def after(self, ms: float, event: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.desk.now_ms + int(ms), self._order, event))

    def run(self, ms: int, until: Callable[[], bool] = lambda: False) -> None:
        end_ms = self.desk.now_ms + ms
        while self._events and self._events[0][0] <= end_ms and not until():
            at_ms, _, event = heapq.heappop(self._events)
            self.desk.pass_time(max(at_ms - self.desk.now_ms, 0))
            event()

    def start(self, instance: str | None = None) -> None:
        self.names += 1
        client = Client(self, f"m{self.names}", instance)
        self.clients[instance or client.id] = client
        client.beat()

    def settled(self) -> bool:
        group = described(self.desk)
        return (
            group.state is GroupState.STABLE
            and {member.id for member in group.members} == {client.id for client in self.clients.values()}
            and len(self.readers) == sum(topic.partitions for topic in self.desk.topics.image.values())
        )


class Client:
    def __init__(self, world: World, name: str, instance: str | None) -> None:
        self.world, self.id, self.instance = world, name, instance
        self.epoch = 0
        self.reads: Partitions = {}
        self.alive, self.sure = True, False
        self.slow = world.random.random() < 0.1
        self.last_sent_ms = world.desk.now_ms
        self._round = 0

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def start_reading(self, partitions: Partitions) -> None:
        for pair in each(without(partitions, self.reads)):
            assert pair not in self.world.readers, f"{self.world.readers[pair]} still reads what {self.id} was given"
            self.world.readers[pair] = self.id
        self.reads = partitions

    def stop_reading(self, partitions: Partitions) -> None:
        for pair in each(partitions):
            assert self.world.readers.pop(pair) == self.id
        self.reads = without(self.reads, partitions)

    def give_up(self) -> None:
        self.stop_reading(self.reads)

    # ── the protocol ────────────────────────────────────────────────────────────────────────────

    def beat(self) -> None:
        """A client that was not heard of for a session knows that it is out: it stops before the broker gives away."""
        if not self.alive:
            return
        self._round += 1
        world = self.world
        full: dict[str, object] = {"topics": ("orders", "other"), "rebalance_timeout_ms": REBALANCE_MS}
        command = make_beat(
            world.desk,
            self.id,
            self.epoch,
            owned=self.reads if self.epoch else {},
            instance_id=self.instance,
            **(full if self.epoch == 0 or not self.sure else {}),  # type: ignore[arg-type]
        )
        world.desk.send(command)
        answer = world.desk.answers[command.ticket]
        lost = not world.calm and world.random.random() < 0.1
        if lost:
            self.sure = False
            world.after(world.random.uniform(100, 1_000), partial(self._again, self._round))
        else:
            world.after(world.random.uniform(1, 50), partial(self.receive, answer, self._round))

    def _again(self, round_: int) -> None:
        if round_ == self._round:
            self.beat()

    def receive(self, answer: Reply | TrunklineError, round_: int) -> None:
        if not self.alive or round_ != self._round:
            return
        if isinstance(answer, ConsumerHeartbeatReply):
            assert answer.epoch >= self.epoch, "epochs only grow"
            self.epoch, self.sure = answer.epoch, True
            self.world.after(answer.interval_ms, partial(self._again, round_))
            if answer.assignment is not None:
                self.take(answer.assignment, round_)
        else:
            assert isinstance(answer, FencedMemberEpoch | UnknownMember | UnreleasedInstance | FencedInstance)
            self.give_up()
            self.epoch = 0
            self.world.after(self.world.random.uniform(0, 500), partial(self._again, round_))

    def take(self, assignment: Partitions, round_: int) -> None:
        kept = common(self.reads, assignment)
        revoked = without(self.reads, kept)
        if revoked:
            delay_ms = self.world.random.uniform(0, 4_000 if self.slow and not self.world.calm else 300)
            self.world.after(delay_ms, partial(self.revoke, revoked, assignment))
        else:
            self.start_reading(assignment)

    def revoke(self, partitions: Partitions, assignment: Partitions) -> None:
        still = common(partitions, self.reads)
        if self.alive and count(still) == count(partitions):
            self.stop_reading(still)
            self.beat()

    def leave(self) -> None:
        self.give_up()
        if self.epoch:
            self.world.desk.send(make_beat(self.world.desk, self.id, -1, instance_id=self.instance))
        self.end()

    def restart(self) -> None:
        """A static member that says it comes back, and does."""
        self.give_up()
        if self.epoch:
            self.world.desk.send(make_beat(self.world.desk, self.id, -2, instance_id=self.instance))
        self.end()
        self.world.after(self.world.random.uniform(0, 3_000), partial(self.world.start, self.instance))

    def crash(self) -> None:
        self.give_up()
        self.end()

    def end(self) -> None:
        self.alive = False
        self.world.clients.pop(self.instance or self.id, None)


def storm(world: World) -> None:
    if world.calm:
        return
    victim = world.random.choice(sorted(world.clients.items()))[1] if world.clients else None
    happening = world.random.random()
    if victim is None or (len(world.clients) < 15 and happening < 0.4):
        world.start()
    elif happening < 0.5:
        world.desk.topics.set(world.random.choice(("orders", "other")), world.random.randint(40, 60))
    elif happening < 0.55:
        world.desk.log = world.desk.compacted()
        world.desk.restart()
    elif victim.instance is not None:
        victim.restart()
    elif happening < 0.75:
        victim.leave()
    elif happening < 0.9:
        victim.crash()
    world.after(world.random.expovariate(1 / 500), partial(storm, world))


@pytest.mark.parametrize("seed", range(20))
def test_members_in_a_storm_never_share_a_partition_and_settle(seed: int) -> None:
    world = World(seed)
    world.desk.topics.set("orders", 40)
    world.desk.topics.set("other", 10)
    for index in range(10):
        world.start(f"static{index}" if index % 4 == 0 else None)
    storm(world)
    world.run(30_000)
    world.calm = True
    world.run(90_000, until=world.settled)
    assert world.settled()
    loads = [count(client.reads) for client in world.clients.values()]
    assert max(loads) - min(loads) <= 1
    world.run(2_000)
    epochs = {client.epoch for client in world.clients.values()}
    world.desk.restart()
    world.run(20_000)
    assert world.settled()
    assert {client.epoch for client in world.clients.values()} == epochs, "a restart disturbs nobody"
