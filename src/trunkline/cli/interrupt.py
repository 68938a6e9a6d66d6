"""^C and SIGTERM, taken between two steps: what was written, counted and committed always agree.

The first one only sets `asked`; a second is an ordinary KeyboardInterrupt, for when the clean end takes too long.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, Self


class Interrupt:
    def __init__(self) -> None:
        self.asked = False
        self._waiting = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def until_asked(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The same lines; ^C ends them, also while one is waited for."""
        iterator = iter(lines)
        while not self.asked:
            try:
                self._waiting = True
                line = next(iterator, None)
                self._waiting = False
            except KeyboardInterrupt:
                return
            if line is None:
                return
            yield line

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or self._waiting:
            self._waiting = False
            raise KeyboardInterrupt
