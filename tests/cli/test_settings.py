"""Settings: where they come from, which one wins, and what people are told when one cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.settings import OPTIONS, Address, Settings, SettingsError, load, unknown_variables
from trunkline.model.topic import Durability


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trunkline.toml"
    path.write_text(text)
    return path


def test_without_anything_the_peers_own_ports_on_localhost() -> None:
    settings = load({}, {})
    assert settings == Settings()
    assert {name: str(address) for name, address in settings.listeners().items()} == {
        "kafka": "localhost:9092",
        "amqp": "localhost:5672",
        "redis": "localhost:6379",
        "http": "localhost:15672",
    }
    assert settings.data == Path("trunkline-data")
    assert settings.durability is Durability.FSYNC


def test_localhost_is_both_loopbacks_and_any_other_host_is_itself() -> None:
    assert Address("localhost", 1).hosts == ("127.0.0.1", "::1")
    assert Address("127.0.0.1", 1).hosts == ("127.0.0.1",)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("9092", Address("localhost", 9092)),
        ("0", Address("localhost", 0)),
        ("65535", Address("localhost", 65535)),
        ("[::1]:9092", Address("::1", 9092)),
        (" broker.example.org:1 ", Address("broker.example.org", 1)),
        ("off", None),
        ("OFF", None),
    ],
)
def test_addresses_as_people_write_them(text: str, address: Address | None) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("localhost:65536", "out of range"),
        ("65536", "out of range"),
        ("localhost:99999999999999999999", "out of range"),
        ("localhost:kafka", "no port"),
        ("localhost:", "no port"),
        ("localhost:-1", "no port"),
        ("localhost", "say HOST:PORT"),
        ("of", "or off"),
        (":9092", "no host"),
        ("", "no host"),
        ("::1:9092", "brackets"),
        ("[::1]", "no port"),
        ("[::1", "brackets"),
        ("a b:1", "no address"),
        ("kafka://localhost:9092", "brackets"),
        ("localhost:٣", "no port"),
    ],
)
def test_an_address_that_cannot_be_says_what_is_expected(text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Address.parse(text)


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)), st.integers(0, 65535))
def test_an_address_survives_being_printed(host: Any, port: int) -> None:
    address = Address(str(host), port)
    assert Address.parse(str(address)) == address
    assert address.is_loopback == host.is_loopback


def test_flags_win_over_variables_over_the_file_over_defaults(tmp_path: Path) -> None:
    config = write(tmp_path, 'kafka = 1001\namqp = "off"\nredis = 1003\npartitions = 2')
    environ = {"TRUNKLINE_REDIS": "2003", "TRUNKLINE_PARTITIONS": "3"}
    settings = load({"partitions": "4", "kafka": None}, environ, config)
    assert settings.kafka == Address("localhost", 1001)
    assert settings.amqp is None
    assert settings.redis == Address("localhost", 2003)
    assert settings.partitions == 4
    assert settings.http == Address("localhost", 15672)


def test_every_setting_has_a_flag_a_variable_and_a_key(tmp_path: Path) -> None:
    texts = {
        "data": "elsewhere",
        "memory": "true",
        "kafka": "1",
        "amqp": "off",
        "redis": "off",
        "http": "2",
        "advertise": "broker.example.org",
        "partitions": "3",
        "auto_create_topics": "false",
        "durability": "os",
        "ready_file": "ready.json",
        "insecure": "true",
        "log_level": "debug",
        "node_id": "7",
        "journal_file_bytes": "1MiB",
        "checkpoint_bytes": "2MiB",
        "hot_tail_bytes": "0",
        "max_open_files": "9",
        "retention_check_ms": "10",
        "offsets_retention_ms": "11",
        "compaction_check_ms": "14",
        "compaction_bytes_per_second": "15",
        "compaction_memory_bytes": "1MiB",
    }
    assert texts.keys() == set(Settings.__dataclass_fields__) == {option.name for option in OPTIONS}
    by_flag = load(texts, {})
    by_variable = load({}, {f"TRUNKLINE_{name.upper()}": text for name, text in texts.items()})
    dashes = "".join(f'{name.replace("_", "-")} = "{text}"\n' for name, text in texts.items())
    underscores = "".join(f'{name} = "{text}"\n' for name, text in texts.items())
    assert by_flag == by_variable == load({}, {}, write(tmp_path, dashes)) == load({}, {}, write(tmp_path, underscores))
    assert all(getattr(by_flag, name) != getattr(Settings(), name) for name in texts)


def test_toml_numbers_and_booleans_are_taken_as_such(tmp_path: Path) -> None:
    settings = load({}, {}, write(tmp_path, "memory = true\nhot-tail-bytes = 1048576\nkafka = 0"))
    assert (settings.memory, settings.hot_tail_bytes, settings.kafka) == (True, 1048576, Address("localhost", 0))


def test_a_flag_can_take_back_what_the_file_switched_on(tmp_path: Path) -> None:
    assert not load({"memory": False}, {}, write(tmp_path, "memory = true")).memory


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load({}, {"TRUNKLINE_KAFKA": "", "TRUNKLINE_MEMORY": ""}) == Settings()


@pytest.mark.parametrize(
    ("text", "size"), [("1048576", 2**20), ("64MiB", 2**26), ("64 mb", 2**26), ("512K", 2**19), ("1GiB", 2**30)]
)
def test_sizes_may_have_units(text: str, size: int) -> None:
    assert load({"hot_tail_bytes": text}, {}).hot_tail_bytes == size


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("kafak = 1", "unknown key 'kafak' in .*trunkline.toml: did you mean kafka"),
        ("zzz = 1", "unknown key 'zzz' in .*trunkline.toml: .*--help"),
        ("[kafka]\nport = 1", "kafka in .*trunkline.toml: .* is not ADDR"),
        ("partitions = 1.5", "partitions in .*trunkline.toml: 1.5 is not N"),
        ("partitions = true", "partitions in .*: True is not N"),
        ("memory = 'maybe'", "memory in .*: 'maybe' is neither true nor false"),
        ("hot-tail-bytes = 1\nhot_tail_bytes = 1", "are the same setting"),
        ("kafka = ?\n", "not valid TOML: .*line 1"),
    ],
)
def test_a_mistake_in_the_file_names_key_and_file(tmp_path: Path, toml: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        load({}, {}, write(tmp_path, toml))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_binary_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*nowhere.toml: No such file"):
        load({}, {}, tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\x00")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load({}, {}, tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"partitions": "0"}, "--partitions: 0 is out of range: 1 to 10000"),
        ({"partitions": "many"}, "--partitions: 'many' is not a whole number"),
        ({"durability": "sometimes"}, "--durability: 'sometimes' is unknown: one of fsync, os"),
        ({"log_level": "loud"}, "--log-level: .* debug, info, warning, error"),
        ({"hot_tail_bytes": "-1"}, "--hot-tail-bytes: '-1' is no size"),
        ({"journal_file_bytes": "1"}, "--journal-file-bytes: 1 is out of range"),
        ({"data": ""}, "--data: the path is empty"),
        ({"advertise": "host:9092"}, "--advertise: 'host:9092' is no host"),
        ({"kafka": "localhost:70000"}, "--kafka: port 70000 is out of range"),
    ],
)
def test_a_mistake_in_a_flag_names_the_flag(flags: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(flags, {})


def test_a_mistake_in_a_variable_names_the_variable() -> None:
    with pytest.raises(SettingsError, match=r"TRUNKLINE_HTTP: .* no port"):
        load({}, {"TRUNKLINE_HTTP": "localhost"})


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092", "192.168.1.5:9092", "broker.example.org:9092"])
@pytest.mark.parametrize("listener", ["kafka", "amqp", "redis", "http"])
def test_an_address_that_others_can_reach_needs_insecure(listener: str, address: str) -> None:
    with pytest.raises(SettingsError, match=f"--{listener} .*--insecure"):
        load({listener: address}, {})
    assert load({listener: address, "insecure": True}, {}).listeners()[listener] == Address.parse(address)


@pytest.mark.parametrize("address", ["localhost:1", "LocalHost:1", "127.0.0.1:1", "127.1.2.3:1", "[::1]:1"])
def test_loopback_addresses_need_no_word(address: str) -> None:
    assert load({"kafka": address}, {}).kafka is not None


def test_two_listeners_on_one_port_are_refused_but_not_on_free_ones() -> None:
    with pytest.raises(SettingsError, match="--kafka and --http are both localhost:9092"):
        load({"http": "9092"}, {})
    assert load({"kafka": "0", "http": "0"}, {}).http == Address("localhost", 0)


def test_nothing_to_serve_is_refused() -> None:
    with pytest.raises(SettingsError, match="every listener is off"):
        load(dict.fromkeys(("kafka", "amqp", "redis", "http"), "off"), {})


def test_variables_that_nothing_reads_are_found() -> None:
    environ = {"TRUNKLINE_KAFAK": "1", "TRUNKLINE_KAFKA": "1", "TRUNKLINE_BOOTSTRAP": "x", "PATH": "/"}
    assert unknown_variables(environ) == ["TRUNKLINE_KAFAK"]
