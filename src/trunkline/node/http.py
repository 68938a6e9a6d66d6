"""HTTP, loaded when somebody first asks for it: aiohttp takes 0.3 s and 17 MB, which most starts never need.

The port is bound from the start, so the first request only waits a little longer.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping

from trunkline.admin.http import AdminServer, start
from trunkline.admin.metrics import Metrics
from trunkline.broker.blocking import RunBlocking
from trunkline.serve.listener import Listener


class LazyHttp:
    def __init__(
        self,
        listener: Listener,
        metrics: Metrics,
        readiness: Callable[[], str | None],
        addresses: Mapping[str, str],
        run_blocking: RunBlocking,
    ) -> None:
        self._listener = listener
        self._metrics = metrics
        self._readiness = readiness
        self._addresses = addresses
        self._run_blocking = run_blocking
        self._server: AdminServer | None = None
        self._starting: asyncio.Task[None] | None = None
        for bound in listener.sockets:
            asyncio.get_running_loop().add_reader(bound, self._somebody_came)

    async def close(self) -> None:
        self._stop_watching()
        if self._starting is not None:
            await self._starting
        if self._server is not None:
            await self._server.close()

    def _somebody_came(self) -> None:
        self._stop_watching()
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        await self._run_blocking(lambda: importlib.import_module("trunkline.admin.pages"))
        self._server = await start(
            self._listener.sockets, metrics=self._metrics, readiness=self._readiness, listeners=self._addresses
        )

    def _stop_watching(self) -> None:
        if self._starting is None:
            for bound in self._listener.sockets:
                asyncio.get_running_loop().remove_reader(bound)
