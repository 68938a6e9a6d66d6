"""Cleaning of compacted topics in the background: one log at a time, the dirtiest first, on a thread of its own.

The thread computes and writes files beside the log; the loop decides what to clean and puts the result in its place. A
log that turns out to be damaged is left as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from trunkline.broker.broker import Broker
from trunkline.broker.partition import Partition
from trunkline.log.checkpoint import PartitionKey
from trunkline.log.cleaning import Cleaning, begin, measure, roll_if_overdue
from trunkline.log.compaction import AbortedTransaction
from trunkline.log.pace import Pace, WorkStopped
from trunkline.model.errors import CorruptLog, TrunklineError
from trunkline.model.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

_PARTITIONS_PER_TURN: Final = 50
"""After so many partitions, looking for dirt lets the loop turn."""


class LogCleaner:
    def __init__(self, broker: Broker, settings: Settings, checkpoint: Callable[[], Awaitable[None]]) -> None:
        """`checkpoint`: only what a checkpoint knows as sealed can be cleaned."""
        self._broker = broker
        self._settings = settings
        self._checkpoint = checkpoint
        self._pace = Pace(settings.compaction_bytes_per_second)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cleaner")
        self._damaged: set[PartitionKey] = set()
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """What is half cleaned is given up."""
        self._stopping.set()
        self._pace.stop()
        await self._task
        self._thread.shutdown()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), self._settings.compaction_check_ms / 1000)
            except TimeoutError:
                pass
            else:
                return
            try:
                await self._round()
            except WorkStopped:
                pass
            except (TrunklineError, OSError) as error:
                log.warning("Cleaning could not finish, and will try again: %s", error)
            except Exception:
                log.exception("Cleaning failed, and will try again")

    async def _round(self) -> None:
        worth_it = await self._find()
        if any(partition.log.replaceable_to < end for partition, end in worth_it):
            await self._checkpoint()
        for partition, _ in worth_it:
            if self._stopping.is_set():
                return
            await self._clean(partition)

    async def _find(self) -> list[tuple[Partition, int]]:
        """Partitions that are worth cleaning and up to where, the dirtiest first."""
        found: list[tuple[float, Partition, int]] = []
        cleanable_bytes, dirtiest = 0, 0.0
        for turn, partition in enumerate(tuple(self._broker.topics.all_partitions()), 1):
            if turn % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
            if not self._may_clean(partition):
                continue
            now_ms = self._broker.now_ms()
            try:
                roll_if_overdue(partition.log, now_ms)
                dirt = measure(partition.log, now_ms, _clean_up_to(partition))
            except CorruptLog as error:
                self._leave_alone(partition, error)
                continue
            cleanable_bytes += dirt.dirty_bytes
            dirtiest = max(dirtiest, dirt.ratio)
            if dirt.is_worth_it(partition.topic.config):
                found.append((dirt.ratio, partition, dirt.segments[-1][1]))
        stats = self._broker.stats.compaction
        stats.cleanable_bytes, stats.dirtiest_ratio = cleanable_bytes, dirtiest
        return [(partition, end) for _, partition, end in sorted(found, key=lambda row: -row[0])]

    async def _clean(self, partition: Partition) -> None:
        """As often as it takes: more keys than fit into memory at once are cleaned part by part."""
        more = True
        while more and self._may_clean(partition):
            cleaning = begin(
                partition.log,
                self._broker.now_ms(),
                _clean_up_to(partition),
                pace=self._pace,
                memory_bytes=self._settings.compaction_memory_bytes,
                aborted=_aborted_in(partition),
            )
            if cleaning is None:
                return
            started, before_bytes = monotonic(), partition.log.size_bytes
            try:
                await self._carry_out(partition, cleaning)
            except CorruptLog as error:
                self._leave_alone(partition, error)
                return
            except WorkStopped:
                return
            except TrunklineError:
                self._broker.stats.compaction.failures += 1
                raise
            finally:
                self._count(cleaning, monotonic() - started)
            log.info("Cleaned %s: %d bytes are left of %d", partition.log.name, partition.log.size_bytes, before_bytes)
            more = cleaning.map.full

    async def _carry_out(self, partition: Partition, cleaning: Cleaning) -> None:
        await self._in_thread(cleaning.read_keys)
        for group in cleaning.groups():
            if not self._may_clean(partition):
                return
            cleaned = await self._in_thread(partial(cleaning.rewrite, group))
            if not partition.log.replace_segments(cleaned.sources, cleaned.segment):
                await self._in_thread(partial(cleaning.discard, cleaned))
                return  # The log's start moved: the next round begins from there.
            await self._in_thread(partial(cleaning.remove_sources, cleaned))

    def _in_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _may_clean(self, partition: Partition) -> bool:
        log = partition.log
        compacted = partition.topic.config.compacted and not partition.closed
        return compacted and log.log_start < log.end and log.key not in self._damaged

    def _leave_alone(self, partition: Partition, error: CorruptLog) -> None:
        self._damaged.add(partition.log.key)
        self._broker.stats.compaction.failures += 1
        log.error("%s will not be cleaned: %s", partition.log.name, error)

    def _count(self, cleaning: Cleaning, seconds: float) -> None:
        stats = self._broker.stats.compaction
        stats.runs += 1
        stats.bytes_read += cleaning.bytes_read
        stats.bytes_written += cleaning.bytes_written
        stats.records_removed += cleaning.records_removed
        stats.last_seconds = seconds


def _clean_up_to(partition: Partition) -> int:
    """What is beyond may still be taken back."""
    return partition.last_stable_offset


def _aborted_in(partition: Partition) -> list[AbortedTransaction]:
    transactions = partition.log.transactions
    if transactions is None:
        return []
    return [AbortedTransaction(one.producer_id, one.first_offset, one.last_offset) for one in transactions.aborted]
