"""Health and metrics over HTTP, for people, load balancers and Prometheus. Reads only; nothing here changes the node.

    GET /           a page for people: version, listeners, links
    GET /healthz    200 as long as the event loop turns
    GET /readyz     200 when the node serves and storage takes writes; else 503 and why
    GET /metrics    Prometheus text

aiohttp is loaded by `start`, so a node without HTTP does not pay for it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from trunkline import __version__
from trunkline.admin.metrics import Metrics

if TYPE_CHECKING:
    from aiohttp import web

    from trunkline.admin.pages import Readiness

MAX_CONNECTIONS: Final = 64
"""More at once are closed unheard: scrapers and probes need a handful."""
MAX_HEADER_BYTES: Final = 4096
MAX_HEADERS: Final = 64
IDLE_SECONDS: Final = 30.0
"""A connection that sends no whole request in this time is closed."""
STOP_SECONDS: Final = 2.0
_SECONDS_BETWEEN_LINES: Final = 10.0


class AdminServer:
    """Made by `start`."""

    def __init__(self, servers: Sequence[asyncio.Server], runner: web.AppRunner) -> None:
        self._servers = servers
        self._runner = runner

    async def close(self) -> None:
        """Stop listening, finish the answers under way (STOP_SECONDS at most), close every connection."""
        for server in self._servers:
            server.close()
        await self._runner.cleanup()


async def start(
    sockets: Sequence[socket.socket],
    *,
    metrics: Metrics,
    readiness: Readiness,
    listeners: Mapping[str, str],
    version: str = __version__,
) -> AdminServer:
    """Serve on sockets that are bound already.

    `listeners` (protocol to address) is what the page shows, as it stands when it is asked for.
    """
    from trunkline.admin.pages import Pages

    runner = _runner(Pages(metrics, readiness, listeners, version).application())
    await runner.setup()
    return AdminServer(await _serve(sockets, runner), runner)


def _runner(app: web.Application) -> web.AppRunner:
    from aiohttp import web

    return web.AppRunner(
        app,
        access_log=None,
        logger=_request_log(),
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=0,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        max_headers=MAX_HEADERS,
        shutdown_timeout=STOP_SECONDS,
    )


async def _serve(sockets: Sequence[socket.socket], runner: web.AppRunner) -> list[asyncio.Server]:
    handlers = runner.server
    assert handlers is not None  # set up

    def connection() -> asyncio.BaseProtocol:
        return handlers() if len(handlers.connections) < MAX_CONNECTIONS else _Refused()

    loop = asyncio.get_running_loop()
    return [await loop.create_server(connection, sock=sock) for sock in sockets]


class _Refused(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class _OneLine(logging.Filter):
    """aiohttp logs a traceback for each malformed request: make that one line, and not too many of them."""

    _next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.created < self._next:
            return False
        self._next = record.created + _SECONDS_BETWEEN_LINES
        if record.exc_info and record.exc_info[1] is not None:
            reason = ascii(" ".join(str(record.exc_info[1]).split()))[:200]
            record.msg, record.args = f"{record.getMessage()}: {reason}", ()
            record.exc_info = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def _request_log() -> logging.Logger:
    log = logging.getLogger(f"{__name__}.requests")
    if not log.filters:
        log.addFilter(_OneLine())
    return log
