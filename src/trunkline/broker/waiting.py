"""Long polls: a reader that found too little sleeps until enough arrived, its time is up, or a partition is gone.

A poll is told how many bytes became visible and wakes once they sum up to what it misses, so nobody reads in a loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from trunkline.broker.partition import Partition


class LongPoll:
    __slots__ = ("_future", "_missing_bytes")

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def more(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def sleep(self, partitions: Iterable[Partition], seconds: float) -> None:
        watched = tuple(partitions)
        for partition in watched:
            partition.polls.add(self)
        alarm = asyncio.get_running_loop().call_later(seconds, self.wake)
        try:
            await self._future
        finally:
            alarm.cancel()
            for partition in watched:
                partition.polls.discard(self)
