"""Small real disks, for tests that fill them. They need the right to mount; without it such tests are skipped."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A tmpfs of that size, gone afterwards."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a disk of its own needs the right to mount: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=False)


def fill(path: Path) -> None:
    """Write a file until the disk takes no more byte."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(1 << 16)) == 1 << 16:
            pass
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        while file.write(b"\0"):
            pass
