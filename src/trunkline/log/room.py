"""The room that is left on the disk. Writes are refused before the last of it is gone: freeing room needs some, too.

    free ────────────┼──────────────────┼────────────┼ 0
      everything     │ reserve: what    │ half of it: checkpoints and metadata only,
      is written     │ the node itself  │ without which deleting a topic
                     │ must remember    │ would free nothing

The system is asked once in a few MiB written, and before each write while there is too little.
"""

from __future__ import annotations

import logging
from typing import Final

from trunkline.log.disk import Disk
from trunkline.model.errors import StorageFailed, StorageFull

_log = logging.getLogger(__name__)
_STEP_BYTES: Final = 4 * 1024 * 1024
"""What may be written between two looks, as long as there is more."""


class Room:
    __slots__ = ("_disk", "_left_bytes", "reserve_bytes", "trouble")

    def __init__(self, disk: Disk, reserve_bytes: int) -> None:
        self.reserve_bytes = reserve_bytes
        self.trouble: StorageFailed | None = None
        """Why the last write was refused; None once one was taken again."""
        self._disk = disk
        self._left_bytes = 0

    def take(self, size_bytes: int, *, vital: bool = False) -> None:
        """Before every write to a segment. `vital`: may use a half of the reserve. StorageFull."""
        self._left_bytes -= size_bytes
        if self._left_bytes < 0 or self.trouble is not None:
            self._look(size_bytes, vital)

    def refused(self, error: StorageFailed) -> None:
        """The disk took no write, whatever it says about its room."""
        self._left_bytes = 0
        self._tell(error)

    def check(self) -> None:
        """Whether a write would be taken now. StorageFull, StorageFailed."""
        if self.trouble is not None and not isinstance(self.trouble, StorageFull):
            raise self.trouble
        self._look(0, vital=False)

    def _look(self, size_bytes: int, vital: bool) -> None:
        kept_bytes = self.reserve_bytes // 2 if vital else self.reserve_bytes
        free_bytes = self._disk.free_bytes() - kept_bytes
        # Once refused, writes go on only when there is clearly more: not one in, one out at the edge.
        margin_bytes = self.reserve_bytes // 4 if self.trouble is not None and not vital else 1
        self._left_bytes = 0
        if free_bytes < max(size_bytes, margin_bytes):
            error = StorageFull(
                f"The disk has no room: {free_bytes + kept_bytes} bytes are free, and {kept_bytes} are kept for the "
                "node itself. Writes are refused until there is more: delete topics or records, or free some otherwise."
            )
            self._tell(error)
            raise error
        if not vital:
            self._tell(None)
            self._left_bytes = min(free_bytes, _STEP_BYTES) - size_bytes

    def _tell(self, trouble: StorageFailed | None) -> None:
        """One line in the log when writes stop, one when they go on."""
        if trouble is not None and self.trouble is None:
            _log.error("%s", trouble)
        elif trouble is None and self.trouble is not None:
            _log.warning("There is room on the disk again: writes go on.")
        self.trouble = trouble
