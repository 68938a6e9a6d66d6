"""What this machine gives a broker, measured: the disk's speed and the cost of a sync, memory, limits, free ports."""

from __future__ import annotations

import errno
import os
import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trunkline.model.settings import Address

_CHUNK_BYTES: Final = 1024 * 1024
_MOST_BYTES: Final = 256 * _CHUNK_BYTES
_RECORD_BYTES: Final = 4096
_SYNCS: Final = 500


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    write_bytes_per_second: float
    """In order, synced at the end."""
    sync_p50_seconds: float
    sync_p99_seconds: float
    """Of 4 KiB appended to a file that has its place already, as the journal does."""


def nearest_directory(path: Path) -> Path:
    """The directory itself, or the first above it that exists: both are on the same disk."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def measure_disk(directory: Path, seconds: float) -> DiskSpeed:
    """Takes about `seconds`, writes at most 256 MiB, leaves nothing behind. OSError where nothing can be written."""
    with _scratch(directory) as file:
        speed = _write_speed(file, seconds / 2)
        costs = sorted(_sync_costs(file, seconds / 2))
    return DiskSpeed(speed, costs[len(costs) // 2], costs[min(len(costs) * 99 // 100, len(costs) - 1)])


@contextmanager
def _scratch(directory: Path) -> Iterator[int]:
    file, name = tempfile.mkstemp(prefix=".trunkline-doctor-", dir=directory)
    try:
        os.unlink(name)
        yield file
    finally:
        os.close(file)


def _write_speed(file: int, seconds: float) -> float:
    chunk = os.urandom(_CHUNK_BYTES)
    started, written = time.monotonic(), 0
    while written < _MOST_BYTES and time.monotonic() - started < seconds:
        written += os.pwrite(file, chunk, written)
    os.fdatasync(file)
    return written / (time.monotonic() - started)


def _sync_costs(file: int, seconds: float) -> Iterator[float]:
    record = os.urandom(_RECORD_BYTES)
    started = time.monotonic()
    for number in range(_SYNCS):
        before = time.perf_counter()
        os.pwrite(file, record, number * _RECORD_BYTES % _CHUNK_BYTES)
        os.fdatasync(file)
        yield time.perf_counter() - before
        if time.monotonic() - started > seconds:
            return


def port_trouble(address: Address) -> str | None:
    """Why nobody can listen there now; None where it is free."""
    for host in address.hosts:
        try:
            family, kind, _, _, place = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
        except OSError as error:
            if host == "::1" and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # a machine without IPv6 listens on 127.0.0.1 alone
            return "taken by another process" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return None


def open_files_limit() -> tuple[int, int]:
    """(what holds now, what the system would allow); a very large number for no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2**31 - 1
    return (most if soft == resource.RLIM_INFINITY else soft), (most if hard == resource.RLIM_INFINITY else hard)


def memory_bytes() -> tuple[int, int] | None:
    """(all, available); None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        return values["MemTotal"], values["MemAvailable"]
    except (OSError, KeyError, ValueError, IndexError):
        return None


def file_system(directory: Path) -> str | None:
    """The kind of file system that a directory is on; None where the system does not tell."""
    best, kind = "", None
    try:
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, mount, name = line.split()[:3]
            inside = mount == "/" or directory == Path(mount) or Path(mount) in directory.parents
            if inside and len(mount) >= len(best):
                best, kind = mount, name
    except (OSError, ValueError):
        return None
    return kind
