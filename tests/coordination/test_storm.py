"""Twenty members that join, leave, crash and restart at once, over connections that break: a seeded simulation.

Clients behave as real ones do: they keep their member id, join again when told of a rebalance, heartbeat while they
prepare for it, and send a request again when its connection broke. Requests of one client arrive in order. All of them
keep within their timeouts, so none may ever be told that it is unknown; and when the storm is over the group settles.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial

import pytest
from tests.coordination.desk import RANGE, Desk, G

from trunkline.coordination.commands import (
    Command,
    GroupState,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    LeavingMember,
    Outcome,
    Reply,
    Sync,
    SyncReply,
    Ticket,
)
from trunkline.model.errors import (
    IllegalGeneration,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    TrunklineError,
)
from trunkline.model.ids import MemberId

SESSION_MS, REBALANCE_MS, HEARTBEAT_MS = 10_000, 30_000, 1_000
Answer = Reply | TrunklineError
MakeCommand = Callable[[Ticket], Command]


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.desk = Desk()
        self.calm = False
        self.clients: dict[str, Client] = {}
        self.leaders: dict[int, str] = {}
        self.members: dict[int, set[str]] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._readers: dict[Ticket, Callable[[Answer], None]] = {}
        self._names = 0

    def after(self, ms: float, event: Callable[[], None]) -> None:
        self.at(self.desk.now_ms + int(ms), event)

    def at(self, at_ms: int, event: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (at_ms, self._order, event))

    def run(self, ms: int, until: Callable[[], bool] = lambda: False) -> None:
        end_ms = self.desk.now_ms + ms
        while not until():
            event_ms = self._events[0][0] if self._events else end_ms
            deadline_ms = self.desk.coordinator.next_deadline_ms()
            next_ms = min(event_ms, end_ms if deadline_ms is None else deadline_ms, end_ms)
            self.desk.now_ms = max(self.desk.now_ms, next_ms)
            if deadline_ms is not None and deadline_ms <= self.desk.now_ms:
                self.deliver(self.desk.coordinator.tick(self.desk.now_ms))
            elif self._events and event_ms <= self.desk.now_ms:
                heapq.heappop(self._events)[2]()
            if self.desk.now_ms >= end_ms:
                return

    def submit(self, command: Command, reader: Callable[[Answer], None]) -> None:
        self._readers[command.ticket] = reader
        self.deliver(self.desk.coordinator.handle(command, self.desk.now_ms))

    def deliver(self, outcome: Outcome) -> None:
        self.desk.take(outcome)
        for ticket, answer in outcome.replies:
            self._readers.pop(ticket)(answer)

    def start(self, instance: str | None = None) -> None:
        self._names += 1
        name = instance or f"client{self._names}"
        self.clients[name] = Client(self, name, instance)

    def settled(self) -> bool:
        described = self.desk.describe()
        return (
            described.state is GroupState.STABLE
            and {identity(member.member_id) for member in described.members}
            == {identity(client.member_id) for client in self.clients.values()}
            and all(client.assigned for client in self.clients.values())
        )


def identity(member_id: MemberId) -> str:
    """Static members change their id when they restart, but not who they are."""
    return member_id.rpartition("-")[0] if member_id.startswith("static") else member_id


class Client:
    def __init__(self, world: World, name: str, instance: str | None) -> None:
        self.world, self.name, self.instance = world, name, instance
        self.member_id, self.generation = MemberId(""), -1
        self.asks_for_id = world.random.random() < 0.8
        self.can_skip = world.random.random() < 0.5
        self.alive, self.joining, self.assigned = True, False, False
        self.leaving = False
        self.busy_until_ms = 0
        self._request, self._arrives_ms = 0, 0
        self.join()

    # ── the connection ──────────────────────────────────────────────────────────────────────────

    def send(self, make: MakeCommand, on_answer: Callable[[Answer], None]) -> None:
        """One request at a time; its connection may break before, while, or after it is answered."""
        world = self.world
        self._request += 1
        request = self._request

        def answered(answer: Answer) -> None:
            world.after(world.random.uniform(1, 100), partial(receive, answer))

        def receive(answer: Answer) -> None:
            if self.alive and request == self._request:
                on_answer(answer)

        def broke() -> None:
            if self.alive and request == self._request:
                self.send(make, on_answer)

        def arrive() -> None:
            if self.alive:
                world.submit(make(world.desk.ticket()), answered)

        self._arrives_ms = max(self._arrives_ms, world.desk.now_ms + world.random.randint(1, 100))
        world.at(self._arrives_ms, arrive)
        if not world.calm and world.random.random() < 0.1:
            world.after(world.random.uniform(50, 1_000), broke)

    # ── the protocol ────────────────────────────────────────────────────────────────────────────

    def join(self) -> None:
        self.joining, self.assigned = True, False
        self.send(self._join, self.on_join)

    def _join(self, ticket: Ticket) -> Join:
        return Join(
            ticket,
            G,
            self.member_id,
            self.instance,
            self.name,
            "/127.0.0.1",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            RANGE,
            needs_member_id=self.asks_for_id,
            can_skip_assignment=self.can_skip,
        )

    def on_join(self, answer: Answer) -> None:
        if isinstance(answer, MemberIdRequired):
            self.member_id = answer.member_id
            self.join()
        elif isinstance(answer, JoinReply):
            self.member_id, self.generation = answer.member_id, answer.generation
            leader = self.world.leaders.setdefault(answer.generation, identity(answer.leader))
            assert identity(answer.leader) == leader, "two leaders in one generation"
            parts = self.assign(answer) if answer.leader == answer.member_id and not answer.skip_assignment else ()
            self.send(lambda ticket: self._sync(ticket, parts), self.on_sync)
        else:
            self.recover(answer)

    def assign(self, reply: JoinReply) -> tuple[tuple[MemberId, bytes], ...]:
        names = {identity(member.member_id) for member in reply.members}
        assert self.world.members.setdefault(reply.generation, names) == names, "two memberships in one generation"
        return tuple(
            (member.member_id, f"{reply.generation} {identity(member.member_id)}".encode()) for member in reply.members
        )

    def _sync(self, ticket: Ticket, parts: tuple[tuple[MemberId, bytes], ...]) -> Sync:
        return Sync(ticket, G, self.member_id, self.instance, self.generation, parts, "consumer", "range")

    def on_sync(self, answer: Answer) -> None:
        if not isinstance(answer, SyncReply):
            self.recover(answer)
            return
        assert answer.assignment == f"{self.generation} {identity(self.member_id)}".encode(), "somebody else's part"
        self.joining, self.assigned = False, True
        self.world.after(HEARTBEAT_MS, self.beat)

    def beat(self) -> None:
        if self.alive and not self.joining and not self.leaving:
            self.send(self._heartbeat, self.on_heartbeat)

    def _heartbeat(self, ticket: Ticket) -> Heartbeat:
        return Heartbeat(ticket, G, self.member_id, self.instance, self.generation)

    def on_heartbeat(self, answer: Answer) -> None:
        if isinstance(answer, HeartbeatReply):
            self.busy_until_ms = self.world.desk.now_ms + self.world.random.randint(0, 5_000)
            self.world.after(HEARTBEAT_MS, self.beat)
        elif isinstance(answer, RebalanceInProgress) and self.world.desk.now_ms < self.busy_until_ms:
            self.world.after(HEARTBEAT_MS, self.beat)  # it has records to finish first
        else:
            self.recover(answer)

    def recover(self, answer: Answer) -> None:
        assert isinstance(answer, RebalanceInProgress | IllegalGeneration | NotCoordinator), f"{self.name}: {answer!r}"
        self.world.after(self.world.random.uniform(0, 500), self.join_again)

    def join_again(self) -> None:
        if self.alive and not self.leaving:
            self.join()

    def leave(self) -> None:
        """With a word of good-bye, which may come in the midst of a join."""
        self.leaving = True
        if self.member_id:
            self.send(lambda ticket: Leave(ticket, G, (LeavingMember(self.member_id, self.instance),)), self.gone)
        else:
            self.gone(LeaveReply(()))
        self.world.clients.pop(self.name)

    def gone(self, answer: Answer) -> None:
        assert isinstance(answer, LeaveReply)
        self.alive = False

    def crash(self) -> None:
        self.alive = False
        self.world.clients.pop(self.name)


def storm(world: World) -> None:
    """Something happens to somebody, again and again, until it is calm."""
    if world.calm:
        return
    victim = world.random.choice(sorted(world.clients.items()))[1] if world.clients else None
    happening = world.random.random()
    if victim is None or (len(world.clients) < 20 and happening < 0.5):
        world.start()
    elif happening < 0.7:
        victim.crash()
        if victim.instance is not None:
            world.after(world.random.uniform(0, 5_000), partial(restart, world, victim.instance))
    elif happening < 0.9 and victim.instance is None:
        victim.leave()
    world.after(world.random.expovariate(1 / 400), partial(storm, world))


def restart(world: World, instance: str) -> None:
    if instance not in world.clients:
        world.start(instance)


@pytest.mark.parametrize("seed", range(40))
def test_twenty_members_in_a_storm_settle_and_nobody_is_forgotten(seed: int) -> None:
    world = World(seed)
    for index in range(20):
        world.start(f"static{index}" if index % 5 == 0 else None)
    storm(world)
    world.run(60_000)
    world.calm = True
    world.run(120_000, until=world.settled)
    assert world.settled()
    generation = {client.generation for client in world.clients.values()}
    assert len(generation) == 1, "all are in one generation"

    world.desk.restart()
    world.run(30_000)
    assert world.settled()
    assert {client.generation for client in world.clients.values()} == generation, "a restart disturbs nobody"
