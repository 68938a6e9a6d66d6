"""The names of a segment's files, and which of them count when cleaning was cut short.

    00000000000000000042               written by appends
    00000000000000000042-90-80-3       written by cleaning: it stands for everything that was in offsets 42 to 89,
                                       is clean below 80, and replaces all files of a lower generation than 3 there
    ….cleaned                          being written: worth nothing after a crash

A cleaned file appears under its name by one rename, whole and synced; only then are those that it replaces removed. So
whatever a crash leaves, each offset is in exactly one file that counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SUFFIXES: Final = (LOG, INDEX, TIME_INDEX)
DRAFT: Final = ".cleaned"
_NAME: Final = re.compile(r"(\d{20})(?:-(\d+)-(\d+)-(\d+))?")


class SegmentName(NamedTuple):
    base_offset: int
    end_offset: int = -1
    """Where the offsets that a cleaned segment stands for end; -1 in one that was never cleaned."""
    clean_to: int = -1
    generation: int = 0

    @property
    def stem(self) -> str:
        base = f"{self.base_offset:020d}"
        return f"{base}-{self.end_offset}-{self.clean_to}-{self.generation}" if self.generation else base

    @classmethod
    def parse(cls, stem: str) -> SegmentName | None:
        match = _NAME.fullmatch(stem)
        if match is None:
            return None
        return cls(*(int(part) for part in match.groups() if part is not None))


def log_names(files: Iterable[str]) -> list[SegmentName]:
    """Of the segments among the files of a directory, by offset, the newest generation first."""
    stems = (file.removesuffix(LOG) for file in files if file.endswith(LOG))
    found = [name for stem in stems if (name := SegmentName.parse(stem)) is not None]
    return sorted(found, key=lambda name: (name.base_offset, -name.generation))


def without_replaced(names: Iterable[SegmentName]) -> tuple[list[SegmentName], list[SegmentName]]:
    """Those that count, and those that a cleaned one replaced. Takes them as `log_names` gives them."""
    counting: list[SegmentName] = []
    replaced: list[SegmentName] = []
    cover = SegmentName(-1)
    for name in names:
        if name.base_offset < cover.end_offset and name.generation < cover.generation:
            replaced.append(name)
        else:
            counting.append(name)
            cover = name
    return counting, replaced
