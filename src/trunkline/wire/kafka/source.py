"""Python source in the making: lines, their indentation, and the names that the code will find when it runs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Functions are written one after another; a function's lines are collected before it is added."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._functions: list[str] = []
        self._serial = 0

    def fresh(self, prefix: str) -> str:
        """A name not used before."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def packer(self, method: str, letters: str) -> str:
        """The name of `pack` or `unpack_from` for big-endian `letters`."""
        name = f"{method}_{letters.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(f">{letters}"), method)
        return name

    def add_function(self, head: str, body: Body) -> None:
        self._functions.append("\n".join([head, *body.lines]))

    def run(self, title: str) -> None:
        """Define the functions; they are found in `names` afterwards."""
        exec(compile("\n\n".join(self._functions), f"<{title}>", "exec"), self.names)


class Body:
    """The lines of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._indent = "    "

    def line(self, *lines: str) -> None:
        self.lines.extend(self._indent + line for line in lines)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._indent += "    "
        yield
        self._indent = self._indent[:-4]
