"""Binds an address for a protocol. `localhost` means both 127.0.0.1 and ::1, on one port: clients try either first."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

_BACKLOG: Final = 1024
_PORT_TRIES: Final = 20


class CannotListen(Exception):
    """One clear line for the person who started the node."""


class Listener:
    """The bound sockets of one protocol."""

    def __init__(self, name: str, host: str, sockets: list[socket.socket]) -> None:
        self.name = name
        self.host = host
        self.sockets = sockets
        self._servers: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        port: int = self.sockets[0].getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """As printed and written to the ready file: the first address, by number."""
        host = self.sockets[0].getsockname()[0]
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def serve(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        loop = asyncio.get_running_loop()
        for bound in self.sockets:
            self._servers.append(await loop.create_server(factory, sock=bound, backlog=_BACKLOG))

    async def close(self) -> None:
        """Take no new connections. Those that are open are their owner's to close."""
        for server in self._servers:
            server.close()
        for bound in self.sockets:
            bound.close()


def bind(name: str, host: str, port: int) -> Listener:
    """Take the port now, so that a taken one is told before anything else starts. CannotListen says what to do."""
    if host == "localhost":
        return Listener(name, host, _bind_both(name, port))
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return Listener(name, host, [_bind_one(family, kind, address)])
    except OSError as error:
        raise _explained(name, host, port, error) from error


def _bind_both(name: str, port: int) -> list[socket.socket]:
    for attempt in range(_PORT_TRIES):
        sockets: list[socket.socket] = []
        try:
            sockets.append(_bind_one(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)))
            if _has_ipv6():
                taken = sockets[0].getsockname()[1]
                sockets.append(_bind_one(socket.AF_INET6, socket.SOCK_STREAM, ("::1", taken)))
        except OSError as error:
            for bound in sockets:
                bound.close()
            if port or attempt == _PORT_TRIES - 1 or error.errno != errno.EADDRINUSE:
                raise _explained(name, "localhost", port, error) from error
        else:
            return sockets
    raise AssertionError("unreachable")


def _bind_one(family: int, kind: int, address: tuple[object, ...]) -> socket.socket:
    bound = socket.socket(family, kind)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.setblocking(False)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _explained(name: str, host: str, port: int, error: OSError) -> CannotListen:
    if error.errno == errno.EADDRINUSE:
        return CannotListen(
            f"{name}: port {port} on {host} is taken by another process. "
            f"Stop it, choose another one with --{name} {host}:PORT, or turn this listener off with --{name} off."
        )
    return CannotListen(f"{name}: cannot listen on {host}:{port}: {error.strerror or error}.")
