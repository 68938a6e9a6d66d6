"""A scrape as Prometheus text. Loaded by the first scrape: prometheus_client takes 50 ms to import, and 5 MB.

Names start with trunkline_ and end with their unit, and _total where they only grow. prometheus_client writes all but
the lines that there may be tens of thousands of, one per partition: those are put together here, for 10,000 partitions
in 25 ms instead of 250.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from trunkline.admin.metrics import ConsumerLag, PartitionGauges, Scrape
from trunkline.model.stats import LATENCY_BOUNDS_SECONDS, CompactionStats, ConnectionStats, LatencyHistogram, Stats

_BUCKETS: Final = (*map(str, LATENCY_BOUNDS_SECONDS), "+Inf")

_PARTITION_GAUGES: Final[tuple[tuple[str, str, Callable[[PartitionGauges], int]], ...]] = (
    ("trunkline_log_size_bytes", "Size of a partition's log.", lambda row: row.size_bytes),
    ("trunkline_log_start_offset", "The first offset that is kept.", lambda row: row.start_offset),
    ("trunkline_log_end_offset", "The offset that the next record gets.", lambda row: row.end_offset),
)
_CONNECTION_COUNTERS: Final[tuple[tuple[str, str, Callable[[ConnectionStats], int]], ...]] = (
    ("trunkline_connections_accepted_total", "Ever opened.", lambda its: its.accepted),
    ("trunkline_connections_refused_total", "Turned away: there were too many.", lambda its: its.refused),
    ("trunkline_connections_dropped_total", "Closed by the node: bad bytes, or too slow.", lambda its: its.dropped),
    ("trunkline_received_bytes_total", "Received on sockets.", lambda its: its.received_bytes),
    ("trunkline_sent_bytes_total", "Sent on sockets.", lambda its: its.sent_bytes),
)


def text(scrape: Scrape) -> bytes:
    lines = [*_partition_lines(scrape.partitions or ()), *_lag_lines(scrape.consumer_lag or ())]
    return generate_latest(_Collector(scrape)) + "".join(lines).encode()


class _Collector:
    """What prometheus_client asks. It stands alone: none of prometheus_client's own metrics are shown."""

    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape

    def collect(self) -> Iterator[Metric]:
        yield from _process(self._scrape)
        yield from _traffic(self._scrape.stats)
        yield from _connections(self._scrape.stats)
        yield from _storage(self._scrape)
        yield from _compaction(self._scrape.stats.compaction)
        yield from _groups(self._scrape)


def _process(scrape: Scrape) -> Iterator[Metric]:
    lag, lag_max = scrape.stats.loop_lag_seconds, scrape.stats.loop_lag_max_seconds
    yield InfoMetricFamily("trunkline_build", "The version that runs.", {"version": scrape.version})
    yield _gauge("trunkline_uptime_seconds", "Since the node started.", scrape.uptime_seconds)
    yield _gauge("trunkline_event_loop_lag_seconds", "How late the event loop last came back.", lag)
    yield _gauge("trunkline_event_loop_lag_max_seconds", "The latest that the event loop ever came back.", lag_max)
    memory_bytes, open_files = _resident_memory_bytes(), _open_files()
    if memory_bytes is not None:
        yield _gauge("trunkline_resident_memory_bytes", "Memory of the process (RSS).", memory_bytes)
    if open_files is not None:
        yield _gauge("trunkline_open_files", "Open file descriptors, sockets included.", open_files)


def _traffic(stats: Stats) -> Iterator[Metric]:
    for name, help_text, value in (
        ("messages_in", "Messages written to logs.", stats.messages_in),
        ("batches_in", "Record batches written to logs.", stats.batches_in),
        ("bytes_in", "Bytes of record batches written to logs.", stats.bytes_in),
        ("bytes_out", "Bytes of record batches read from logs by clients.", stats.bytes_out),
        ("duplicate_batches", "Batches sent again by a producer and not written again.", stats.duplicate_batches),
    ):
        yield CounterMetricFamily(f"trunkline_{name}_total", help_text, value)
    yield _counters("trunkline_errors_total", "Errors that clients were answered with.", "error", stats.errors)
    yield _histograms(
        "trunkline_request_duration_seconds",
        "From a request's last byte in to its answer handed to the socket, long polls included.",
        "request",
        stats.request_latency,
    )


def _connections(stats: Stats) -> Iterator[Metric]:
    connections = list(stats.connections.items())
    still_open = {protocol: its.open for protocol, its in connections}
    yield _gauges("trunkline_connections_open", "Open now.", "protocol", still_open)
    for name, help_text, of in _CONNECTION_COUNTERS:
        yield _counters(name, help_text, "protocol", {protocol: of(its) for protocol, its in connections})


def _storage(scrape: Scrape) -> Iterator[Metric]:
    stats, partitions = scrape.stats, scrape.partitions
    flush_help = "One sync of the journal, for everything that waited for it."
    yield _histograms("trunkline_journal_flush_duration_seconds", flush_help, None, {"": stats.journal_flush})
    synced = stats.journal_bytes_synced
    yield CounterMetricFamily("trunkline_journal_synced_bytes_total", "Bytes of the journal made durable.", synced)
    if scrape.journal_bytes is not None:
        yield _gauge("trunkline_journal_bytes", "Size of the journal's files.", scrape.journal_bytes)
    if partitions is not None:
        yield _gauge("trunkline_topics", "Topics.", len({row.topic for row in partitions}))
        yield _gauge("trunkline_partitions", "Partitions of all topics.", len(partitions))


def _compaction(stats: CompactionStats) -> Iterator[Metric]:
    for name, help_text, value in (
        ("runs", "Cleanings of one compacted log each.", stats.runs),
        ("failures", "Cleanings that could not finish.", stats.failures),
        ("read_bytes", "Bytes of record batches that cleaning read.", stats.bytes_read),
        ("written_bytes", "Bytes of record batches that cleaning wrote.", stats.bytes_written),
        ("removed_records", "Records that cleaning removed.", stats.records_removed),
    ):
        yield CounterMetricFamily(f"trunkline_compaction_{name}_total", help_text, value)
    yield _gauge("trunkline_compaction_cleanable_bytes", "What could be cleaned now.", stats.cleanable_bytes)
    yield _gauge("trunkline_compaction_dirtiest_ratio", "The largest dirty part of a log.", stats.dirtiest_ratio)
    yield _gauge("trunkline_compaction_last_duration_seconds", "How long the last cleaning took.", stats.last_seconds)


def _groups(scrape: Scrape) -> Iterator[Metric]:
    if scrape.groups_by_state is not None:
        yield _gauges("trunkline_groups", "Consumer groups.", "state", scrape.groups_by_state)


# ── one line per partition ──────────────────────────────────────────────────────────────────────


def _partition_lines(partitions: Sequence[PartitionGauges]) -> Iterator[str]:
    if not partitions:
        return
    labels = [f'{{topic="{_escaped(row.topic)}",partition="{row.partition}"}}' for row in partitions]
    for name, help_text, of in _PARTITION_GAUGES:
        yield _head(name, help_text)
        for label, row in zip(labels, partitions, strict=True):
            yield f"{name}{label} {of(row)}\n"


def _lag_lines(lags: Sequence[ConsumerLag]) -> Iterator[str]:
    if lags:
        yield _head("trunkline_consumer_lag", "Messages between a group's place and the end of the log.")
    for group, topic, partition, messages in lags:
        labels = f'group="{_escaped(group)}",topic="{_escaped(topic)}",partition="{partition}"'
        yield f"trunkline_consumer_lag{{{labels}}} {messages}\n"


def _head(name: str, help_text: str) -> str:
    return f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


# ── families ────────────────────────────────────────────────────────────────────────────────────


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value)


def _gauges(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=[label])
    for key, value in list(values.items()):
        family.add_metric([key], value)
    return family


def _counters(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=[label])
    for key, value in list(values.items()):  # In one step: the loop may be adding to it.
        family.add_metric([key], value)
    return family


def _histograms(name: str, help_text: str, label: str | None, values: Mapping[str, LatencyHistogram]) -> Metric:
    family = HistogramMetricFamily(name, help_text, labels=[label] if label else [])
    for key, histogram in list(values.items()):
        buckets = list(zip(_BUCKETS, accumulate(histogram.counts.copy()), strict=True))
        family.add_metric([key] if label else [], buckets, histogram.sum_seconds)
    return family


def _resident_memory_bytes() -> int | None:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def _open_files() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # One is open to list them.
    except OSError:
        return None
