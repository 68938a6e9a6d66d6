"""Listening sockets on several addresses with one port number between them."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Final

_ATTEMPTS: Final = 20
_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

Address = tuple[socket.AddressFamily, str]


def listen(hosts: Sequence[str], port: int) -> list[socket.socket]:
    """Bound to each address of each host; port 0 takes one that is free on all of them.

    An address that this machine lacks (often ::1) is passed over when another of the hosts' addresses is there.
    OSError says in one line which address is not to be had.
    """
    addresses = _resolve(hosts, port)
    for _ in range(_ATTEMPTS - 1):
        try:
            return _listen_on_all(addresses, port)
        except OSError as error:
            # The free port of the first address may be taken on the second: try with another one.
            if port != 0 or error.errno != errno.EADDRINUSE:
                raise
    return _listen_on_all(addresses, port)


def _resolve(hosts: Sequence[str], port: int) -> list[Address]:
    addresses: list[Address] = []
    for host in hosts:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {host}:{port}: the name is unknown") from error
        addresses += [(family, str(address[0])) for family, _, _, _, address in found]
    return list(dict.fromkeys(addresses))


def _listen_on_all(addresses: Sequence[Address], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, host in addresses:
            try:
                sockets.append(_listen_on(family, host, port))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
            else:
                port = sockets[-1].getsockname()[1]
        if not sockets:
            raise missing or OSError(errno.EADDRNOTAVAIL, "there is no address to listen on")
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _listen_on(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _named(error, host, port) from error
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind((host, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise _named(error, host, port) from error
    return sock


def _named(error: OSError, host: str, port: int) -> OSError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return OSError(error.errno, f"cannot listen on {place}: {os.strerror(error.errno or 0).lower()}")
