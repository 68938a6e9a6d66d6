"""A disk in memory: for topics that are forgotten at restart."""

from __future__ import annotations

from collections.abc import Sequence

from trunkline.log.disk import Buffer, File


class MemoryFile:
    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def pread(self, size: int, position: int) -> bytes:
        return bytes(memoryview(self._data)[position : position + size])

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        if position > len(self._data):
            self._data += bytes(position - len(self._data))
        for buffer in buffers:
            end = position + len(buffer)
            if position == len(self._data):
                self._data += buffer
            else:
                self._data[position:end] = buffer
            position = end

    def preallocate(self, size: int) -> None:
        self._data = bytearray(size)

    def datasync(self) -> None:
        pass

    def truncate(self, size: int) -> None:
        if size < len(self._data):
            del self._data[size:]
        else:
            self._data += bytes(size - len(self._data))

    def size(self) -> int:
        return len(self._data)

    def close(self) -> None:
        pass


class MemoryDisk:
    def __init__(self) -> None:
        self._files: dict[str, dict[str, MemoryFile]] = {}

    def open(self, path: str) -> File:
        directory, _, name = path.rpartition("/")
        try:
            return self._files[directory][name]
        except KeyError:
            raise FileNotFoundError(path) from None

    def create(self, path: str) -> File:
        directory, _, name = path.rpartition("/")
        file = MemoryFile()
        self._files.setdefault(directory, {})[name] = file
        return file

    def list(self, path: str) -> list[str]:
        inner = f"{path}/" if path else ""
        children = {name[len(inner) :].partition("/")[0] for name in self._files if name.startswith(inner)}
        return [*self._files.get(path, ()), *filter(None, children)]

    def rename(self, old: str, new: str) -> None:
        directory, _, name = old.rpartition("/")
        if name in self._files.get(directory, ()):
            into, _, new_name = new.rpartition("/")
            self._files.setdefault(into, {})[new_name] = self._files[directory].pop(name)
            return
        for path in [path for path in self._files if path == old or path.startswith(f"{old}/")]:
            self._files[new + path[len(old) :]] = self._files.pop(path)

    def remove(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        try:
            del self._files[directory][name]
        except KeyError:
            raise FileNotFoundError(path) from None

    def remove_tree(self, path: str) -> None:
        for name in [name for name in self._files if name == path or name.startswith(f"{path}/")]:
            del self._files[name]

    def make_dirs(self, path: str) -> None:
        self._files.setdefault(path, {})

    def sync_directory(self, path: str) -> None:
        pass

    def free_bytes(self) -> int:
        return 2**63 - 1
