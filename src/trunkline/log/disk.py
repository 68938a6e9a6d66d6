"""The port to a disk: what the log needs of one, and nothing more. Real (os_disk), in memory, or failing on command.

Paths are relative to the disk's root, with `/` between names. Every method may raise OSError. Files are named by
their directory entry: a new file, and a rename, survive a power loss only after `sync_directory` of their directory;
bytes survive it only after `datasync` of their file.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol

from trunkline.model.errors import StorageFailed, StorageFull

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. It stays readable after it is removed, for as long as somebody holds it."""

    def pread(self, size: int, position: int) -> bytes:
        """Fewer bytes than asked only at the end of the file."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """All buffers, one after the other, or OSError: then any part may have been written."""

    def preallocate(self, size: int) -> None:
        """Make it `size` bytes that read as zeros, with the room for them taken: later writes inside find it."""

    def datasync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str) -> File: ...

    def create(self, path: str) -> File:
        """A new empty file; one of that name is emptied."""

    def list(self, path: str) -> list[str]:
        """The names in a directory. None where there is no such directory."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def make_dirs(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def free_bytes(self) -> int: ...


def read_all(file: File) -> bytes:
    return file.pread(file.size(), 0)


def replace_file(disk: Disk, directory: str, name: str, buffers: Sequence[Buffer]) -> None:
    """Write a whole file so that after a crash the old or the new one is there, never a mixture."""
    path = f"{directory}/{name}" if directory else name
    draft = disk.create(f"{path}.new")
    draft.pwritev(buffers, 0)
    draft.datasync()
    draft.close()
    disk.rename(f"{path}.new", path)
    disk.sync_directory(directory)


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def storage_error(what: str, error: OSError) -> StorageFailed:
    """The error for a client whose read or write the disk refused."""
    reason = error.strerror or str(error)
    if is_full(error):
        return StorageFull(f"{what}: {reason}. Writes are refused until there is room.")
    return StorageFailed(f"{what}: {reason}.")
