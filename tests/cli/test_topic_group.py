"""topic and group commands, and times in consume, against a real broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.cli.runner import Cli


def test_a_topic_from_create_to_delete(broker: Cli, name: str) -> None:
    assert broker.ok("topic", "create", name, "--partitions", "3", "--config", "retention.ms=3600000").text == (
        f"created topic {name}\n"
    )
    assert {"topic": name, "partitions": 3} in broker.ok("topic", "list", "--json").json
    assert name in broker.ok("topic", "list").text
    broker.ok("produce", name, "--partition", "1", stdin=b"1\n2\n")
    [described] = broker.ok("topic", "describe", name, "--json").json
    assert described["configs"] == {"retention.ms": "3600000"}
    assert [(row["partition"], row["start"], row["end"]) for row in described["partitions"]] == [
        (0, 0, 0),
        (1, 0, 2),
        (2, 0, 0),
    ]
    shown = broker.ok("topic", "describe", name).text
    assert described["id"] in shown
    assert "retention.ms=3600000" in shown
    assert broker.ok("topic", "delete", name, "--yes").text == f"deleted {name}\n"
    assert name not in broker.ok("topic", "list").text


def test_a_topic_that_exists_is_an_error_unless_told(broker: Cli, name: str) -> None:
    assert broker.ok("topic", "create", name, "--json").json == {"topic": name, "created": True}
    again = broker("topic", "create", name)
    assert (again.status, again.err.count("\n")) == (1, 1)
    assert "exists already" in again.err
    assert broker.ok("topic", "create", name, "--if-not-exists", "--json").json == {"topic": name, "created": False}


@pytest.mark.parametrize(
    "arguments", [["bad name"], ["t", "--config", "no.such.config=1"], ["t", "--config", "retention.ms=soon"]]
)
def test_the_brokers_refusal_is_one_line(broker: Cli, arguments: list[str]) -> None:
    done = broker("topic", "create", *arguments)
    assert (done.status, done.err.count("\n"), done.out) == (1, 1, b"")
    assert done.err.startswith(f"trunkline: cannot create topic '{arguments[0]}': ")


def test_configs_are_set_shown_and_unset(broker: Cli, name: str) -> None:
    broker.ok("topic", "create", name)
    shown = broker.ok("topic", "config", name, "--set", "retention.ms=1000", "--set", "segment.ms=2000", "--json").json
    assert shown["retention.ms"] == {"value": "1000", "set": True}
    assert shown["cleanup.policy"] == {"value": "delete", "set": False}
    shown = broker.ok("topic", "config", name, "--unset", "retention.ms", "--json").json
    assert shown["retention.ms"] == {"value": "604800000", "set": False}
    assert shown["segment.ms"] == {"value": "2000", "set": True}
    assert "retention.ms" in broker.ok("topic", "config", name).text
    assert broker("topic", "config", name, "--set", "no.such.config=1").status == 1


@pytest.mark.parametrize(
    "command", [("topic", "describe"), ("topic", "delete", "--yes"), ("topic", "config"), ("consume",)]
)
def test_a_topic_that_is_not_there_is_said_and_not_made(broker: Cli, name: str, command: tuple[str, ...]) -> None:
    done = broker(*command, name)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert name in done.err
    assert "there is no" in done.err
    assert name not in broker.ok("topic", "list").text


def test_deleting_several_reports_each(broker: Cli, name: str) -> None:
    broker.ok("topic", "create", name)
    done = broker("topic", "delete", f"{name}-missing", name, "--yes", "--json")
    assert done.status == 1
    assert done.json == {"deleted": [name]}
    assert f"cannot delete topic '{name}-missing'" in done.err


def test_delete_asks_first(broker: Cli, name: str) -> None:
    broker.ok("topic", "create", name)
    assert broker("topic", "delete", name, stdin=b"n\n").status == 1
    assert name in broker.ok("topic", "list").text
    broker.ok("topic", "delete", name, stdin=b"y\n")
    assert name not in broker.ok("topic", "list").text


# ── groups ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def group(broker: Cli, name: str) -> str:
    """A stopped group of the same name as its topic: 2 partitions of 5 records each, 3 read in partition 0."""
    broker.ok("topic", "create", name, "--partitions", "2")
    for partition in (0, 1):
        lines = b"".join(
            b'{"value": "%d", "partition": %d, "timestamp": %d}\n' % (number, partition, 1_700_000_000_000 + number)
            for number in range(5)
        )
        broker.ok("produce", name, "--format", "json", stdin=lines)
    broker.ok("group", "reset", name, "--topic", name, "--partition", "0", "--to-offset", "3")
    return name


def _after(broker: Cli, group: str, *target: str) -> dict[int, int]:
    done = broker.ok("group", "reset", group, "--topic", group, *target, "--json")
    return {row["partition"]: row["after"] for row in done.json["partitions"]}


def test_a_group_shows_what_it_committed_and_its_lag(broker: Cli, group: str) -> None:
    described = broker.ok("group", "describe", group, "--json").json
    assert (described["state"], described["members"], described["lag"]) == ("empty", [], 2)
    assert described["partitions"] == [
        {"topic": group, "partition": 0, "committed": 3, "end": 5, "lag": 2, "client": None}
    ]
    assert group in broker.ok("group", "list").text
    assert group in [row["group"] for row in broker.ok("group", "list", "--json").json]
    assert group in broker.ok("group", "describe", group).text


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 5, 1: 5}),
        (["--to-offset", "2"], {0: 2, 1: 2}),
        (["--to-offset", "99"], {0: 5, 1: 5}),
        (["--to-time", "2023-11-14T22:13:20.002Z"], {0: 2, 1: 2}),
        (["--to-time", "2999-01-01"], {0: 5, 1: 5}),
        (["--to-latest", "--partition", "1"], {1: 5}),
        (["--shift-by", "-2", "--partition", "0"], {0: 1}),
        (["--shift-by", "99", "--partition", "0"], {0: 5}),
    ],
)
def test_reset_moves_a_group(broker: Cli, group: str, target: list[str], offsets: dict[int, int]) -> None:
    assert _after(broker, group, *target) == offsets
    committed = broker.ok("group", "describe", group, "--json").json["partitions"]
    assert {row["partition"]: row["committed"] for row in committed} == {0: 3} | offsets


def test_a_dry_run_changes_nothing(broker: Cli, group: str) -> None:
    assert _after(broker, group, "--to-latest", "--dry-run") == {0: 5, 1: 5}
    [row] = broker.ok("group", "describe", group, "--json").json["partitions"]
    assert row["committed"] == 3


def test_a_shift_needs_something_to_shift(broker: Cli, group: str) -> None:
    done = broker("group", "reset", group, "--topic", group, "--shift-by", "1")
    assert (done.status, f"no offset in {group}-1 to shift" in done.err) == (1, True)


def test_a_reset_group_reads_on_from_there(broker: Cli, group: str) -> None:
    _after(broker, group, "--to-offset", "4")
    assert broker.ok("consume", group, "--group", group).lines == ["4", "4"]
    assert broker.ok("group", "describe", group, "--json").json["lag"] == 0


def test_a_group_reads_on_where_it_stopped_and_commits_only_what_was_printed(broker: Cli, name: str) -> None:
    broker.ok("topic", "create", name, "--partitions", "3")
    broker.ok("produce", name, "--partition", "2", stdin=b"0\n1\n2\n3\n")
    assert broker.ok("consume", name, "--group", name, "--count", "1").lines == ["0"]
    assert broker.ok("consume", name, "--group", name).lines == ["1", "2", "3"]
    assert broker.ok("consume", name, "--group", name).lines == []


@contextmanager
def _member(broker: Cli, group: str) -> Iterator[None]:
    """A consumer that has joined the group and stays until the block ends."""
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": "the-member"})
    joined, done = threading.Event(), threading.Event()
    consumer.subscribe([group], on_assign=lambda *_: joined.set())

    def poll() -> None:
        while not done.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        assert joined.wait(60)
        yield
    finally:
        done.set()
        thread.join()
        consumer.close()


def test_a_group_in_use_is_shown_with_its_members_and_cannot_be_reset_or_deleted(broker: Cli, group: str) -> None:
    with _member(broker, group):
        described = broker.ok("group", "describe", group, "--json").json
        [member] = described["members"]
        assert described["state"] == "stable"
        assert member["client"] == "the-member"
        assert [item["partition"] for item in member["assignment"]] == [0, 1]
        assert "the-member" in broker.ok("group", "describe", group).text
        refused = broker("group", "reset", group, "--topic", group, "--to-earliest")
        assert (refused.status, refused.err.count("\n")) == (1, 1)
        assert "is in use (the-member): stop its consumers" in refused.err
        refused = broker("group", "delete", group)
        assert refused.status == 1
        assert "its consumers are still connected" in refused.err


def test_delete_forgets_a_group(broker: Cli, group: str) -> None:
    assert broker.ok("group", "delete", group, "--json").json == {"deleted": [group]}
    gone = broker("group", "describe", group)
    assert (gone.status, f"there is no group '{group}'" in gone.err) == (1, True)
    assert "there is no such group" in broker("group", "delete", group).err


def test_offsets_of_a_deleted_topic_do_not_hide_the_group(broker: Cli, group: str) -> None:
    other = f"{group}-other"
    broker.ok("topic", "create", other)
    broker.ok("group", "reset", group, "--topic", other, "--to-latest")
    broker.ok("topic", "delete", other, "--yes")
    described = broker.ok("group", "describe", group, "--json").json
    assert group in [row["topic"] for row in described["partitions"]]


def test_consume_from_a_time(broker: Cli, group: str) -> None:
    done = broker.ok("consume", group, "--partition", "1", "--from", "2023-11-14T22:13:20.003Z")
    assert done.lines == ["3", "4"]
