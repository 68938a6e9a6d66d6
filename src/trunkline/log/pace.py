"""How fast background work may go: so many bytes a second, and never for long without letting others have their turn.

Threads share one interpreter: a thread that only computes keeps the event loop waiting each time it comes back from the
system. So the work rests a little after every slice, however much of the budget is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SLICE_SECONDS: Final = 0.0005
REST_SECONDS: Final = 0.0001
_LONGEST_REST_SECONDS: Final = 0.1
_WINDOW_SECONDS: Final = 1.0


class WorkStopped(Exception):
    """The node stops, or what is worked on was deleted: leave things as they are."""


class Pace:
    """`spend` and `stop` may be called from different threads."""

    def __init__(
        self,
        bytes_per_second: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """0 bytes per second: without limit."""
        self._bytes_per_second = bytes_per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._stopped = False
        self._rested = self._started = monotonic()
        self._spent_bytes = 0

    def stop(self) -> None:
        self._stopped = True

    def spend(self, size_bytes: int) -> None:
        """So much was read or written. Rests where it is time to. WorkStopped."""
        if self._stopped:
            raise WorkStopped
        self._spent_bytes += size_bytes
        now = self._monotonic()
        if now - self._rested < SLICE_SECONDS:
            return
        self._sleep(REST_SECONDS)
        if self._bytes_per_second:
            self._wait_for_budget()
        self._rested = self._monotonic()

    def _wait_for_budget(self) -> None:
        due = self._started + self._spent_bytes / self._bytes_per_second
        while (ahead := due - self._monotonic()) > 0:
            if self._stopped:
                raise WorkStopped
            self._sleep(min(ahead, _LONGEST_REST_SECONDS))
        now = self._monotonic()
        if now - self._started > _WINDOW_SECONDS:  # What was not used is not saved up.
            self._started, self._spent_bytes = now, 0
