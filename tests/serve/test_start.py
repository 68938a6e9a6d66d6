"""`trunkline serve` as a person or a script starts it: what it prints, what it refuses and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.kafka_calls import create, fetch, produce
from tests.support.raw_kafka import RawKafka
from tests.support.server import Server

OFF = ["--amqp", "off", "--redis", "off", "--http", "off"]


def serve(*flags: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run it to its end: only for starts that are refused."""
    return subprocess.run(
        [sys.executable, "-m", "trunkline", "serve", *flags],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **(environment or {})},
    )


def test_the_first_lines_say_what_listens_where_and_what_an_ack_means(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--amqp", "localhost:0", "--redis", "localhost:0").start()
    status, output, errors = server.stop()
    lines = output.splitlines()
    assert lines[0] == f"kafka   {server.kafka}"
    assert lines[1].startswith("amqp    not yet")
    assert lines[2].startswith("redis   not yet")
    assert lines[3] == "acks    an ack means that the write is synced to the disk: it survives kill -9 and power loss"
    assert lines[4] == f"data    {tmp_path / 'data'}"
    assert lines[5] == "ready"
    assert status == 0
    assert errors == ""


def test_the_ready_file_names_the_addresses_and_the_process(server: Server) -> None:
    ready = json.loads((server.data.parent / "data.ready").read_text())
    assert ready["pid"] == server.process.pid
    assert ready["kafka"].startswith("127.0.0.1:")
    assert ready["amqp"] is None
    assert set(ready) == {"kafka", "amqp", "redis", "http", "pid"}


def test_ctrl_c_is_a_clean_stop(tmp_path: Path) -> None:
    server = Server(tmp_path / "data").start()
    server.process.send_signal(signal.SIGINT)
    status, output, errors = server.wait(20)
    assert status == 0
    assert "Traceback" not in errors
    assert output.endswith("stopped\n")


def test_memory_leaves_no_files(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--memory").start()
    _, output, _ = server.stop()
    assert "data    in memory" in output
    assert not (tmp_path / "data").exists()


def test_localhost_is_both_loopbacks_on_one_port(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--kafka", "localhost:0").start()
    port = int(server.kafka.rsplit(":", 1)[1])
    try:
        for host in ("127.0.0.1", "::1"):
            try:
                socket.create_connection((host, port), 5).close()
            except OSError as error:
                if host == "::1" and not socket.has_ipv6:
                    pytest.skip(f"no IPv6 here: {error}")
                raise
    finally:
        server.stop()


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = serve("--data", str(tmp_path / "data"), "--kafka", f"127.0.0.1:{port}", *OFF)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert f"port {port} on 127.0.0.1 is taken" in result.stderr
    assert "--kafka" in result.stderr


def test_a_data_directory_in_use_is_one_clear_line_that_names_the_process(server: Server) -> None:
    result = serve("--data", str(server.data), "--kafka", "127.0.0.1:0", *OFF)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert f"in use by process {server.process.pid}" in result.stderr


def test_an_unusable_data_directory_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    result = serve("--data", str(tmp_path / "file"), "--kafka", "127.0.0.1:0", *OFF)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "--data" in result.stderr


def test_an_address_others_can_reach_needs_to_be_asked_for(tmp_path: Path) -> None:
    result = serve("--data", str(tmp_path / "data"), "--kafka", "0.0.0.0:0", *OFF)
    assert result.returncode != 0
    assert "--insecure" in result.stderr


def test_settings_come_from_a_file_and_the_environment_and_flags_win(tmp_path: Path) -> None:
    config = tmp_path / "trunkline.toml"
    config.write_text('memory = true\nkafka = "127.0.0.1:1"\npartitions = 3\n')
    server = Server(tmp_path / "data", "--config", str(config), environment={"TRUNKLINE_PARTITIONS": "5"}).start()
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": server.kafka})
    assert len(admin.list_topics("made-on-first-use", timeout=20).topics["made-on-first-use"].partitions) == 5
    server.stop()
    assert not (tmp_path / "data").exists()


def test_a_stop_during_recovery_is_a_clean_one_and_loses_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path / "data").start()
    with RawKafka(server.kafka) as client:
        create(client, "many")
        for number in range(300):
            assert produce(client, "many", b"%d" % number + bytes(50_000)).error_code == 0
    server.kill()
    for delay_seconds in (0.15, 0.2, 0.25, 0.3, 0.35):
        server.spawn()
        try:
            server.process.wait(delay_seconds)
        except subprocess.TimeoutExpired:
            pass
        status, _, errors = server.stop()
        assert "Traceback" not in errors
        # Before Python has come to us, a signal ends the process as it ends any other.
        assert (status, errors) in ((0, ""), (-signal.SIGTERM, ""))
    server.start()
    with RawKafka(server.kafka) as client:
        assert fetch(client, "many", 299).high_watermark == 300
    server.kill()


def test_what_an_earlier_run_left_of_its_ready_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "data.ready.123.partial").write_text('{"kafka": "127.')
    with Server(tmp_path / "data") as server:
        assert server.addresses["kafka"]


def test_a_ready_file_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    flags = ["--data", str(tmp_path / "data"), "--kafka", "127.0.0.1:0", *OFF]
    result = serve(*flags, "--ready-file", str(tmp_path / "missing" / "ready"))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "ready file" in result.stderr
