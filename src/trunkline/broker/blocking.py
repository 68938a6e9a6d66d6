"""The port through which work that may wait for the disk leaves the loop. The node gives it threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class RunBlocking(Protocol):
    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...
