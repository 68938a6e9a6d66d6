"""Cuts a byte stream into Kafka frames: a 4-byte size, then that many bytes.

Small frames are cut out of a scratch buffer that all connections share; a frame that is not complete yet gets a buffer
of its own, into which the socket then reads directly. That buffer grows with what has arrived, not with what was
announced, so a lying size costs the liar the bytes.
"""

from __future__ import annotations

from typing import Final

from trunkline.wire.kafka.errors import MalformedMessage

SCRATCH_BYTES: Final = 64 * 1024
_SIZE_BYTES: Final = 4
_SMALLEST_FRAME: Final = 8
"""A request header has at least a key, a version and a correlation id."""


class FrameReader:
    __slots__ = ("_filled", "_frame", "_head", "_scratch", "_wanted", "first_chunk_bytes", "max_bytes")

    def __init__(self, scratch: memoryview, max_bytes: int, first_chunk_bytes: int) -> None:
        self._scratch = scratch
        self._head = b""
        self._frame: bytearray | None = None
        self._filled = 0
        self._wanted = 0
        self.max_bytes = max_bytes
        self.first_chunk_bytes = first_chunk_bytes
        """How much memory an announced frame gets before any of it has arrived."""

    @property
    def is_partial(self) -> bool:
        """Whether some of a frame has come, and not all of it."""
        return self._frame is not None or bool(self._head)

    @property
    def partial_bytes(self) -> int:
        """How much of an incomplete frame has come."""
        return self._filled if self._frame is not None else len(self._head)

    def buffer(self) -> memoryview:
        """Where the next bytes are to be received."""
        frame = self._frame
        if frame is None:
            return self._scratch
        if self._filled == len(frame):
            frame.extend(bytes(min(len(frame), self._wanted - len(frame))))
        return memoryview(frame)[self._filled :]

    def received(self, count: int) -> list[bytearray]:
        """`count` bytes came into the buffer. Gives the frames complete now; MalformedMessage on a bad size."""
        if self._frame is None:
            return self._cut(self._scratch[:count])
        self._filled += count
        if self._filled < self._wanted:
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _cut(self, data: memoryview) -> list[bytearray]:
        if self._head:
            data = memoryview(self._head + data)
            self._head = b""
        frames: list[bytearray] = []
        position, end = 0, len(data)
        while end - position >= _SIZE_BYTES:
            size = int.from_bytes(data[position : position + _SIZE_BYTES], "big")
            if not _SMALLEST_FRAME <= size <= self.max_bytes:
                raise MalformedMessage(f"a frame of {size} bytes is not taken (at most {self.max_bytes})")
            position += _SIZE_BYTES
            if end - position < size:
                self._begin(data[position:], size)
                return frames
            frames.append(bytearray(data[position : position + size]))
            position += size
        self._head = bytes(data[position:])
        return frames

    def _begin(self, part: memoryview, size: int) -> None:
        self._wanted = size
        self._filled = len(part)
        self._frame = frame = bytearray(min(size, max(self.first_chunk_bytes, len(part))))
        frame[: len(part)] = part
