"""Fetch: read many partitions within a byte budget, wait where there is too little, load cold bytes off the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trunkline.broker.blocking import RunBlocking
from trunkline.broker.partition import Partition
from trunkline.log.read import Read
from trunkline.log.transactions import Aborted, aborted_between
from trunkline.model.errors import OffsetOutOfRange, TrunklineError, UnknownPartition
from trunkline.model.ids import NO_OFFSET, Offset
from trunkline.model.limits import MAX_COLD_FETCH_BYTES, MAX_FETCH_BYTES


@dataclass(slots=True)
class Want:
    partition: Partition
    offset: Offset
    max_bytes: int
    committed: bool = False
    """Only what is decided: up to the last stable offset, with the list of what was aborted."""


@dataclass(slots=True)
class Got:
    """What one partition gave: whole batches, or the error that stopped it."""

    high_watermark: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    last_stable: Offset = NO_OFFSET
    error: TrunklineError | None = None
    buffers: Sequence[memoryview] = ()
    cold: Read | None = field(default=None, repr=False)
    aborted: Sequence[Aborted] | None = None
    """For readers of committed records: aborted transactions that have records in these batches."""


def read_now(wants: Sequence[Want], max_bytes: int) -> tuple[list[Got], int, bool]:
    """One pass over what is asked. Gives the answers, their bytes, and whether some must still be loaded."""
    budget = min(max_bytes, MAX_FETCH_BYTES)
    total, cold_budget = 0, MAX_COLD_FETCH_BYTES
    answers: list[Got] = []
    for want in wants:
        partition = want.partition
        stable = partition.last_stable_offset
        got = Got(partition.high_watermark, Offset(partition.log.log_start), stable)
        answers.append(got)
        end = stable if want.committed else partition.high_watermark
        try:
            got.cold = _read(partition, want, end, budget - total, cold_budget, at_least_one=total == 0)
        except TrunklineError as error:
            got.error = error
            continue
        if want.committed:
            transactions = partition.log.transactions
            got.aborted = transactions.aborted if transactions is not None else ()
        if got.cold is None:
            got.aborted = () if want.committed else None
            continue
        if got.cold.cold:
            size = min(want.max_bytes, budget - total, cold_budget)
            total += size
            cold_budget -= size
        else:
            total += got.cold.size_bytes
            _take(got, want, got.cold)
    return answers, total, any(got.cold for got in answers)


def _take(got: Got, want: Want, read: Read) -> None:
    got.buffers, got.cold = read.buffers, None
    if got.aborted:
        got.aborted = aborted_between(got.aborted, want.offset, read.next_offset)


def _read(
    partition: Partition, want: Want, end: Offset, budget: int, cold_budget: int, *, at_least_one: bool
) -> Read | None:
    log = partition.log
    if partition.closed:
        raise UnknownPartition(f"Partition {partition.topic.name}-{partition.index} was deleted.")
    if not log.log_start <= want.offset <= log.end:
        raise OffsetOutOfRange(
            f"Offset {want.offset} of {partition.topic.name}-{partition.index} is outside "
            f"{log.log_start} to {partition.high_watermark}."
        )
    if want.offset >= end or (budget <= 0 and not at_least_one):
        return None
    read = log.read(want.offset, min(want.max_bytes, budget), end, at_least_one=at_least_one)
    if read.cold:
        if cold_budget <= 0 and not at_least_one:
            return None
        read.limit(cold_budget)
    return read


async def load(wants: Sequence[Want], answers: Sequence[Got], run_blocking: RunBlocking) -> None:
    """Bring in what is only on the disk."""
    for want, got in zip(wants, answers, strict=True):
        if got.cold is not None:
            try:
                _take(got, want, await run_blocking(got.cold.load))
            except TrunklineError as error:
                got.error = error
            got.cold = None
