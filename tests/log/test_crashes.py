"""Whatever is done, and whenever the power goes or the process is killed: what was acknowledged is there, in order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.log.helpers import COLD, NOW_MS, SMALL, batch, decode_buffer, flush, open_store, topic

from trunkline.log.partition_log import PartitionLog
from trunkline.log.store import CheckpointPlan
from trunkline.model.errors import OutOfOrderSequence
from trunkline.model.topic import Durability, Topic
from trunkline.record.records import Record
from trunkline.testing.faults import FaultDisk


@dataclass
class Model:
    """One partition as its clients know it."""

    written: list[tuple[bytes, int | None]] = field(default_factory=list)
    """Every value by offset, and the ticket it waits for."""
    acknowledged: int = 0
    """Offsets below this were answered as durable."""
    log_start: int = 0
    durable_log_start: int = 0
    log_start_tickets: list[tuple[int, int]] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    last_sent: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """producer → (sequence, count, base offset) of its last batch"""


class Crashes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = FaultDisk()
        self.topics = [
            topic("fsync", 2, index_interval_bytes=64),
            topic("os", 1, durability="os", index_interval_bytes=64),
        ]
        self.models = {(t.id, index): Model() for t in self.topics for index in range(t.partitions)}
        self.plan: CheckpointPlan | None = None
        self.counter = 0

    @initialize(cold=st.booleans())
    def start(self, cold: bool) -> None:
        self.settings = COLD if cold else SMALL
        self.store = open_store(self.disk, *self.topics, settings=self.settings)

    def pick(self, which: int) -> tuple[Topic, PartitionLog, Model]:
        chosen, index = [(t, index) for t in self.topics for index in range(t.partitions)][which]
        return chosen, self.store.partition(chosen.id, index), self.models[chosen.id, index]

    @rule(which=st.integers(0, 2), count=st.integers(1, 3), size=st.integers(0, 900), producer=st.integers(-1, 2))
    def append(self, which: int, count: int, size: int, producer: int) -> None:
        _, log, model = self.pick(which)
        sequence = model.sequences.get(producer, 0)
        values = []
        for _ in range(count):
            self.counter += 1
            values.append(b"%d:" % self.counter + b"x" * size)
        identity = (producer, 0, sequence) if producer >= 0 else (-1, -1, -1)
        appended = log.append([batch(*values, producer=identity)], NOW_MS)
        assert appended.base_offset == len(model.written)
        model.written += [(value, appended.ticket) for value in values]
        if producer >= 0:
            model.sequences[producer] = sequence + count
            model.last_sent[producer] = (sequence, count, appended.base_offset)
        if log.config.durability is Durability.OS:
            model.acknowledged = len(model.written)

    @rule()
    def flush(self) -> None:
        durable = flush(self.store)
        for model in self.models.values():
            while (
                model.acknowledged < len(model.written)
                and (ticket := model.written[model.acknowledged][1]) is not None
                and ticket <= durable
            ):
                model.acknowledged += 1
            for offset, ticket in model.log_start_tickets:
                if ticket <= durable:
                    model.durable_log_start = max(model.durable_log_start, offset)

    @rule(which=st.integers(0, 2))
    def roll(self, which: int) -> None:
        self.pick(which)[1].roll()

    @rule(which=st.integers(0, 2), part=st.floats(0, 1))
    def delete_records(self, which: int, part: float) -> None:
        _, log, model = self.pick(which)
        offset = int(log.log_start + (log.end - log.log_start) * part)
        ticket = log.delete_records(offset)
        if ticket is not None:
            model.log_start = offset
            model.log_start_tickets.append((offset, ticket))

    @rule(which=st.integers(0, 2))
    def resend(self, which: int) -> None:
        """A retry of what is already there is recognised."""
        _, log, model = self.pick(which)
        for producer, (sequence, count, base_offset) in model.last_sent.items():
            again = log.append([batch(*[b"again"] * count, producer=(producer, 0, sequence))], NOW_MS)
            assert again.duplicate
            assert again.base_offset == base_offset

    @rule(which=st.integers(0, 2))
    def skip_a_sequence(self, which: int) -> None:
        _, log, model = self.pick(which)
        for producer, sequence in model.sequences.items():
            try:
                log.append([batch(b"skipped", producer=(producer, 0, sequence + 1))], NOW_MS)
            except OutOfOrderSequence:
                continue
            raise AssertionError("a gap in the sequence was taken")

    @rule(step=st.sampled_from(["begin", "write", "finish", "all"]))
    def checkpoint(self, step: str) -> None:
        if step in ("begin", "all") and self.plan is None:
            self.plan = self.store.begin_checkpoint()
        if step in ("finish", "all") and self.plan is not None:
            self.plan.write()
            self.store.finish_checkpoint(self.plan)
            self.plan = None

    @rule()
    def close_and_reopen(self) -> None:
        if self.plan is None:
            self.store.close()
            self.flush_model()
            self.reopen(lost_power=False)

    @rule()
    def kill(self) -> None:
        self.reopen(lost_power=False)

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self.disk.crash(random.Random(seed))
        self.reopen(lost_power=True)

    @rule(seed=st.integers(0, 2**32))
    def lose_power_while_writing(self, seed: int) -> None:
        """The journal is written but not synced: nobody was answered."""
        rng = random.Random(seed)
        self.disk.fail("datasync", path="journal/")
        try:
            self.store.journal and self.store.journal.flush()
        except Exception:
            pass
        self.disk.crash(rng)
        self.reopen(lost_power=True)

    def flush_model(self) -> None:
        for model in self.models.values():
            model.acknowledged = len(model.written)
            model.durable_log_start = model.log_start

    def reopen(self, *, lost_power: bool) -> None:
        self.plan = None
        self.store = open_store(self.disk, *self.topics, settings=self.settings)
        for which in range(3):
            _, log, model = self.pick(which)
            must_have = 0 if lost_power and log.config.durability is Durability.OS else model.acknowledged
            if not lost_power and log.config.durability is Durability.OS:
                must_have = len(model.written)
            assert log.end >= min(must_have, len(model.written))
            assert model.durable_log_start <= log.log_start <= max(model.log_start, model.durable_log_start)
            self.check(log, model)
            # What was not acknowledged and is gone never happened; its offsets may be used again.
            del model.written[log.end :]
            model.written += [(b"lost", None)] * (log.end - len(model.written))
            model.acknowledged = len(model.written)
            model.log_start = model.durable_log_start = log.log_start
            model.log_start_tickets.clear()
            model.sequences.clear()
            model.last_sent.clear()
            self.relearn_producers(log, model)

    def relearn_producers(self, log: PartitionLog, model: Model) -> None:
        for producer_id, state in log.producers.snapshot().items():
            last = state.batches[-1]
            model.sequences[producer_id] = last.last_sequence + 1
            model.last_sent[producer_id] = (
                last.first_sequence,
                last.last_sequence - last.first_sequence + 1,
                last.base_offset,
            )
            assert last.last_offset < log.end

    def check(self, log: PartitionLog, model: Model) -> None:
        offset = log.log_start
        seen = 0
        while offset < log.end:
            read = log.read(offset, 2_000, log.end).load()
            found: list[Record] = [r for buffer in read.buffers for r in decode_buffer(buffer) if r.offset >= offset]
            assert found, f"nothing at {offset} of {log.log_start}..{log.end}"
            for record in found:
                assert record.value == model.written[record.offset][0]
                seen += 1
            offset = read.next_offset
        if log.config.durability is Durability.FSYNC:
            assert seen == log.end - log.log_start

    @invariant()
    def the_end_is_where_it_should_be(self) -> None:
        if hasattr(self, "store"):
            for which in range(3):
                _, log, model = self.pick(which)
                assert log.end == len(model.written)


Crashes.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestNothingAcknowledgedIsLost = Crashes.TestCase
