"""Where Trunkline means to answer differently. A pattern covers "Request.scenario/step/field…", * standing for anything."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Known:
    pattern: str
    reason: str

    def covers(self, where: str) -> bool:
        return fnmatchcase(where, self.pattern)


KNOWN: tuple[Known, ...] = ()
