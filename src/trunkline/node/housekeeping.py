"""What a node does by the clock: checkpoints, retention, late clients, and a look at how late the loop itself is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

from trunkline.broker.broker import Broker
from trunkline.broker.partition import Partition
from trunkline.log.store import LogStore
from trunkline.model.errors import StorageFailed, StorageFull, TrunklineError
from trunkline.model.settings import Settings
from trunkline.serve.kafka.session import KafkaFace

log = logging.getLogger(__name__)

_BEAT_SECONDS: Final = 0.25
_SWEEP_SECONDS: Final = 1.0
_CHECKPOINT_SECONDS: Final = 60.0
"""A checkpoint is taken at least so often while something was written, so that a restart has little to replay."""
_ROOM_SECONDS: Final = 2.0
"""How often, at most, a checkpoint is taken because it may free room."""
_PARTITIONS_PER_TURN: Final = 200
"""After so many partitions, retention lets the loop turn."""


class Housekeeping:
    def __init__(
        self,
        broker: Broker,
        logs: LogStore,
        face: KafkaFace,
        settings: Settings,
        stop_for: Callable[[StorageFailed], None],
    ) -> None:
        self._stop_for = stop_for
        self._broker = broker
        self._logs = logs
        self._face = face
        self._settings = settings
        self._checkpoint_bytes_at = 0
        now = monotonic()
        self._next_sweep = now + _SWEEP_SECONDS
        self._next_checkpoint = now + _CHECKPOINT_SECONDS
        self._next_room = now
        self._next_retention = now + settings.retention_check_ms / 1000
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends after the chore it is at: a checkpoint that is half done must not meet the last one."""
        self._stopping.set()
        await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            asleep = monotonic()
            try:
                await asyncio.wait_for(self._stopping.wait(), _BEAT_SECONDS)
            except TimeoutError:
                pass
            now = monotonic()
            self._broker.stats.observe_loop_lag(max(now - asleep - _BEAT_SECONDS, 0.0))
            try:
                await self._turn(now)
            except (TrunklineError, OSError) as error:
                log.warning("Housekeeping could not finish, and will try again: %s", error)

    async def _turn(self, now: float) -> None:
        if now >= self._next_sweep:
            self._next_sweep = now + _SWEEP_SECONDS
            self._face.sweep(now)
            self._broker.durability.expire(self._broker.now_ms())
        await self._prepare_journal_file()
        grown_bytes = self._synced_bytes - self._checkpoint_bytes_at
        if self._logs.wants_room and now >= self._next_room:
            self._next_room = now + _ROOM_SECONDS
            await self._checkpoint()
        if grown_bytes >= self._settings.checkpoint_bytes or now >= self._next_checkpoint:
            self._next_checkpoint = now + _CHECKPOINT_SECONDS
            await self._checkpoint()
        if now >= self._next_retention:
            self._next_retention = now + self._settings.retention_check_ms / 1000
            await self._retention()

    async def _checkpoint(self) -> None:
        self._checkpoint_bytes_at = self._synced_bytes
        if not self._logs.dirty_partitions and not self._logs.wants_room:
            return
        plan = self._logs.begin_checkpoint()
        if plan is None:
            return
        try:
            await self._broker.run_blocking(plan.write)
        except StorageFull:
            self._logs.abandon_checkpoint(plan)
            raise
        except StorageFailed as error:
            self._stop_for(error)
        else:
            self._logs.finish_checkpoint(plan)

    async def _prepare_journal_file(self) -> None:
        journal = self._logs.journal
        if journal is not None and journal.wants_spare:
            await self._broker.run_blocking(journal.prepare_spare)

    @property
    def _synced_bytes(self) -> int:
        return self._broker.stats.journal_bytes_synced

    async def _retention(self) -> None:
        for turn, partition in enumerate(tuple(self._broker.topics.all_partitions()), 1):
            if not partition.closed:
                self._let_go(partition)
            if turn % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _let_go(self, partition: Partition) -> None:
        try:
            freed_bytes = partition.log.retention(self._broker.now_ms(), partition.high_watermark)
        except TrunklineError as error:  # of this partition only: the others are looked after all the same
            log.warning("Retention of %s could not be done: %s", partition.log.name, error)
            return
        if freed_bytes:
            log.info("Retention lets go of %d bytes of %s", freed_bytes, partition.log.name)
