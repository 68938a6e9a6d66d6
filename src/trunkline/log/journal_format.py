"""What a journal file holds.

    file:    header | group | group | … | zeros, or what an earlier life of the file left
    header:  magic 8 | crc32c u32 | version u32 | number u64 | first sequence u64 | salt u32          36 bytes
    group:   magic u32 | crc32c u32 | length u32 | sequence u64 | entries (length bytes)              20 bytes + entries
    entry:   kind u8 | topic id 16 | partition u32 | offset i64 | length u32 | bytes                  33 bytes + bytes
               kind 1: batches were appended, the first at `offset`
               kind 2: the log now starts at `offset` (no bytes)

A crc covers all that follows it; a group's starts from its file's salt, so that nothing in a recycled file, and nothing
that a client wrote into a record, passes for a group. One flush writes one group and syncs it before the next is
written: a group that is not whole is the torn end of the journal, unless a later group is: then synced data is damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from crc32c import crc32c

from trunkline.log.disk import Buffer
from trunkline.model.errors import CorruptLog
from trunkline.model.ids import TopicId

FILE_MAGIC: Final = b"TRNKJRNL"
FILE_HEADER: Final = struct.Struct(">8sIIQQI")
GROUP_HEADER: Final = struct.Struct(">IIIQ")
ENTRY_HEADER: Final = struct.Struct(">B16sIqI")
GROUP_MAGIC: Final = 0x7E5C0A1D
VERSION: Final = 1
_GROUP_MAGIC_BYTES: Final = struct.pack(">I", GROUP_MAGIC)
_GROUP_TAIL: Final = struct.Struct(">IQ")
_FILE_TAIL: Final = struct.Struct(">IQQI")


class EntryKind(IntEnum):
    APPENDED = 1
    LOG_START_MOVED = 2


@dataclass(frozen=True, slots=True)
class Entry:
    kind: int
    topic_id: TopicId
    partition: int
    offset: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class FileHeader:
    number: int
    first_sequence: int
    salt: int

    def encode(self) -> bytes:
        tail = _FILE_TAIL.pack(VERSION, self.number, self.first_sequence, self.salt)
        return FILE_MAGIC + struct.pack(">I", crc32c(tail)) + tail

    @classmethod
    def decode(cls, data: bytes, name: str) -> FileHeader:
        """CorruptLog: headers are synced before a file gets its name, so a wrong one was damaged later."""
        if len(data) >= FILE_HEADER.size:
            magic, crc, version, number, first_sequence, salt = FILE_HEADER.unpack_from(data)
            if magic == FILE_MAGIC and crc == crc32c(data[12 : FILE_HEADER.size]):
                if version != VERSION:
                    raise CorruptLog(f"{name} has format {version}, this Trunkline reads {VERSION}: use a newer one.")
                return cls(number, first_sequence, salt)
        raise CorruptLog(f"{name}: the header at position 0 is damaged. Restore the data directory from a backup.")


def entry_buffers(
    kind: EntryKind, topic_id: bytes, partition: int, offset: int, data: Sequence[Buffer]
) -> list[Buffer]:
    return [ENTRY_HEADER.pack(kind, topic_id, partition, offset, sum(map(len, data))), *data]


def group_header(sequence: int, salt: int, entries: Sequence[Buffer]) -> bytes:
    length = sum(map(len, entries))
    crc = crc32c(_GROUP_TAIL.pack(length, sequence), salt)
    for entry in entries:
        crc = crc32c(entry, crc)
    return GROUP_HEADER.pack(GROUP_MAGIC, crc, length, sequence)


def read_group(data: memoryview, position: int, salt: int) -> tuple[int, memoryview] | None:
    """Sequence and entries of the group at `position`, None where there is no whole one."""
    if position + GROUP_HEADER.size > len(data):
        return None
    magic, crc, length, sequence = GROUP_HEADER.unpack_from(data, position)
    start = position + GROUP_HEADER.size
    if magic != GROUP_MAGIC or length > len(data) - start:
        return None
    if crc32c(data[position + 8 : start + length], salt) != crc:
        return None
    return sequence, data[start : start + length]


def find_group_after(data: memoryview, position: int, salt: int, sequence: int) -> int | None:
    """Where a whole group with a sequence higher than `sequence` stands at or after `position`."""
    content = bytes(data[position:])
    at = content.find(_GROUP_MAGIC_BYTES)
    while at >= 0:
        group = read_group(data, position + at, salt)
        if group is not None and group[0] > sequence:
            return position + at
        at = content.find(_GROUP_MAGIC_BYTES, at + 1)
    return None


def read_entries(entries: memoryview) -> Iterator[Entry]:
    position = 0
    while position < len(entries):
        kind, topic_id, partition, offset, length = ENTRY_HEADER.unpack_from(entries, position)
        position += ENTRY_HEADER.size
        yield Entry(kind, TopicId(topic_id), partition, offset, entries[position : position + length])
        position += length
