"""Open files: a bounded number of them, and none that nobody used for a while.

Evicting a file only drops a reference. A reader in another thread that holds it goes on reading.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from threading import Lock
from typing import Final

from trunkline.log.disk import Disk, File


class FileCache:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._files: OrderedDict[tuple[int, str], File] = OrderedDict()
        self._used: set[tuple[int, str]] = set()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, key: tuple[int, str]) -> File | None:
        # Each step is atomic; a file that another thread evicts between them is opened again.
        try:
            self._files.move_to_end(key)
            self._used.add(key)
            return self._files[key]
        except KeyError:
            return None

    def put(self, key: tuple[int, str], file: File) -> None:
        with self._lock:
            self._files[key] = file
            self._files.move_to_end(key)
            self._used.add(key)
            if len(self._files) > self._limit:
                self._files.popitem(last=False)

    def drop(self, key: tuple[int, str]) -> None:
        with self._lock:
            self._files.pop(key, None)

    def drop_idle(self) -> None:
        """Close what was not used since this was last called."""
        with self._lock:
            for key in [key for key in self._files if key not in self._used]:
                del self._files[key]
            self._used.clear()

    def drop_all(self, owner: int) -> None:
        with self._lock:
            for key in [key for key in self._files if key[0] == owner]:
                del self._files[key]


_OWNERS: Final = count(1)


class Directory:
    """A partition's directory. Handles are kept per instance, never per path: a topic that is made again under the
    name of a deleted one can not meet the files of the old one.
    """

    __slots__ = ("_cache", "_disk", "_guard", "_owner", "gone", "path")

    def __init__(self, disk: Disk, path: str, cache: FileCache) -> None:
        self.path = path
        self.gone = False
        """The partition was deleted: a file that is missing is no surprise."""
        self._disk = disk
        self._cache = cache
        self._owner = next(_OWNERS)
        self._guard = Lock()

    def open(self, name: str) -> File:
        key = (self._owner, name)
        file = self._cache.get(key)
        if file is None:
            file = self._disk.open(f"{self.path}/{name}")
            self._cache.put(key, file)
        return file

    def make(self) -> None:
        self._disk.make_dirs(self.path)

    def create(self, name: str) -> File:
        with self._guard:
            self._check_not_gone(name)
            file = self._disk.create(f"{self.path}/{name}")
        self._cache.put((self._owner, name), file)
        return file

    def rename(self, old: str, new: str) -> None:
        with self._guard:
            self._check_not_gone(old)
            self._disk.rename(f"{self.path}/{old}", f"{self.path}/{new}")
        self._cache.drop((self._owner, old))

    def remove(self, name: str) -> None:
        """Nothing happens where it is gone already."""
        self._cache.drop((self._owner, name))
        with self._guard:
            if self.gone:
                return
            try:
                self._disk.remove(f"{self.path}/{name}")
            except FileNotFoundError:
                pass

    def leave(self) -> None:
        """The partition is deleted. Threads that still work for it change nothing any more: a topic of the same name
        may have the directory from here on.
        """
        with self._guard:
            self.gone = True
        self.close()

    def _check_not_gone(self, name: str) -> None:
        if self.gone:
            raise FileNotFoundError(self.name_of(name))

    def list(self) -> list[str]:
        return self._disk.list(self.path)

    def sync(self) -> None:
        self._disk.sync_directory(self.path)

    def close(self) -> None:
        self._cache.drop_all(self._owner)

    def name_of(self, name: str) -> str:
        """How an error message names a file of this directory."""
        return f"{self.path}/{name}"
