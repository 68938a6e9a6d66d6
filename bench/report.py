"""The results as one markdown table, for the terminal and for docs/benchmarks.md alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.results import KAFKA, KAFKA_FLUSH, TRUNKLINE, Results, Row, Target

_COLUMNS = {KAFKA: "Kafka", KAFKA_FLUSH: "Kafka, flush.messages=1", TRUNKLINE: "Trunkline"}
_NOTES_HEADING = "## Notes"

_HOW = """\
Apache Kafka and Trunkline run side by side on one machine, each in its own process with its default settings; the load
is on one at a time, in alternating turns, and figures are medians over the turns. Clients are confluent-kafka in
processes of their own: acks=all, linger 5 ms, no compression, one producer or one consumer. Both brokers are warmed up
first, until the rate no longer grows. Trunkline syncs to disk before every ack; Kafka does not by default, and does
for every request in the column flush.messages=1. Latency is from just before `produce()` to the message in the
consumer's hands, one record of 100 B per request. CPU is user and system time of the broker's processes. The ratio is
Trunkline divided by Kafka."""


def table(results: Results) -> str:
    contenders = [key for key in _COLUMNS if any(key in samples for samples in results.rows.values())]
    head = ["measure", "unit", *(_COLUMNS[key] for key in contenders), "ratio", "target", "verdict"]
    lines = [head]
    for row in results.rows:
        figures = [_figure(row, results.median(row, key)) for key in contenders]
        verdicts = [_verdict(results, row, target) for target in row.targets] or [_plain_ratio(results, row)]
        ratios, targets, marks = ("; ".join(filter(None, parts)) for parts in zip(*verdicts, strict=True))
        lines.append([row.label, row.unit, *figures, ratios, targets, marks])
    return _aligned(lines, left=1)


def _figure(row: Row, value: float | None) -> str:
    return "–" if value is None else f"{value:,.{row.digits}f}"


def _plain_ratio(results: Results, row: Row) -> tuple[str, str, str]:
    ratio = results.ratio(row, KAFKA)
    return ("" if ratio is None else f"{ratio:.2f}×", "", "")


def _verdict(results: Results, row: Row, target: Target) -> tuple[str, str, str]:
    against = " of flush" if target.against == KAFKA_FLUSH else ""
    ratio = results.ratio(row, target.against)
    if ratio is None:
        return "", f"{target}{against}", ""
    return f"{ratio:.2f}×{against}", f"{target}{against}", "met" if target.met(ratio) else "**missed**"


def _aligned(lines: list[list[str]], left: int) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = ["-" * width if column < left else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    told = []
    for line in [lines[0], rule, *lines[1:]]:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        told.append("| " + " | ".join(cells) + " |")
    return "\n".join(told)


def page(results: Results, facts: Mapping[str, str], notes: str) -> str:
    parts = [
        "# Benchmarks: Trunkline beside Apache Kafka",
        f"`{facts['command']}` wrote this page; only the notes at its end are by hand.",
        _HOW,
        "## Results",
        table(results),
    ]
    if results.failures:
        parts.append("Failed:\n" + "\n".join(f"- {failure}" for failure in results.failures))
    parts += ["## Machine", "\n".join(f"- {name}: {fact}" for name, fact in facts.items())]
    return "\n\n".join(parts) + "\n" + (f"\n{notes}" if notes else "")


def write(path: Path, results: Results, facts: Mapping[str, str]) -> None:
    """Replaces the page, keeping the notes that people wrote at its end."""
    notes = ""
    if path.exists():
        _, heading, rest = path.read_text().partition(_NOTES_HEADING)
        notes = heading + rest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(results, facts, notes))
