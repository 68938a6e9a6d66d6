"""Numbers and strings to bytes and back: big-endian, each length checked against what remains before it is followed."""

from __future__ import annotations

import struct
from typing import Final

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_ABSENT: Final = -1


class Malformed(ValueError):
    """Bytes that end too early, or hold a length or a text that cannot be."""


class Reader:
    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def remaining_bytes(self) -> int:
        return len(self._data) - self._position

    def take(self, size_bytes: int) -> bytes:
        if not 0 <= size_bytes <= self.remaining_bytes:
            raise Malformed(f"{size_bytes} bytes wanted at {self._position}, {self.remaining_bytes} are left")
        start = self._position
        self._position += size_bytes
        return self._data[start : self._position]

    def uint8(self) -> int:
        return self.take(1)[0]

    def int16(self) -> int:
        value: int = _INT16.unpack(self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack(self.take(4))[0]
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack(self.take(8))[0]
        return value

    def int32s(self) -> tuple[int, ...]:
        count = self.count(4)
        return struct.unpack(f">{count}i", self.take(4 * count))

    def count(self, smallest_bytes: int) -> int:
        """How many elements follow, of which each takes at least `smallest_bytes`."""
        count = self.int32()
        if not 0 <= count * smallest_bytes <= self.remaining_bytes:
            raise Malformed(f"{count} elements cannot be in {self.remaining_bytes} bytes")
        return count

    def blob(self) -> bytes:
        return self.take(self.int32())

    def text(self) -> str:
        return decode_text(self.blob())

    def optional_text(self) -> str | None:
        size_bytes = self.int32()
        return None if size_bytes == _ABSENT else decode_text(self.take(size_bytes))

    def end(self) -> None:
        if self.remaining_bytes:
            raise Malformed(f"{self.remaining_bytes} bytes too many at {self._position}")


class Writer:
    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def uint8(self, value: int) -> None:
        self._parts.append(bytes((value,)))

    def int32(self, value: int) -> None:
        self._parts.append(_INT32.pack(value))

    def int32s(self, values: tuple[int, ...]) -> None:
        self._parts.append(struct.pack(f">i{len(values)}i", len(values), *values))

    def int64(self, value: int) -> None:
        self._parts.append(_INT64.pack(value))

    def blob(self, value: bytes) -> None:
        self._parts += (_INT32.pack(len(value)), value)

    def text(self, value: str) -> None:
        self.blob(value.encode())

    def optional_text(self, value: str | None) -> None:
        if value is None:
            self.int32(_ABSENT)
        else:
            self.text(value)

    def raw(self, value: bytes) -> None:
        self._parts.append(value)

    def done(self) -> bytes:
        return b"".join(self._parts)


def decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as bad:
        raise Malformed(f"not UTF-8: {bad.reason}") from None


def check_version(of: str, version: int, known: int) -> None:
    if version != known:
        raise Malformed(f"{of} version {version}, only {known} is known here: was it written by a newer release?")
