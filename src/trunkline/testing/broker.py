"""A whole broker inside the test's process: real sockets, real protocol, nothing left behind.

    from trunkline.testing import Broker

    with Broker() as broker:
        Producer({"bootstrap.servers": broker.kafka})

It lives in memory unless it is given a data directory. Every listener takes a free port, so tests run in parallel.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from trunkline.log.disk import Disk
from trunkline.model.limits import ClientLimits
from trunkline.model.settings import Address, Settings
from trunkline.node.node import Node

T = TypeVar("T")


class Broker:
    """Start with `with`, or with `start` and `stop`. Keyword arguments are Settings, by name."""

    def __init__(
        self,
        data: Path | None = None,
        *,
        disk: Disk | None = None,
        client_limits: ClientLimits | None = None,
        **settings: Any,
    ) -> None:
        """`disk`: for logs, such as a `faults.FaultDisk`; metadata stays in the data directory."""
        base = Settings(kafka=Address("127.0.0.1", 0), amqp=None, redis=None, http=None)
        place = {"memory": True} if data is None else {"data": data}
        self.settings = replace(base, **place, **settings)
        self.node: Node
        self._disk = disk
        self._client_limits = client_limits
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="trunkline", daemon=True)

    @property
    def kafka(self) -> str:
        """host:port for Kafka clients."""
        return self.node.listeners["kafka"].address

    @property
    def http(self) -> str:
        """host:port of health and metrics; only where `http` was set."""
        return self.node.listeners["http"].address

    def start(self) -> Broker:
        self._thread.start()
        self._call(self._start())
        return self

    def stop(self) -> None:
        """A clean stop; what was written to a data directory is there for the next one."""
        self._call(self.node.stop())
        self._end()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's own loop, for tests that look inside."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def _start(self) -> None:
        self.node = Node(self.settings, disk=self._disk, client_limits=self._client_limits)
        await self.node.start()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self.run(work)
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
