"""Damage that a client met: told in the log once, however often it is met, with the file and the position."""

from __future__ import annotations

import logging
from typing import Final

from trunkline.model.errors import CorruptLog, TrunklineError

log = logging.getLogger(__name__)

_MOST_TOLD: Final = 1000


class Damage:
    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, error: TrunklineError | None) -> None:
        """Nothing happens unless it is damage."""
        if isinstance(error, CorruptLog) and str(error) not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(str(error))
            log.error("%s", error)
