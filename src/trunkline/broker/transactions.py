"""Transactions in the world: gives the pure coordinator its log, its clock, its markers and its waiting clients.

    end of a transaction      facts in __transaction_state      partitions and groups           answer
    ────────────────────▶     Prepare… ── synced ──▶            markers, offsets ──▶ Complete…  ──▶

Facts are synced before they are answered. They go through the one journal, whose order is kept, and after a crash no
fact counts that the journal does not have (see log/recovery): so a fact tells that all that was written before it is
there. Partitions may have more: what was written to a segment can outlive the sync it waited for. Therefore markers are
not written before the decision is synced; then the client is answered. Finishing twice after a crash does no harm: what
the next transaction may have written by then is told apart by its epoch (version 2), or can not be there yet (version
1), as nothing is written to a partition that was joined before Complete… is synced.

Only joining a partition is answered as soon as it is written: what is promised for its records comes with their own
sync, which implies the joining. Lost with a crash, the producer's next request is refused, and it aborts.

After a restart, what was decided is finished. A partition in which a producer has records that its transaction does not
know of is joined to it, as its last request would have done; if they are not of the producer's present epoch, nobody
can end that transaction any more, and it is aborted there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final, cast

from trunkline.broker.durability import Durability
from trunkline.broker.fact_log import FactLog, KeyValue
from trunkline.broker.groups import OFFSETS_TOPIC, Groups
from trunkline.broker.partition import Partition
from trunkline.broker.topics import Topics
from trunkline.coordination.transaction_commands import (
    AddPartitions,
    EndTransaction,
    Finished,
    PartitionsNotIn,
    Producer,
    TransactionCommand,
    TransactionOutcome,
    TransactionReply,
    TransactionSettings,
    VerifyPartitions,
)
from trunkline.coordination.transaction_facts import PREPARED, Transaction, TransactionState, decode, encode
from trunkline.coordination.transactions import TransactionCoordinator
from trunkline.model.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidRequest,
    ProducerFenced,
    TransactionAbortable,
    TrunklineError,
    UnknownPartition,
    UnknownTopic,
)
from trunkline.model.ids import GroupId, Offset, ProducerId, TopicPartition
from trunkline.record.batch import BatchHeader, read_header
from trunkline.record.control import Marker, encode_marker

log = logging.getLogger(__name__)

TRANSACTIONS_TOPIC: Final = "__transaction_state"
OFFSETS_PLACE: Final = TopicPartition(OFFSETS_TOPIC, 0)
_NEVER_MS: Final = 2**62
_RETRY_SECONDS: Final = 0.5


class Transactions:
    def __init__(
        self,
        settings: TransactionSettings,
        new_producer_id: Callable[[], ProducerId],
        topics: Topics,
        groups: Groups,
        durability: Durability,
        now_ms: Callable[[], int],
    ) -> None:
        self.settings = settings
        self._coordinator = TransactionCoordinator(settings, new_producer_id)
        self._topics = topics
        self._groups = groups
        self._durability = durability
        self._now_ms = now_ms
        self._facts = FactLog(topics, TRANSACTIONS_TOPIC, self._snapshot, now_ms, durability, synced=True)
        self._finishing: dict[str, asyncio.Future[None]] = {}
        self._unsynced: set[str] = set()
        self._completed: dict[str, int] = {}
        """Of version 1, by id: the ticket of the last Complete…, until it is known to be synced."""
        self._alarm: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None

    def load(self) -> None:
        """Rebuild everything from the log, and finish what was decided. Blocks; before the first client."""
        for key, value in self._facts.read():
            self._coordinator.replay(decode(key, value))
        for transactional_id in self._coordinator.unfinished():
            self._finish(transactional_id, again=True)
        self._settle_strays()
        self._arm()

    def close(self) -> None:
        for timer in (self._alarm, self._retry):
            if timer is not None:
                timer.cancel()
        for future in tuple(self._finishing.values()):
            future.cancel()

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    def ask(self, command: TransactionCommand) -> tuple[TransactionReply, int]:
        """The reply, and the ticket at which what it says is safe. Raises what is refused."""
        outcome = self._coordinator.handle(command, self._now_ms())
        ticket = self._settle(outcome)
        if isinstance(outcome.reply, TrunklineError):
            raise outcome.reply
        assert outcome.reply is not None
        return outcome.reply, ticket

    async def safe(self, ticket: int) -> None:
        waiting = self._durability.wait(ticket, _NEVER_MS)
        if waiting is not None:
            await waiting

    async def end(self, command: EndTransaction) -> Producer:
        """The transaction's end, decided for good and told to every partition."""
        reply, ticket = self.ask(command)
        finishing = self._finishing.get(command.transactional_id)
        if finishing is not None:
            await asyncio.shield(finishing)
        await self.safe(ticket)
        return cast(Producer, reply)

    async def add(self, command: AddPartitions) -> None:
        """Join partitions to a transaction; they can be written to then."""
        self.ask(command)
        await self.safe(self._completed.get(command.transactional_id, 0))

    def join(self, transactional_id: str, header: BatchHeader, place: TopicPartition, *, implicit: bool) -> int:
        """A batch is about to be written to a partition: it must be part of the transaction, or (implicit) becomes it.

        Answers the ticket at which it safely is. InvalidProducerEpoch, UnknownProducerMapping, ConcurrentTransactions,
        TransactionAbortable.
        """
        places = frozenset((place,))
        who = (transactional_id, header.producer_id, header.producer_epoch, places)
        try:
            if implicit:
                return self.ask(AddPartitions(*who))[1]
            missing = cast(PartitionsNotIn, self.ask(VerifyPartitions(*who))[0])
            self._check_completed(transactional_id)
        except ProducerFenced as fenced:
            raise InvalidProducerEpoch(str(fenced)) from None
        if missing.partitions:
            raise TransactionAbortable(f"{place} was not added to the transaction of {transactional_id}.")
        return 0

    def _check_completed(self, transactional_id: str) -> None:
        """Of use against clients only that write without waiting for the answer to their joining."""
        ticket = self._completed.get(transactional_id)
        if ticket is not None:
            if not self._durability.is_safe(ticket):
                raise ConcurrentTransactions(f"The last transaction of {transactional_id} is being ended: try again.")
            del self._completed[transactional_id]

    def is_pending(self, group_id: GroupId, topic: str, partition: int) -> bool:
        """Whether a transaction that is not finished may yet change what the group has committed there."""
        return self._coordinator.is_pending(group_id, topic, partition)

    @property
    def has_pending(self) -> bool:
        return self._coordinator.has_pending

    # ── facts ───────────────────────────────────────────────────────────────────────────────────

    def _settle(self, outcome: TransactionOutcome) -> int:
        """Write the facts; what they decide is finished once they are synced."""
        ticket = 0
        if outcome.facts or self._facts.behind:
            try:
                ticket = self._facts.write([encode(fact) for fact in outcome.facts])
            except TrunklineError as error:
                log.warning("Facts of transactions could not be written, clients are told to try again: %s", error)
                self._try_again_later()
                raise
        for transactional_id in outcome.finish:
            self._finish_at(ticket, transactional_id)
        self._arm()
        return ticket

    def _snapshot(self) -> Iterator[KeyValue]:
        return map(encode, self._coordinator.snapshot())

    # ── finishing ───────────────────────────────────────────────────────────────────────────────

    def _finish_at(self, ticket: int, transactional_id: str) -> None:
        waiting = self._durability.wait(ticket, _NEVER_MS)
        if waiting is None:
            self._finish(transactional_id)
            return
        self._finishing.setdefault(transactional_id, waiting.get_loop().create_future())
        self._unsynced.add(transactional_id)
        waiting.add_done_callback(lambda _: self._synced(transactional_id))

    def _synced(self, transactional_id: str) -> None:
        self._unsynced.discard(transactional_id)
        self._finish(transactional_id)

    def _finish(self, transactional_id: str, *, again: bool = False) -> None:
        """The decision is safe: tell it to the partitions and the groups, then note that this is done."""
        one = self._coordinator.decided(transactional_id)
        if one is None:
            return
        marker = Marker(one.state is TransactionState.PREPARE_COMMIT)
        try:
            for place in sorted(one.partitions):
                if place != OFFSETS_PLACE and not (again and self._is_told(place, one)):
                    self._tell(place, one, marker)
            if marker.commit and one.offsets:
                self._groups.commit_pending(one.offsets)
            ticket = self._settle(self._coordinator.handle(Finished(transactional_id), self._now_ms()))
        except TrunklineError as error:
            log.warning("The end of a transaction of %s could not be written yet: %s", transactional_id, error)
            self._try_again_later()
            return
        if not one.raised:
            self._completed[transactional_id] = ticket
        finishing = self._finishing.pop(transactional_id, None)
        if finishing is not None and not finishing.done():
            finishing.set_result(None)

    def _tell(self, place: TopicPartition, one: Transaction, marker: Marker) -> None:
        try:
            partition = self._topics.partition(place.topic, place.partition)
        except (UnknownTopic, UnknownPartition):
            return  # deleted meanwhile, and its records with it
        self.write_marker(partition, one.producer_id, one.producer_epoch, marker)

    def _is_told(self, place: TopicPartition, one: Transaction) -> bool:
        """Whether the marker stands already: nothing is open there, or what is open came after it."""
        try:
            transactions = self._topics.partition(place.topic, place.partition).log.transactions
        except (UnknownTopic, UnknownPartition):
            return True
        found = transactions.open.get(one.producer_id) if transactions is not None else None
        return found is None or (one.raised and found.epoch >= one.producer_epoch)

    def write_marker(self, partition: Partition, producer_id: int, producer_epoch: int, marker: Marker) -> int:
        """End what the producer has open there. Answers the ticket at which that is safe."""
        now_ms = self._now_ms()
        batch = encode_marker(producer_id, producer_epoch, marker, now_ms)
        appended = partition.append([(read_header(batch), memoryview(batch))], now_ms, journaled=True)
        if appended.ticket is None:
            return 0
        self._durability.written(appended.ticket, partition, Offset(partition.log.end), len(batch))
        return appended.ticket

    def check_marker(self, partition: Partition, producer_id: int, producer_epoch: int) -> None:
        """Whether somebody may write a marker by hand. InvalidProducerEpoch, InvalidRequest."""
        if partition.topic.internal:
            raise InvalidRequest("Transactions of internal topics are not ended by hand.")
        known = partition.log.producers.of(producer_id)
        if known is not None and producer_epoch < known.epoch:
            raise InvalidProducerEpoch(f"Epoch {producer_epoch} of producer {producer_id} is fenced by {known.epoch}.")

    def _settle_strays(self) -> None:
        known = {one.producer_id: (name, one) for name, one in self._coordinator}
        for partition in self._topics.all_partitions():
            transactions = partition.log.transactions
            if transactions is None or not transactions.open:
                continue
            place = TopicPartition(partition.topic.name, partition.index)
            for producer_id, found in list(transactions.open.items()):
                name, one = known.get(ProducerId(producer_id), ("", None))
                if one is not None and one.producer_epoch == found.epoch and one.state not in PREPARED:
                    self.ask(AddPartitions(name, producer_id, found.epoch, frozenset((place,))))
                elif one is None or place not in one.partitions:
                    log.warning("%s: a transaction of producer %d that nobody knows is aborted", place, producer_id)
                    self.write_marker(partition, producer_id, found.epoch, Marker(commit=False))

    def _try_again_later(self) -> None:
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        ticket = 0
        if self._facts.behind:
            try:
                ticket = self._facts.write([])
            except TrunklineError:
                self._try_again_later()
                return
        waiting = self._durability.wait(ticket, _NEVER_MS)
        if waiting is None:
            self._finish_all()
        else:
            waiting.add_done_callback(lambda _: self._finish_all())

    def _finish_all(self) -> None:
        """Whatever is decided, but what still waits for its own sync."""
        for transactional_id in self._coordinator.unfinished():
            if transactional_id not in self._unsynced:
                self._finish(transactional_id, again=True)

    # ── time ────────────────────────────────────────────────────────────────────────────────────

    def _arm(self) -> None:
        deadline_ms = self._coordinator.next_deadline_ms()
        if deadline_ms is None:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(deadline_ms - self._now_ms(), 0) / 1000
        if self._alarm is not None:
            if not self._alarm.cancelled() and self._alarm.when() <= due:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._alarm = None
        try:
            self._settle(self._coordinator.tick(self._now_ms()))
        except TrunklineError as error:
            log.warning("Transactions whose time is up wait for the disk: %s", error)
