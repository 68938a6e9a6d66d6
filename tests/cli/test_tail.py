"""`trunkline tail`: several topics in the order of their times, each partition in its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.runner import Cli
from tests.support.waiting import eventually

from trunkline.cli.merge import merged
from trunkline.cli.record_text import Incoming


def send(cli: Cli, topic: str, *records: tuple[int, str]) -> None:
    lines = "".join(f'{{"value": "{value}", "timestamp": {time}, "partition": 0}}\n' for time, value in records)
    cli.ok("produce", topic, "--format", "json", stdin=lines.encode())


@pytest.fixture
def pair(broker: Cli, name: str) -> tuple[str, str]:
    topics = (f"{name}-a", f"{name}-b")
    for topic in topics:
        broker.ok("topic", "create", topic)
    return topics


def test_the_last_records_of_several_topics_come_by_time(broker: Cli, pair: tuple[str, str]) -> None:
    a, b = pair
    send(broker, a, (1000, "a1"), (3000, "a2"), (5000, "a3"))
    send(broker, b, (2000, "b1"), (4000, "b2"))
    assert broker.ok("tail", a, b, "--no-follow", "--format", "value").lines == ["a1", "b1", "a2", "b2", "a3"]
    assert broker.ok("tail", a, b, "-F", "-n", "2", "--format", "value").lines == ["b2", "a3"]
    assert broker.ok("tail", a, b, "-F", "-n", "0").lines == []
    assert [row["topic"] for row in broker.ok("tail", a, b, "-F", "--json", "-n", "2").records] == [b, a]
    since = broker.ok("tail", a, b, "-F", "--since", "1970-01-01T00:00:04Z", "--format", "value")
    assert since.lines == ["b2", "a3"]


def test_empty_topics_and_unknown_ones(broker: Cli, pair: tuple[str, str]) -> None:
    assert broker.ok("tail", *pair, "--no-follow").lines == []
    unknown = broker("tail", f"{pair[0]}-nobody-made-this", "--no-follow")
    assert unknown.status == 1
    assert "there is no topic" in unknown.err
    assert broker("tail", pair[0], "--since", "yesterday").status == 2


def test_new_records_are_shown_as_they_come_until_it_is_interrupted(
    broker: Cli, pair: tuple[str, str], tmp_path: Path
) -> None:
    a, b = pair
    send(broker, a, (1000, "old"))
    output = tmp_path / "output"
    with output.open("wb") as file:
        command = [sys.executable, "-m", "trunkline", "tail", a, b, "--format", "value"]
        process = subprocess.Popen(
            [*command, "--bootstrap", broker.bootstrap or ""], stdout=file, stderr=subprocess.PIPE, env=os.environ
        )
    try:
        eventually(lambda: output.read_bytes() == b"old\n", "the old record")
        send(broker, b, (2000, "new"))
        eventually(lambda: output.read_bytes() == b"old\nnew\n", "the new record")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.none() | st.integers(0, 50)), max_size=40)


@given(RECORDS)
def test_each_partition_keeps_its_order_and_times_are_in_order_where_they_can_be(
    rows: list[tuple[str, int, int | None]],
) -> None:
    ends: dict[tuple[str, int], int] = {}
    records = []
    for topic, partition, time in rows:
        offset = ends[topic, partition] = ends.get((topic, partition), -1) + 1
        records.append(Incoming(topic, partition, offset, time, None, None))
    line = merged(records)
    assert sorted(map(repr, line)) == sorted(map(repr, records))
    for key in ends:
        assert [r.offset for r in line if (r.topic, r.partition) == key] == list(range(ends[key] + 1))
    if all(time is not None for _, _, time in rows):
        ordered = all(
            [r.timestamp_ms for r in records if (r.topic, r.partition) == key]
            == sorted(r.timestamp_ms or 0 for r in records if (r.topic, r.partition) == key)
            for key in ends
        )
        if ordered:
            assert [r.timestamp_ms for r in line] == sorted(r.timestamp_ms or 0 for r in records)
