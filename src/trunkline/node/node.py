"""One node: the engine, its files, its listeners and its clock, put together and taken apart in order."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from trunkline.admin.metrics import Metrics
from trunkline.broker.broker import Broker
from trunkline.broker.durability import Durability
from trunkline.broker.groups import Groups
from trunkline.broker.producer_ids import ProducerIds
from trunkline.broker.topics import Topics
from trunkline.broker.transactions import Transactions
from trunkline.coordination.commands import GroupSettings
from trunkline.coordination.transaction_commands import TransactionSettings
from trunkline.log.disk import Disk
from trunkline.log.journal import DIRECTORY as JOURNAL
from trunkline.log.os_disk import OsDisk
from trunkline.log.store import LogSettings, LogStore
from trunkline.metadata.sqlite import SqliteMetadata
from trunkline.model.errors import StorageFailed, StorageFull
from trunkline.model.ids import NodeId
from trunkline.model.limits import ClientLimits
from trunkline.model.settings import Settings
from trunkline.model.stats import Stats
from trunkline.node.cleaner import LogCleaner
from trunkline.node.data_directory import DataDirectory, reserve_bytes
from trunkline.node.flusher import Flusher
from trunkline.node.gauges import gauges
from trunkline.node.housekeeping import Housekeeping
from trunkline.node.http import LazyHttp
from trunkline.node.open_files import most_connections
from trunkline.serve.kafka.apis import served
from trunkline.serve.kafka.session import KafkaFace
from trunkline.serve.listener import Listener, bind

log = logging.getLogger(__name__)

T = TypeVar("T")

_READER_THREADS: Final = 4
_SWITCH_SECONDS: Final = 0.0005
"""How long the loop may keep the interpreter from the journal's thread; Python's own 5 ms would be felt in acks."""
NOT_YET: Final = ("amqp", "redis")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _forget_deleted(metadata: SqliteMetadata) -> None:
    try:
        for deleted in metadata.pending_deletions():
            metadata.forget_deleted(deleted.id)
    except StorageFull:
        pass  # their files are gone already; the next start forgets them


class Node:
    """Start it, read its addresses, stop it. `failure` is set when the disk makes it impossible to go on."""

    def __init__(
        self, settings: Settings, *, disk: Disk | None = None, client_limits: ClientLimits | None = None
    ) -> None:
        """`disk`: where logs are kept instead of in the data directory, for tests of disks that fail."""
        self.settings = settings
        self._disk = disk
        self._client_limits = client_limits or ClientLimits(connections=most_connections(settings.max_open_files))
        self.stats = Stats()
        self.listeners: dict[str, Listener] = {}
        self.failure: asyncio.Future[StorageFailed] = asyncio.get_running_loop().create_future()
        self.opening = False
        """Recovery is at work, and the loop stands still. It may be broken off: that is no worse than a crash."""
        self._directory: DataDirectory | None = None
        self._http: LazyHttp | None = None
        self._flusher: Flusher | None = None

    async def start(self) -> None:
        """Ports first, so that a taken one is told at once; clients that come early wait until recovery is done."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            self._bind()
            self.opening = True
            self._open()
            self.opening = False
            await self._serve()
        except BaseException:
            await self._abandon()
            raise

    def _bind(self) -> None:
        for name, address in self.settings.listeners().items():
            if name not in NOT_YET:
                self.listeners[name] = bind(name, address.host, address.port)

    def _open(self) -> None:
        settings = self.settings
        database: Path | None = None
        if not settings.memory:
            self._directory = DataDirectory(settings.data)
            database = settings.data / "metadata.db"
        self._metadata = metadata = SqliteMetadata.open(database)
        self._logs = logs = self._open_logs(metadata)
        _forget_deleted(metadata)
        self._threads = ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="disk")
        if logs.journal is not None:
            self._flusher = Flusher(logs.journal, self._synced, self._stop_for)
            if logs.journal.full:
                self._flusher.wake()
        self._durability = Durability(
            self._flusher.wake if self._flusher else lambda: None,
            self._client_limits.unsynced_bytes,
            lambda: logs.journal is not None and logs.journal.full,
        )
        topics = Topics(
            metadata, self._logs, default_partitions=settings.partitions, default_durability=settings.durability
        )
        group_settings = GroupSettings(
            min_session_timeout_ms=settings.min_session_timeout_ms,
            offsets_retention_ms=settings.offsets_retention_ms,
            consumer_heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
            consumer_session_timeout_ms=settings.consumer_session_timeout_ms,
        )
        groups = Groups(group_settings, lambda: str(uuid.uuid4()), topics, now_ms, self._durability)
        topics.on_deleted = groups.forget_topic
        groups.load()
        producer_ids = ProducerIds(metadata)
        transactions = Transactions(TransactionSettings(), producer_ids.next, topics, groups, self._durability, now_ms)
        transactions.load()
        self.broker = Broker(
            cluster_id=metadata.cluster_id,
            node_id=NodeId(settings.node_id),
            topics=topics,
            groups=groups,
            transactions=transactions,
            durability=self._durability,
            producer_ids=producer_ids,
            stats=self.stats,
            now_ms=now_ms,
            run_blocking=self._run_blocking,
            auto_create_topics=settings.auto_create_topics,
        )

    def _open_logs(self, metadata: SqliteMetadata) -> LogStore:
        settings = self.settings
        known = {topic.id: topic for topic in metadata.topics.values()}
        limits = LogSettings(
            journal_file_bytes=settings.journal_file_bytes,
            hot_tail_bytes=settings.hot_tail_bytes,
            open_files=settings.max_open_files,
            reserve_bytes=0 if settings.memory or self._disk else reserve_bytes(settings.data),
            accept_journal_cut=settings.accept_journal_cut,
        )
        if settings.memory:
            return LogStore.in_memory(limits, known)
        deleted = [(topic.name, topic.id, topic.partitions) for topic in metadata.pending_deletions()]
        return LogStore.open(self._disk or OsDisk(settings.data), limits, known, now_ms, deleted)

    async def _serve(self) -> None:
        self._face = KafkaFace(self.broker, served(), self.settings.advertise, self._client_limits)
        self._housekeeping = Housekeeping(self.broker, self._logs, self._face, self.settings, self._stop_for)
        self._cleaner = LogCleaner(self.broker, self.settings, self._housekeeping.checkpoint)
        if "kafka" in self.listeners:
            await self.listeners["kafka"].serve(self._face)
        if "http" in self.listeners:
            addresses = {name: listener.address for name, listener in self.listeners.items()}
            journal = None if self.settings.memory else self.settings.data / JOURNAL
            metrics = Metrics(self.stats, gauges(self.broker, journal))
            self._http = LazyHttp(self.listeners["http"], metrics, self._not_ready, addresses, self._run_blocking)

    async def stop(self) -> None:
        """No new clients, no half answers, everything on the disk, and a checkpoint that needs no recovery."""
        if self._http is not None:
            await self._http.close()
        for listener in self.listeners.values():
            await listener.close()
        self.broker.groups.close()
        self.broker.transactions.close()
        self._face.close()
        await self._cleaner.stop()
        await self._housekeeping.stop()
        if self._flusher is not None:
            self._flusher.stop()
        self._threads.shutdown()
        if not self.failure.done():
            self._logs.close()
        self._metadata.close()
        if self._directory is not None:
            self._directory.close()

    async def _abandon(self) -> None:
        for listener in self.listeners.values():
            await listener.close()
        if self._directory is not None:
            self._directory.close()

    def _run_blocking(self, work: Callable[[], T], /) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _synced(self, ticket: int, seconds: float, synced_bytes: int) -> None:
        self.stats.journal_bytes_synced = synced_bytes
        self.stats.journal_flush.observe(seconds)
        self._durability.synced(ticket)

    def _not_ready(self) -> str | None:
        try:
            self._logs.check_room()
        except StorageFailed as error:
            return str(error)
        return None

    def _stop_for(self, error: StorageFailed) -> None:
        if not self.failure.done():
            self.failure.set_result(error)
