"""A suite: named checks run against a broker, and the list of those that must go on passing.

The list of a suite is a text file beside it, one name a line. A check in the list that fails, fails the run; a check
that passes without being listed is announced, and `--update` writes it in.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

_HERE = Path(__file__).parent
Given = TypeVar("Given")


@dataclass(frozen=True)
class Result:
    """`detail` says why a check failed, in the words of the client where there are any."""

    name: str
    passed: bool
    seconds: float
    detail: str = ""


@dataclass(frozen=True)
class Suite:
    """`run` yields results as they come. `fails_on_kafka` names what Apache Kafka itself refuses, and why."""

    name: str
    what: str
    run: Callable[[str, str], Iterator[Result]]
    """Takes the bootstrap address and a part of a check's name ("" for all)."""
    fails_on_kafka: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    """How Trunkline is to be started for this suite, and what says the same to Kafka."""
    kafka_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def list_path(self) -> Path:
        return _HERE / f"{self.name}.txt"

    def listed(self) -> set[str]:
        if not self.list_path.exists():
            return set()
        lines = self.list_path.read_text().splitlines()
        return {line for line in lines if line and not line.startswith("#")}

    def write_list(self, results: list[Result]) -> None:
        names = [result.name for result in results if result.passed]
        head = f"# {self.what}: the checks that pass. `python -m tests.compat --update` writes this."
        self.list_path.write_text("\n".join([head, *names]) + "\n")


def run_checks(checks: Mapping[str, Callable[[Given], None]], given: Given, match: str) -> Iterator[Result]:
    """Runs Python checks one after the other; an AssertionError or any other exception is a failed check."""
    for name, check in checks.items():
        if match not in name:
            continue
        began = time.monotonic()
        try:
            check(given)
        except Exception as error:
            yield Result(name, False, time.monotonic() - began, _told(error))
        else:
            yield Result(name, True, time.monotonic() - began)


def _told(error: Exception) -> str:
    """The error's words, or the line that raised it where it has none (a bare assert)."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__}: {str(error) or f'{place.line} (line {place.lineno} of {Path(place.filename).name})'}"
    )
