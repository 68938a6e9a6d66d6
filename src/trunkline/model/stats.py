"""What a node counts while it works: plain ints and lists that a hot path bumps in place (`stats.messages_in += 9`).

Counters only grow while the process lives. They are written on the event loop and may be read from any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

LATENCY_BOUNDS_SECONDS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)


class LatencyHistogram:
    """How often something took how long: counts[i] times up to LATENCY_BOUNDS_SECONDS[i], and the last one longer."""

    __slots__ = ("counts", "sum_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BOUNDS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(LATENCY_BOUNDS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)


class ConnectionStats:
    """The connections of one protocol."""

    __slots__ = ("accepted", "dropped", "open", "received_bytes", "refused", "sent_bytes")

    def __init__(self) -> None:
        self.open = 0
        self.accepted = 0
        """All that were ever opened."""
        self.refused = 0
        """Turned away at once: too many."""
        self.dropped = 0
        """Closed by us: bad bytes, no handshake in time, a reader that does not read."""
        self.received_bytes = 0
        self.sent_bytes = 0


class CompactionStats:
    """Cleaning of compacted topics."""

    __slots__ = (
        "bytes_read",
        "bytes_written",
        "cleanable_bytes",
        "dirtiest_ratio",
        "failures",
        "last_seconds",
        "records_removed",
        "runs",
    )

    def __init__(self) -> None:
        self.runs = 0
        """Of one log each."""
        self.failures = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_removed = 0
        self.last_seconds = 0.0
        self.cleanable_bytes = 0
        """Of all logs, when they were last looked at."""
        self.dirtiest_ratio = 0.0


class Stats:
    """One for a node. Names of requests, errors and protocols come from our own tables, never from a client."""

    __slots__ = (
        "batches_in",
        "bytes_in",
        "bytes_out",
        "compaction",
        "connections",
        "duplicate_batches",
        "errors",
        "journal_bytes_synced",
        "journal_flush",
        "loop_lag_max_seconds",
        "loop_lag_seconds",
        "messages_in",
        "request_latency",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.batches_in = 0
        self.bytes_in = 0
        """Of record batches as they are stored; what went over sockets is counted per protocol."""
        self.bytes_out = 0
        self.duplicate_batches = 0
        """Sent again by an idempotent producer, and not written again."""
        self.journal_flush = LatencyHistogram()
        """One observation per sync of the journal; its count is the number of flushes."""
        self.journal_bytes_synced = 0
        self.compaction = CompactionStats()
        self.loop_lag_seconds = 0.0
        self.loop_lag_max_seconds = 0.0
        self.errors: dict[str, int] = {}
        self.request_latency: dict[str, LatencyHistogram] = {}
        self.connections: dict[str, ConnectionStats] = {}

    def of_request(self, kind: str) -> LatencyHistogram:
        """The latencies of one kind of request, from its last byte in to its answer handed to the socket. Keep it."""
        histogram = self.request_latency.get(kind)
        if histogram is None:
            histogram = self.request_latency[kind] = LatencyHistogram()
        return histogram

    def of_protocol(self, protocol: str) -> ConnectionStats:
        """The connections of one protocol. Keep it."""
        connections = self.connections.get(protocol)
        if connections is None:
            connections = self.connections[protocol] = ConnectionStats()
        return connections

    def count_error(self, name: str) -> None:
        """An error that a client was answered with."""
        self.errors[name] = self.errors.get(name, 0) + 1

    def observe_loop_lag(self, seconds: float) -> None:
        """How much later than asked for the event loop came back."""
        self.loop_lag_seconds = seconds
        if seconds > self.loop_lag_max_seconds:
            self.loop_lag_max_seconds = seconds
