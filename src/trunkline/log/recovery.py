"""Recovery of one partition after a stop that was not clean: what its files hold past the checkpoint, and the journal.

    checkpoint        standing tail (whole, in order)       torn
    ───────────────▶|─ batch ─ batch ─ batch ─ batch ─|▒▒▒▒▒▒▒▒
                          journal:  ═ batch ═ batch ═ batch ═

Batches that stand in the files are adopted. The journal has the last word: where it holds another batch than the files
do, or they hold none, the files are cut there and written again from the journal. What stands after the last journaled
batch is kept: written with durability=os, or never answered, which does no harm. The journal is whole from the
checkpoint on, so a gap before one of its batches can only be a loss that durability=os allows.

Facts that the broker itself keeps with durability=fsync are another matter: one that stands without the journal may
tell of writes to other partitions that are lost. What the journal does not confirm is cut there (`strict`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from trunkline.log.journal_format import Entry, EntryKind
from trunkline.log.names import LOG, SUFFIXES
from trunkline.log.partition_log import PartitionLog
from trunkline.log.segment import Segment, scan
from trunkline.log.segments import segment_bases
from trunkline.model.errors import CorruptLog
from trunkline.model.topic import Durability
from trunkline.record.batch import BatchHeader, check_crc, read_header

_log = logging.getLogger(__name__)
_CHUNK_BYTES: Final = 64 * 1024


class Standing(NamedTuple):
    segment_base: int
    header: BatchHeader
    batch: memoryview


class TailRecovery:
    def __init__(self, log: PartitionLog, now_ms: int, *, strict: bool = False) -> None:
        self._strict = strict
        self._partition = log
        self._now_ms = now_ms
        self._tail = self._standing()
        self._next = next(self._tail, None)

    def apply(self, entry: Entry) -> None:
        """One entry of the journal, in its order."""
        if entry.kind == EntryKind.APPENDED:
            for header, batch in _split(entry.data):
                self._apply_batch(header, batch)
        elif entry.kind == EntryKind.LOG_START_MOVED:
            self._apply_log_start(entry.offset)
        else:
            raise CorruptLog(f"The journal holds an entry of kind {entry.kind}: use a newer Trunkline.")

    def finish(self) -> None:
        """The journal holds no more: keep what stands, cut what is torn."""
        if not self._strict:
            self._adopt_below(None)
        for where in self._cut():
            if self._partition.config.durability is Durability.OS:
                _log.warning("%s: a torn end was cut there", where)

    def _apply_batch(self, header: BatchHeader, batch: memoryview) -> None:
        log = self._partition
        if header.next_offset <= log.end:
            return  # in the checkpoint already
        self._adopt_below(header.base_offset)
        standing = self._next
        if standing is not None and bytes(standing.batch) == bytes(batch):
            self._adopt()
            return
        self._cut()
        if header.base_offset > log.end:
            self._lost(header.base_offset)
        elif header.base_offset < log.end:
            raise CorruptLog(f"The journal holds offset {header.base_offset} of {log.name}, which ends at {log.end}.")
        # The journal's memory is one large buffer: the log keeps a copy of the batch, not all of it.
        log.append_recovered([(header, memoryview(bytearray(batch)))], self._now_ms)

    def _apply_log_start(self, offset: int) -> None:
        self._adopt_below(offset)
        if offset > self._partition.end:
            self._cut()
            self._lost(offset)
        self._partition.move_log_start(offset)

    def _lost(self, offset: int) -> None:
        log = self._partition
        _log.warning("%s: offsets %d to %d were written with durability=os and are lost", log.name, log.end, offset - 1)
        log.skip_to(offset)

    def _adopt_below(self, offset: int | None) -> None:
        while self._next is not None and (offset is None or self._next.header.base_offset < offset):
            self._adopt()

    def _adopt(self) -> None:
        assert self._next is not None
        self._partition.adopt(self._next.segment_base, self._next.header, self._next.batch, self._now_ms)
        self._next = next(self._tail, None)

    def _standing(self) -> Iterator[Standing]:
        log = self._partition
        expected = log.end
        segments = log.load()
        active = segments[-1] if segments else None
        places = [(active.base_offset, active.size_bytes)] if active else []
        places += [(base, 0) for base in segment_bases(log.directory) if active is None or base > active.base_offset]
        for base, position in places:
            if position == 0 and base != expected:
                return
            file = log.directory.open(Segment(base, None).log_name)
            for _, header, batch in scan(file, position, file.size(), _CHUNK_BYTES):
                if header.base_offset != expected or not check_crc(header, batch):
                    break
                yield Standing(base, header, batch)
                expected = header.next_offset

    def _cut(self) -> list[str]:
        """Remove what is in the files past the log's end. Answers where there was anything."""
        self._tail, self._next = iter(()), None
        log, last = self._partition, -1
        found: list[str] = []
        for segment in log.load():
            last = segment.base_offset
            file = log.directory.open(segment.log_name)
            if file.size() > segment.size_bytes:
                file.truncate(segment.size_bytes)
                found.append(f"{log.directory.name_of(segment.log_name)}, position {segment.size_bytes}")
        for base in segment_bases(log.directory):
            if base > last:
                name = f"{base:020d}{LOG}"
                if log.directory.open(name).size():
                    found.append(f"{log.directory.name_of(name)}, position 0")
                for suffix in SUFFIXES:
                    log.directory.remove(f"{base:020d}{suffix}")
        return found


def _split(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    position = 0
    while position < len(data):
        header = read_header(data, position)
        yield header, data[position : position + header.size_bytes]
        position += header.size_bytes
