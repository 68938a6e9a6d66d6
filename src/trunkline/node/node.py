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
from trunkline.broker.configs import Configs
from trunkline.broker.durability import Durability
from trunkline.broker.groups import Groups
from trunkline.broker.producer_ids import ProducerIds
from trunkline.broker.topics import Topics
from trunkline.coordination.commands import GroupSettings
from trunkline.log.journal import DIRECTORY as JOURNAL
from trunkline.log.os_disk import OsDisk
from trunkline.log.store import LogSettings, LogStore
from trunkline.metadata.sqlite import SqliteMetadata
from trunkline.model.errors import StorageFailed
from trunkline.model.ids import NodeId
from trunkline.model.settings import Settings
from trunkline.model.stats import Stats
from trunkline.node.data_directory import DataDirectory
from trunkline.node.flusher import Flusher
from trunkline.node.gauges import gauges
from trunkline.node.housekeeping import Housekeeping
from trunkline.node.http import LazyHttp
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


class Node:
    """Start it, read its addresses, stop it. `failure` is set when the disk makes it impossible to go on."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stats = Stats()
        self.listeners: dict[str, Listener] = {}
        self.failure: asyncio.Future[StorageFailed] = asyncio.get_running_loop().create_future()
        self._directory: DataDirectory | None = None
        self._http: LazyHttp | None = None
        self._flusher: Flusher | None = None

    async def start(self) -> None:
        """Ports first, so that a taken one is told at once; clients that come early wait until recovery is done."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            self._bind()
            self._open()
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
        for deleted in metadata.pending_deletions():
            metadata.forget_deleted(deleted.id)
        self._threads = ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="disk")
        if logs.journal is not None:
            self._flusher = Flusher(logs.journal, self._synced, self._stop_for)
        self._durability = Durability(self._flusher.wake if self._flusher else lambda: None)
        topics = Topics(
            metadata, self._logs, default_partitions=settings.partitions, default_durability=settings.durability
        )
        group_settings = GroupSettings(offsets_retention_ms=settings.offsets_retention_ms)
        groups = Groups(group_settings, lambda: str(uuid.uuid4()), topics, now_ms)
        topics.on_deleted = groups.forget_topic
        groups.load()
        self.broker = Broker(
            cluster_id=metadata.cluster_id,
            node_id=NodeId(settings.node_id),
            topics=topics,
            groups=groups,
            durability=self._durability,
            producer_ids=ProducerIds(metadata),
            stats=self.stats,
            now_ms=now_ms,
            run_blocking=self._run_blocking,
            auto_create_topics=settings.auto_create_topics,
            configs=Configs(metadata),
            data=None if settings.memory else settings.data,
        )

    def _open_logs(self, metadata: SqliteMetadata) -> LogStore:
        settings = self.settings
        known = {topic.id: topic for topic in metadata.topics.values()}
        limits = LogSettings(
            journal_file_bytes=settings.journal_file_bytes,
            hot_tail_bytes=settings.hot_tail_bytes,
            open_files=settings.max_open_files,
        )
        if settings.memory:
            return LogStore.in_memory(limits, known)
        return LogStore.open(OsDisk(settings.data), limits, known, now_ms)

    async def _serve(self) -> None:
        self._face = KafkaFace(self.broker, served(), self.settings.advertise)
        self._housekeeping = Housekeeping(self.broker, self._logs, self._face, self.settings, self._stop_for)
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
        self._face.close()
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
        journal = self._logs.journal
        try:
            if journal is not None:
                journal.check_writable()
        except StorageFailed as error:
            return str(error)
        return None

    def _stop_for(self, error: StorageFailed) -> None:
        if not self.failure.done():
            self.failure.set_result(error)
