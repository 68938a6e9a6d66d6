"""A disk that misbehaves on command: power loss, torn and short writes, no room, I/O errors.

It keeps what was synced apart from what was only written. `crash` is a power loss: of everything unsynced an arbitrary
part survives, sector by sector and name by name. `kill -9` needs no method: the system keeps what was written to it.
"""

from __future__ import annotations

import errno
import os
import random
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from trunkline.log.disk import Buffer, File

SECTOR_BYTES: Final = 512


@dataclass(slots=True)
class _Rule:
    operation: str
    error: int
    path_contains: str
    after: int
    times: int


@dataclass(slots=True, eq=False)
class _Content:
    """A file's bytes: as written, as synced, and the changes between."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(position, bytes), or (size, None) for a truncation."""

    def write(self, data: bytes, position: int) -> None:
        _write(self.data, data, position)
        self.changes.append((position, data))

    def truncate(self, size: int) -> None:
        _resize(self.data, size)
        self.changes.append((size, None))

    def sync(self) -> None:
        for position, data in self.changes:
            if data is None:
                _resize(self.synced, position)
            else:
                _write(self.synced, data, position)
        self.changes.clear()

    def crash(self, rng: random.Random) -> None:
        survive = rng.choice((0.0, 0.5, 0.9, 1.0))
        for position, data in self.changes:
            if data is None:
                if rng.random() < survive:
                    _resize(self.synced, position)
                continue
            for start, end in _sectors(position, len(data)):
                if rng.random() < survive:
                    _write(self.synced, data[start - position : end - position], start)
        self.data, self.changes = bytearray(self.synced), []


@dataclass(slots=True, eq=False)
class _Folder:
    names: dict[str, _Folder | _Content] = field(default_factory=dict)
    synced: dict[str, _Folder | _Content] = field(default_factory=dict)
    changes: list[tuple[str, _Folder | _Content | None, str]] = field(default_factory=list)
    """(name, what it names now or None, a name that the same step took away)"""

    def change(self, name: str, node: _Folder | _Content | None, taken: str = "") -> None:
        self.changes.append((name, node, taken))
        _rename(self.names, name, node, taken)

    def sync(self) -> None:
        for change in self.changes:
            _rename(self.synced, *change)
        self.changes.clear()

    def crash(self, rng: random.Random) -> None:
        for change in self.changes[: rng.randint(0, len(self.changes))]:
            _rename(self.synced, *change)
        self.names, self.changes = dict(self.synced), []
        for node in self.names.values():
            node.crash(rng)


class FaultFile:
    def __init__(self, disk: FaultDisk, path: str, content: _Content) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        disk.handles.add(self)

    def pread(self, size: int, position: int) -> bytes:
        self._disk.meet("pread", self._path)
        return bytes(self._content.data[position : position + size])

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        data = b"".join(buffers)
        try:
            self._disk.meet("pwrite", self._path)
        except OSError:
            # A failed write may have written any part.
            self._content.write(data[: len(data) // 2], position)
            raise
        growth = max(0, position + len(data) - len(self._content.data))
        room = self._disk.take(growth)
        if room < growth:
            self._content.write(data[: len(data) - (growth - room)], position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._content.write(data, position)

    def preallocate(self, size: int) -> None:
        self._content.truncate(0)
        self.pwritev([bytes(size)], 0)
        self._content.sync()

    def datasync(self) -> None:
        try:
            self._disk.meet("datasync", self._path)
        except OSError:
            # As Linux does it: the pages count as clean from now on, whether or not they reached the disk.
            self._content.changes.clear()
            raise
        self._content.sync()

    def truncate(self, size: int) -> None:
        self._disk.meet("truncate", self._path)
        self._content.truncate(size)

    def size(self) -> int:
        return len(self._content.data)

    def close(self) -> None:
        self._disk.handles.discard(self)


class FaultDisk:
    """In memory. `room_bytes` is what files may still grow by; None means without limit."""

    def __init__(self) -> None:
        self.room_bytes: int | None = None
        self.handles: weakref.WeakSet[FaultFile] = weakref.WeakSet()
        self._root = _Folder()
        self._rules: list[_Rule] = []

    # ── misbehaving ─────────────────────────────────────────────────────────────────────────────

    def fail(self, operation: str, error: int = errno.EIO, path: str = "", *, after: int = 0, times: int = 1) -> None:
        """Let an operation fail on paths that contain `path`: skip the first `after`, then fail `times` times.

        Operations: pread, pwrite, datasync, truncate, create, rename, remove, sync_directory.
        """
        self._rules.append(_Rule(operation, error, path, after, times))

    def heal(self) -> None:
        self._rules.clear()
        self.room_bytes = None

    def crash(self, rng: random.Random) -> None:
        """The power goes. Files that were open must not be used any more."""
        self.heal()
        self._root.crash(rng)

    def content(self, path: str) -> bytearray:
        """A file's bytes, to damage them. All of them, and all that is written later, count as synced from now on."""
        node = self._find(path)
        if not isinstance(node, _Content):
            raise FileNotFoundError(path)
        node.sync()
        node.synced = node.data
        return node.data

    def meet(self, operation: str, path: str) -> None:
        for rule in self._rules:
            if rule.operation == operation and rule.path_contains in path and rule.times > 0:
                if rule.after > 0:
                    rule.after -= 1
                    continue
                rule.times -= 1
                raise OSError(rule.error, os.strerror(rule.error))

    def take(self, growth: int) -> int:
        if self.room_bytes is None:
            return growth
        got = min(growth, self.room_bytes)
        self.room_bytes -= got
        return got

    # ── the port ────────────────────────────────────────────────────────────────────────────────

    def open(self, path: str) -> File:
        node = self._find(path)
        if not isinstance(node, _Content):
            raise FileNotFoundError(path)
        return FaultFile(self, path, node)

    def create(self, path: str) -> File:
        self.meet("create", path)
        if self.room_bytes == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        folder, name = self._folder_of(path)
        node = folder.names.get(name)
        if isinstance(node, _Content):
            node.truncate(0)
        else:
            node = _Content()
            folder.change(name, node)
        return FaultFile(self, path, node)

    def list(self, path: str) -> list[str]:
        node = self._find(path)
        return sorted(node.names) if isinstance(node, _Folder) else []

    def rename(self, old: str, new: str) -> None:
        self.meet("rename", old)
        folder, name = self._folder_of(old)
        into, new_name = self._folder_of(new)
        if name not in folder.names:
            raise FileNotFoundError(old)
        if into is not folder:
            raise OSError(errno.EXDEV, "renames stay in their directory here")
        folder.change(new_name, folder.names[name], name)

    def remove(self, path: str) -> None:
        self.meet("remove", path)
        folder, name = self._folder_of(path)
        node = folder.names.get(name)
        if not isinstance(node, _Content):
            raise FileNotFoundError(path)
        if self.room_bytes is not None:
            self.room_bytes += len(node.data)
        folder.change(name, None)

    def remove_tree(self, path: str) -> None:
        folder, name = self._folder_of(path)
        if name in folder.names:
            folder.change(name, None)

    def make_dirs(self, path: str) -> None:
        folder = self._root
        for name in path.split("/"):
            node = folder.names.get(name)
            if node is None:
                node = _Folder()
                folder.change(name, node)
            if not isinstance(node, _Folder):
                raise NotADirectoryError(path)
            folder = node

    def sync_directory(self, path: str) -> None:
        self.meet("sync_directory", path)
        node = self._find(path)
        if not isinstance(node, _Folder):
            raise FileNotFoundError(path)
        node.sync()

    def free_bytes(self) -> int:
        return 2**63 - 1 if self.room_bytes is None else self.room_bytes

    def _find(self, path: str) -> _Folder | _Content | None:
        node: _Folder | _Content | None = self._root
        for name in path.split("/") if path else ():
            node = node.names.get(name) if isinstance(node, _Folder) else None
        return node

    def _folder_of(self, path: str) -> tuple[_Folder, str]:
        parent, _, name = path.rpartition("/")
        folder = self._find(parent)
        if not isinstance(folder, _Folder):
            raise FileNotFoundError(path)
        return folder, name


def _write(target: bytearray, data: bytes, position: int) -> None:
    if position > len(target):
        target += bytes(position - len(target))
    target[position : position + len(data)] = data


def _resize(target: bytearray, size: int) -> None:
    if size < len(target):
        del target[size:]
    else:
        target += bytes(size - len(target))


def _rename(names: dict[str, _Folder | _Content], name: str, node: _Folder | _Content | None, taken: str) -> None:
    if taken:
        names.pop(taken, None)
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _sectors(position: int, size: int) -> list[tuple[int, int]]:
    end = position + size
    cuts = [position, *range((position // SECTOR_BYTES + 1) * SECTOR_BYTES, end, SECTOR_BYTES), end]
    return list(pairwise(cuts))
