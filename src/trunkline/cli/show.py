"""Output: tables for people (rich, imported only here), JSON for scripts, and text that cannot harm a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

Cell = str | int | None


def document(value: object) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """A line for people beside the output: on stderr, so that pipes stay clean."""
    print(text, file=sys.stderr, flush=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], empty: str = "none") -> None:
    """Columns of numbers are right-aligned. In a pipe nothing is wrapped or cut."""
    lines = list(rows)
    if not lines:
        note(empty)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numbers = all(line[index] is None or isinstance(line[index], int) for line in lines)
        grid.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for line in lines:
        grid.add_row(*(Text("-" if cell is None else printable(str(cell))) for cell in line))
    Console(width=None if sys.stdout.isatty() else 10_000, soft_wrap=False).print(grid)


def fields(values: Mapping[str, Cell]) -> None:
    """Name and value, one pair per line."""
    width = max(len(name) for name in values)
    for name, value in values.items():
        print(f"{name:{width}}  {'-' if value is None else printable(str(value))}")


def printable(text: str) -> str:
    """`text` with control characters escaped: names and records come from others, and may hold escape sequences."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def iso_time(timestamp_ms: int) -> str:
    """`2031-05-01T12:00:00.123Z`; a time no calendar has is shown as its number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
