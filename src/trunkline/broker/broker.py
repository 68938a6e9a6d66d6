"""The broker's verbs, as every protocol uses them: publish, fetch, look up, delete records, hand out producer ids.

Everything runs on the loop's one thread; what blocks (cold reads, syncs) is handed out and comes back as a callback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from trunkline.broker.blocking import RunBlocking
from trunkline.broker.configs import Configs
from trunkline.broker.durability import Durability
from trunkline.broker.fetching import Got, Want, load, read_now
from trunkline.broker.groups import Groups
from trunkline.broker.partition import Partition
from trunkline.broker.producer_ids import ProducerIds
from trunkline.broker.quotas import Quotas
from trunkline.broker.recompressing import stored_as
from trunkline.broker.topics import Topics
from trunkline.broker.waiting import LongPoll
from trunkline.log.partition_log import Appended
from trunkline.model.errors import OffsetOutOfRange
from trunkline.model.ids import NO_OFFSET, NodeId, Offset
from trunkline.model.stats import Stats
from trunkline.record.batch import split_batches


class Broker:
    def __init__(
        self,
        *,
        cluster_id: str,
        node_id: NodeId,
        topics: Topics,
        groups: Groups,
        durability: Durability,
        producer_ids: ProducerIds,
        stats: Stats,
        now_ms: Callable[[], int],
        run_blocking: RunBlocking,
        auto_create_topics: bool,
        configs: Configs,
        data: Path | None,
    ) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.topics = topics
        self.groups = groups
        self.durability = durability
        self.producer_ids = producer_ids
        self.stats = stats
        self.now_ms = now_ms
        self.auto_create_topics = auto_create_topics
        self.run_blocking = run_blocking
        self.configs = configs
        self.quotas = Quotas(configs)
        self.data = data
        """Where the logs are; None where they are in memory."""

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    def publish(self, partition: Partition, records: memoryview) -> tuple[Appended, int]:
        """Append record batches; gives what they got and the journal ticket at which they are safe (0: they are).

        The bytes are stamped in place and kept: the caller must not touch them again.
        """
        batches = split_batches(records)
        if partition.topic.config.compression is not None:
            batches = stored_as(partition.topic.config, batches)
        appended = partition.append(batches, self.now_ms())
        stats = self.stats
        if appended.duplicate:
            stats.duplicate_batches += len(batches)
            unsafe = appended.last_offset >= partition.high_watermark
            return appended, (appended.ticket or 0) if unsafe else 0
        stats.batches_in += len(batches)
        stats.bytes_in += len(records)
        stats.messages_in += appended.last_offset - appended.base_offset + 1
        if appended.ticket is None:
            return appended, 0
        self.durability.written(appended.ticket, partition, Offset(partition.log.end), len(records))
        return appended, appended.ticket

    def delete_records(self, partition: Partition, before: Offset) -> int:
        """Forget everything below `before` (-1: up to the high watermark). Gives the ticket at which that is safe."""
        target = partition.high_watermark if before == NO_OFFSET else before
        if not 0 <= target <= partition.high_watermark:
            raise OffsetOutOfRange(
                f"Records of {partition.topic.name}-{partition.index} can be deleted up to offset "
                f"{partition.high_watermark}, not {target}."
            )
        ticket = partition.log.delete_records(target)
        self.durability.wake()
        return ticket or 0

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def fetch(
        self, wants: Sequence[Want], *, min_bytes: int, max_bytes: int, wait_ms: int
    ) -> list[Got] | Awaitable[list[Got]]:
        """Whole batches from each partition. Answers at once where it can, so that a hot read costs no task."""
        answers, total_bytes, any_cold = read_now(wants, max_bytes)
        enough = total_bytes >= min_bytes or any(got.error for got in answers)
        if enough or wait_ms <= 0 or not wants:
            return self._loaded(answers) if any_cold else answers
        poll = LongPoll([want.partition for want in wants], min_bytes - total_bytes, wait_ms / 1000)
        return self._fetch_later(wants, max_bytes, poll)

    async def _fetch_later(self, wants: Sequence[Want], max_bytes: int, poll: LongPoll) -> list[Got]:
        await poll.sleep()
        answers, _, any_cold = read_now(wants, max_bytes)
        return await self._loaded(answers) if any_cold else answers

    async def _loaded(self, answers: list[Got]) -> list[Got]:
        await load(answers, self.run_blocking)
        return answers
