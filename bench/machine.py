"""Facts about the machine that a figure means nothing without."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

_SYNC_SAMPLES = 200
_BLOCK_BYTES = 4096


def facts(data_root: Path | None) -> dict[str, str]:
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "load before the run": f"{os.getloadavg()[0]:.1f} (1 minute; figures of a busy machine are worth less)",
        "disk": f"fdatasync of 4 KiB in a preallocated file: median {_fdatasync_ms(data_root):.2f} ms",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java(),
        "confluent-kafka": metadata.version("confluent-kafka"),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _java() -> str:
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return done.stderr.splitlines()[0] if done.stderr else "unknown"


def _fdatasync_ms(data_root: Path | None) -> float:
    """What one durable write costs here: with it near zero (a memory file system) the comparison would be worthless."""
    if sys.platform != "linux":
        return float("nan")
    block = os.urandom(_BLOCK_BYTES)
    samples = []
    with tempfile.TemporaryFile(dir=data_root, buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, _SYNC_SAMPLES * _BLOCK_BYTES)
        for number in range(_SYNC_SAMPLES):
            began = time.perf_counter()
            os.pwrite(file.fileno(), block, number * _BLOCK_BYTES)
            os.fdatasync(file.fileno())
            samples.append((time.perf_counter() - began) * 1e3)
    return statistics.median(samples)
