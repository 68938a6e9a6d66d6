"""The real disk, under one directory."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from trunkline.log.disk import Buffer, File

_MOST_BUFFERS: Final = 1024
"""How many buffers one pwritev takes (IOV_MAX)."""
_datasync: Final = getattr(os, "fdatasync", os.fsync)  # macOS has fsync only


class OsFile:
    """Closed when it is dropped: a reader in another thread keeps it open by holding it."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        if len(buffers) == 1:
            written = os.pwrite(self._fd, buffers[0], position)
            if written != len(buffers[0]):
                self._write_rest(bytes(buffers[0]), written, position)
            return
        if len(buffers) > _MOST_BUFFERS:
            remaining = iter(buffers)
            while part := list(islice(remaining, _MOST_BUFFERS)):
                self.pwritev(part, position)
                position += sum(map(len, part))
            return
        total = sum(map(len, buffers))
        written = os.pwritev(self._fd, buffers, position)
        if written != total:
            self._write_rest(b"".join(buffers), written, position)

    def _write_rest(self, data: bytes, written: int, position: int) -> None:
        view = memoryview(data)
        while written < len(view):
            more = os.pwrite(self._fd, view[written:], position + written)
            if more == 0:
                raise OSError(errno.EIO, "the disk takes no more bytes")
            written += more

    def preallocate(self, size: int) -> None:
        os.ftruncate(self._fd, 0)
        os.posix_fallocate(self._fd, 0, size)
        os.fsync(self._fd)

    def datasync(self) -> None:
        _datasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class OsDisk:
    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def open(self, path: str) -> File:
        return OsFile(os.open(self._root / path, os.O_RDWR | os.O_CLOEXEC))

    def create(self, path: str) -> File:
        return OsFile(os.open(self._root / path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640))

    def list(self, path: str) -> list[str]:
        try:
            return os.listdir(self._root / path)
        except FileNotFoundError:
            return []

    def rename(self, old: str, new: str) -> None:
        os.rename(self._root / old, self._root / new)

    def remove(self, path: str) -> None:
        os.unlink(self._root / path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(self._root / path, ignore_errors=True)

    def make_dirs(self, path: str) -> None:
        os.makedirs(self._root / path, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        fd = os.open(self._root / path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self) -> int:
        usage = os.statvfs(self._root)
        return usage.f_bavail * usage.f_frsize
