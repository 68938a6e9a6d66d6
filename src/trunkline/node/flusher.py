"""The one thread that makes writes safe: it syncs the journal whenever something waits there.

While one sync runs, new writes gather; the next sync takes them all. So a sync is shared by everything that arrived in
its window, and an idle node syncs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from trunkline.log.journal import Journal
from trunkline.model.errors import StorageFailed, in_one_line

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.5
"""How long to wait before asking a full disk for room again."""


class Flusher:
    def __init__(
        self,
        journal: Journal,
        on_synced: Callable[[int, float, int], None],
        on_failed: Callable[[StorageFailed], None],
    ) -> None:
        self._journal = journal
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._loop = asyncio.get_running_loop()
        self._work = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was appended to the journal. Cheap, and called from the loop only."""
        if not self._work.is_set():
            self._work.set()

    def stop(self) -> None:
        """Sync what is left and end the thread."""
        self._stopping = True
        self._work.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                self._work.wait()
                self._work.clear()
                self._flush_all()
                if self._stopping:
                    return
        except StorageFailed as error:
            self._tell(self._on_failed, error)
        except Exception as error:  # without this thread every write would wait for ever, in silence
            self._tell(self._on_failed, StorageFailed(f"The journal's thread failed: {in_one_line(error)}."))

    def _flush_all(self) -> None:
        journal = self._journal
        while journal.pending or journal.full:
            started = monotonic()
            ticket = journal.flush()
            self._tell(self._on_synced, ticket, monotonic() - started, journal.stats.synced_bytes)
            if journal.full:
                if self._stopping:
                    log.error("The disk is full: %s", "what was not acknowledged yet is lost at this stop.")
                    return
                threading.Event().wait(_RETRY_SECONDS)

    def _tell(self, whom: Callable[..., None], *news: object) -> None:
        try:
            self._loop.call_soon_threadsafe(whom, *news)
        except RuntimeError:
            if not self._stopping:
                raise
