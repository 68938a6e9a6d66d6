"""Whatever is done, and whenever the power goes or the process is killed: what was acknowledged is there, in order."""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.log.helpers import COLD, NOW_MS, SMALL, batch, decode_buffer, flush, open_store, topic

from trunkline.log.cleaning import clean_now
from trunkline.log.compaction import BYTES_PER_KEY
from trunkline.log.partition_log import PartitionLog
from trunkline.log.store import CheckpointPlan
from trunkline.model.errors import OutOfOrderSequence, StorageFailed, StorageFull
from trunkline.model.ids import TopicId
from trunkline.model.topic import Durability
from trunkline.testing.faults import FaultDisk

PARTITIONS = st.integers(0, 4)
SEEDS = st.integers(0, 2**32)


@dataclass
class Written:
    value: bytes
    ticket: int | None
    """None: answered at once, with durability=os."""
    synced: bool = False
    """Answered as durable: nothing may take it away."""
    lost: bool = False
    key: bytes = b"k"


@dataclass
class Model:
    """One partition as its clients know it."""

    topic_id: TopicId
    index: int
    written: list[Written] = field(default_factory=list)
    log_start: int = 0
    synced_log_start: int = 0
    log_start_tickets: list[tuple[int, int]] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    last_sent: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """producer → (sequence, count, base offset) of its last batch"""

    def synced_up_to(self, ticket: int) -> None:
        for written in self.written:
            if written.ticket is not None and written.ticket <= ticket:
                written.synced = True
        for offset, log_start_ticket in self.log_start_tickets:
            if log_start_ticket <= ticket:
                self.synced_log_start = max(self.synced_log_start, offset)


class Crashes(RuleBasedStateMachine):
    """Partitions 0 and 1: durability=fsync. 2: durability=os. 3: changes between both. 4: fsync, compacted."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = FaultDisk()
        self.topics = [
            topic("fsync", 2, index_interval_bytes=64),
            topic("os", durability="os", index_interval_bytes=64),
            topic("mixed", index_interval_bytes=64),
            topic("table", index_interval_bytes=64, cleanup_policy="compact", delete_retention_ms=0),
        ]
        self.models = [Model(t.id, index) for t in self.topics for index in range(t.partitions)]
        self.plan: CheckpointPlan | None = None
        self.counter = 0
        self.refused: set[bytes] = set()
        """Values of appends that failed: a power loss may bring them back, where nothing acknowledged stands."""

    @initialize(cold=st.booleans())
    def start(self, cold: bool) -> None:
        self.settings = COLD if cold else SMALL
        self.store = open_store(self.disk, *self.topics, settings=self.settings)

    def log(self, model: Model) -> PartitionLog:
        return self.store.partition(model.topic_id, model.index)

    # ── what clients do ─────────────────────────────────────────────────────────────────────────

    @rule(which=PARTITIONS, count=st.integers(1, 3), size=st.integers(0, 900), producer=st.integers(-1, 2))
    def append(self, which: int, count: int, size: int, producer: int) -> None:
        model = self.models[which]
        values = self.new_values(count, size)
        sequence = model.sequences.get(producer, 0)
        identity = (producer, 0, sequence) if producer >= 0 else (-1, -1, -1)
        key = b"%d" % (size % 3)
        appended = self.log(model).append([batch(*values, producer=identity, key=key)], NOW_MS)
        assert appended.base_offset == len(model.written)
        model.written += [Written(value, appended.ticket, key=key) for value in values]
        if producer >= 0:
            model.sequences[producer] = sequence + count
            model.last_sent[producer] = (sequence, count, appended.base_offset)

    def new_values(self, count: int, size: int) -> list[bytes]:
        self.counter += count
        return [b"%d:" % (self.counter + number) + b"x" * size for number in range(count)]

    @rule(which=PARTITIONS, full=st.booleans(), count=st.integers(1, 3))
    def fail_to_append(self, which: int, full: bool, count: int) -> None:
        log = self.log(self.models[which])
        values = self.new_values(count, 30)
        self.refused.update(values)
        self.disk.fail("pwrite", errno.ENOSPC if full else errno.EIO, ".log")
        with pytest.raises(StorageFull if full else StorageFailed):
            log.append([batch(value, key=b"") for value in values], NOW_MS)
        self.disk.heal()

    @rule()
    def flush(self) -> None:
        self.synced(flush(self.store))

    def synced(self, ticket: int) -> None:
        for model in self.models:
            model.synced_up_to(ticket)

    @rule(which=PARTITIONS, part=st.floats(0, 1))
    def delete_records(self, which: int, part: float) -> None:
        model = self.models[which]
        log = self.log(model)
        offset = int(log.log_start + (log.end - log.log_start) * part)
        ticket = log.delete_records(offset)
        if ticket is not None:
            model.log_start = offset
            model.log_start_tickets.append((offset, ticket))

    @rule(which=PARTITIONS)
    def resend(self, which: int) -> None:
        """A retry of what is already there is recognised."""
        model = self.models[which]
        for producer, (sequence, count, base_offset) in model.last_sent.items():
            again = self.log(model).append([batch(*[b"again"] * count, producer=(producer, 0, sequence))], NOW_MS)
            assert (again.duplicate, again.base_offset) == (True, base_offset)

    @rule(which=PARTITIONS)
    def skip_a_sequence(self, which: int) -> None:
        model = self.models[which]
        for producer, sequence in model.sequences.items():
            with pytest.raises(OutOfOrderSequence):
                self.log(model).append([batch(b"skipped", producer=(producer, 0, sequence + 1))], NOW_MS)

    # ── what the node does ──────────────────────────────────────────────────────────────────────

    @rule(which=PARTITIONS)
    def roll(self, which: int) -> None:
        self.log(self.models[which]).roll()

    @rule(durability=st.sampled_from(["fsync", "os"]))
    def switch_durability(self, durability: str) -> None:
        self.topics[2] = topic("mixed", durability=durability, index_interval_bytes=64)
        self.store.update_config(self.topics[2])

    @rule(which=PARTITIONS)
    def retain_little(self, which: int) -> None:
        """Segments go by size; the log's start moves for good only with a checkpoint."""
        model = self.models[which]
        log = self.log(model)
        config = log.config
        log.update_config(topic(retention_bytes=1, durability=config.durability.value).config)
        log.retention(NOW_MS)
        log.update_config(config)
        model.log_start = log.log_start

    @rule(step=st.sampled_from(["begin", "write", "abandon", "all"]))
    def checkpoint(self, step: str) -> None:
        if step in ("begin", "all") and self.plan is None:
            self.plan = self.store.begin_checkpoint()
        if self.plan is None:
            return
        if step == "abandon":
            self.store.abandon_checkpoint(self.plan)
            self.plan = None
        elif step in ("write", "all"):
            self.plan.write()
            self.store.finish_checkpoint(self.plan)
            self.plan = None

    @rule(few_keys=st.booleans())
    def clean(self, few_keys: bool) -> None:
        """Between any two steps of a checkpoint."""
        log = self.log(self.models[4])
        planned = log.read(log.log_start, 2_000, log.end)
        before = [bytes(buffer) for buffer in log.read(log.log_start, 2_000, log.end).load().buffers]
        clean_now(log, NOW_MS, memory_bytes=BYTES_PER_KEY * (1 if few_keys else 100))
        assert [bytes(buffer) for buffer in planned.load().buffers] == before

    @rule()
    def run_out_of_room(self) -> None:
        assert self.store.journal is not None
        self.disk.room_bytes = 0
        self.synced(flush(self.store))
        if self.store.journal.full:
            with pytest.raises(StorageFull):
                self.log(self.models[0]).append([batch(b"refused")], NOW_MS)
        self.disk.heal()
        self.synced(flush(self.store))
        assert not self.store.journal.full

    # ── what goes wrong ─────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.plan is None)
    @rule()
    def close(self) -> None:
        self.store.close()
        for model in self.models:
            model.synced_log_start = model.log_start
            for written in model.written:
                written.synced = True
        self.reopen(power_lost=True)

    @rule()
    def kill(self) -> None:
        self.reopen(power_lost=False)

    @rule(seed=SEEDS)
    def lose_power(self, seed: int) -> None:
        self.disk.crash(random.Random(seed))
        self.reopen(power_lost=True)

    @rule(seed=SEEDS)
    def lose_power_in_a_flush(self, seed: int) -> None:
        """The journal is written but its sync never returns: nobody was answered."""
        assert self.store.journal is not None
        waited = self.store.journal.pending
        self.disk.fail("datasync", path="journal/")
        if waited:
            with pytest.raises(StorageFailed):
                self.store.journal.flush()
        self.disk.crash(random.Random(seed))
        self.reopen(power_lost=True)

    @rule(seed=SEEDS, after=st.integers(0, 6))
    def lose_power_in_a_checkpoint(self, seed: int, after: int) -> None:
        plan = self.plan or self.store.begin_checkpoint()
        assert plan is not None
        operation = random.Random(seed).choice(["datasync", "pwrite", "rename", "sync_directory"])
        self.disk.fail(operation, after=after)
        try:
            plan.write()
        except StorageFailed:
            pass
        self.disk.crash(random.Random(seed))
        self.reopen(power_lost=True)

    @rule(seed=SEEDS, after=st.integers(0, 6))
    def lose_power_while_cleaning(self, seed: int, after: int) -> None:
        operation = random.Random(seed).choice(["create", "datasync", "pwrite", "rename", "remove", "sync_directory"])
        self.disk.fail(operation, after=after, path="table", times=100)
        try:
            clean_now(self.log(self.models[4]), NOW_MS)
        except (StorageFailed, OSError):
            pass
        self.disk.crash(random.Random(seed))
        self.reopen(power_lost=True)

    @rule(seed=SEEDS, after=st.integers(0, 12))
    def lose_power_again_while_recovering(self, seed: int, after: int) -> None:
        rng = random.Random(seed)
        self.disk.crash(rng)
        self.disk.fail(rng.choice(["datasync", "pwrite", "truncate", "rename", "sync_directory"]), after=after)
        try:
            open_store(self.disk, *self.topics, settings=self.settings)
        except StorageFailed:
            pass
        self.disk.crash(rng)
        self.reopen(power_lost=True)

    # ── what must hold ──────────────────────────────────────────────────────────────────────────

    def reopen(self, *, power_lost: bool) -> None:
        self.plan = None
        self.disk.heal()
        self.store = open_store(self.disk, *self.topics, settings=self.settings)
        for model in self.models:
            log = self.log(model)
            assert model.synced_log_start <= log.log_start <= max(model.log_start, model.synced_log_start)
            present = self.present(log)
            for offset, written in enumerate(model.written):
                if offset < log.log_start or written.lost:
                    continue
                if written.synced or (not power_lost and written.ticket is None):
                    assert offset in present or self.cleaned(model, offset, present), f"{log.name} lost offset {offset}"
                if offset in present and present[offset] != written.value:
                    assert not written.synced
                    assert present[offset] in self.refused
            assert all(present[offset] in self.refused for offset in present if offset >= len(model.written))
            if log.config.durability is Durability.FSYNC and log.name.startswith("fsync"):
                assert list(present) == list(range(log.log_start, log.end))
            self.forget(model, log, present)

    def cleaned(self, model: Model, offset: int, present: dict[int, bytes | None]) -> bool:
        """Whether a later record has its key, and is there or was cleaned itself for one that is."""
        key = model.written[offset].key
        later = [at for at, other in enumerate(model.written) if at > offset and other.key == key]
        return model is self.models[4] and any(at in present for at in later)

    def forget(self, model: Model, log: PartitionLog, present: dict[int, bytes | None]) -> None:
        """What was never acknowledged and is gone never happened. What is there now stays."""
        keys = [b"" if present.get(at) in self.refused else written.key for at, written in enumerate(model.written)]
        keys += [b""] * (log.end - len(keys))
        model.written = [
            Written(present.get(offset) or b"", None, synced=True, lost=offset not in present, key=keys[offset])
            for offset in range(log.end)
        ]
        model.log_start = model.synced_log_start = log.log_start
        model.log_start_tickets.clear()
        model.sequences.clear()
        model.last_sent.clear()
        for producer_id, state in log.producers.snapshot().items():
            last = state.batches[-1]
            assert last.last_offset < log.end
            count = last.last_sequence - last.first_sequence + 1
            model.sequences[producer_id] = last.last_sequence + 1
            model.last_sent[producer_id] = (last.first_sequence, count, last.base_offset)

    def present(self, log: PartitionLog) -> dict[int, bytes | None]:
        found: dict[int, bytes | None] = {}
        offset = log.log_start
        while offset < log.end:
            read = log.read(offset, 2_000, log.end).load()
            if not read.buffers:
                break
            for record in (record for buffer in read.buffers for record in decode_buffer(buffer)):
                if record.offset >= log.log_start:
                    found[record.offset] = record.value
            assert read.next_offset > offset
            offset = read.next_offset
        return found

    @invariant()
    def the_end_is_where_it_should_be(self) -> None:
        if hasattr(self, "store"):
            for model in self.models:
                assert self.log(model).end == len(model.written)


Crashes.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestNothingAcknowledgedIsLost = Crashes.TestCase
