"""The command line itself: help, mistakes, exit statuses, and what `serve` hands to the node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.runner import Cli

import trunkline.node
from trunkline import __version__
from trunkline.model.settings import Address, Settings

COMMANDS = [
    ("topic", "create"),
    ("topic", "list"),
    ("topic", "describe"),
    ("topic", "delete"),
    ("topic", "config"),
    ("group", "list"),
    ("group", "describe"),
    ("group", "reset"),
    ("group", "delete"),
    ("produce",),
    ("consume",),
]


@pytest.mark.parametrize("command", [(), ("topic",), ("group",), *COMMANDS, ("serve",)])
def test_every_help_has_examples(cli: Cli, command: tuple[str, ...]) -> None:
    done = cli.ok(*command, "--help")
    assert "examples:" in done.text.lower()
    assert " ".join(["  trunkline", *command]) in done.text or f"| trunkline {command[0]}" in done.text
    assert done.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_answer_scripts(cli: Cli, command: tuple[str, ...]) -> None:
    assert "--json" in cli.ok(*command, "--help").text


def test_version(cli: Cli) -> None:
    assert cli.ok("--version").text == f"trunkline {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nope"], "No such command 'nope'"),
        (["topic", "create"], "Missing argument 'NAME'"),
        (["topic", "create", "t", "--partitions", "0"], "--partitions"),
        (["topic", "create", "t", "--config", "retention.ms"], "'retention.ms' is not NAME=VALUE"),
        (["topic", "config", "t", "--set", "a=1", "--unset", "a"], "a is in both --set and --unset"),
        (["group", "reset", "g", "--to-latest"], "Missing option '--topic'"),
        (["group", "reset", "g", "--topic", "t"], "give exactly one of"),
        (["group", "reset", "g", "--topic", "t", "--to-latest", "--to-earliest"], "give exactly one of"),
        (["group", "reset", "g", "--topic", "t", "--to-time", "noon"], "'noon' is no ISO time"),
        (["produce", "t", "--format", "xml"], "'xml' is not one of"),
        (["produce", "t", "--key", "k", "--format", "json"], "--key"),
        (["produce", "t", "--header", "nope"], "'nope' is not NAME=VALUE"),
        (["produce", "t", "--key-separator", ""], "must not be empty"),
        (["consume"], "Missing argument 'TOPIC'"),
        (["consume", "t", "--from", "yesterday"], "'yesterday' is none of: start, end"),
        (["consume", "t", "--group", "g", "--from", "7"], "group reset"),
        (["consume", "t", "--group", "g", "--partition", "0"], "--partition"),
        (["consume", "t", "--count", "0"], "--count"),
        (["topic", "list", "--property", "nope"], "'nope' is not NAME=VALUE"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong_and_exits_with_2(cli: Cli, arguments: list[str], says: str) -> None:
    done = cli(*arguments)
    assert done.status == 2
    assert says in done.err
    assert done.out == b""


@pytest.mark.parametrize(
    "arguments",
    [("topic", "list"), ("group", "describe", "g"), ("produce", "t"), ("consume", "t"), ("topic", "delete", "t", "-y")],
)
def test_no_broker_is_one_line_with_the_address_and_what_to_do(arguments: tuple[str, ...]) -> None:
    done = Cli("127.0.0.1:1")(*arguments, "--timeout", "0.3")
    assert done.status == 1
    assert done.err.count("\n") == 1
    assert "no broker answers at 127.0.0.1:1 within 0.3 s" in done.err
    assert "Connection refused" in done.err
    assert "trunkline serve" in done.err


def test_the_broker_can_be_named_by_a_variable(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_BOOTSTRAP", "127.0.0.1:2")
    assert "no broker answers at 127.0.0.1:2" in cli("topic", "list", "--timeout", "0.3").err


def test_a_property_that_librdkafka_does_not_know_is_one_line(cli: Cli) -> None:
    done = cli("topic", "list", "-X", "no.such.property=1")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "no.such.property" in done.err


# ── serve ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """What the node was started with; it stops at once with status 7."""
    started: list[Settings] = []

    def run(settings: Settings) -> int:
        started.append(settings)
        return 7

    monkeypatch.setattr(trunkline.node, "run", run, raising=False)
    return started


def test_serve_hands_its_flags_to_the_node_and_exits_with_its_status(cli: Cli, served: list[Settings]) -> None:
    done = cli("serve", "--memory", "--kafka", "127.0.0.1:0", "--amqp", "off", "--hot-tail-bytes", "1MiB")
    assert done.status == 7
    assert served == [Settings(memory=True, kafka=Address("127.0.0.1", 0), amqp=None, hot_tail_bytes=2**20)]


def test_serve_reads_the_file_that_a_flag_or_a_variable_names(
    cli: Cli, served: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text("partitions = 2")
    (tmp_path / "b.toml").write_text("partitions = 3")
    monkeypatch.setenv("TRUNKLINE_CONFIG", str(tmp_path / "a.toml"))
    cli("serve")
    cli("serve", "--config", str(tmp_path / "b.toml"))
    assert [settings.partitions for settings in served] == [2, 3]


def test_serve_warns_of_a_variable_that_nothing_reads(
    cli: Cli, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUNKLINE_PARTITION", "3")
    assert "nothing reads the variable TRUNKLINE_PARTITION" in cli("serve").err
    assert served == [Settings()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--kafka", "0.0.0.0:9092"], "--insecure"),
        (["--partitions", "none"], "--partitions: 'none' is not a whole number"),
        (["--config", "no-such-file.toml"], "cannot read the config file no-such-file.toml"),
        (["--nope"], "unrecognized arguments: --nope"),
        (["extra"], "unrecognized arguments: extra"),
        (["--part", "3"], "unrecognized arguments: --part"),
    ],
)
def test_serve_refuses_what_cannot_be_with_status_2(
    cli: Cli, served: list[Settings], arguments: list[str], says: str
) -> None:
    done = cli("serve", *arguments)
    assert (done.status, served) == (2, [])
    assert says in done.err


def test_serve_loads_neither_typer_nor_rich_nor_a_client() -> None:
    script = (
        "import sys, trunkline.node\n"
        "trunkline.node.run = lambda settings: 0\n"
        "from trunkline.cli.main import main\n"
        "assert main(['serve']) == 0\n"
        "print(sorted({'typer', 'click', 'rich', 'confluent_kafka', 'tomllib'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
