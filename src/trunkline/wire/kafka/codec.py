"""Messages from bytes and to bytes. The functions that do it are compiled once for each message and version used.

Decoding copies strings and byte fields; records stay a view of the buffer they came in. Nothing is allocated for a
length or a count before what remains of the buffer covers it. Bytes after a message's end are the caller's matter: the
position where it ended is returned.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from trunkline.model.limits import MAX_MESSAGE_ELEMENTS
from trunkline.wire.kafka.errors import MalformedMessage
from trunkline.wire.kafka.reader import ReaderSource
from trunkline.wire.kafka.writer import WriterSource

if TYPE_CHECKING:
    from trunkline.wire.kafka.message import Message

M = TypeVar("M", bound="Message")
Chunks = list[bytes | memoryview]
_Reader = Callable[[memoryview, int, int, int], tuple[Any, int]]
_Writer = Callable[[Any, list[bytes], Chunks], None]

_READERS: Final[dict[tuple[type[Message], int], _Reader]] = {}
_WRITERS: Final[dict[tuple[type[Message], int], _Writer]] = {}
_PACK_SIZE: Final = struct.Struct(">i").pack


def decode(
    cls: type[M], version: int, buffer: memoryview, position: int = 0, *, elements: int = MAX_MESSAGE_ELEMENTS
) -> tuple[M, int]:
    """The message at `position` and the position after it. MalformedMessage for anything else than a message.

    `elements` is how many array elements and tagged fields the message may have in all.
    """
    reader = _READERS.get((cls, version)) or _compile_reader(cls, version)
    try:
        return reader(buffer, position, len(buffer), elements)
    except MalformedMessage as error:
        raise MalformedMessage(f"{cls.__name__} version {version}: {error}") from None
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"{cls.__name__} version {version}: a string is no UTF-8 ({error.reason})") from None
    except (struct.error, IndexError):
        raise MalformedMessage(f"{cls.__name__} version {version} ends too early: {len(buffer)} bytes") from None


def encode(message: Message, version: int) -> Chunks:
    """The message as chunks to be sent one after another. Records in it are chunks of their own, not copied."""
    parts: list[bytes] = []
    chunks: Chunks = []
    _write(message, version, parts, chunks)
    if parts:
        chunks.append(b"".join(parts))
    return chunks


def encode_frame(header: bytes, message: Message, version: int) -> Chunks:
    """The same after `header`, and the size of it all in front."""
    parts = [b"", header]
    chunks: Chunks = []
    _write(message, version, parts, chunks)
    if not chunks:
        parts[0] = _size(sum(map(len, parts)))
        return [b"".join(parts)]
    if parts:
        chunks.append(b"".join(parts))
    chunks[0] = _size(sum(map(len, chunks))) + chunks[0]
    return chunks


def _size(length: int) -> bytes:
    if length > 0x7FFFFFFF:
        raise MalformedMessage(f"a frame of {length} bytes is larger than its size field can say")
    return _PACK_SIZE(length)


def _write(message: Message, version: int, parts: list[bytes], chunks: Chunks) -> None:
    cls = type(message)
    writer = _WRITERS.get((cls, version)) or _compile_writer(cls, version)
    try:
        writer(message, parts, chunks)
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise MalformedMessage(f"{cls.__name__} version {version} cannot be written: {error}") from error


def _compile_reader(cls: type[Message], version: int) -> _Reader:
    _check_version(cls, version)
    reader = _READERS[cls, version] = cast(_Reader, ReaderSource(cls, version).build())
    return reader


def _compile_writer(cls: type[Message], version: int) -> _Writer:
    _check_version(cls, version)
    writer = _WRITERS[cls, version] = cast(_Writer, WriterSource(cls, version).build())
    return writer


def _check_version(cls: type[Message], version: int) -> None:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise MalformedMessage(f"{cls.__name__} has versions {first} to {last}, not {version}")
