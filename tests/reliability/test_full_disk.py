"""A disk that is really full: writes are refused, reads go on, and room that is made is used without a restart."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.test_clients import consume
from tests.support.disks import fill, small_disk
from tests.support.kafka_calls import STORAGE_ERROR, create, fetch, produce
from tests.support.raw_kafka import RawKafka
from tests.support.server import Server
from tests.support.waiting import eventually

from trunkline.wire.kafka.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from trunkline.wire.kafka.messages.create_topics_response import CreateTopicsResponse
from trunkline.wire.kafka.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from trunkline.wire.kafka.messages.delete_topics_response import DeleteTopicsResponse

VALUE = bytes(100_000)
FLAGS = ("--http", "127.0.0.1:0", "--journal-file-bytes", "1MiB", "--checkpoint-bytes", "1MiB")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "24m") as path:
        yield path


@pytest.fixture
def server(disk: Path) -> Iterator[Server]:
    with Server(disk, *FLAGS) as running:
        yield running


def readiness(server: Server) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{server.http}/readyz", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def produce_until_full(client: RawKafka, *topics: str) -> dict[str, int]:
    """How many were acknowledged, per topic, before the disk was full."""
    acknowledged = dict.fromkeys(topics, 0)
    for number in range(1000):
        topic = topics[number % len(topics)]
        answer = produce(client, topic, VALUE)
        if answer.error_code:
            assert answer.error_code == STORAGE_ERROR
            return acknowledged
        acknowledged[topic] += 1
    raise AssertionError("the disk never was full")


def test_a_full_disk_refuses_writes_serves_reads_and_is_freed_by_deleting_a_topic(server: Server) -> None:
    with RawKafka(server.kafka) as client:
        assert create(client, "kept") == create(client, "passing") == 0
        kept = 0

        def is_full() -> bool:
            # The first refusals make the node look for room of its own: it finds some in old journal files.
            nonlocal kept
            kept += produce_until_full(client, "kept", "passing")["kept"]
            status, reason = readiness(server)
            wanted = CreatableTopic(name="another", num_partitions=1, replication_factor=1)
            request = CreateTopicsRequest(topics=[wanted], validate_only=status == 200)
            [created] = client.ask(request, 5, CreateTopicsResponse).topics
            return (status, created.error_code) == (503, STORAGE_ERROR) and "no room" in reason

        eventually(is_full, "writes, topics and readiness are refused")
        assert len(fetch(client, "kept").records or b"") > 0
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="passing")])
        [deleted] = client.ask(gone, 6, DeleteTopicsResponse).responses
        assert deleted.error_code == 0
        eventually(lambda: produce(client, "kept", VALUE).error_code == 0, "writes go on")
        assert readiness(server)[0] == 200
    assert len(consume(server.kafka, "kept", kept + 1)) == kept + 1
    assert any("no room" in line for line in server.log_lines)
    assert any("writes go on" in line for line in server.log_lines)
    assert len(server.log_lines) < 20


def test_a_disk_filled_by_others_loses_nothing_over_a_kill_and_writes_go_on_with_new_room(
    server: Server, disk: Path
) -> None:
    with RawKafka(server.kafka) as client:
        create(client, "kept")
        for _ in range(20):
            assert produce(client, "kept", VALUE).error_code == 0
        fill(disk / "foreign")
        assert produce(client, "kept", VALUE).error_code == STORAGE_ERROR
    server.kill()
    server.start()
    with RawKafka(server.kafka) as client:
        for offset in range(20):
            assert len(fetch(client, "kept", offset).records or b"") > len(VALUE)
        assert produce(client, "kept", VALUE).error_code == STORAGE_ERROR
        assert readiness(server)[0] == 503
        (disk / "foreign").unlink()
        eventually(lambda: produce(client, "kept", VALUE).error_code == 0, "writes go on")
    status, _, errors = server.stop()
    assert status == 0
    assert "Traceback" not in errors


def refused_start(data: Path) -> str:
    """What a start that must fail says."""
    listeners = ["--kafka", "127.0.0.1:0", "--amqp", "off", "--redis", "off", "--http", "off"]
    result = subprocess.run(
        [sys.executable, "-m", "trunkline", "serve", "--data", str(data), *listeners],
        capture_output=True,
        text=True,
        timeout=30,
        env=dict(os.environ),
    )
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def test_a_first_start_on_a_full_disk_is_one_clear_line(disk: Path) -> None:
    fill(disk / "foreign")
    line = refused_start(disk / "data")
    assert "room" in line or "full" in line
    assert str(disk) in line


def test_a_start_on_a_read_only_disk_is_one_clear_line(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    line = refused_start(disk / "data")
    assert "not writable" in line
    assert "--data" in line
