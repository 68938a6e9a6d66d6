"""The coordinator of transactions over every state and input, without a loop; every fact goes through its bytes."""

from __future__ import annotations

import itertools
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.coordination.facts import Committed
from trunkline.coordination.transaction_commands import (
    AddOffsets,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    Finished,
    InitProducer,
    ListTransactions,
    PartitionsNotIn,
    Producer,
    TransactionCommand,
    TransactionList,
    TransactionReply,
    TransactionSettings,
    VerifyPartitions,
)
from trunkline.coordination.transaction_facts import (
    PendingOffset,
    Transaction,
    TransactionFact,
    TransactionState,
    decode,
    encode,
)
from trunkline.coordination.transactions import MAX_EPOCH, TransactionCoordinator
from trunkline.model.errors import (
    ConcurrentTransactions,
    CorruptLog,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionAbortable,
    TrunklineError,
    UnknownProducerMapping,
    UnknownTransactionalId,
)
from trunkline.model.ids import Epoch, GroupId, Offset, ProducerId, TopicPartition

T = "payments"
START_MS = 1_700_000_000_000
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 3)
OFFSETS = TopicPartition("__consumer_offsets", 0)
STATES = [state.value for state in TransactionState]


class Desk:
    """A coordinator with a clock one can turn and a log one can read back."""

    def __init__(self) -> None:
        ids = itertools.count(100)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.finish: list[str] = []
        self.coordinator = TransactionCoordinator(TransactionSettings(), lambda: ProducerId(next(ids)))

    def ask(self, command: TransactionCommand) -> TransactionReply:
        outcome = self.coordinator.handle(command, self.now_ms)
        self._keep(outcome.facts)
        self.finish += outcome.finish
        if isinstance(outcome.reply, TrunklineError):
            raise outcome.reply
        assert outcome.reply is not None
        return outcome.reply

    def tick(self, later_ms: int = 0) -> None:
        self.now_ms += later_ms
        outcome = self.coordinator.tick(self.now_ms)
        self._keep(outcome.facts)
        self.finish += outcome.finish

    def _keep(self, facts: list[TransactionFact]) -> None:
        for fact in facts:
            self.log.append(encode(fact))
            assert decode(*self.log[-1]) == fact

    def init(self, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000) -> Producer:
        return cast(Producer, self.ask(InitProducer(T, timeout_ms, expected)))

    def add(self, who: Producer, *places: TopicPartition) -> None:
        self.ask(AddPartitions(T, who.producer_id, who.producer_epoch, frozenset(places or (ORDERS,))))

    def add_offset(self, who: Producer, offset: int = 7, *, implicit: bool = True) -> None:
        pending = PendingOffset(GroupId("g"), "orders", 0, Committed(Offset(offset), Epoch(0), "", self.now_ms))
        self.ask(AddOffsets(T, who.producer_id, who.producer_epoch, OFFSETS, (pending,), implicit))

    def end(self, who: Producer, *, commit: bool = True, v2: bool = False) -> Producer:
        return cast(Producer, self.ask(EndTransaction(T, who.producer_id, who.producer_epoch, commit, v2)))

    def finished(self) -> None:
        self.ask(Finished(T))

    @property
    def transaction(self) -> Transaction:
        return cast(Transaction, self.ask(DescribeTransaction(T)))

    @property
    def state(self) -> str:
        return self.transaction.state.value

    def recovered(self) -> TransactionCoordinator:
        again = TransactionCoordinator(TransactionSettings(), lambda: ProducerId(-1))
        for key, value in self.log:
            again.replay(decode(key, value))
        return again


def in_state(state: str, v2: bool = False) -> tuple[Desk, Producer]:
    """A desk where the transactional id is in that state, and the producer as it knows itself then."""
    desk = Desk()
    who = desk.init()
    if state == "Empty":
        return desk, who
    desk.add(who, ORDERS, BILLS)
    desk.add_offset(who)
    if state != "Ongoing":
        commit = state.endswith("Commit")
        after = desk.end(who, commit=commit, v2=v2)
        if state.startswith("Complete"):
            desk.finished()
            who = after
    assert desk.state == state
    return desk, who


OK, BUSY, NO = type(None), ConcurrentTransactions, InvalidTransactionState
TABLE: dict[str, tuple[type, ...]] = {
    #                              Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
    "a new producer comes": (OK, BUSY, BUSY, BUSY, OK, OK),
    "a partition is added": (OK, OK, BUSY, BUSY, OK, OK),
    "offsets are added": (OK, OK, BUSY, BUSY, OK, OK),
    "a partition is asked for": (OK, OK, BUSY, BUSY, OK, OK),
    "it is committed": (NO, OK, BUSY, NO, OK, NO),
    "it is aborted": (NO, OK, NO, BUSY, NO, OK),
    "it is committed, version 2": (NO, OK, BUSY, NO, NO, NO),
    "it is aborted, version 2": (OK, OK, NO, BUSY, OK, OK),
    "its markers are written": (NO, NO, OK, OK, NO, NO),
}


def do(desk: Desk, who: Producer, what: str) -> None:
    match what:
        case "a new producer comes":
            desk.init()
        case "a partition is added":
            desk.add(who, TopicPartition("more", 1))
        case "offsets are added":
            desk.add_offset(who, 9)
        case "a partition is asked for":
            desk.ask(VerifyPartitions(T, who.producer_id, who.producer_epoch, frozenset((ORDERS,))))
        case "it is committed":
            desk.end(who)
        case "it is aborted":
            desk.end(who, commit=False)
        case "it is committed, version 2":
            desk.end(who, v2=True)
        case "it is aborted, version 2":
            desk.end(who, commit=False, v2=True)
        case "its markers are written":
            desk.finished()


@pytest.mark.parametrize("what", TABLE)
@pytest.mark.parametrize("state", STATES)
def test_every_state_and_input(state: str, what: str) -> None:
    desk, who = in_state(state, v2="version 2" in what and state.startswith("Complete"))
    before = dict(encode(fact) for fact in desk.coordinator.snapshot())
    expected = TABLE[what][STATES.index(state)]
    if expected is OK:
        do(desk, who, what)
    else:
        with pytest.raises(expected):
            do(desk, who, what)
        if not (what == "a new producer comes" and state == "Ongoing"):  # which aborts
            assert dict(encode(fact) for fact in desk.coordinator.snapshot()) == before
    assert desk.recovered().snapshot() == desk.coordinator.snapshot()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "what", [what for what in TABLE if what not in ("a new producer comes", "its markers are written")]
)
def test_who_is_fenced_can_do_nothing_in_any_state(state: str, what: str) -> None:
    desk, who = in_state(state)
    before = desk.coordinator.snapshot()
    for stranger, error in (
        (Producer(who.producer_id, who.producer_epoch - 1), ProducerFenced),
        (Producer(who.producer_id, who.producer_epoch + 1), ProducerFenced),
        (Producer(ProducerId(who.producer_id + 1), who.producer_epoch), UnknownProducerMapping),
    ):
        with pytest.raises(error):
            do(desk, stranger, what)
    assert desk.coordinator.snapshot() == before


def test_a_new_producer_aborts_what_the_last_one_left_and_fences_it() -> None:
    desk, zombie = in_state("Ongoing")
    with pytest.raises(ConcurrentTransactions):
        desk.init()
    assert desk.finish == [T]
    assert (desk.state, desk.transaction.producer_epoch) == ("PrepareAbort", zombie.producer_epoch + 1)
    desk.finished()
    newcomer = desk.init()
    assert newcomer == Producer(zombie.producer_id, zombie.producer_epoch + 2)
    for what in ("a partition is added", "offsets are added", "it is committed", "it is aborted, version 2"):
        with pytest.raises(ProducerFenced):
            do(desk, zombie, what)


def test_a_transaction_whose_time_is_up_is_aborted_and_its_producer_fenced() -> None:
    desk, zombie = in_state("Ongoing")
    desk.tick(59_999)
    assert desk.state == "Ongoing"
    desk.tick(1)
    assert (desk.state, desk.finish) == ("PrepareAbort", [T])
    desk.finished()
    with pytest.raises(ProducerFenced):
        desk.end(zombie)


def test_each_transaction_has_its_own_time() -> None:
    desk, who = in_state("CompleteCommit")
    desk.tick(50_000)
    desk.add(who)
    desk.tick(50_000)
    assert desk.state == "Ongoing"
    desk.tick(10_000)
    assert desk.state == "PrepareAbort"


def test_after_a_restart_its_time_goes_on() -> None:
    desk, _ = in_state("Ongoing")
    again = desk.recovered()
    assert again.next_deadline_ms() == START_MS + 60_000
    assert again.tick(START_MS + 60_000).finish == [T]


def test_an_id_that_nobody_used_for_a_week_is_forgotten_unless_something_is_open() -> None:
    week_ms = TransactionSettings().id_expiration_ms
    desk, who = in_state("CompleteAbort")
    desk.tick(week_ms - 1)
    assert desk.state == "CompleteAbort"
    desk.tick(1)
    with pytest.raises(UnknownTransactionalId):
        _ = desk.state
    with pytest.raises(UnknownProducerMapping):
        desk.add(who)
    assert desk.recovered().snapshot() == []
    assert desk.coordinator.next_deadline_ms() is None
    decided, _ = in_state("PrepareCommit")
    decided.tick(3 * week_ms)
    assert decided.state == "PrepareCommit"


def test_with_version_2_every_end_raises_the_epoch_and_may_be_asked_for_again() -> None:
    desk = Desk()
    first = desk.init()
    desk.add(first)
    second = desk.end(first, v2=True)
    assert second == Producer(first.producer_id, 1)
    with pytest.raises(ConcurrentTransactions):
        desk.end(first, v2=True)
    desk.finished()
    assert desk.end(first, v2=True) == second
    with pytest.raises(InvalidTransactionState):
        desk.end(first, commit=False, v2=True)
    with pytest.raises(ProducerFenced):
        desk.add(first)
    desk.add(second)
    assert desk.end(second, commit=False, v2=True) == Producer(first.producer_id, 2)


def exhausted(*, ongoing: bool) -> tuple[Desk, Producer]:
    desk = Desk()
    who = desk.init()
    while who.producer_epoch < MAX_EPOCH - 1:
        who = desk.init((who.producer_id, who.producer_epoch))
        desk.log.clear()
    if ongoing:
        desk.add(who)
    return desk, who


def test_when_epochs_are_used_up_a_new_id_follows() -> None:
    desk, who = exhausted(ongoing=False)
    follower = desk.init()
    assert follower.producer_id != who.producer_id
    assert follower.producer_epoch == 0


def test_when_epochs_are_used_up_a_producer_that_asks_again_gets_the_same_new_id() -> None:
    desk, who = exhausted(ongoing=False)
    follower = desk.init((who.producer_id, who.producer_epoch))
    assert desk.init((who.producer_id, who.producer_epoch)) == follower


def test_when_epochs_are_used_up_an_end_with_version_2_brings_the_new_id() -> None:
    desk, who = exhausted(ongoing=True)
    follower = desk.end(who, v2=True)
    assert (desk.transaction.producer_id, desk.transaction.producer_epoch) == (who.producer_id, MAX_EPOCH)
    desk.finished()
    assert (desk.transaction.producer_id, desk.transaction.producer_epoch) == (follower.producer_id, 0)
    assert desk.end(who, v2=True) == follower
    desk.add(follower)


def test_the_last_epoch_can_still_be_fenced() -> None:
    desk, who = exhausted(ongoing=True)
    desk.tick(60_000)
    assert desk.transaction.producer_epoch == MAX_EPOCH
    desk.finished()
    assert desk.init().producer_id != who.producer_id


def test_a_producer_that_recovers_from_an_error_keeps_its_place() -> None:
    desk = Desk()
    who = desk.init()
    raised = desk.init((who.producer_id, who.producer_epoch))
    assert raised == Producer(who.producer_id, who.producer_epoch + 1)
    assert desk.init((who.producer_id, who.producer_epoch)) == raised, "the answer was lost, it asks again"
    newcomer = desk.init()
    for zombie in (who, raised):
        with pytest.raises(ProducerFenced):
            desk.init((zombie.producer_id, zombie.producer_epoch))
    with pytest.raises(ProducerFenced):
        desk.init((newcomer.producer_id + 50, newcomer.producer_epoch))


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    with pytest.raises(InvalidTransactionTimeout):
        Desk().init(timeout_ms=timeout_ms)


def test_an_empty_transactional_id_is_refused() -> None:
    for command in (InitProducer("", 1000), AddPartitions("", 1, 1, frozenset()), EndTransaction("", 1, 1, True)):
        with pytest.raises(InvalidRequest):
            Desk().ask(command)


def test_partitions_that_were_not_added_are_named() -> None:
    desk, who = in_state("Ongoing")
    asked = frozenset((ORDERS, TopicPartition("orders", 9)))
    reply = desk.ask(VerifyPartitions(T, who.producer_id, who.producer_epoch, asked))
    assert reply == PartitionsNotIn(frozenset((TopicPartition("orders", 9),)))


def test_offsets_need_their_group_to_be_added_unless_the_client_leaves_that_to_the_broker() -> None:
    desk, who = in_state("Empty")
    with pytest.raises(TransactionAbortable):
        desk.add_offset(who, implicit=False)
    assert desk.state == "Empty"
    desk.add(who, OFFSETS)
    desk.add_offset(who, implicit=False)
    desk.add_offset(who, 12, implicit=False)
    [pending] = desk.transaction.offsets
    assert pending.committed.offset == 12


@pytest.mark.parametrize("commit", [True, False])
def test_an_offset_is_unstable_until_its_transaction_is_finished(commit: bool) -> None:
    desk, who = in_state("Ongoing")
    group = GroupId("g")
    assert desk.coordinator.is_pending(group, "orders", 0)
    assert not desk.coordinator.is_pending(group, "orders", 1)
    desk.end(who, commit=commit)
    assert desk.recovered().is_pending(group, "orders", 0)
    desk.finished()
    assert not desk.coordinator.has_pending


def test_transactions_are_listed() -> None:
    desk, _ = in_state("Ongoing")
    [(name, one)] = cast(TransactionList, desk.ask(ListTransactions())).transactions
    assert (name, one.state, one.started_ms) == (T, TransactionState.ONGOING, START_MS)


@pytest.mark.parametrize(
    ("key", "value"), [(b"\x02x", b""), (b"\x01x", b""), (b"\x01x", b"\x02"), (b"\x01x", b"\x01\x63")]
)
def test_a_fact_of_another_version_is_refused_and_not_guessed_at(key: bytes, value: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode(key, value)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*TABLE, "time"]), st.booleans()), max_size=40))
def test_whatever_happens_the_facts_tell_it_all(steps: list[tuple[str, bool]]) -> None:
    desk = Desk()
    who = desk.init()
    for what, honest in steps:
        try:
            if what == "time":
                desk.tick(20_000)
            else:
                do(desk, who, what)
        except TrunklineError:
            pass
        one = desk.transaction
        if honest:
            who = Producer(one.producer_id, one.producer_epoch)
        again = desk.recovered()
        assert again.snapshot() == desk.coordinator.snapshot()
        assert list(again.unfinished()) == list(desk.coordinator.unfinished())
        assert (one.state is TransactionState.ONGOING) <= bool(one.partitions)
        if one.state.value.startswith(("Complete", "Empty")):
            assert not one.partitions
            assert not one.offsets
