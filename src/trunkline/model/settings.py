"""What a node is told at start. Later places win: defaults, the TOML file, TRUNKLINE_… variables, flags.

Each setting is one field of Settings and one line of OPTIONS, and has three spellings made from its name:

    flag       --hot-tail-bytes 64MiB
    variable   TRUNKLINE_HOT_TAIL_BYTES=64MiB      (an empty variable counts as not set)
    TOML key   hot-tail-bytes = "64MiB"            (also hot_tail_bytes; numbers may be TOML integers)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trunkline.model.limits import MAX_PARTITIONS_PER_TOPIC
from trunkline.model.topic import Durability

VARIABLE_PREFIX: Final = "TRUNKLINE_"
OTHER_VARIABLES: Final = frozenset({"TRUNKLINE_CONFIG", "TRUNKLINE_BOOTSTRAP", "TRUNKLINE_CACHE"})
"""Variables that are no setting and yet no mistake: the config file, client commands, the bench."""
_MIB: Final = 1024 * 1024
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class SettingsError(Exception):
    """A setting that cannot be: the text is one line that names it, where it was given, and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where one protocol listens. Port 0 takes a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_host: str = "localhost") -> Address | None:
        """`HOST:PORT`, `[IPV6]:PORT`, a bare port, or `off`, which is None. SettingsError for anything else."""
        text = text.strip()
        if text.lower() == "off":
            return None
        if text.isascii() and text.isdigit():
            return cls(default_host, _port(text))
        bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.]+(?:%\w+)?)\](?::(.*))?", text)
        host, port = bracketed.groups() if bracketed else _split_port(text)
        if not host:
            raise SettingsError(f"{text!r} has no host: say localhost:{port or 'PORT'}, or 0.0.0.0 for every interface")
        if port is None:
            raise SettingsError(f"{text!r} has no port: say HOST:PORT (port 0 takes a free one), or off")
        if not bracketed and not re.fullmatch(r"[\w.-]+", host):
            raise SettingsError(f"{text!r} is no address: say HOST:PORT, [IPV6]:PORT, a port, or off")
        return cls(host, _port(port))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts to bind. `localhost` is both loopbacks, because clients that resolve it try either first."""
        return ("127.0.0.1", "::1") if self.host.lower() == "localhost" else (self.host,)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than `localhost` may resolve to anything."""
        if self.host.lower() in ("localhost", "127.0.0.1", "::1"):
            return True
        import ipaddress  # only unusual addresses need it, and start-up time counts

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Settings:
    data: Path = Path("trunkline-data")
    memory: bool = False
    kafka: Address | None = Address("localhost", 9092)
    amqp: Address | None = Address("localhost", 5672)
    redis: Address | None = Address("localhost", 6379)
    http: Address | None = Address("localhost", 15672)
    advertise: str | None = None
    """What Kafka clients are told to connect to; None is the address they already reached."""
    partitions: int = 1
    """Of topics created on first use."""
    auto_create_topics: bool = True
    durability: Durability = Durability.FSYNC
    """Of topics that do not say it themselves."""
    ready_file: Path | None = None
    insecure: bool = False
    node_id: int = 1
    log_level: str = "info"
    journal_file_bytes: int = 64 * _MIB
    checkpoint_bytes: int = 256 * _MIB
    """Journal written since the last checkpoint at which segments are synced and the next one is taken."""
    hot_tail_bytes: int = 32 * _MIB
    max_open_files: int = 500
    min_session_timeout_ms: int = 6_000
    """The shortest session a group member may ask for, as Kafka's group.min.session.timeout.ms."""
    retention_check_ms: int = 300_000
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    accept_journal_cut: bool = False
    """Start although the journal is damaged, and lose what it held after the damage."""
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_session_timeout_ms: int = 45_000
    compaction_check_ms: int = 15_000
    compaction_bytes_per_second: int = 0
    """What cleaning may read and write in a second; 0 is without limit."""
    compaction_memory_bytes: int = 128 * _MIB
    """While a log is cleaned: about 200 bytes for each of its keys that were written since the last time."""

    def listeners(self) -> dict[str, Address]:
        """Protocol to address, of those that are not off."""
        addresses = {"kafka": self.kafka, "amqp": self.amqp, "redis": self.redis, "http": self.http}
        return {name: address for name, address in addresses.items() if address is not None}


@dataclass(frozen=True, slots=True)
class Option:
    """One setting as people give it. `parse` takes the text; a switch is true or false and has no text."""

    name: str
    help: str
    metavar: str = ""
    parse: Callable[[str], object] = str
    switch: bool = False
    tuning: bool = False
    """Shown apart in the help: most people never need it."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return VARIABLE_PREFIX + self.name.upper()


def load(flags: Mapping[str, object], environ: Mapping[str, str], config_path: Path | None = None) -> Settings:
    """The settings of a node. Values in `flags` that are None were not given. SettingsError says what to do."""
    values: dict[str, object] = {}
    if config_path is not None:
        for key, value, where in _from_file(config_path):
            values[key] = _value(_BY_NAME[key], value, where)
    for option in OPTIONS:
        text = environ.get(option.variable, "")
        if text:
            values[option.name] = _value(option, text, option.variable)
    for name, flag in flags.items():
        if flag is not None:
            option = _option(name, f"flag {name!r}")
            values[option.name] = _value(option, flag, option.flag)
    settings = Settings(**values)  # type: ignore[arg-type]  # each option's parser gives its field's type
    _check_listeners(settings)
    return settings


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """TRUNKLINE_… variables that nothing reads: most likely typing errors, so worth a warning."""
    known = {option.variable for option in OPTIONS} | OTHER_VARIABLES
    return sorted(name for name in environ if name.startswith(VARIABLE_PREFIX) and name not in known)


def _from_file(path: Path) -> Iterator[tuple[str, object, str]]:
    import tomllib

    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"cannot read the config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the config file {path} is not valid TOML: {error}") from None
    seen: dict[str, str] = {}
    for key, value in table.items():
        name = _option(key, f"key {key!r} in {path}").name
        if name in seen:
            raise SettingsError(f"{seen[name]!r} and {key!r} in {path} are the same setting: keep one")
        seen[name] = key
        yield name, value, f"{key} in {path}"


def _option(name: str, where: str) -> Option:
    option = _BY_NAME.get(name.replace("-", "_"))
    if option is None:
        import difflib

        near = difflib.get_close_matches(name.replace("-", "_"), _BY_NAME, n=1)
        hint = f"did you mean {near[0].replace('_', '-')}?" if near else "`trunkline serve --help` lists them all"
        raise SettingsError(f"unknown {where}: {hint}")
    return option


def _value(option: Option, value: object, where: str) -> object:
    if option.switch:
        return value if isinstance(value, bool) else _switch(value, where)
    if isinstance(value, bool) or not isinstance(value, str | int | Path):
        raise SettingsError(f"{where}: {value!r} is not {option.metavar}")
    try:
        return option.parse(str(value))
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def _switch(value: object, where: str) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise SettingsError(f"{where}: {value!r} is neither true nor false")


def _check_listeners(settings: Settings) -> None:
    listeners = settings.listeners()
    if not listeners:
        raise SettingsError("every listener is off: nothing would be served; leave out one `off`")
    taken: dict[Address, str] = {}
    for name, address in listeners.items():
        if not address.is_loopback and not settings.insecure:
            raise SettingsError(
                f"--{name} {address} can be reached from other machines, and there is no authentication: "
                "listen on localhost, or say --insecure"
            )
        if address.port and address in taken:
            raise SettingsError(f"--{taken[address]} and --{name} are both {address}: give one another port")
        taken[address] = name


# ── parsers: text in, the field's value out, SettingsError without a place (`_value` adds it) ───


def _split_port(text: str) -> tuple[str, str | None]:
    if text.count(":") > 1:
        raise SettingsError(f"{text!r} is no address: put an IPv6 address in brackets, [::1]:9092")
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"{text!r} is no port: a number from 0 to 65535 is expected")
    if len(text) > 5 or int(text) > 65535:
        raise SettingsError(f"port {text} is out of range: 0 to 65535 is expected")
    return int(text)


def _number(minimum: int, maximum: int = _INT_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise SettingsError(f"{text!r} is not a whole number") from None
        if not minimum <= number <= maximum:
            raise SettingsError(f"{number} is out of range: {minimum} to {maximum} is expected")
        return number

    return parse


_UNITS: Final = {"": 1, "b": 1, "k": 1024, "m": _MIB, "g": 1024 * _MIB}


def _size(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        match = re.fullmatch(r"(\d{1,18})\s*(?:([kmg])(?:i?b)?|b)?", text.strip().lower(), re.ASCII)
        if match is None:
            raise SettingsError(f"{text!r} is no size: say bytes, or 64MiB, 512KiB, 1GiB")
        size = int(match[1]) * _UNITS[match[2] or ""]
        if not minimum <= size <= _LONG_MAX:
            raise SettingsError(f"{text} is out of range: at least {minimum} bytes are expected")
        return size

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise SettingsError(f"{text!r} is unknown: one of {', '.join(choices)} is expected")
        return text.lower()

    return parse


def _durability(text: str) -> Durability:
    return Durability(_one_of(*(choice.value for choice in Durability))(text))


def _path(text: str) -> Path:
    if not text.strip():
        raise SettingsError("the path is empty")
    return Path(text)


def _host(text: str) -> str:
    host = text.strip().removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[\w.-]+|[0-9A-Fa-f:.]+", host):
        raise SettingsError(f"{text!r} is no host: give a name or an IP address that clients can reach, without a port")
    return host


OPTIONS: Final = (
    Option("data", "where everything is kept (default: ./trunkline-data)", "DIR", _path),
    Option("memory", "keep everything in memory; a restart forgets it", switch=True),
    Option("kafka", "listen for Kafka clients (default: localhost:9092)", "ADDR", Address.parse),
    Option("amqp", "listen for AMQP 0-9-1 clients (default: localhost:5672)", "ADDR", Address.parse),
    Option("redis", "listen for Redis clients (default: localhost:6379)", "ADDR", Address.parse),
    Option("http", "health, metrics and administration (default: localhost:15672)", "ADDR", Address.parse),
    Option("advertise", "the host that Kafka clients are told (default: the one they reached)", "HOST", _host),
    Option(
        "partitions",
        "of topics created on first use (default: 1)",
        "N",
        _number(1, MAX_PARTITIONS_PER_TOPIC),
    ),
    Option("auto_create_topics", "create topics on first use (default: yes)", switch=True),
    Option("durability", "what an ack means where a topic does not say: fsync (default) or os", "WHEN", _durability),
    Option("ready_file", "written once ready: the addresses and the pid as JSON", "FILE", _path),
    Option("insecure", "allow addresses that other machines can reach", switch=True),
    Option(
        "log_level", "debug, info (default), warning or error", "LEVEL", _one_of("debug", "info", "warning", "error")
    ),
    Option("node_id", "this node's number (default: 1)", "N", _number(0), tuning=True),
    Option("journal_file_bytes", "size of a journal file (default: 64MiB)", "SIZE", _size(64 * 1024), tuning=True),
    Option("checkpoint_bytes", "journal between checkpoints (default: 256MiB)", "SIZE", _size(64 * 1024), tuning=True),
    Option("hot_tail_bytes", "memory for the newest records (default: 32MiB)", "SIZE", _size(0), tuning=True),
    Option("max_open_files", "files of partitions held open (default: 500)", "N", _number(8), tuning=True),
    Option(
        "min_session_timeout_ms",
        "the shortest session a group member may ask for (default: 6000)",
        "MS",
        _number(1),
        tuning=True,
    ),
    Option(
        "retention_check_ms",
        "how often old segments are looked for (default: 300000)",
        "MS",
        _number(1, _LONG_MAX),
        tuning=True,
    ),
    Option(
        "offsets_retention_ms",
        "how long an empty group's offsets are kept (default: 604800000, 7 days)",
        "MS",
        _number(1, _LONG_MAX),
        tuning=True,
    ),
    Option(
        "accept_journal_cut",
        "start although the journal is damaged, and lose what it held after the damage",
        switch=True,
        tuning=True,
    ),
    Option(
        "consumer_heartbeat_interval_ms",
        "how often members of groups of type consumer heartbeat (default: 5000)",
        "MS",
        _number(1, _INT_MAX),
        tuning=True,
    ),
    Option(
        "consumer_session_timeout_ms",
        "after which silence they are removed (default: 45000)",
        "MS",
        _number(1, _INT_MAX),
        tuning=True,
    ),
    Option(
        "compaction_check_ms",
        "how often logs to clean are looked for (default: 15000)",
        "MS",
        _number(1, _LONG_MAX),
        tuning=True,
    ),
    Option(
        "compaction_bytes_per_second",
        "what cleaning may read and write in a second (default: 0, no limit)",
        "SIZE",
        _size(0),
        tuning=True,
    ),
    Option(
        "compaction_memory_bytes",
        "memory for the keys of a log being cleaned (default: 128MiB)",
        "SIZE",
        _size(64 * 1024),
        tuning=True,
    ),
)
_BY_NAME: Final = {option.name: option for option in OPTIONS}
