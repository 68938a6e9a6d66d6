"""A disk that fails: a failed sync stops the node, and what was acknowledged is there afterwards."""

from __future__ import annotations

import errno
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.kafka_calls import STORAGE_ERROR, create, fetch, produce
from tests.support.raw_kafka import RawKafka
from tests.support.waiting import eventually

from trunkline.testing import Broker
from trunkline.testing.faults import FaultDisk

EXITS = """
import sys, threading, time
from pathlib import Path
from tests.support.kafka_calls import create, produce
from tests.support.raw_kafka import RawKafka
from trunkline.model.settings import Address, Settings
from trunkline.node.run import run
from trunkline.testing.faults import FaultDisk

data = Path(sys.argv[1])
disk = FaultDisk()
ready = data.parent / "ready"

def client():
    import json
    while not ready.exists():
        time.sleep(0.01)
    with RawKafka(json.loads(ready.read_text())["kafka"]) as kafka:
        create(kafka, "t")
        assert produce(kafka, "t", b"safe").error_code == 0
        disk.fail("datasync", path="journal", times=1000)
        try:
            print("answer", produce(kafka, "t", b"lost").error_code)
        except OSError:
            print("no answer")

threading.Thread(target=client, daemon=True).start()
settings = Settings(data=data, kafka=Address("127.0.0.1", 0), amqp=None, redis=None, http=None, ready_file=ready)
sys.exit(run(settings, disk=disk))
"""


def test_a_failed_sync_stops_the_node_with_one_clear_line_and_exit_status_1(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", EXITS, str(tmp_path / "data")], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 1, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("trunkline: The journal could not be written or synced")
    assert "answer 0" not in result.stdout


@pytest.mark.parametrize("operation", ["datasync", "pwrite"])
def test_what_was_acknowledged_before_the_journal_failed_survives_the_power_loss(
    tmp_path: Path, operation: str
) -> None:
    disk = FaultDisk()
    with Broker(tmp_path / "data", disk=disk) as broker, RawKafka(broker.kafka) as client:
        create(client, "t")
        acknowledged = [number for number in range(50) if produce(client, "t", b"%d" % number).error_code == 0]
        disk.fail(operation, path="journal", times=1000)
        try:
            answered = produce(client, "t", b"never safe", timeout_ms=500).error_code
        except OSError:
            answered = -1
        assert answered != 0
        eventually(broker.node.failure.done, "the node gives up")
    disk.crash(random.Random(7))
    with Broker(tmp_path / "data", disk=disk) as broker, RawKafka(broker.kafka) as client:
        assert fetch(client, "t", len(acknowledged) - 1).high_watermark >= len(acknowledged) == 50


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS, errno.ENOENT])
def test_a_segment_that_takes_no_write_is_a_storage_error_for_its_writer_only(tmp_path: Path, error: int) -> None:
    disk = FaultDisk()
    with Broker(tmp_path / "data", disk=disk) as broker, RawKafka(broker.kafka) as client:
        create(client, "bad")
        create(client, "good")
        assert produce(client, "bad", b"1").error_code == 0
        disk.fail("pwrite", error, path="bad-0")
        assert produce(client, "bad", b"2").error_code == STORAGE_ERROR
        assert produce(client, "good", b"1").error_code == 0
        assert produce(client, "bad", b"2").base_offset == 1
        assert not broker.node.failure.done()


def test_a_segment_that_cannot_be_read_is_a_storage_error_for_its_reader_only(tmp_path: Path) -> None:
    disk = FaultDisk()
    with Broker(tmp_path / "data", disk=disk, hot_tail_bytes=0) as broker, RawKafka(broker.kafka) as client:
        create(client, "t")
        assert produce(client, "t", b"1").error_code == 0
        disk.fail("pread", errno.EIO, path="t-0")
        assert fetch(client, "t").error_code == STORAGE_ERROR
        assert fetch(client, "t").error_code == 0
