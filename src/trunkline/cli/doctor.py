"""`trunkline doctor`: will a broker do well on this machine, and what can be expected of it?

Each check is one line: what was looked at, what was found, and what to do where that is not good.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from trunkline import __version__
from trunkline.cli import machine, show
from trunkline.cli.client import Json
from trunkline.cli.failure import Failure
from trunkline.model.settings import Settings, SettingsError, load

_MIB: Final = 1024 * 1024
_GIB: Final = 1024 * _MIB
_SLOW_SYNC_SECONDS: Final = 0.010
_SLOW_WRITE_BYTES: Final = 50 * _MIB
_LITTLE_ROOM_BYTES: Final = 5 * _GIB
_LITTLE_MEMORY_BYTES: Final = 512 * _MIB
_WANTED_FILES: Final = 4096
_SLOW_SYNC: Final = (
    "Each ack waits for one of these. `durability=os`, of a topic or of the node, acks without: writes then survive "
    "kill -9, not power loss."
)
_NO_REAL_DISK: Final = frozenset({"tmpfs", "ramfs"})
_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p"})
_NATIVE: Final = ("uvloop", "cramjam", "crc32c", "confluent_kafka")


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: Verdict
    found: str
    advice: str = ""
    measured: Mapping[str, float] | None = None
    """For scripts: what `found` says, as numbers."""


def doctor(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The data directory, as for serve.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The settings that serve would read.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="SECONDS", min=0.1, max=60, help="How long to measure the disk.")
    ] = 2.0,
    as_json: Json = False,
) -> None:
    """Check this machine: disk speed, cost of a sync, ports, limits, memory, Python; and say what to expect.

    Looks at what `trunkline serve` would use (variables and the config file count) and writes at most 256 MiB into the
    data directory's disk, which are removed again. The exit status is 1 where a broker could not start.

    \b
    Examples:
      trunkline doctor
      trunkline doctor --data /var/lib/trunkline --seconds 10
      trunkline doctor --json
    """
    settings = _settings(data, config)
    findings = list(_findings(settings, seconds))
    if as_json:
        show.document({"version": __version__, "checks": [asdict(finding) for finding in findings]})
    else:
        show.table(("CHECK", "", "FOUND"), [(finding.check, finding.verdict, finding.found) for finding in findings])
        for finding in findings:
            if finding.advice:
                print(f"\n{finding.check}: {finding.advice}")
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(1)


def _settings(data: Path | None, config: Path | None) -> Settings:
    path = config or os.environ.get("TRUNKLINE_CONFIG")
    try:
        settings = load({}, os.environ, Path(path) if path else None)
    except SettingsError as error:
        raise Failure(str(error)) from None
    return settings if data is None else replace(settings, data=data)


def _findings(settings: Settings, seconds: float) -> Iterator[Finding]:
    yield _python()
    yield from _processors_and_memory(settings)
    yield _files(settings)
    yield from _ports(settings)
    yield from _disk(settings, seconds)


def _python() -> Finding:
    found = f"{platform.python_implementation()} {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    missing = [name for name in _NATIVE if importlib.util.find_spec(name) is None]
    if not missing:
        return Finding("python", Verdict.OK, f"{found}, with {', '.join(_NATIVE)}")
    return Finding(
        "python", Verdict.WARNING, f"{found}, without {', '.join(missing)}", "Install what is missing: it costs speed."
    )


def _processors_and_memory(settings: Settings) -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    advice = "" if count > 1 else "The journal's thread wants one beside the loop: expect less than half the speed."
    yield Finding("processors", Verdict.OK if count > 1 else Verdict.WARNING, str(count), advice)
    memory = machine.memory_bytes()
    if memory is None:
        return
    total, available = memory
    wanted = _LITTLE_MEMORY_BYTES + settings.hot_tail_bytes
    yield Finding(
        "memory",
        Verdict.OK if available >= wanted else Verdict.WARNING,
        f"{_size(available)} of {_size(total)} available",
        "" if available >= wanted else f"{_size(wanted)} are wanted: the system's file cache serves slow readers.",
    )


def _files(settings: Settings) -> Finding:
    now, allowed = machine.open_files_limit()
    found = f"{now} (the system allows {allowed})"
    if now >= settings.max_open_files + 1000:
        return Finding("open files", Verdict.OK, found)
    return Finding(
        "open files",
        Verdict.WARNING,
        found,
        f"Partitions take up to {settings.max_open_files}, each connection one more: `ulimit -n {_WANTED_FILES}`.",
    )


def _ports(settings: Settings) -> Iterator[Finding]:
    for name, address in settings.listeners().items():
        if name in ("amqp", "redis"):
            continue
        trouble = machine.port_trouble(address)
        if trouble is None:
            yield Finding(f"{name} port", Verdict.OK, f"{address} is free")
        else:
            advice = f"Stop who has it, or choose another: --{name} HOST:PORT, or --{name} off."
            yield Finding(f"{name} port", Verdict.FAILED, f"{address}: {trouble}", advice)


def _disk(settings: Settings, seconds: float) -> Iterator[Finding]:
    if settings.memory:
        yield Finding("disk", Verdict.OK, "not used: everything is kept in memory")
        return
    directory = machine.nearest_directory(settings.data)
    space = shutil.disk_usage(directory)
    kind = machine.file_system(directory)
    yield Finding(
        "disk space",
        Verdict.OK if space.free >= _LITTLE_ROOM_BYTES else Verdict.WARNING,
        f"{_size(space.free)} of {_size(space.total)} free for {settings.data}" + (f" ({kind})" if kind else ""),
        ""
        if space.free >= _LITTLE_ROOM_BYTES
        else "Writes are refused when it is full; retention.bytes bounds topics.",
    )
    if kind in _NO_REAL_DISK or kind in _NETWORK:
        why = "Nothing there survives a power loss." if kind in _NO_REAL_DISK else "Syncs over a network may be lies."
        yield Finding("file system", Verdict.WARNING, f"{kind}", f"{why} Choose a disk of this machine with --data.")
    try:
        speed = machine.measure_disk(directory, seconds)
    except OSError as error:
        advice = "Change its permissions, or choose another directory with --data DIR."
        yield Finding("disk", Verdict.FAILED, f"{directory}: {error.strerror}", advice)
        return
    yield from _speed(speed)


def _speed(speed: machine.DiskSpeed) -> Iterator[Finding]:
    fast = speed.write_bytes_per_second >= _SLOW_WRITE_BYTES
    yield Finding(
        "disk write",
        Verdict.OK if fast else Verdict.WARNING,
        f"{speed.write_bytes_per_second / _MIB:.0f} MiB/s in order",
        "" if fast else "Each record is written twice, to the journal and to its segment: expect half of this at most.",
        {"bytes_per_second": speed.write_bytes_per_second},
    )
    p50_ms, p99_ms = speed.sync_p50_seconds * 1000, speed.sync_p99_seconds * 1000
    slow = speed.sync_p99_seconds > _SLOW_SYNC_SECONDS
    yield Finding(
        "disk sync",
        Verdict.WARNING if slow else Verdict.OK,
        f"p50 {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms",
        _SLOW_SYNC if slow else "",
        {"p50_ms": p50_ms, "p99_ms": p99_ms},
    )
    one = 1 / max(speed.sync_p50_seconds, 1e-6)
    yield Finding(
        "expect",
        Verdict.OK,
        f"acks after about {p50_ms:.1f} ms, 1 in 100 after {p99_ms:.1f} ms or more; "
        f"at most {one:,.0f} writes/s of a client that waits for each",
        "Clients share syncs: many together, or one that does not wait for each write, are limited by the processor.",
    )


def _size(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.1f} GiB" if size_bytes >= _GIB else f"{size_bytes / _MIB:.0f} MiB"
