"""The data directory: made on first use, held by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import IO, Final

_MOST_RESERVE_BYTES: Final = 32 * 1024 * 1024
_RESERVE_FRACTION: Final = 16


class DataDirectoryError(Exception):
    """One clear line for the person who started the node."""


class DataDirectory:
    """Holds the lock for as long as it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock: IO[str] = open(path / "LOCK", "a+")  # noqa: SIM115
        except OSError as error:
            raise DataDirectoryError(_explained(path, error)) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.seek(0)
            holder = self._lock.read().strip()
            self._lock.close()
            raise DataDirectoryError(
                f"Data directory {path} is in use by process {holder or 'unknown'}. "
                "Stop it, or choose another directory with --data DIR."
            ) from error
        try:
            self._lock.truncate(0)
            self._lock.write(f"{os.getpid()}\n")
            self._lock.flush()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise DataDirectoryError(_explained(path, error)) from error
            # The lock is held all the same; only who holds it is not written down.

    def close(self) -> None:
        try:
            self._lock.close()
        except OSError:
            pass  # the process id that did not fit on the disk


def reserve_bytes(path: Path) -> int:
    """How much of the disk is kept from clients, so that room can be made again when they have filled it."""
    usage = os.statvfs(path)
    return min(_MOST_RESERVE_BYTES, usage.f_blocks * usage.f_frsize // _RESERVE_FRACTION)


def _explained(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"There is no room on the disk of {path}. Free some, or choose another directory with --data DIR."
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return f"Data directory {path} is not writable. Change its permissions, or choose another one with --data DIR."
    return f"Data directory {path} cannot be used: {error.strerror}. Choose another one with --data DIR."
