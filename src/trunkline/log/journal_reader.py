"""Reading the journal at start: every whole group from the checkpoint on, and what stands after the last one.

whole groups ──▶ not whole, nothing whole after it    the torn end: a flush that nobody was answered for
whole groups ──▶ not whole ──▶ a whole group          synced data is damaged: CorruptLog, unless told to cut there
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from trunkline.log.disk import Disk, read_all
from trunkline.log.journal import DIRECTORY, SPARE, SUFFIX, JournalPosition, file_name
from trunkline.log.journal_format import FILE_HEADER, GROUP_HEADER, FileHeader, find_group_after, read_group
from trunkline.model.errors import CorruptLog

_log = logging.getLogger(__name__)


class JournalReader:
    """`position` is where the journal ends once `groups` is exhausted."""

    def __init__(self, disk: Disk, start: JournalPosition | None, *, accept_cut: bool) -> None:
        """`start`: from the checkpoint; None where there never was one, then everything from file 1 on counts."""
        disk.make_dirs(DIRECTORY)
        names = disk.list(DIRECTORY)
        self.numbers = sorted(int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX))
        self.spares = [name for name in names if name.startswith(SPARE)]
        self.has_checkpoint = start is not None
        self.position = start or JournalPosition(1, FILE_HEADER.size, 1)
        self._disk = disk
        self._accept_cut = accept_cut

    @property
    def last_number(self) -> int:
        return max([*self.numbers, self.position.number if self.has_checkpoint else 0])

    def groups(self) -> Iterator[memoryview]:
        """The entries of each group in order. CorruptLog."""
        numbers = [number for number in self.numbers if number >= self.position.number]
        if numbers and numbers[0] != self.position.number:
            raise CorruptLog(
                f"{DIRECTORY}/{file_name(self.position.number)} is missing, although {file_name(numbers[0])} is there. "
                "Restore the data directory from a backup."
            )
        for index, number in enumerate(numbers):
            data, header = self._open(number)
            if number != self.position.number:
                if header.first_sequence != self.position.sequence or number != self.position.number + 1:
                    self._damaged(f"{file_name(number)} starts with group {header.first_sequence}")
                    return
                self.position = JournalPosition(number, FILE_HEADER.size, self.position.sequence)
            while (group := read_group(data, self.position.position, header.salt)) is not None:
                sequence, entries = group
                if sequence != self.position.sequence:
                    break
                yield entries
                after = self.position.position + GROUP_HEADER.size + len(entries)
                self.position = JournalPosition(number, after, sequence + 1)
            if index + 1 == len(numbers):
                self._check_end(data, header)

    def _open(self, number: int) -> tuple[memoryview, FileHeader]:
        path = f"{DIRECTORY}/{file_name(number)}"
        data = read_all(self._disk.open(path))
        header = FileHeader.decode(data, path)
        if header.number != number:
            raise CorruptLog(f"{path} says that it is file {header.number}: it was renamed. Restore it from a backup.")
        return memoryview(data), header

    def _check_end(self, data: memoryview, header: FileHeader) -> None:
        at = find_group_after(data, self.position.position, header.salt, self.position.sequence)
        if at is not None:
            self._damaged(f"a whole group follows it at {at}")

    def _damaged(self, evidence: str) -> None:
        where = f"{DIRECTORY}/{file_name(self.position.number)} is damaged at position {self.position.position}"
        if not self._accept_cut:
            raise CorruptLog(
                f"{where}, below what was acknowledged: {evidence}. Restore the data directory from a backup, or "
                "accept the loss of what the journal holds after that position: start once with --accept-journal-cut."
            )
        _log.warning("%s: cut there, as told; what follows is lost", where)
