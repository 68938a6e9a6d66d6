"""Ids for idempotent producers: handed out from blocks, so that the metadata store is asked once in a thousand."""

from __future__ import annotations

from typing import Final

from trunkline.metadata.store import MetadataStore
from trunkline.model.ids import ProducerId

_BLOCK: Final = 1000


class ProducerIds:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._block = iter(range(0))

    def next(self) -> ProducerId:
        """An id that was never given out before, restarts included: a block is lost rather than used twice."""
        for number in self._block:
            return ProducerId(number)
        self._block = iter(self._store.allocate_producer_ids(_BLOCK))
        return ProducerId(next(self._block))
