"""A topic as everybody sees it: its name, its id, its partitions, and what its configs mean.

Configs carry Kafka's names, because that is what people type. A config in EFFECTIVE acts; one in STORED is known to
Kafka, kept and shown, and without effect here; any other name is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from trunkline.model.errors import InvalidConfig, InvalidTopicName
from trunkline.model.ids import TopicId
from trunkline.model.limits import MAX_TOPIC_NAME

FOREVER: Final = -1
_LONG_MAX: Final = 2**63 - 1
NO_LIMIT: Final = _LONG_MAX
_INT_MAX: Final = 2**31 - 1


class Durability(Enum):
    """When a write is answered: after the journal is synced, or once the operating system has it."""

    FSYNC = "fsync"
    OS = "os"


class TimestampType(Enum):
    CREATE = "CreateTime"
    APPEND = "LogAppendTime"


class ConfigType(Enum):
    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class ConfigDefinition:
    name: str
    type: ConfigType
    default: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    documentation: str = ""
    matches: Callable[[str], object] | None = None
    """Given a whole value (of a list: each item), something true unless it is to be refused."""

    def check(self, value: str) -> None:
        """InvalidConfig unless `value` is one this config takes."""
        if self.type in (ConfigType.INT, ConfigType.LONG):
            self._check_number(value)
        elif self.type is ConfigType.DOUBLE:
            try:
                number = float(value)
            except ValueError:
                raise self._invalid(value, "a number is expected") from None
            if not (self.minimum or 0) <= number <= (self.maximum or _LONG_MAX):
                raise self._invalid(value, f"a value from {self.minimum} to {self.maximum} is expected")
        elif self.type is ConfigType.BOOLEAN:
            if value.lower() not in (self.choices or ("true", "false")):
                raise self._invalid(value, f"{' or '.join(self.choices or ('true', 'false'))} is expected")
        else:
            self._check_items(value)

    def _check_items(self, value: str) -> None:
        items = config_items(value) if self.type is ConfigType.LIST else [value]
        if self.choices and any(item not in self.choices for item in items):
            raise self._invalid(value, f"one of {', '.join(self.choices)} is expected")
        if self.matches is not None and not all(map(self.matches, items)):
            raise self._invalid(value, "it has not the form that is expected")

    def _check_number(self, value: str) -> None:
        try:
            number = int(value)
        except ValueError:
            raise self._invalid(value, "a whole number is expected") from None
        largest = self.maximum if self.maximum is not None else (_INT_MAX if self.type is ConfigType.INT else _LONG_MAX)
        if number > largest or (self.minimum is not None and number < self.minimum):
            raise self._invalid(value, f"a value from {self.minimum} to {largest} is expected")

    def _invalid(self, value: str, why: str) -> InvalidConfig:
        shown = value if len(value) <= 100 else f"{value[:100]}…"
        return InvalidConfig(f"Invalid value {shown} for configuration {self.name}: {why}")


def config_items(value: str) -> list[str]:
    """The items of a list config; an empty one has none."""
    return [item.strip() for item in value.split(",")] if value.strip() else []


def _define(*definitions: ConfigDefinition) -> dict[str, ConfigDefinition]:
    return {definition.name: definition for definition in definitions}


_B, _S, _I, _L, _D, _LIST = ConfigType
_REPLICAS: Final[Callable[[str], object]] = re.compile(r"\*|\d+:\d+").fullmatch

EFFECTIVE: Final[Mapping[str, ConfigDefinition]] = _define(
    ConfigDefinition("cleanup.policy", _LIST, "delete", choices=("delete", "compact")),
    ConfigDefinition("compression.gzip.level", _I, "-1", minimum=-1, maximum=9),
    ConfigDefinition("compression.lz4.level", _I, "9", minimum=1, maximum=17),
    ConfigDefinition(
        "compression.type", _S, "producer", choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
    ),
    ConfigDefinition("compression.zstd.level", _I, "3", minimum=-131_072, maximum=22),
    ConfigDefinition(
        "durability",
        _S,
        "fsync",
        choices=("fsync", "os"),
        documentation="When a write is answered: after the journal is synced, or once the system has it.",
    ),
    ConfigDefinition("flush.messages", _L, str(_LONG_MAX), minimum=1),
    ConfigDefinition("flush.ms", _L, str(_LONG_MAX), minimum=0),
    ConfigDefinition("max.message.bytes", _I, "1048588", minimum=0),
    ConfigDefinition("message.timestamp.type", _S, "CreateTime", choices=("CreateTime", "LogAppendTime")),
    ConfigDefinition("message.timestamp.before.max.ms", _L, str(_LONG_MAX), minimum=0),
    ConfigDefinition("message.timestamp.after.max.ms", _L, "3600000", minimum=0),
    ConfigDefinition("retention.ms", _L, "604800000", minimum=-1),
    ConfigDefinition("retention.bytes", _L, "-1", minimum=-1),
    ConfigDefinition("segment.bytes", _I, "1073741824", minimum=1_048_576),
    ConfigDefinition("segment.ms", _L, "604800000", minimum=1),
    ConfigDefinition("segment.index.bytes", _I, "10485760", minimum=4),
    ConfigDefinition("index.interval.bytes", _I, "4096", minimum=0),
)

STORED: Final[Mapping[str, ConfigDefinition]] = _define(
    ConfigDefinition("delete.retention.ms", _L, "86400000", minimum=0),
    ConfigDefinition("file.delete.delay.ms", _L, "60000", minimum=0),
    ConfigDefinition("follower.replication.throttled.replicas", _LIST, "", matches=_REPLICAS),
    ConfigDefinition("leader.replication.throttled.replicas", _LIST, "", matches=_REPLICAS),
    ConfigDefinition("local.retention.bytes", _L, "-2", minimum=-2),
    ConfigDefinition("local.retention.ms", _L, "-2", minimum=-2),
    ConfigDefinition("max.compaction.lag.ms", _L, str(_LONG_MAX), minimum=1),
    ConfigDefinition("min.cleanable.dirty.ratio", _D, "0.5", minimum=0, maximum=1),
    ConfigDefinition("min.compaction.lag.ms", _L, "0", minimum=0),
    ConfigDefinition("min.insync.replicas", _I, "1", minimum=1),
    ConfigDefinition("preallocate", _B, "false"),
    ConfigDefinition("remote.log.copy.disable", _B, "false"),
    ConfigDefinition("remote.log.delete.on.disable", _B, "false"),
    ConfigDefinition("remote.storage.enable", _B, "false", choices=("false",)),
    ConfigDefinition("segment.jitter.ms", _L, "0", minimum=0),
    ConfigDefinition("unclean.leader.election.enable", _B, "false"),
)

DEFINITIONS: Final[Mapping[str, ConfigDefinition]] = {**EFFECTIVE, **STORED}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What acts, parsed once; `overrides` is what somebody set, by Kafka's names."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    durability: Durability = Durability.FSYNC
    compacted: bool = False
    deleted: bool = True
    """Whether old segments are removed by time and size."""
    max_message_bytes: int = 1_048_588
    timestamp_type: TimestampType = TimestampType.CREATE
    timestamp_before_max_ms: int = _LONG_MAX
    timestamp_after_max_ms: int = 3_600_000
    retention_ms: int = 604_800_000
    retention_bytes: int = FOREVER
    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    compression: str | None = None
    """The codec that batches are stored in ("none", "gzip" …); None stores them as their producer sent them."""
    compression_level: int | None = None

    @classmethod
    def parse(cls, overrides: Mapping[str, str]) -> TopicConfig:
        """InvalidConfig for a name nobody knows or a value out of range."""
        for name, value in overrides.items():
            definition = DEFINITIONS.get(name)
            if definition is None:
                raise InvalidConfig(f"Unknown topic config name: {name}")
            definition.check(value)

        def of(name: str) -> str:
            return overrides.get(name, DEFINITIONS[name].default)

        def number(name: str) -> int:
            return int(of(name))

        policies = config_items(of("cleanup.policy"))
        return cls(
            overrides=dict(overrides),
            durability=_durability(of),
            compacted="compact" in policies,
            deleted="delete" in policies,
            max_message_bytes=number("max.message.bytes"),
            timestamp_type=TimestampType(of("message.timestamp.type")),
            timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
            retention_ms=number("retention.ms"),
            retention_bytes=number("retention.bytes"),
            segment_bytes=number("segment.bytes"),
            segment_ms=number("segment.ms"),
            segment_index_bytes=number("segment.index.bytes"),
            index_interval_bytes=number("index.interval.bytes"),
            compression=_CODECS.get(of("compression.type")),
            compression_level=_level(of),
        )


_CODECS: Final = {"uncompressed": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}


def _durability(of: Callable[[str], str]) -> Durability:
    """Kafka's own words for a sync with every write count, whatever else is said."""
    if int(of("flush.messages")) == 1 or int(of("flush.ms")) == 0:
        return Durability.FSYNC
    return Durability(of("durability"))


def _level(of: Callable[[str], str]) -> int | None:
    codec = of("compression.type")
    if codec not in ("gzip", "lz4", "zstd"):
        return None
    level = int(of(f"compression.{codec}.level"))
    return None if level == int(DEFINITIONS[f"compression.{codec}.level"].default) else level


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the metadata store holds it."""

    name: str
    id: TopicId
    partitions: int
    config: TopicConfig
    internal: bool = False
    memory: bool = False
    """Lives in memory only and is forgotten at restart."""


_LEGAL_NAME: Final[Callable[[str], re.Match[str] | None]] = re.compile(r"[a-zA-Z0-9._-]+").fullmatch


def check_topic_name(name: str) -> None:
    """InvalidTopicName unless `name` is one Kafka takes."""
    if not name:
        raise InvalidTopicName("A topic name must not be empty.")
    if name in (".", ".."):
        raise InvalidTopicName("A topic name cannot be '.' or '..'.")
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopicName(f"A topic name has at most {MAX_TOPIC_NAME} characters, this one has {len(name)}.")
    if not _LEGAL_NAME(name):
        raise InvalidTopicName(f"Topic name {name!r} is illegal: use ASCII letters, digits, '.', '_' and '-' only.")
