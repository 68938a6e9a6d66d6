"""What a node does by the clock: checkpoints, retention, late clients, and a look at how late the loop itself is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from trunkline.broker.broker import Broker
from trunkline.broker.partition import Partition
from trunkline.log.store import LogStore
from trunkline.model.errors import StorageFailed, StorageFull, TrunklineError, in_one_line
from trunkline.model.settings import Settings
from trunkline.serve.kafka.session import KafkaFace

log = logging.getLogger(__name__)

_BEAT_SECONDS: Final = 0.25
_SWEEP_SECONDS: Final = 1.0
_CHECKPOINT_SECONDS: Final = 60.0
"""A checkpoint is taken at least so often while something was written, so that a restart has little to replay."""
_IDLE_SECONDS: Final = 30.0
"""Files that nobody used for as long, and at most twice as long, are closed."""
_ROOM_SECONDS: Final = 2.0
"""How often, at most, a checkpoint is taken because it may free room."""
_PARTITIONS_PER_TURN: Final = 200
"""After so many partitions, retention lets the loop turn."""


@dataclass(slots=True)
class Chore:
    every_seconds: float
    work: Callable[[], Awaitable[None]]
    due: float


class Housekeeping:
    def __init__(
        self,
        broker: Broker,
        logs: LogStore,
        face: KafkaFace,
        settings: Settings,
        stop_for: Callable[[StorageFailed], None],
    ) -> None:
        """`stop_for` ends the node: a disk that fails to sync cannot be trusted any more."""
        self._broker = broker
        self._logs = logs
        self._face = face
        self._settings = settings
        self._stop_for = stop_for
        self._checkpoint_bytes_at = 0
        now = monotonic()
        self._chores = [
            Chore(every_seconds, work, now + every_seconds)
            for every_seconds, work in (
                (_BEAT_SECONDS, self._look_after_journal),
                (_SWEEP_SECONDS, self._sweep),
                (_CHECKPOINT_SECONDS, self.checkpoint),
                (_ROOM_SECONDS, self._make_room),
                (_IDLE_SECONDS, self._close_idle_files),
                (settings.retention_check_ms / 1000, self._retention),
            )
        ]
        self._stopping = asyncio.Event()
        self._checkpointing = asyncio.Lock()
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
            for chore in self._chores:
                if now >= chore.due:
                    chore.due = now + chore.every_seconds
                    await self._do(chore)

    async def _do(self, chore: Chore) -> None:
        try:
            await chore.work()
        except (TrunklineError, OSError) as error:
            log.warning("Housekeeping could not finish, and will try again: %s", error)
        except Exception as error:
            log.error("Housekeeping failed, and will try again: %s", in_one_line(error))
            log.debug("Housekeeping failed", exc_info=error)

    async def _sweep(self) -> None:
        self._face.sweep(monotonic())
        self._broker.durability.expire(self._broker.now_ms())

    async def _look_after_journal(self) -> None:
        journal = self._logs.journal
        if journal is None:
            return
        if journal.wants_spare:
            await self._broker.run_blocking(journal.prepare_spare)
        if self._broker.stats.journal_bytes_synced - self._checkpoint_bytes_at >= self._settings.checkpoint_bytes:
            await self.checkpoint()

    async def checkpoint(self) -> None:
        """One at a time, whoever asks for it."""
        async with self._checkpointing:
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        self._checkpoint_bytes_at = self._broker.stats.journal_bytes_synced
        wanted = self._logs.dirty_partitions or self._logs.wants_room
        plan = self._logs.begin_checkpoint() if wanted else None
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

    async def _make_room(self) -> None:
        if self._logs.wants_room:
            await self.checkpoint()

    async def _close_idle_files(self) -> None:
        self._logs.files.drop_idle()

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
