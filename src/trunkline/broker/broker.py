"""The broker's verbs, as every protocol uses them: publish, fetch, look up, delete records, hand out producer ids.

Everything runs on the loop's one thread; what blocks (cold reads, syncs) is handed out and comes back as a callback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from trunkline.broker.blocking import RunBlocking
from trunkline.broker.damage import Damage
from trunkline.broker.durability import Durability
from trunkline.broker.fetching import Got, Want, load, read_now
from trunkline.broker.groups import Groups
from trunkline.broker.partition import Partition
from trunkline.broker.producer_ids import ProducerIds
from trunkline.broker.topics import Topics
from trunkline.broker.transactions import Transactions
from trunkline.broker.waiting import LongPoll
from trunkline.log.partition_log import Appended
from trunkline.model.errors import (
    CorruptLog,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PolicyViolation,
    TransactionalIdMissing,
)
from trunkline.model.ids import NO_OFFSET, NodeId, Offset, TopicPartition
from trunkline.model.stats import Stats
from trunkline.record.batch import TRANSACTIONAL_BIT, BatchHeader, split_batches


class Broker:
    def __init__(
        self,
        *,
        cluster_id: str,
        node_id: NodeId,
        topics: Topics,
        groups: Groups,
        transactions: Transactions,
        durability: Durability,
        producer_ids: ProducerIds,
        stats: Stats,
        now_ms: Callable[[], int],
        run_blocking: RunBlocking,
        auto_create_topics: bool,
    ) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.topics = topics
        self.groups = groups
        self.transactions = transactions
        self.durability = durability
        self.producer_ids = producer_ids
        self.stats = stats
        self.now_ms = now_ms
        self.auto_create_topics = auto_create_topics
        self.run_blocking = run_blocking
        self._damage = Damage()

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    def publish(
        self, partition: Partition, records: memoryview, transactional_id: str | None = None, *, implicit: bool = False
    ) -> tuple[Appended, int]:
        """Append record batches; gives what they got and the journal ticket at which they are safe (0: they are).

        The bytes are stamped in place and kept: the caller must not touch them again. `implicit`: transactional ones
        make the partition part of their transaction.
        """
        batches = split_batches(records)
        joined = 0
        for header, _ in batches:
            if header.attributes & TRANSACTIONAL_BIT:
                joined = self._join(partition, header, transactional_id, implicit)
        try:
            appended = partition.append(batches, self.now_ms())
        except CorruptLog as error:
            self._damage.tell(error)
            raise
        stats = self.stats
        if appended.duplicate:
            stats.duplicate_batches += len(batches)
            unsafe = appended.last_offset >= partition.high_watermark
            return appended, max(joined, (appended.ticket or 0) if unsafe else 0)
        stats.batches_in += len(batches)
        stats.bytes_in += len(records)
        stats.messages_in += appended.last_offset - appended.base_offset + 1
        if appended.ticket is None:
            return appended, joined
        self.durability.written(appended.ticket, partition, Offset(partition.log.end), len(records))
        return appended, appended.ticket

    def _join(self, partition: Partition, header: BatchHeader, transactional_id: str | None, implicit: bool) -> int:
        if transactional_id is None:
            raise TransactionalIdMissing("A transactional batch came without the transactional id of its producer.")
        place = TopicPartition(partition.topic.name, partition.index)
        ticket = self.transactions.join(transactional_id, header, place, implicit=implicit)
        if implicit and header.base_sequence != 0 and partition.log.producers.of(header.producer_id) is None:
            raise OutOfOrderSequence(f"Producer {header.producer_id} is new to {place}: it must start at sequence 0.")
        return ticket

    def delete_records(self, partition: Partition, before: Offset) -> int:
        """Forget everything below `before` (-1: up to the high watermark). Gives the ticket at which that is safe."""
        if not partition.topic.config.deleted:
            raise PolicyViolation(f"Records of {partition.topic.name} are not deleted but compacted (cleanup.policy).")
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
        enough = total_bytes >= min_bytes or any_cold or any(got.error for got in answers)
        if enough or wait_ms <= 0 or not wants:
            return self._loaded(wants, answers) if any_cold else self._told(answers)
        poll = LongPoll([want.partition for want in wants], min_bytes - total_bytes, wait_ms / 1000)
        if wants[0].committed:
            return self._fetch_committed_later(wants, min_bytes, max_bytes, poll, wait_ms)
        return self._fetch_later(wants, max_bytes, poll)

    async def _fetch_committed_later(
        self, wants: Sequence[Want], min_bytes: int, max_bytes: int, poll: LongPoll, wait_ms: int
    ) -> list[Got]:
        """What becomes visible may be undecided: then sleep on, until the time is up."""
        deadline_ms = self.now_ms() + wait_ms
        while True:
            await poll.sleep()
            answers, total_bytes, any_cold = read_now(wants, max_bytes)
            left_ms = deadline_ms - self.now_ms()
            if left_ms <= 0 or total_bytes >= min_bytes or any(got.error for got in answers):
                return await self._loaded(wants, answers) if any_cold else answers
            poll = LongPoll([want.partition for want in wants], 1, left_ms / 1000)

    async def _fetch_later(self, wants: Sequence[Want], max_bytes: int, poll: LongPoll) -> list[Got]:
        await poll.sleep()
        answers, _, any_cold = read_now(wants, max_bytes)
        return await self._loaded(wants, answers) if any_cold else self._told(answers)

    async def _loaded(self, wants: Sequence[Want], answers: list[Got]) -> list[Got]:
        await load(wants, answers, self.run_blocking)
        for want, got in zip(wants, answers, strict=True):
            log = want.partition.log
            if isinstance(got.error, OffsetOutOfRange) and log.log_start <= want.offset < log.end:
                # Not deleted by anybody who may: a reader that reset its position would skip what is missing.
                got.error = CorruptLog(f"The segment of {log.name} that holds offset {want.offset} is missing.")
        return self._told(answers)

    def _told(self, answers: list[Got]) -> list[Got]:
        for got in answers:
            if got.error is not None:
                self._damage.tell(got.error)
        return answers
