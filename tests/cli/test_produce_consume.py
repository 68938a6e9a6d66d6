"""produce and consume against librdkafka's mock broker (topics are made on first use, with 4 partitions)."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.runner import Cli
from tests.support.waiting import eventually

from trunkline.cli import consume


def test_lines_come_back_as_they_were_sent(mocked: Cli, name: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(500)) + b"\n" + b"binary \xff\x00\n" + b"no end"
    sent = mocked.ok("produce", name, "--partition", "0", stdin=lines)
    assert sent.out == b""
    assert f"503 sent to {name}" in sent.err
    read = mocked.ok("consume", name)
    assert read.out == lines + b"\n"
    assert read.err == "503 records\n"


def test_keys_headers_partition_and_time_arrive(mocked: Cli, name: str) -> None:
    line = b'{"key": "k", "value": null, "partition": 3, "timestamp": 1700000000000, "headers": [["a", "1"]]}\n'
    mocked.ok("produce", name, "--format", "json", "--header", "b=2=3", stdin=b"\n" + line)
    assert mocked.ok("consume", name, "--json").records == [
        {
            "topic": name,
            "partition": 3,
            "offset": 0,
            "timestamp": 1700000000000,
            "key": "k",
            "value": None,
            "headers": [["a", "1"], ["b", "2=3"]],
        }
    ]


def test_what_was_consumed_as_json_can_be_produced_again(mocked: Cli, name: str) -> None:
    mocked.ok("produce", name, "--format", "key-value", "-H", "h=\xe4", stdin=b"a\t1\nb\t\xff\nc\t3\n")
    first = mocked.ok("consume", name, "--json")
    mocked.ok("produce", f"{name}-copy", "--format", "json", stdin=first.out)
    again = mocked.ok("consume", f"{name}-copy", "--json")
    originals = sorted(first.records, key=lambda record: record["key"])
    copies = sorted(again.records, key=lambda record: record["key"])
    assert [{**copy, "topic": name} for copy in copies] == originals


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_compression_and_every_acks(mocked: Cli, name: str, compression: str, acks: str) -> None:
    values = b"same value\n" * 200
    mocked.ok("produce", name, "--compression", compression, "--acks", acks, "--key", "k", stdin=values)
    # acks=0 promises nothing: what was sent may still be on its way when the next command looks.
    eventually(lambda: mocked.ok("consume", name, "--count", "200").out == values, "all that was sent is read back")


def test_a_summary_for_scripts(mocked: Cli, name: str) -> None:
    summary = mocked.ok("produce", name, "--json", stdin=b"1\n2\n").json
    assert (summary["sent"], summary["failed"]) == (2, 0)


def test_a_file_instead_of_stdin(mocked: Cli, name: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("from a file\n")
    mocked.ok("produce", name, "--file", str(tmp_path / "lines"))
    assert mocked.ok("consume", name).text == "from a file\n"
    missing = mocked("produce", name, "--file", str(tmp_path / "nowhere"))
    assert (missing.status, "cannot read" in missing.err) == (1, True)


def test_a_bad_line_is_named_and_what_was_before_it_is_sent(mocked: Cli, name: str) -> None:
    done = mocked("produce", name, "--format", "json", stdin=b'{"value": "1"}\nnonsense\n{"value": "3"}\n')
    assert done.status == 1
    assert "line 2 and what follows were not sent: not JSON" in done.err
    assert f"1 sent to {name}" in done.err
    assert mocked.ok("consume", name).text == "1\n"


def test_lines_that_cannot_be_delivered_are_counted(mocked: Cli, name: str) -> None:
    mocked.ok("produce", name, stdin=b"makes the topic\n")
    done = mocked("produce", name, "--partition", "99", stdin=b"1\n")
    assert done.status == 1
    assert f"1 line was not delivered to '{name}': there is no such partition" in done.err


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("start", ["0", "1", "2", "3", "4"]),
        ("end", []),
        ("3", ["3", "4"]),
        ("-2", ["3", "4"]),
        ("-99", ["0", "1", "2", "3", "4"]),
        ("99", []),
    ],
)
def test_from_says_where_to_begin(mocked: Cli, name: str, where: str, values: list[str]) -> None:
    mocked.ok("produce", name, "--partition", "1", stdin=b"0\n1\n2\n3\n4\n")
    done = mocked.ok("consume", name, "--partition", "1", "--from", where)
    assert done.lines == values
    assert ("offset 99 is outside of what is there" in done.err) == (where == "99")


def test_count_stops_early(mocked: Cli, name: str) -> None:
    mocked.ok("produce", name, "--partition", "0", stdin=b"0\n1\n2\n")
    assert mocked.ok("consume", name, "--count", "2").lines == ["0", "1"]


def test_several_topics_at_once(mocked: Cli, name: str) -> None:
    mocked.ok("produce", f"{name}-a", stdin=b"a\n")
    mocked.ok("produce", f"{name}-b", stdin=b"b\n")
    assert sorted(mocked.ok("consume", f"{name}-a", f"{name}-b").lines) == ["a", "b"]


def test_a_topic_or_partition_that_is_not_there(mocked: Cli, name: str) -> None:
    missing = mocked("consume", name)
    assert missing.status == 1
    assert f"there is no topic '{name}'" in missing.err
    mocked.ok("produce", name, stdin=b"x\n")
    missing = mocked("consume", name, "--partition", "7")
    assert (missing.status, f"topic '{name}' has no partition 7: it has 0 to 3" in missing.err) == (1, True)


def _start(cli: Cli, *arguments: str) -> subprocess.Popen[bytes]:
    """With PYTHONUNBUFFERED, as container images have it: what is written is seen, and can be interrupted, at once."""
    command = [sys.executable, "-m", "trunkline.cli.main", *arguments, "--bootstrap", str(cli.bootstrap)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_follow_prints_new_records_until_interrupted(mocked: Cli, name: str) -> None:
    mocked.ok("produce", name, stdin=b"old\n")
    with _start(mocked, "consume", name, "--follow") as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"old\n"
        mocked.ok("produce", name, stdin=b"new\n")
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"2 records\n"
        assert process.wait() == 0
        watchdog.cancel()


def test_interrupted_right_after_a_write_the_count_is_still_true(
    mocked: Cli, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mocked.ok("produce", name, stdin=b"only\n")
    write_all = consume._write_all

    def write_and_interrupt(data: bytes) -> None:
        write_all(data)
        if data:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(consume, "_write_all", write_and_interrupt)
    done = mocked.ok("consume", name, "--follow")
    assert (done.out, done.err) == (b"only\n", "1 record\n")


def test_a_stdout_that_takes_only_a_part_at_a_time_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(data[:3]))

    slow = Slow()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(slow))
    consume._write_all(b"0123456789")
    assert slow.getvalue() == b"0123456789"


def test_a_reader_that_has_enough_ends_consume_quietly(mocked: Cli, name: str) -> None:
    mocked.ok("produce", name, stdin=b"x" * 100 + b"\n" + b"y" * 200_000 + b"\n")
    with _start(mocked, "consume", name, "--follow", "--from", "start") as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        mocked.ok("produce", name, stdin=b"z" * 200_000 + b"\n")
        assert process.stderr.read() == b""
        assert process.wait() == 0
        watchdog.cancel()


def test_interrupted_while_it_waits_for_a_line_produce_reports_what_it_sent(mocked: Cli, name: str) -> None:
    with _start(mocked, "produce", name) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"1\n2\n")
        process.stdin.flush()
        _wait_for(lambda: mocked("consume", name).text.count("\n") == 2)
        process.send_signal(signal.SIGINT)
        summary = process.stderr.read().decode()
        assert f"2 sent to {name}" in summary
        assert "Traceback" not in summary
        assert process.wait() == 0
        watchdog.cancel()
