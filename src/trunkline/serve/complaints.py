"""Log lines about bad clients, rate-limited: a flood of bad bytes must not become a flood of lines."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Final

_WINDOW_SECONDS: Final = 10.0
_LINES_PER_WINDOW: Final = 20


class Complaints:
    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._window_start = 0.0
        self._said = 0

    def say(self, message: str, *details: object) -> None:
        now = monotonic()
        if now - self._window_start >= _WINDOW_SECONDS:
            unsaid = self._said - _LINES_PER_WINDOW
            if unsaid > 0:
                self._logger.warning("%d more lines like the last ones were left out.", unsaid)
            self._window_start, self._said = now, 0
        self._said += 1
        if self._said <= _LINES_PER_WINDOW:
            self._logger.warning(message, *details)
