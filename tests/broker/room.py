"""A broker without sockets or threads on a disk that can lose power: the test turns the loop and syncs the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.log.helpers import SMALL

from trunkline.broker.broker import Broker
from trunkline.broker.durability import Durability
from trunkline.broker.groups import Groups
from trunkline.broker.partition import Partition
from trunkline.broker.producer_ids import ProducerIds
from trunkline.broker.topics import Topics
from trunkline.broker.transactions import Transactions
from trunkline.coordination.commands import GroupSettings
from trunkline.coordination.transaction_commands import TransactionSettings
from trunkline.log.store import LogStore
from trunkline.log.transactions import aborted_between
from trunkline.metadata.sqlite import SqliteMetadata
from trunkline.model.ids import NodeId
from trunkline.model.stats import Stats
from trunkline.model.topic import Durability as TopicDurability
from trunkline.record.batch import read_header
from trunkline.record.control import read_marker
from trunkline.record.records import decode_records
from trunkline.testing.faults import FaultDisk

T = TypeVar("T")


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        self.ms += 1
        return self.ms


class Room:
    """Make another one on the same disk and metadata: that is a restart."""

    def __init__(self, disk: FaultDisk, metadata: SqliteMetadata, clock: Clock) -> None:
        known = {topic.id: topic for topic in metadata.topics.values()}
        self.store = LogStore.open(disk, SMALL, known, clock.now_ms)
        self.clock = clock
        self.durability = Durability(lambda: None)
        self.topics = Topics(metadata, self.store, default_partitions=1, default_durability=TopicDurability.FSYNC)
        self.groups = Groups(GroupSettings(), lambda: "m", self.topics, clock.now_ms, self.durability)
        self.groups.load()
        ids = ProducerIds(metadata)
        self.transactions = Transactions(
            TransactionSettings(), ids.next, self.topics, self.groups, self.durability, clock.now_ms
        )
        self.transactions.load()
        self.broker = Broker(
            cluster_id="test",
            node_id=NodeId(1),
            topics=self.topics,
            groups=self.groups,
            transactions=self.transactions,
            durability=self.durability,
            producer_ids=ids,
            stats=Stats(),
            now_ms=clock.now_ms,
            run_blocking=_at_once,
            auto_create_topics=False,
        )

    async def sync(self) -> None:
        """One sync of the journal, and everything that it leads to."""
        assert self.store.journal is not None
        self.durability.synced(self.store.journal.flush())
        for _ in range(6):
            await asyncio.sleep(0)

    async def sync_all(self) -> None:
        assert self.store.journal is not None
        while self.store.journal.pending:
            await self.sync()

    def close(self) -> None:
        """The process is gone: nothing of it happens any more."""
        self.groups.close()
        self.transactions.close()


async def _at_once(work: Callable[[], T], /) -> T:
    return work()


def answered(future: asyncio.Future[T]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def read_committed(partition: Partition) -> list[bytes | None]:
    """What a consumer with isolation.level=read_committed gets to see, filtered as clients do it."""
    log, end = partition.log, partition.last_stable_offset
    transactions = log.transactions
    aborted = [] if transactions is None else aborted_between(transactions.aborted, log.log_start, end)
    skipped: set[int] = set()
    waiting = sorted(aborted, key=lambda one: one.first_offset)
    values: list[bytes | None] = []
    offset = log.log_start
    while offset < end:
        read = log.read(offset, 1 << 20, end).load()
        for buffer in read.buffers:
            position = 0
            while position < len(buffer):
                header = read_header(buffer, position)
                batch = buffer[position : position + header.size_bytes]
                position += header.size_bytes
                while waiting and waiting[0].first_offset <= header.base_offset:
                    skipped.add(waiting.pop(0).producer_id)
                if header.is_control:
                    marker = read_marker(batch)
                    if marker is not None and not marker.commit:
                        skipped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in skipped):
                    values += [record.value for record in decode_records(batch)]
        if not read.buffers:
            break
        offset = read.next_offset
    return values


def run(main: Awaitable[None]) -> None:
    async def inner() -> None:
        await main

    asyncio.run(inner())
