"""What was measured, and what it must get to: rows of samples per contender, each row with its targets."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

KAFKA = "kafka"
KAFKA_FLUSH = "kafka-flush"
TRUNKLINE = "trunkline"


@dataclass(frozen=True)
class Target:
    """Trunkline's figure divided by that of `against` must be at least, or at most, `factor`."""

    factor: float
    at_least: bool
    against: str = KAFKA

    def met(self, ratio: float) -> bool:
        return ratio >= self.factor if self.at_least else ratio <= self.factor

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.factor:.1f}×"


@dataclass(frozen=True)
class Row:
    """One line of the table. `unit` and `digits` say how its figures are written."""

    label: str
    unit: str
    digits: int = 0
    targets: tuple[Target, ...] = ()


@dataclass
class Results:
    rows: dict[Row, dict[str, list[float]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, row: Row, contender: str, value: float) -> None:
        self.rows.setdefault(row, {}).setdefault(contender, []).append(value)

    def median(self, row: Row, contender: str) -> float | None:
        samples = self.rows.get(row, {}).get(contender)
        return statistics.median(samples) if samples else None

    def ratio(self, row: Row, against: str) -> float | None:
        ours, theirs = self.median(row, TRUNKLINE), self.median(row, against)
        return ours / theirs if ours is not None and theirs else None


_FASTER = (Target(1.0, at_least=True),)


def produce_rate(case: str) -> Row:
    return Row(f"produce, {case}", "k msg/s", 0, _FASTER)


def produce_cpu(case: str) -> Row:
    return Row(f"broker CPU per produced message, {case}", "µs", 2, (Target(0.6, at_least=False),))


def consume_rate(case: str) -> Row:
    return Row(f"consume, {case}", "k msg/s", 0, _FASTER)


def consume_cpu(case: str) -> Row:
    return Row(f"broker CPU per consumed message, {case}", "µs", 2)


LATENCY_P50 = Row(
    "end to end p50 at 1,000 msg/s",
    "ms",
    2,
    (Target(1.3, at_least=False), Target(1.0, at_least=False, against=KAFKA_FLUSH)),
)
LATENCY_P99 = Row("end to end p99 at 1,000 msg/s", "ms", 2)
LATENCY_CPU = Row("broker CPU per message at 1,000 msg/s", "µs", 0)
RSS_AT_REST = Row("memory (RSS) at rest", "MB", 0, (Target(0.2, at_least=False),))
RSS_AFTER_LOAD = Row("memory (RSS) after load", "MB", 0, (Target(0.2, at_least=False),))
START_UP = Row("start-up until the first answer", "s", 2, (Target(0.3, at_least=False),))
