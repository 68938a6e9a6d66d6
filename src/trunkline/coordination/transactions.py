"""The coordinator of transactions: a command or the passing of time in, a reply, facts and work to do out.

                 partitions, offsets            end, time is up, fenced            markers are written
    Empty ─────────────────────▶ Ongoing ─────────────────────▶ Prepare… ─────────────────────▶ Complete…
      ▲                             ▲                                                              │  │
      │ a producer came             └──────────────────────────────────────────────────────────────┘  │
      └───────────────────────────────────────────────────────────────────────────────────────────────┘

The contract with whoever runs it is that of groups (facts are applied already, write them in order), and one more: a
transaction in `outcome.finish` is decided once that outcome's facts are synced. Then, and not before, write its markers
and offsets, and tell with Finished. After a restart `unfinished` names what was decided and may not be finished.

Epochs fence. A producer that comes with the transactional id gets a newer one; so does nobody when a transaction's time
is up, which leaves its producer with an old one. A client of transaction version 2 gets a newer one with every end, so
that a late record of the transaction before can not be taken for one of the next.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from trunkline.coordination.transaction_commands import (
    AddOffsets,
    AddPartitions,
    DescribeTransaction,
    Done,
    EndTransaction,
    Finished,
    InitProducer,
    ListTransactions,
    PartitionsNotIn,
    Producer,
    TransactionCommand,
    TransactionList,
    TransactionOutcome,
    TransactionReply,
    TransactionSettings,
    VerifyPartitions,
)
from trunkline.coordination.transaction_facts import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    Transaction,
    TransactionFact,
    TransactionForgotten,
    TransactionState,
    TransactionStored,
)
from trunkline.model.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionAbortable,
    TrunklineError,
    UnknownProducerMapping,
    UnknownTransactionalId,
)
from trunkline.model.ids import GroupId, ProducerId

MAX_EPOCH: Final = 2**15 - 1
"""Never given to a producer: it is kept for fencing the one that has the epoch before."""

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = PREPARED
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


class TransactionCoordinator:
    def __init__(self, settings: TransactionSettings, new_producer_id: Callable[[], ProducerId]) -> None:
        self._settings = settings
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, Transaction] = {}
        self._pending: Counter[tuple[GroupId, str, int]] = Counter()
        self._queue: list[tuple[int, str]] = []
        self._queued_ms: dict[str, int] = {}

    # ── commands and time ───────────────────────────────────────────────────────────────────────

    def handle(self, command: TransactionCommand, now_ms: int) -> TransactionOutcome:
        """Never raises a TrunklineError: it is the answer then."""
        out = TransactionOutcome()
        try:
            out.reply = self._answer(command, now_ms, out)
        except TrunklineError as error:
            out.reply = error
        return out

    def _answer(self, command: TransactionCommand, now_ms: int, out: TransactionOutcome) -> TransactionReply:
        match command:
            case AddPartitions():
                return self._add_partitions(command, now_ms, out)
            case VerifyPartitions():
                return self._verify(command)
            case AddOffsets():
                return self._add_offsets(command, now_ms, out)
            case EndTransaction():
                return self._end(command, now_ms, out)
            case Finished():
                return self._finished(command.transactional_id, now_ms, out)
            case InitProducer():
                return self._init(command, now_ms, out)
            case DescribeTransaction():
                known = self._transactions.get(command.transactional_id)
                if known is None:
                    raise UnknownTransactionalId(f"there is no transactional id {command.transactional_id}")
                return known
            case ListTransactions():
                return TransactionList(tuple(self))

    def tick(self, now_ms: int) -> TransactionOutcome:
        """Abort what took too long, forget who was not seen for long."""
        out = TransactionOutcome()
        while (next_ms := self.next_deadline_ms()) is not None and next_ms <= now_ms:
            transactional_id = heapq.heappop(self._queue)[1]
            del self._queued_ms[transactional_id]
            one = self._transactions[transactional_id]
            due_ms = self._due_ms(one)
            if due_ms > now_ms:
                self._watch(transactional_id, due_ms)
            elif one.state is ONGOING:
                self._fence(transactional_id, one, now_ms, out)
            elif one.state in PREPARED:
                self._watch(transactional_id, now_ms + self._settings.id_expiration_ms)
            else:
                self._record(TransactionForgotten(transactional_id), out)
        return out

    def next_deadline_ms(self) -> int | None:
        queue, queued_ms = self._queue, self._queued_ms
        while queue and queued_ms.get(queue[0][1]) != queue[0][0]:
            heapq.heappop(queue)
        return queue[0][0] if queue else None

    def _due_ms(self, one: Transaction) -> int:
        if one.state is ONGOING:
            return one.started_ms + one.timeout_ms
        return one.updated_ms + self._settings.id_expiration_ms

    def _watch(self, transactional_id: str, due_ms: int) -> None:
        """One place in the queue for each id: moved only when it is due earlier, looked at again when it comes up."""
        queued_ms = self._queued_ms.get(transactional_id)
        if queued_ms is None or due_ms < queued_ms:
            self._queued_ms[transactional_id] = due_ms
            heapq.heappush(self._queue, (due_ms, transactional_id))

    # ── facts: the only place where what lasts changes ──────────────────────────────────────────

    def replay(self, fact: TransactionFact) -> None:
        transactional_id = fact.transactional_id
        known = self._transactions.pop(transactional_id, None)
        for pending in known.offsets if known else ():
            self._pending[pending.group_id, pending.topic, pending.partition] -= 1
            if not self._pending[pending.group_id, pending.topic, pending.partition]:
                del self._pending[pending.group_id, pending.topic, pending.partition]
        if isinstance(fact, TransactionForgotten):
            self._queued_ms.pop(transactional_id, None)
            return
        self._transactions[transactional_id] = fact.transaction
        for pending in fact.transaction.offsets:
            self._pending[pending.group_id, pending.topic, pending.partition] += 1
        self._watch(transactional_id, self._due_ms(fact.transaction))

    def snapshot(self) -> list[TransactionFact]:
        return [TransactionStored(transactional_id, one) for transactional_id, one in self._transactions.items()]

    def unfinished(self) -> Iterator[str]:
        """Decided, but not known to be finished."""
        return iter([transactional_id for transactional_id, one in self._transactions.items() if one.state in PREPARED])

    def decided(self, transactional_id: str) -> Transaction | None:
        """The transaction, if it is one of those."""
        one = self._transactions.get(transactional_id)
        return one if one is not None and one.state in PREPARED else None

    def __iter__(self) -> Iterator[tuple[str, Transaction]]:
        return iter(self._transactions.items())

    def is_pending(self, group_id: GroupId, topic: str, partition: int) -> bool:
        """Whether an undecided transaction may yet change what the group has committed there."""
        return (group_id, topic, partition) in self._pending

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def _store(self, transactional_id: str, transaction: Transaction, out: TransactionOutcome) -> None:
        self._record(TransactionStored(transactional_id, transaction), out)

    def _record(self, fact: TransactionFact, out: TransactionOutcome) -> None:
        self.replay(fact)
        out.facts.append(fact)

    # ── a producer comes ────────────────────────────────────────────────────────────────────────

    def _init(self, init: InitProducer, now_ms: int, out: TransactionOutcome) -> Producer:
        _check_id(init.transactional_id)
        if not 0 < init.timeout_ms <= self._settings.max_timeout_ms:
            raise InvalidTransactionTimeout(
                f"a transaction timeout of {init.timeout_ms} ms: 1 to {self._settings.max_timeout_ms} is allowed"
            )
        one = self._transactions.get(init.transactional_id)
        if one is None:
            one = Transaction(EMPTY, self._new_producer_id(), NO_PRODUCER_EPOCH, init.timeout_ms, now_ms)
        if init.expected is not None and not _is_expected(one, *init.expected):
            raise _fenced(init.transactional_id, init.expected[1], one)
        if one.state in PREPARED:
            raise ConcurrentTransactions(f"the last transaction of {init.transactional_id} is being ended: try again")
        if one.state is ONGOING:
            self._fence(init.transactional_id, one, now_ms, out)
            raise ConcurrentTransactions(f"the open transaction of {init.transactional_id} is aborted: try again")
        one = replace(
            self._with_next_epoch(init, one),
            state=EMPTY,
            previous_producer_id=one.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            timeout_ms=init.timeout_ms,
            started_ms=-1,
            updated_ms=now_ms,
            raised=False,
            v2=False,
        )
        self._store(init.transactional_id, one, out)
        return Producer(one.producer_id, one.producer_epoch)

    def _with_next_epoch(self, init: InitProducer, one: Transaction) -> Transaction:
        epoch = one.producer_epoch
        expected = None if init.expected is None else init.expected[1]
        if epoch >= MAX_EPOCH - 1 and expected in (None, epoch):
            last = NO_PRODUCER_EPOCH if expected is None else epoch
            return replace(one, producer_id=self._new_producer_id(), producer_epoch=0, last_producer_epoch=last)
        if expected is None:
            return replace(one, producer_epoch=epoch + 1, last_producer_epoch=NO_PRODUCER_EPOCH)
        if epoch == NO_PRODUCER_EPOCH or expected == epoch:
            return replace(one, producer_epoch=epoch + 1, last_producer_epoch=epoch)
        if expected == one.last_producer_epoch:
            return one  # it asks again for what it got: nobody else came since, or the last epoch were not known
        raise _fenced(init.transactional_id, expected, one)

    def _fence(self, transactional_id: str, one: Transaction, now_ms: int, out: TransactionOutcome) -> None:
        """Abort in the name of nobody: the producer that began it can not go on with its epoch."""
        fenced = replace(
            one,
            state=PREPARE_ABORT,
            producer_epoch=one.producer_epoch + 1,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            updated_ms=now_ms,
            raised=True,
            v2=False,
        )
        self._store(transactional_id, fenced, out)
        out.finish.append(transactional_id)

    # ── within a transaction ────────────────────────────────────────────────────────────────────

    def _current(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        """The transaction as its producer may go on with it."""
        _check_id(transactional_id)
        one = self._transactions.get(transactional_id)
        if one is None or one.producer_id != producer_id:
            raise UnknownProducerMapping(f"producer {producer_id} does not have transactional id {transactional_id}")
        if one.producer_epoch != epoch:
            raise _fenced(transactional_id, epoch, one)
        if one.state in PREPARED:
            raise ConcurrentTransactions(f"the last transaction of {transactional_id} is being ended: try again")
        return one

    def _add_partitions(self, add: AddPartitions, now_ms: int, out: TransactionOutcome) -> Done:
        one = self._current(add.transactional_id, add.producer_id, add.producer_epoch)
        if one.state is not ONGOING or not add.partitions <= one.partitions:
            grown = replace(_begun(one, now_ms), partitions=one.partitions | add.partitions)
            self._store(add.transactional_id, grown, out)
        return Done()

    def _verify(self, verify: VerifyPartitions) -> PartitionsNotIn:
        one = self._current(verify.transactional_id, verify.producer_id, verify.producer_epoch)
        return PartitionsNotIn(verify.partitions - one.partitions)

    def _add_offsets(self, add: AddOffsets, now_ms: int, out: TransactionOutcome) -> Done:
        one = self._current(add.transactional_id, add.producer_id, add.producer_epoch)
        if add.place not in one.partitions and not add.implicit:
            raise TransactionAbortable(f"the offsets' topic is not part of the transaction of {add.transactional_id}")
        offsets = {(each.group_id, each.topic, each.partition): each for each in (*one.offsets, *add.offsets)}
        grown = replace(_begun(one, now_ms), partitions=one.partitions | {add.place}, offsets=tuple(offsets.values()))
        self._store(add.transactional_id, grown, out)
        return Done()

    # ── its end ─────────────────────────────────────────────────────────────────────────────────

    def _end(self, end: EndTransaction, now_ms: int, out: TransactionOutcome) -> Producer:
        _check_id(end.transactional_id)
        one = self._transactions.get(end.transactional_id)
        again = one is not None and one.v2 and _is_same_end(one, end)
        if one is None or (one.producer_id != end.producer_id and not again):
            raise UnknownProducerMapping(
                f"producer {end.producer_id} does not have transactional id {end.transactional_id}"
            )
        if not again and (one.producer_epoch != end.producer_epoch or (one.v2 and one.state in PREPARED)):
            raise _fenced(end.transactional_id, end.producer_epoch, one)
        if one.state is ONGOING:
            return self._prepare(end, one, now_ms, out)
        if one.state in PREPARED:
            if (one.state is PREPARE_COMMIT) is end.commit:
                raise ConcurrentTransactions(f"the transaction of {end.transactional_id} is being ended: try again")
            raise _invalid(end, one)
        if end.v2 and not again:
            # An abort of what never began: its epoch is raised all the same, for what may still be on its way.
            if end.commit:
                raise _invalid(end, one)
            return self._prepare(end, replace(one, started_ms=now_ms), now_ms, out)
        if one.state is (COMPLETE_COMMIT if end.commit else COMPLETE_ABORT):
            return Producer(one.producer_id, one.producer_epoch)
        raise _invalid(end, one)

    def _prepare(self, end: EndTransaction, one: Transaction, now_ms: int, out: TransactionOutcome) -> Producer:
        one = replace(one, state=PREPARE_COMMIT if end.commit else PREPARE_ABORT, updated_ms=now_ms)
        if end.v2:
            exhausted = one.producer_epoch >= MAX_EPOCH - 1
            one = replace(
                one,
                producer_epoch=one.producer_epoch + 1,
                last_producer_epoch=one.producer_epoch,
                next_producer_id=self._new_producer_id() if exhausted else NO_PRODUCER_ID,
                raised=True,
                v2=True,
            )
        else:
            one = replace(one, raised=False, v2=False)
        self._store(end.transactional_id, one, out)
        out.finish.append(end.transactional_id)
        if one.next_producer_id != NO_PRODUCER_ID:
            return Producer(one.next_producer_id, 0)
        return Producer(one.producer_id, one.producer_epoch)

    def _finished(self, transactional_id: str, now_ms: int, out: TransactionOutcome) -> Done:
        one = self.decided(transactional_id)
        if one is None:
            raise InvalidTransactionState(f"the transaction of {transactional_id} is not decided")
        complete = replace(
            one,
            state=COMPLETE_COMMIT if one.state is PREPARE_COMMIT else COMPLETE_ABORT,
            partitions=frozenset(),
            offsets=(),
            updated_ms=now_ms,
            previous_producer_id=one.producer_id,
        )
        if one.next_producer_id != NO_PRODUCER_ID:
            complete = replace(
                complete, producer_id=one.next_producer_id, producer_epoch=0, next_producer_id=NO_PRODUCER_ID
            )
        self._store(transactional_id, complete, out)
        return Done()


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequest("a transactional id must not be empty")


def _begun(one: Transaction, now_ms: int) -> Transaction:
    """Ongoing: just now, unless it was already."""
    if one.state is ONGOING:
        return replace(one, updated_ms=now_ms)
    return replace(one, state=ONGOING, started_ms=now_ms, updated_ms=now_ms, raised=False, v2=False)


def _is_expected(one: Transaction, producer_id: int, epoch: int) -> bool:
    """A producer that says who it is may go on if that is what is known, or what was before its epochs were used up."""
    return (
        one.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == one.producer_id
        or (producer_id == one.previous_producer_id and epoch >= MAX_EPOCH - 1)
    )


def _is_same_end(one: Transaction, end: EndTransaction) -> bool:
    """The end that raised the epoch comes again: its answer was lost."""
    if one.producer_id == end.producer_id:
        return one.producer_epoch == end.producer_epoch + 1
    overflowed = one.previous_producer_id == end.producer_id and end.producer_epoch == MAX_EPOCH - 1
    return overflowed and one.producer_epoch == 0


def _fenced(transactional_id: str, epoch: int, one: Transaction) -> ProducerFenced:
    return ProducerFenced(f"epoch {epoch} of {transactional_id} is fenced, the epoch is {one.producer_epoch} now")


def _invalid(end: EndTransaction, one: Transaction) -> InvalidTransactionState:
    wish = "committed" if end.commit else "aborted"
    return InvalidTransactionState(f"{end.transactional_id} is {one.state.value}: there is nothing to be {wish}")
