"""The checkpoint: up to where every partition is synced in its segments, and from where the journal must be replayed.

    file `checkpoint`: magic 8 | crc32c u32 | version u32 | clean u8 | journal file u64, position u64, sequence u64
                       | count u32 | partition*                                             replaced as a whole
    partition:  topic id 16 | partition u32 | log start, end, size of all segments i64
                | active segment: base offset, bytes, first timestamp, largest timestamp, its offset i64
                | index entries u32, crc u32 | time index entries u32, crc u32 | producers length u32 | producers

It is made in three steps: `capture` on the owner's thread (fast), `write` on any thread (blocks), then the owner
forgets what the checkpoint made unnecessary.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from trunkline.log.disk import Disk, read_all, replace_file
from trunkline.log.files import Directory
from trunkline.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, SegmentIndex, seal
from trunkline.log.journal import JournalPosition
from trunkline.log.segment import Segment
from trunkline.model.errors import CorruptLog
from trunkline.model.ids import TopicId

NAME: Final = "checkpoint"
_MAGIC: Final = b"TRNKCHKP"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">IBQQQI")
_PARTITION: Final = struct.Struct(">16sIqqqqqqqqIIIII")
_KEY: Final = struct.Struct(">16sI")
_PRODUCERS_LENGTH: Final = struct.Struct(">I")
_NO_SEGMENT: Final = -1

PartitionKey = tuple[TopicId, int]


class PartitionState(NamedTuple):
    """What a checkpoint knows of a partition. `segment_base` is -1 where it has no segment yet."""

    log_start: int = 0
    end: int = 0
    size_bytes: int = 0
    segment_base: int = _NO_SEGMENT
    segment_bytes: int = 0
    first_timestamp: int = -1
    max_timestamp: int = -1
    max_timestamp_offset: int = 0
    index_count: int = 0
    index_crc: int = 0
    time_count: int = 0
    time_crc: int = 0
    producers: bytes = b""

    @property
    def written_index(self) -> tuple[int, int, int, int]:
        return self.index_count, self.index_crc, self.time_count, self.time_crc

    def encode(self, key: PartitionKey) -> bytes:
        return _PARTITION.pack(*key, *self[:-1], len(self.producers)) + self.producers


def decode_state(data: bytes) -> PartitionState:
    fields = _PARTITION.unpack_from(data)
    return PartitionState(*fields[2:-1])._replace(producers=data[_PARTITION.size :])


@dataclass(slots=True)
class Capture:
    """One partition at one moment. `state` still lacks what `write` encodes: new producers and index entries."""

    key: PartitionKey
    directory: Directory
    state: PartitionState
    producers: Callable[[], bytes] | None
    active: Segment | None
    index_tail: SegmentIndex | None
    sealed: tuple[Segment, ...]
    unsynced: tuple[Segment, ...]
    new_files: bool
    doomed: tuple[Segment, ...]

    def write(self) -> PartitionState:
        """Sync the segments, write the indexes, and answer the finished state. Of a deleted partition: nothing."""
        try:
            return self._write()
        except FileNotFoundError:
            if self.directory.gone:
                return self.state
            raise

    def _write(self) -> PartitionState:
        for segment in self.unsynced:
            self.directory.open(segment.log_name).datasync()
        for segment in self.sealed:
            write_sealed_index(self.directory, segment)
        if self.new_files:
            self.directory.sync()
        state = self._write_active_index()
        return state if self.producers is None else state._replace(producers=self.producers())

    def remove_doomed(self) -> None:
        for segment in self.doomed:
            for name in segment.file_names:
                self.directory.remove(name)

    def _write_active_index(self) -> PartitionState:
        state, tail = self.state, self.index_tail
        if tail is None or self.active is None:
            return state
        offsets, times = tail.encode_offsets(), tail.encode_times()
        _, offsets_name, times_name = self.active.file_names
        self._write_at(offsets_name, offsets, state.index_count * OFFSET_ENTRY_BYTES)
        self._write_at(times_name, times, state.time_count * TIME_ENTRY_BYTES)
        return state._replace(
            index_count=state.index_count + tail.count,
            index_crc=crc32c(offsets, state.index_crc),
            time_count=state.time_count + tail.time_count,
            time_crc=crc32c(times, state.time_crc),
        )

    def _write_at(self, name: str, data: bytes, position: int) -> None:
        try:
            file = self.directory.open(name)
        except FileNotFoundError:
            file = self.directory.create(name)
        file.pwritev([data], position)


def write_sealed_index(directory: Directory, segment: Segment) -> None:
    index = segment.index
    if index is None:
        return
    _, offsets, times = segment.file_names
    trailer = (segment.size_bytes, *index.max_timestamp)
    directory.create(offsets).pwritev([seal(index.encode_offsets(), OFFSET_ENTRY_BYTES, *trailer)], 0)
    directory.create(times).pwritev([seal(index.encode_times(), TIME_ENTRY_BYTES, *trailer)], 0)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    clean: bool
    journal: JournalPosition
    partitions: Mapping[PartitionKey, bytes]
    """Encoded, as `decode_state` takes them: most are never needed after a clean stop."""


def write_checkpoint(disk: Disk, clean: bool, journal: JournalPosition, partitions: Iterable[bytes]) -> None:
    entries = list(partitions)
    head = _HEADER.pack(_VERSION, clean, journal.number, journal.position, journal.sequence, len(entries))
    body = b"".join([head, *entries])
    replace_file(disk, "", NAME, [_MAGIC, struct.pack(">I", crc32c(body)), body])


def read_checkpoint(disk: Disk) -> Checkpoint | None:
    """None where there is none yet. CorruptLog."""
    try:
        data = read_all(disk.open(NAME))
    except FileNotFoundError:
        return None
    body_at = len(_MAGIC) + 4
    if data[:8] != _MAGIC or struct.unpack_from(">I", data, 8)[0] != crc32c(data[body_at:]):
        raise CorruptLog(f"The file {NAME!r} is damaged. Restore the data directory from a backup.")
    version, clean, number, position, sequence, count = _HEADER.unpack_from(data, body_at)
    if version != _VERSION:
        raise CorruptLog(f"The file {NAME!r} has format {version}, this Trunkline reads {_VERSION}: use a newer one.")
    partitions: dict[PartitionKey, bytes] = {}
    at = body_at + _HEADER.size
    for _ in range(count):
        (producers_bytes,) = _PRODUCERS_LENGTH.unpack_from(data, at + _PARTITION.size - 4)
        end = at + _PARTITION.size + producers_bytes
        topic_id, partition = _KEY.unpack_from(data, at)
        partitions[TopicId(topic_id), partition] = data[at:end]
        at = end
    return Checkpoint(bool(clean), JournalPosition(number, position, sequence), partitions)
