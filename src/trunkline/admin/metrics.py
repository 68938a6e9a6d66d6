"""What Prometheus scrapes: the node's Stats, and gauges that the node is asked for at that moment.

A scrape has two halves. `gather` asks the node, on the event loop, whose state the gauges read. `Scrape.render` writes
the text, in a thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from trunkline import __version__
from trunkline.model.stats import Stats

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class PartitionGauges(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    start_offset: int
    end_offset: int


class ConsumerLag(NamedTuple):
    group: str
    topic: str
    partition: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What the node can tell about itself when asked, on the event loop. What is None is not shown."""

    partitions: Callable[[], Iterable[PartitionGauges]] | None = None
    """All of them; topics and partitions are counted from it."""
    journal_bytes: Callable[[], int] | None = None
    groups_by_state: Callable[[], Mapping[str, int]] | None = None
    consumer_lag: Callable[[], Iterable[ConsumerLag]] | None = None


@dataclass(frozen=True, slots=True)
class Scrape:
    """Everything that one answer says."""

    stats: Stats
    version: str
    uptime_seconds: float
    partitions: Sequence[PartitionGauges] | None
    journal_bytes: int | None
    groups_by_state: Mapping[str, int] | None
    consumer_lag: Sequence[ConsumerLag] | None

    def render(self) -> bytes:
        from trunkline.admin.exposition import text

        return text(self)


class Metrics:
    def __init__(self, stats: Stats, gauges: Gauges, version: str = __version__) -> None:
        self._stats = stats
        self._gauges = gauges
        self._version = version
        self._started = time.monotonic()

    def gather(self) -> Scrape:
        partitions, lag = self._gauges.partitions, self._gauges.consumer_lag
        return Scrape(
            stats=self._stats,
            version=self._version,
            uptime_seconds=time.monotonic() - self._started,
            partitions=_ask(partitions and (lambda: list(partitions()))),
            journal_bytes=_ask(self._gauges.journal_bytes),
            groups_by_state=_ask(self._gauges.groups_by_state),
            consumer_lag=_ask(lag and (lambda: list(lag()))),
        )


def _ask(gauge: Callable[[], _T] | None) -> _T | None:
    """One gauge that fails takes no other with it: it is left out, and the log says why."""
    if gauge is None:
        return None
    try:
        return gauge()
    except Exception as error:
        _log.warning("a metric is left out, it failed with %s: %s", type(error).__name__, error)
        return None
