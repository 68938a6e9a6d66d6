"""Wait for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], what: str, seconds: float = 20) -> T:
    """The first true thing that `probe` gives; an AssertionError that says what did not happen."""
    deadline = time.monotonic() + seconds
    while True:
        result = probe()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"within {seconds} s this did not happen: {what}")
        time.sleep(0.02)
