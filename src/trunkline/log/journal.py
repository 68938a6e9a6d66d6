"""The journal: the write-ahead log that all partitions of a node share. One sync makes everything before it durable.

`append` (the owner's thread) puts a record into a queue and answers a ticket; `flush` (one other thread) writes all
that waits as one group, syncs once and answers the highest ticket that is now durable. Records are never split.

    00000000000000000007.journal  00000000000000000008.journal   spare-3
    ───────── replayed ─────▶ ▲ ───────────▶ next group          preallocated, or recycled from below the checkpoint
                         checkpoint

A failed sync can not be retried: the system may have dropped the pages. It poisons the journal, and the node stops.
No room for the next file is not fatal: what waits keeps waiting, `append` refuses more, and a later flush tries again.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from trunkline.log.disk import Buffer, Disk, File, is_full
from trunkline.log.journal_format import FILE_HEADER, GROUP_HEADER, EntryKind, FileHeader, entry_buffers, group_header
from trunkline.model.errors import StorageFailed, StorageFull

DIRECTORY: Final = "journal"
SUFFIX: Final = ".journal"
SPARE: Final = "spare-"
_MOST_SPARES: Final = 4
_JOIN_BELOW_BYTES: Final = 256 * 1024
"""Groups smaller than this are copied together: cheaper than handing many small buffers to the system."""

EntryParts = tuple[EntryKind, bytes, int, int, Sequence[Buffer]]
"""kind, topic id, partition, offset, data"""


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """Between two groups: the next one has that sequence and starts there, or at the head of the next file."""

    number: int
    position: int
    sequence: int


@dataclass(slots=True)
class JournalStats:
    flushes: int = 0
    synced_bytes: int = 0
    last_flush_seconds: float = 0.0


def file_name(number: int) -> str:
    return f"{number:020d}{SUFFIX}"


class Journal:
    def __init__(
        self,
        disk: Disk,
        *,
        file_bytes: int,
        start: JournalPosition,
        salt: Callable[[], int],
        monotonic: Callable[[], float],
        spares: Sequence[str] = (),
        reserve_bytes: int = 0,
    ) -> None:
        """`start`: the last group that counts ended there; writing goes on in a new file after it.

        `reserve_bytes` are left free on the disk when files are made.
        """
        self.stats = JournalStats()
        self.full = False
        self.failed: OSError | None = None
        self.durable_ticket = 0
        self.position = start
        self._disk = disk
        self._file_bytes = file_bytes
        self._reserve_bytes = reserve_bytes
        self._salt = salt
        self._monotonic = monotonic
        self._file: File | None = None
        self._file_salt = 0
        self._file_size = 0
        self._ticket = 0
        self._pending: deque[list[Buffer]] = deque()
        self._spares: deque[str] = deque(spares)
        self._spare_numbers = count(1 + max((int(name[len(SPARE) :]) for name in spares), default=0))

    # ── the owner's thread ──────────────────────────────────────────────────────────────────────

    def check_writable(self) -> None:
        if self.failed is not None:
            raise StorageFailed(f"The journal could not be synced ({self.failed}): nothing is taken until a restart.")
        if self.full:
            raise StorageFull("The disk has no room for the journal: writes are refused until there is some.")

    def append(self, record: Sequence[EntryParts], *, frees_room: bool = False) -> int:
        """Entries that become durable together. Answers their ticket.

        The buffers belong to the journal until a flush has answered the ticket. StorageFull (unless the record will
        free room), StorageFailed.
        """
        if not (frees_room and self.failed is None):
            self.check_writable()
        buffers: list[Buffer] = []
        for entry in record:
            buffers += entry_buffers(*entry)
        # The ticket is counted first: a flush counts what it took out of the queue, never more than this.
        self._ticket += 1
        self._pending.append(buffers)
        return self._ticket

    @property
    def pending(self) -> int:
        """Records that wait for a flush."""
        return len(self._pending)

    @property
    def last_ticket(self) -> int:
        return self._ticket

    @property
    def wants_spare(self) -> bool:
        """Whether `prepare_spare` should be called, from any one thread, before the file in use is full."""
        return not self._spares and not self.full

    # ── other threads: `flush` from one only ────────────────────────────────────────────────────────────────────

    def flush(self) -> int:
        """Make everything that waits durable. Answers the highest durable ticket, also when nothing waited.

        A failed write or sync raises StorageFailed, now and for ever after. With no room it returns what is durable
        and sets `full`; the next call tries again, so while `full` call it now and then even if nothing waits.
        """
        if self.failed is not None:
            raise StorageFailed(f"The journal could not be synced: {self.failed}.")
        waiting = len(self._pending)
        if self.full and not waiting:
            self.start_file()
        while waiting:
            taken = self._take(waiting)
            try:
                fits = self._write_group(taken)
            except OSError as error:
                self.failed = error
                raise StorageFailed(f"The journal could not be written or synced: {error}.") from error
            if not fits:
                self._pending.extendleft(reversed(taken))
                break
            waiting -= len(taken)
            self.durable_ticket += len(taken)
        return self.durable_ticket

    def recycle_below(self, number: int) -> None:
        """Turn files that no recovery needs any more into spares; past a few, remove them. From any thread."""
        for name in sorted(self._disk.list(DIRECTORY)):
            if not name.endswith(SUFFIX) or int(name.removesuffix(SUFFIX)) >= number:
                continue
            path = f"{DIRECTORY}/{name}"
            if len(self._spares) >= _MOST_SPARES:
                self._disk.remove(path)
                continue
            spare = self._new_spare_name()
            self._disk.rename(path, f"{DIRECTORY}/{spare}")
            self._spares.append(spare)

    def prepare_spare(self) -> None:
        """Write a file of zeros for later. No room is no error here: the flush that needs the file will say so."""
        spare = self._new_spare_name()
        try:
            self._allocate(spare, self._file_bytes)
        except OSError as error:
            if not is_full(error):
                raise
            return
        self._spares.append(spare)

    def start_file(self) -> None:
        """Open a new file now, so that its being there tells that the last stop was followed by a start."""
        try:
            self._next_file(0)
            self.full = False
        except OSError as error:
            if not is_full(error):
                raise
            self.full = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _take(self, most: int) -> list[list[Buffer]]:
        """Records for one group: no more than a file holds, unless the first alone is larger."""
        taken = [self._pending.popleft()]
        size = sum(map(len, taken[0]))
        while len(taken) < most:
            size += sum(map(len, self._pending[0]))
            if size > self._file_bytes - FILE_HEADER.size - GROUP_HEADER.size:
                break
            taken.append(self._pending.popleft())
        return taken

    def _write_group(self, records: list[list[Buffer]]) -> bool:
        started = self._monotonic()
        entries = [buffer for record in records for buffer in record]
        size = GROUP_HEADER.size + sum(map(len, entries))
        if self._file is None or self.position.position + size > self._file_size:
            try:
                self._next_file(size)
            except OSError as error:
                if not is_full(error):
                    raise
                self.full = True
                return False
        assert self._file is not None
        number, position, sequence = self.position.number, self.position.position, self.position.sequence
        buffers = [group_header(sequence, self._file_salt, entries), *entries]
        try:
            self._file.pwritev([b"".join(buffers)] if size < _JOIN_BELOW_BYTES else buffers, position)
        except OSError as error:
            if not is_full(error):
                raise
            self.full = True
            return False
        self._file.datasync()
        self.full = False
        self.position = JournalPosition(number, position + size, sequence + 1)
        self.stats.flushes += 1
        self.stats.synced_bytes += size
        self.stats.last_flush_seconds = self._monotonic() - started
        return True

    def _next_file(self, group_bytes: int) -> None:
        """A file with room for a group. It gets its name only once its header is synced."""
        wanted = max(self._file_bytes, FILE_HEADER.size + group_bytes)
        spare, file = self._take_spare(wanted)
        number = self.position.number + 1
        header = FileHeader(number, self.position.sequence, self._salt())
        file.pwritev([header.encode()], 0)
        file.datasync()
        self._disk.rename(f"{DIRECTORY}/{spare}", f"{DIRECTORY}/{file_name(number)}")
        self._disk.sync_directory(DIRECTORY)
        if self._file is not None:
            self._file.close()
        self._file, self._file_salt, self._file_size = file, header.salt, file.size()
        self.position = JournalPosition(number, FILE_HEADER.size, self.position.sequence)

    def _take_spare(self, wanted: int) -> tuple[str, File]:
        while self._spares:
            spare = self._spares.popleft()
            file = self._disk.open(f"{DIRECTORY}/{spare}")
            if file.size() >= wanted:
                return spare, file
            file.close()
            self._disk.remove(f"{DIRECTORY}/{spare}")
        spare = self._new_spare_name()
        return spare, self._allocate(spare, wanted)

    def _allocate(self, spare: str, size: int) -> File:
        if self._reserve_bytes and self._disk.free_bytes() < size + self._reserve_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file = self._disk.create(f"{DIRECTORY}/{spare}")
        try:
            file.preallocate(size)
        except OSError:
            file.close()
            self._disk.remove(f"{DIRECTORY}/{spare}")
            raise
        return file

    def _new_spare_name(self) -> str:
        return f"{SPARE}{next(self._spare_numbers)}"
