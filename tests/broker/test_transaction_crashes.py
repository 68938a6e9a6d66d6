"""Transactions are whole, whenever the process is killed or the power goes: between any two steps of the protocol."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import cast

import pytest
from tests.broker.room import Clock, Room, answered, read_committed, run

from trunkline.broker.transactions import OFFSETS_PLACE
from trunkline.coordination.commands import FetchOffsets, FetchReply
from trunkline.coordination.facts import Committed
from trunkline.coordination.transaction_commands import (
    AddOffsets,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    Producer,
)
from trunkline.coordination.transaction_facts import PendingOffset, Transaction
from trunkline.metadata.sqlite import SqliteMetadata
from trunkline.model.errors import ConcurrentTransactions, TrunklineError
from trunkline.model.ids import Epoch, GroupId, Offset, TopicPartition
from trunkline.record.records import Record, encode_batch
from trunkline.testing.faults import FaultDisk

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)]
GROUP = GroupId("readers")


@dataclass
class Sent:
    """One transaction as its producer knows it."""

    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    offset: int | None = None
    ending: asyncio.Future[Producer] | None = None
    commit: bool = False

    @property
    def acknowledged(self) -> bool:
        return self.commit and self.ending is not None and answered(self.ending)


class Client:
    def __init__(self, name: str, v2: bool, world: World) -> None:
        self.name = name
        self.v2 = v2
        self.world = world
        self.producer: Producer | None = None
        self.sequences: dict[TopicPartition, int] = {}
        self.now: Sent | None = None

    async def init(self) -> None:
        room = self.world.room
        for _ in range(3):
            try:
                reply, _ = room.transactions.ask(InitProducer(self.name, 60_000))
            except ConcurrentTransactions:
                await room.sync_all()
                continue
            await room.sync_all()
            self.producer, self.sequences, self.now = cast(Producer, reply), {}, None
            return
        raise AssertionError(f"{self.name} could not get an epoch")

    async def send(self, place: TopicPartition) -> None:
        room, producer = self.world.room, self.producer
        assert producer is not None
        if self.now is None:
            self.now = Sent()
            self.world.sent.append(self.now)
        who = (self.name, producer.producer_id, producer.producer_epoch)
        if not self.v2:
            joining = asyncio.ensure_future(room.transactions.add(AddPartitions(*who, frozenset((place,)))))
            await asyncio.sleep(0)
            while not joining.done():
                await room.sync()
            joining.result()
        value = self.world.new_value()
        sequence = self.sequences.get(place, 0)
        batch = encode_batch(
            [Record(0, room.clock.now_ms(), b"k", value)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        partition = room.topics.partition(place.topic, place.partition)
        room.broker.publish(partition, memoryview(batch), self.name, implicit=self.v2)
        self.sequences[place] = sequence + 1
        self.now.values.setdefault(place, []).append(value)

    def send_offset(self) -> None:
        room, producer = self.world.room, self.producer
        assert producer is not None
        if self.now is None:
            self.now = Sent()
            self.world.sent.append(self.now)
        who = (self.name, producer.producer_id, producer.producer_epoch)
        self.world.counter += 1
        committed = Committed(Offset(self.world.counter), Epoch(0), "", room.clock.now_ms())
        # A partition for each client, as members of a group have it.
        pending = PendingOffset(GROUP, self.name, 0, committed)
        if not self.v2:
            room.transactions.ask(AddPartitions(*who, frozenset((OFFSETS_PLACE,))))
        room.transactions.ask(AddOffsets(*who, OFFSETS_PLACE, (pending,), self.v2))
        self.now.offset = self.world.counter

    def end(self, commit: bool) -> None:
        producer, sent = self.producer, self.now
        assert producer is not None
        assert sent is not None
        sent.commit = commit
        command = EndTransaction(self.name, producer.producer_id, producer.producer_epoch, commit, self.v2)
        sent.ending = asyncio.ensure_future(self.world.room.transactions.end(command))

    def look(self) -> None:
        """Whether the answer came: then go on, with the epoch it brought."""
        if self.now is None or self.now.ending is None or not self.now.ending.done():
            return
        if self.v2:
            self.producer, self.sequences = self.now.ending.result(), {}
        self.now = None


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk = FaultDisk()
        self.metadata = SqliteMetadata.open(None)
        self.clock = Clock()
        self.counter = 0
        self.sent: list[Sent] = []
        self.of: dict[int, str] = {}
        """Whose each of them is."""
        self.room = Room(self.disk, self.metadata, self.clock)
        self.room.topics.create("orders", 2)
        self.room.topics.create("bills", 1)
        self.clients = [Client("old", False, self), Client("new", True, self)]

    def new_value(self) -> bytes:
        self.counter += 1
        return b"%d" % self.counter

    async def restart(self, *, power_lost: bool) -> None:
        self.room.close()
        for client in self.clients:
            if client.now is not None and client.now.ending is not None and not client.now.ending.done():
                client.now.ending.cancel()
        await asyncio.sleep(0)
        if power_lost:
            self.disk.crash(self.random)
        self.room = Room(self.disk, self.metadata, self.clock)

    async def settle(self) -> None:
        """Everything that is open ends: new producers come and fence what was before."""
        for client in self.clients:
            await client.init()
        await self.room.sync_all()

    def check(self) -> None:
        visible = {place: read_committed(self.room.topics.partition(*_key(place))) for place in PLACES}
        for place in PLACES:
            partition = self.room.topics.partition(*_key(place))
            assert partition.last_stable_offset == partition.high_watermark == partition.log.end, "nothing stays open"
            assert len(set(visible[place])) == len(visible[place]), "nothing is there twice"
        for sent in self.sent:
            seen = [value in visible[place] for place, values in sent.values.items() for value in values]
            assert all(seen) or not any(seen), "all of a transaction, or nothing"
            if sent.acknowledged:
                assert all(seen), "what was committed is there"
            if not sent.commit:
                assert not any(seen), "what was not committed is not"
        for client in self.clients:
            self.check_offset(client)

    def check_offset(self, client: Client) -> None:
        fetch = lambda ticket: FetchOffsets(ticket, GROUP, ((client.name, (0,)),))  # noqa: E731
        [(_, [(_, committed)])] = cast(FetchReply, self.room.groups.ask(fetch)).topics
        offset = committed.offset if committed is not None else 0
        mine = [sent for sent in self.sent if sent.offset is not None and sent.ending is not None and sent.commit]
        wanted = {sent.offset for sent in mine}
        assert offset in wanted | {0}, "only what a committed transaction says"
        done = [sent.offset for sent in mine if sent.acknowledged and self.of[id(sent)] == client.name]
        assert offset >= max((each for each in done if each is not None), default=0)


def _key(place: TopicPartition) -> tuple[str, int]:
    return place.topic, place.partition


async def _step(world: World) -> None:
    chance, room = world.random, world.room
    client = chance.choice(world.clients)
    client.look()
    if client.producer is None:
        await client.init()
        return
    if client.now is not None and client.now.ending is not None:
        await room.sync()
        return
    match chance.randrange(8):
        case 0 | 1 | 2:
            await client.send(chance.choice(PLACES))
        case 3:
            client.send_offset()
        case 4 | 5:
            if client.now is not None:
                client.end(commit=chance.random() < 0.7)
                await asyncio.sleep(0)
        case 6:
            await room.sync()
        case 7:
            if chance.random() < 0.3:
                plan = room.store.begin_checkpoint()
                assert plan is not None
                plan.write()
                room.store.finish_checkpoint(plan)


async def _live(seed: int, power_lost: bool) -> None:
    world = World(seed)
    await world.settle()
    for _ in range(6):
        for _ in range(world.random.randrange(1, 25)):
            await _step(world)
            for client in world.clients:
                if client.now is not None:
                    world.of[id(client.now)] = client.name
        await world.restart(power_lost=power_lost)
        await world.settle()
        world.check()
    world.room.close()


@pytest.mark.parametrize("power_lost", [False, True], ids=["kill -9", "power loss"])
@pytest.mark.parametrize("block", range(4))
def test_transactions_are_whole_whenever_it_ends(block: int, power_lost: bool) -> None:
    for seed in range(block * 15, block * 15 + 15):
        run(_live(seed, power_lost))


@pytest.mark.parametrize("v2", [False, True], ids=["version 1", "version 2"])
@pytest.mark.parametrize("power_lost", [False, True], ids=["kill -9", "power loss"])
def test_a_decided_transaction_is_finished_after_an_end_at_each_step(v2: bool, power_lost: bool) -> None:
    async def end_after(steps: int, seed: int) -> None:
        world = World(seed)
        await world.settle()
        client = world.clients[v2]
        for place in PLACES:
            await client.send(place)
        client.send_offset()
        sent = client.now
        assert sent is not None
        world.of[id(sent)] = client.name
        client.end(commit=True)
        await asyncio.sleep(0)
        for _ in range(steps):
            await world.room.sync()
        assert sent.acknowledged == (steps > 0), "answered once decided"
        await world.restart(power_lost=power_lost)
        described = cast(Transaction, world.room.transactions.ask(DescribeTransaction(client.name))[0])
        if steps:
            assert described.state.value == "CompleteCommit"
        await world.settle()
        world.check()
        world.room.close()

    for steps in range(4):
        for seed in range(8):
            run(end_after(steps, seed))


def test_a_producer_that_was_cut_off_by_a_kill_goes_on_where_it_was() -> None:
    async def main() -> None:
        world = World(1)
        await world.settle()
        for client in world.clients:
            await client.send(PLACES[0])
        await world.room.sync_all()
        await world.restart(power_lost=False)
        for client in world.clients:
            await client.send(PLACES[0])
            client.end(commit=True)
            await asyncio.sleep(0)
        await world.room.sync_all()
        assert [sent.acknowledged for sent in world.sent] == [True, True]
        assert len(read_committed(world.room.topics.partition("orders", 0))) == 4
        world.room.close()

    run(main())


def test_a_full_disk_delays_the_end_of_a_transaction_and_does_not_break_it() -> None:
    async def main() -> None:
        world = World(1)
        await world.settle()
        client = world.clients[1]
        await client.send(PLACES[0])
        await client.send(PLACES[2])
        client.end(commit=True)
        await asyncio.sleep(0)
        world.disk.room_bytes = 0
        await world.room.sync()
        sent = client.now
        assert sent is not None
        assert not sent.acknowledged
        with pytest.raises(TrunklineError):
            world.room.transactions.ask(InitProducer("new", 60_000))
        world.disk.heal()
        async with asyncio.timeout(20):
            while not sent.acknowledged:
                await world.room.sync()
                await asyncio.sleep(0.01)
        await world.room.sync_all()
        assert [len(read_committed(world.room.topics.partition(*_key(place)))) for place in PLACES] == [1, 0, 1]
        world.room.close()

    run(main())
