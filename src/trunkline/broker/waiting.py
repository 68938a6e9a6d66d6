"""Long polls: a reader that found too little sleeps until enough arrived, its time is up, or a partition is gone.

A poll is told how many bytes became visible and wakes once they sum up to what it misses, so nobody reads in a loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from trunkline.broker.partition import Partition


class LongPoll:
    """Watches from the moment it is made, so that nothing is missed before somebody sleeps on it."""

    __slots__ = ("_alarm", "_future", "_missing_bytes", "_watched")

    def __init__(self, partitions: Iterable[Partition], missing_bytes: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._missing_bytes = missing_bytes
        self._future: asyncio.Future[None] = loop.create_future()
        self._alarm = loop.call_later(seconds, self.wake)
        self._watched = list(partitions)
        for partition in self._watched:
            partition.polls.add(self)

    def watch(self, partition: Partition) -> None:
        """One more, from now on."""
        self._watched.append(partition)
        partition.polls.add(self)

    def more(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def sleep(self) -> None:
        try:
            await self._future
        finally:
            self._alarm.cancel()
            for partition in self._watched:
                partition.polls.discard(self)
