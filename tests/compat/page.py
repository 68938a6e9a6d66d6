"""docs/compat.md: the last whole run, suite by suite, with every check that does not pass and why."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.suite import Result, Suite

PAGE = Path(__file__).parents[2] / "docs" / "compat.md"


def write(outcomes: Sequence[tuple[Suite, Sequence[Result]]], path: Path = PAGE) -> None:
    path.write_text(text(outcomes, datetime.date.today().isoformat()))


def text(outcomes: Sequence[tuple[Suite, Sequence[Result]]], date: str) -> str:
    lines = [
        "# The peers' own tools and clients",
        "",
        f"Written by `make compat` on {date}. What passes is listed in tests/compat/ and must go on passing.",
        "",
        "| suite | what runs | checks | pass |",
        "| --- | --- | ---: | ---: |",
    ]
    for suite, results in outcomes:
        passed = sum(result.passed for result in results)
        lines.append(f"| {suite.name} | {suite.what} | {len(results)} | {passed} |")
    lines += ["", "## What does not pass", "", "| suite | check | what it says |", "| --- | --- | --- |"]
    lines += [
        f"| {suite.name} | {result.name} | {_short(result.detail)} |"
        for suite, results in outcomes
        for result in results
        if not result.passed
    ]
    lines += ["", *_refused_by_kafka({suite.name: suite.fails_on_kafka for suite, _ in outcomes})]
    return "\n".join(lines) + "\n"


def _refused_by_kafka(by_suite: Mapping[str, Mapping[str, str]]) -> list[str]:
    rows = [f"| {name} | {check} | {why} |" for name, known in by_suite.items() for check, why in known.items()]
    if not rows:
        return []
    return [
        "## What passes here and not on Apache Kafka 4.3",
        "",
        "| suite | check | why |",
        "| --- | --- | --- |",
        *rows,
    ]


def _short(detail: str) -> str:
    line = " ".join(detail.split()).replace("|", "/")
    return line if len(line) <= 160 else f"{line[:157]}…"
