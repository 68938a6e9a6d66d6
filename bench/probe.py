"""Watching a broker process from outside: is it answering, what does it cost.

Everything is read from /proc and from two raw Kafka requests, so that watching needs no client library and costs
the broker nothing worth counting.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_API_METADATA = 3
_API_VERSIONS = 18


def free_port() -> int:
    """A loopback port that was free a moment ago; the caller must cope with losing the race for it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def answers_kafka(address: str, timeout_s: float = 1.0) -> bool:
    """True once ApiVersions succeeds and Metadata names at least one broker: what a client needs to begin."""
    try:
        with socket.create_connection(split_address(address), timeout=timeout_s) as conn:
            versions = _call(conn, _API_VERSIONS, 0, b"")
            metadata = _call(conn, _API_METADATA, 1, struct.pack(">i", 0))
    except (OSError, struct.error):
        return False
    (error_code,) = struct.unpack_from(">h", versions)
    (broker_count,) = struct.unpack_from(">i", metadata)
    return bool(error_code == 0 and broker_count > 0)


def _call(conn: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    """One request with header v1 (no client id), one response; returns what follows the correlation id."""
    request = struct.pack(">hhih", api_key, version, 1, -1) + body
    conn.sendall(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", _read_exactly(conn, 4))
    if not 4 <= length <= 1 << 20:
        raise OSError(f"response of {length} bytes")
    return _read_exactly(conn, length)[4:]


def _read_exactly(conn: socket.socket, count: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < count:
        chunk = conn.recv(count - len(chunks))
        if not chunk:
            raise OSError("connection closed")
        chunks += chunk
    return bytes(chunks)


def wait_until_answering(address: str, process: subprocess.Popen[bytes], deadline_s: float) -> float:
    """Seconds from now until the broker answers; RuntimeError if its process ends or the deadline passes first."""
    began = time.monotonic()
    while not answers_kafka(address):
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with status {process.returncode} before it answered on {address}")
        if time.monotonic() - began > deadline_s:
            raise RuntimeError(f"the broker did not answer on {address} within {deadline_s:.0f} s")
        time.sleep(0.01)
    return time.monotonic() - began


def process_tree(pid: int) -> list[int]:
    """The process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat_fields(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    tree = [pid]
    for parent in tree:
        tree.extend(children.get(parent, []))
    return tree


def cpu_seconds(pid: int) -> float:
    """User and system time of the process tree, children that already ended included."""
    ticks = 0
    for member in process_tree(pid):
        fields = _stat_fields(member)
        if fields:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / _TICKS_PER_S


def machine_busy_s() -> float:
    """CPU time that the whole machine has spent on anything since it started, time stolen from it included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = Path("/proc/stat").read_text().split(None, 9)[1:9]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / _TICKS_PER_S


def rss_bytes(pid: int) -> int:
    total = 0
    for member in process_tree(pid):
        fields = _stat_fields(member)
        if fields:
            total += int(fields[21]) * _PAGE_BYTES
    return total


def _stat_fields(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from `state` on (the command's name may hold blanks); empty if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def stop(process: subprocess.Popen[bytes], grace_s: float = 15.0) -> None:
    """SIGTERM, then SIGKILL for what does not end in time."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
