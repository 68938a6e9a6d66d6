"""What a scrape says, read back with Prometheus' own parser."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from trunkline.admin.metrics import ConsumerLag, Gauges, Metrics, PartitionGauges
from trunkline.model.stats import LATENCY_BOUNDS_SECONDS, LatencyHistogram, Stats


def families(stats: Stats, gauges: Gauges | None = None) -> dict[str, Metric]:
    text = Metrics(stats, gauges or Gauges(), version="1.2.3").gather().render().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(stats: Stats, gauges: Gauges | None = None) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families(stats, gauges).values()
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def full_stats() -> Stats:
    stats = Stats()
    for number, name in enumerate(("messages_in", "batches_in", "bytes_in", "bytes_out"), start=1):
        setattr(stats, name, number)
    stats.duplicate_batches, stats.journal_bytes_synced = 8, 4096
    stats.observe_loop_lag(0.25)
    stats.observe_loop_lag(0.125)
    stats.count_error("UnknownTopic")
    stats.count_error("UnknownTopic")
    stats.of_request("Produce").observe(0.0004)
    stats.journal_flush.observe(0.002)
    kafka = stats.of_protocol("kafka")
    kafka.open, kafka.accepted, kafka.refused, kafka.dropped = 1, 5, 2, 3
    kafka.received_bytes, kafka.sent_bytes = 100, 200
    return stats


def full_gauges() -> Gauges:
    return Gauges(
        partitions=lambda: [PartitionGauges("orders", 0, 10, 1, 9), PartitionGauges("orders", 1, 20, 0, 5)],
        journal_bytes=lambda: 1 << 26,
        groups_by_state=lambda: {"Stable": 2, "Empty": 1},
        consumer_lag=lambda: [ConsumerLag("billing", "orders", 1, 4)],
    )


def test_everything_counted_is_scraped_under_a_name_that_says_what_it_is() -> None:
    scraped = values(full_stats(), full_gauges())
    expected = {
        key("trunkline_build_info", version="1.2.3"): 1,
        key("trunkline_messages_in_total"): 1,
        key("trunkline_batches_in_total"): 2,
        key("trunkline_bytes_in_total"): 3,
        key("trunkline_bytes_out_total"): 4,
        key("trunkline_duplicate_batches_total"): 8,
        key("trunkline_event_loop_lag_seconds"): 0.125,
        key("trunkline_event_loop_lag_max_seconds"): 0.25,
        key("trunkline_errors_total", error="UnknownTopic"): 2,
        key("trunkline_request_duration_seconds_bucket", request="Produce", le="0.00025"): 0,
        key("trunkline_request_duration_seconds_bucket", request="Produce", le="0.0005"): 1,
        key("trunkline_request_duration_seconds_bucket", request="Produce", le="+Inf"): 1,
        key("trunkline_request_duration_seconds_sum", request="Produce"): 0.0004,
        key("trunkline_request_duration_seconds_count", request="Produce"): 1,
        key("trunkline_journal_flush_duration_seconds_count"): 1,
        key("trunkline_journal_flush_duration_seconds_sum"): 0.002,
        key("trunkline_journal_synced_bytes_total"): 4096,
        key("trunkline_journal_bytes"): 1 << 26,
        key("trunkline_connections_open", protocol="kafka"): 1,
        key("trunkline_connections_accepted_total", protocol="kafka"): 5,
        key("trunkline_connections_refused_total", protocol="kafka"): 2,
        key("trunkline_connections_dropped_total", protocol="kafka"): 3,
        key("trunkline_received_bytes_total", protocol="kafka"): 100,
        key("trunkline_sent_bytes_total", protocol="kafka"): 200,
        key("trunkline_topics"): 1,
        key("trunkline_partitions"): 2,
        key("trunkline_log_size_bytes", topic="orders", partition="1"): 20,
        key("trunkline_log_start_offset", topic="orders", partition="0"): 1,
        key("trunkline_log_end_offset", topic="orders", partition="0"): 9,
        key("trunkline_groups", state="Stable"): 2,
        key("trunkline_consumer_lag", group="billing", topic="orders", partition="1"): 4,
    }
    assert {name: scraped.get(name) for name in expected} == expected
    assert scraped[key("trunkline_uptime_seconds")] >= 0
    assert scraped[key("trunkline_resident_memory_bytes")] > 1_000_000
    assert scraped[key("trunkline_open_files")] > 2


def test_only_our_own_metrics_are_shown_each_with_a_type_and_a_help_text() -> None:
    for name, family in families(full_stats(), full_gauges()).items():
        assert name.startswith("trunkline_")
        assert family.type in ("counter", "gauge", "histogram")
        assert family.documentation


def test_a_node_that_has_done_nothing_is_scraped_all_the_same() -> None:
    scraped = families(Stats())
    assert scraped["trunkline_messages_in"].samples[0].value == 0
    assert "trunkline_consumer_lag" not in scraped
    assert "trunkline_log_size_bytes" not in scraped


def test_one_gauge_that_fails_does_not_hide_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterable[PartitionGauges]:
        yield PartitionGauges("orders", 0, 10, 1, 9)
        raise RuntimeError("the log is closed")

    scraped = families(Stats(), Gauges(partitions=broken, journal_bytes=lambda: 7))
    assert scraped["trunkline_journal_bytes"].samples[0].value == 7
    assert "trunkline_log_size_bytes" not in scraped
    assert "the log is closed" in caplog.text
    assert "Traceback" not in caplog.text


@given(group=st.text())
def test_a_group_may_have_any_name(group: str) -> None:
    group = group.encode(errors="replace").decode()
    scraped = values(Stats(), Gauges(consumer_lag=lambda: [ConsumerLag(group, "orders", 0, 3)]))
    assert scraped[key("trunkline_consumer_lag", group=group, topic="orders", partition="0")] == 3


@given(st.lists(st.floats(0, 20)))
def test_a_latency_is_counted_in_the_first_bucket_that_holds_it(latencies: list[float]) -> None:
    histogram = LatencyHistogram()
    for latency in latencies:
        histogram.observe(latency)
    assert histogram.count == len(latencies)
    assert histogram.sum_seconds == pytest.approx(sum(latencies))
    for index, bound in enumerate(LATENCY_BOUNDS_SECONDS):
        assert sum(histogram.counts[: index + 1]) == sum(latency <= bound for latency in latencies)


def test_kinds_of_requests_and_protocols_are_counted_apart() -> None:
    stats = Stats()
    assert stats.of_request("Produce") is stats.of_request("Produce")
    assert stats.of_request("Fetch") is not stats.of_request("Produce")
    assert stats.of_protocol("kafka") is stats.of_protocol("kafka")
