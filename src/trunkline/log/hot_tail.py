"""The newest batches of all partitions in memory, under one budget: what consumers that keep up are served from.

A partition's tail is always contiguous up to its end. Over budget, the oldest batch of the whole node goes first;
batches of one partition were added in order, so that is always the first of its tail.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

_OVERHEAD_BYTES: Final = 200
"""What a batch costs besides its bytes."""
_COMPACT_AFTER: Final = 64
_SLACK_BYTES: Final = 512
"""How much more than twice a batch its request may be before the batch is copied out of it."""


class HotTail:
    """The budget, shared by all."""

    __slots__ = ("_order", "budget_bytes", "used_bytes")

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._order: deque[PartitionTail] = deque()

    def added(self, tail: PartitionTail, size_bytes: int) -> None:
        self._order.append(tail)
        self.used_bytes += size_bytes + _OVERHEAD_BYTES
        while self.used_bytes > self.budget_bytes:
            self.used_bytes -= self._order.popleft().drop_first() + _OVERHEAD_BYTES


class PartitionTail:
    """One partition's part. Batches that were dropped leave their place at the head of the lists for a while."""

    __slots__ = ("_bases", "_batches", "_head", "_shared", "next_offset")

    def __init__(self, shared: HotTail) -> None:
        self._shared = shared
        self._bases: list[int] = []
        self._batches: list[memoryview | None] = []
        self._head = 0
        self.next_offset = 0

    @property
    def first_offset(self) -> int:
        """From here on everything is in memory; the end of the log when nothing is."""
        return self._bases[self._head] if self._head < len(self._bases) else self.next_offset

    def add(self, base_offset: int, next_offset: int, batch: memoryview) -> None:
        # A batch keeps the whole request that it came in alive: a small one in a large request would cost far more
        # than the budget knows of.
        if len(batch.obj) > 2 * len(batch) + _SLACK_BYTES:  # type: ignore[arg-type]
            batch = memoryview(bytes(batch))
        self._bases.append(base_offset)
        self._batches.append(batch)
        self.next_offset = next_offset
        self._shared.added(self, len(batch))

    def drop_first(self) -> int:
        batch = self._batches[self._head]
        assert batch is not None
        self._batches[self._head] = None
        self._head += 1
        if self._head >= _COMPACT_AFTER and self._head * 2 >= len(self._bases):
            del self._bases[: self._head]
            del self._batches[: self._head]
            self._head = 0
        return len(batch)

    def read(self, offset: int, max_bytes: int, end: int, at_least_one: bool) -> tuple[list[memoryview], int, int]:
        """Whole batches from the one that holds `offset`, their size, and the offset after them."""
        bases, batches = self._bases, self._batches
        index = max(bisect_right(bases, offset, self._head) - 1, self._head)
        found: list[memoryview] = []
        size, count = 0, len(bases)
        next_offset = offset
        while index < count:
            after = bases[index + 1] if index + 1 < count else self.next_offset
            batch = batches[index]
            assert batch is not None
            if after > end or (size + len(batch) > max_bytes and (found or not at_least_one)):
                break
            found.append(batch)
            size += len(batch)
            next_offset = after
            index += 1
        return found, size, next_offset
