"""How fast background work may go: so many bytes a second, and never for long without letting others have their turn.

Threads share one interpreter: a thread that only computes keeps the event loop waiting each time it comes back from the
system, several times for one request. So the work rests after every short slice: for as little as a rest can be while
the process has nothing else to do, and for longer than the slice itself while it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SLICE_SECONDS: Final = 0.0001
SHORT_REST_SECONDS: Final = 0.00001
LONG_REST_SECONDS: Final = 0.0002
_LOOK_SECONDS: Final = 0.02
"""How often to look whether others work."""
_BUSY: Final = 0.02
"""Others count as working when they use more of a processor than this."""
_LONGEST_WAIT_SECONDS: Final = 0.1
_WINDOW_SECONDS: Final = 1.0


class WorkStopped(Exception):
    """The node stops, or what is worked on was deleted: leave things as they are."""


def processor_seconds_of_others() -> float:
    """What the other threads of this process have used."""
    return time.process_time() - time.thread_time()


class Pace:
    """For one thread; only `stop` may be called from others."""

    def __init__(
        self,
        bytes_per_second: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        others: Callable[[], float] = processor_seconds_of_others,
    ) -> None:
        """0 bytes per second: without limit."""
        self._bytes_per_second = bytes_per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._others = others
        self._stopped = False
        self._rested = self._started = monotonic()
        self._spent_bytes = 0
        self._looked = float("-inf")
        self._others_then = 0.0
        self._rest_seconds = LONG_REST_SECONDS

    def stop(self) -> None:
        self._stopped = True

    def spend(self, size_bytes: int) -> None:
        """So much was read or written. Rests where it is time to. WorkStopped."""
        self._spent_bytes += size_bytes
        self.breathe()

    def breathe(self) -> None:
        """Between any two small pieces of work. WorkStopped."""
        if self._stopped:
            raise WorkStopped
        now = self._monotonic()
        if now - self._rested < SLICE_SECONDS:
            return
        if now - self._looked >= _LOOK_SECONDS:
            self._look(now)
        self._sleep(self._rest_seconds)
        if self._bytes_per_second:
            self._wait_for_budget()
        self._rested = self._monotonic()

    def _look(self, now: float) -> None:
        others = self._others()
        busy = others - self._others_then > _BUSY * (now - self._looked)
        self._rest_seconds = LONG_REST_SECONDS if busy else SHORT_REST_SECONDS
        self._looked, self._others_then = now, others

    def _wait_for_budget(self) -> None:
        due = self._started + self._spent_bytes / self._bytes_per_second
        while (ahead := due - self._monotonic()) > 0:
            if self._stopped:
                raise WorkStopped
            self._sleep(min(ahead, _LONGEST_WAIT_SECONDS))
        now = self._monotonic()
        if now - self._started > _WINDOW_SECONDS:  # What was not used is not saved up.
            self._started, self._spent_bytes = now, 0
