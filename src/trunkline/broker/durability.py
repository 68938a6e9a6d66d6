"""Writes on their way to safety: which append is safe at which journal ticket, and who is to be told.

Tickets grow, so both queues are in order: a sync costs what it makes safe, never what still waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from trunkline.broker.partition import Partition
from trunkline.model.errors import RequestTimedOut
from trunkline.model.ids import Offset
from trunkline.model.limits import ClientLimits


class Durability:
    def __init__(
        self,
        wake_journal: Callable[[], None],
        unsynced_bytes: int = ClientLimits.unsynced_bytes,
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_full`: the journal refuses writes, so there is nothing to wait for: writers are to be told."""
        self.wake = wake_journal
        self._most_unsynced_bytes = unsynced_bytes
        self._unsynced_bytes = 0
        self._is_full = is_full
        self._held_back: dict[Callable[[], None], None] = {}
        self._unsafe: deque[tuple[int, Partition, Offset, int]] = deque()
        self._waiting: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self._synced = 0

    def written(self, ticket: int, partition: Partition, end: Offset, size_bytes: int) -> None:
        """An append below `end` becomes visible when the journal is synced up to `ticket`."""
        self._unsafe.append((ticket, partition, end, size_bytes))
        self._unsynced_bytes += size_bytes
        self.wake()

    @property
    def behind(self) -> bool:
        """Whether so much waits for the disk that no more should be written before it has caught up."""
        return self._unsynced_bytes > self._most_unsynced_bytes and not self._is_full()

    def when_caught_up(self, call: Callable[[], None]) -> None:
        """Call once when `behind` is over."""
        self._held_back[call] = None

    def forget(self, call: Callable[[], None]) -> None:
        self._held_back.pop(call, None)

    def is_safe(self, ticket: int) -> bool:
        return ticket <= self._synced

    def wait(self, ticket: int, deadline_ms: int) -> asyncio.Future[None] | None:
        """A future for the moment `ticket` is safe; None when it already is."""
        if ticket <= self._synced:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((ticket, deadline_ms, future))
        return future

    def synced(self, ticket: int) -> None:
        """The journal is on the disk up to `ticket`: show what that made safe, then answer who waited."""
        self._synced = ticket
        unsafe, waiting = self._unsafe, self._waiting
        while unsafe and unsafe[0][0] <= ticket:
            _, partition, end, size_bytes = unsafe.popleft()
            self._unsynced_bytes -= size_bytes
            partition.advance(end, size_bytes)
        while waiting and waiting[0][0] <= ticket:
            future = waiting.popleft()[2]
            if not future.done():
                future.set_result(None)
        if self._held_back and not self.behind:
            held_back, self._held_back = self._held_back, {}
            for call in held_back:
                call()

    def expire(self, now_ms: int) -> None:
        """Tell those whose patience ran out; what they wrote may still become safe later."""
        for _, deadline_ms, future in self._waiting:
            if deadline_ms <= now_ms and not future.done():
                future.set_exception(
                    RequestTimedOut("The disk did not confirm the write in time; it may still succeed.")
                )
