"""`trunkline doctor`: what it finds, what it advises, and what it leaves behind (nothing)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.cli.runner import Cli

from trunkline.cli import machine
from trunkline.cli.doctor import Verdict


@pytest.fixture(autouse=True)
def _free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_KAFKA", "127.0.0.1:0")
    monkeypatch.setenv("TRUNKLINE_HTTP", "off")


def checks(done_json: dict[str, list[dict[str, object]]]) -> dict[str, dict[str, object]]:
    return {str(row["check"]): row for row in done_json["checks"]}


def test_everything_is_looked_at_and_nothing_is_left_behind(cli: Cli, tmp_path: Path) -> None:
    data = tmp_path / "not" / "made" / "yet"
    found = checks(cli.ok("doctor", "--data", str(data), "--seconds", "0.2", "--json").json)
    assert {"python", "processors", "open files", "kafka port", "disk space", "disk write", "disk sync"} <= set(found)
    sync = found["disk sync"]["measured"]
    assert isinstance(sync, dict)
    assert 0 < sync["p50_ms"] <= sync["p99_ms"]
    assert list(tmp_path.iterdir()) == []


def test_people_get_a_table_and_advice(cli: Cli, tmp_path: Path) -> None:
    done = cli.ok("doctor", "--data", str(tmp_path), "--seconds", "0.2")
    assert done.lines[0].split() == ["CHECK", "FOUND"]
    assert "p99" in done.text
    assert "writes/s" in done.text


def test_a_taken_port_fails_and_says_what_to_do(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("TRUNKLINE_KAFKA", f"127.0.0.1:{taken.getsockname()[1]}")
        done = cli("doctor", "--data", str(tmp_path), "--seconds", "0.2")
    assert done.status == 1
    assert "taken by another process" in done.text
    assert "--kafka HOST:PORT" in done.text


def test_a_disk_that_cannot_be_written_fails(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(directory: Path, seconds: float) -> machine.DiskSpeed:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(machine, "measure_disk", refused)
    done = cli("doctor", "--data", str(tmp_path), "--json")
    assert done.status == 1
    assert checks(done.json)["disk"]["verdict"] == Verdict.FAILED


def test_a_slow_disk_is_told_with_what_can_be_done(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "measure_disk", lambda directory, seconds: machine.DiskSpeed(1e6, 0.02, 0.2))
    found = checks(cli.ok("doctor", "--data", str(tmp_path), "--json").json)
    assert found["disk sync"]["verdict"] == Verdict.WARNING
    assert "durability=os" in str(found["disk sync"]["advice"])
    assert found["disk write"]["verdict"] == Verdict.WARNING
    assert "50 writes/s" in str(found["expect"]["found"])


def test_memory_needs_no_disk(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_MEMORY", "yes")
    assert checks(cli.ok("doctor", "--json").json)["disk"]["verdict"] == Verdict.OK


def test_settings_that_cannot_be_are_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_PARTITIONS", "many")
    done = cli("doctor")
    assert done.status == 1
    assert "TRUNKLINE_PARTITIONS" in done.err
