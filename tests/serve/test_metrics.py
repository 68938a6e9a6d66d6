"""What Prometheus and probes see of a node that works."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from tests.support.server import Server


def get(server: Server, path: str) -> str:
    with urllib.request.urlopen(f"http://{server.addresses['http']}{path}", timeout=20) as response:
        return str(response.read().decode())


def test_a_working_node_shows_its_throughput_latency_sizes_and_lag(tmp_path: Path, topic: str) -> None:
    with Server(tmp_path / "data", "--http", "127.0.0.1:0") as server:
        producer = Producer({"bootstrap.servers": server.kafka})
        for _ in range(10):
            producer.produce(topic, b"hello")
        producer.flush(20)
        consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(get(server, "/metrics"))
            for sample in family.samples
        }
        consumer.close()
        of_partition = (("partition", "0"), ("topic", topic))
        assert samples[("trunkline_messages_in_total",)] == 10
        assert samples[("trunkline_log_end_offset", *of_partition)] == 10
        assert samples[("trunkline_log_size_bytes", *of_partition)] > 0
        assert samples[("trunkline_consumer_lag", ("group", "readers"), *of_partition)] == 6
        assert samples[("trunkline_request_duration_seconds_count", ("request", "Produce"))] >= 1
        assert samples[("trunkline_journal_flush_duration_seconds_count",)] >= 1
        assert samples[("trunkline_connections_open", ("protocol", "kafka"))] >= 1
        assert samples[("trunkline_sent_bytes_total", ("protocol", "kafka"))] > 0
        assert samples[("trunkline_journal_bytes",)] > 0


def test_probes_are_answered(tmp_path: Path) -> None:
    with Server(tmp_path / "data", "--http", "127.0.0.1:0") as server:
        assert json.loads(get(server, "/healthz")) == {"status": "ok"}
        assert json.loads(get(server, "/readyz")) == {"status": "ready"}
        assert server.kafka in get(server, "/")
        assert server.stop()[0] == 0


def test_a_node_whose_http_was_never_used_stops_cleanly(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--http", "127.0.0.1:0").start()
    status, output, errors = server.stop()
    assert (status, errors) == (0, "")
    assert f"http    {server.addresses['http']}" in output
