"""Configs of what is no topic: nodes, their loggers, groups, client metrics. For the requests of configs.py.

Nodes: what was set while the node runs, and what its settings fix (read-only). Loggers: Python's, by name; a level
holds until the process ends, as in Kafka. Groups and client metrics: kept by name, whether or not there is such a
group.
ListConfigResources (key 74), versions 0-1: the names of all that have configs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from trunkline.broker.configs import ConfigKind
from trunkline.model.broker_config import DYNAMIC_CONFIGS
from trunkline.model.errors import InvalidConfig, InvalidRequest
from trunkline.model.group_config import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, NO_BROKER_DEFAULT
from trunkline.model.limits import MAX_FETCH_BYTES
from trunkline.model.topic import DEFINITIONS, ConfigDefinition, ConfigType
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.wire.kafka.messages.list_config_resources_request import ListConfigResourcesRequest
from trunkline.wire.kafka.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse


class Resource(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: str
    default: str
    type: ConfigType
    source: Source
    documentation: str = ""
    read_only: bool = False
    broker_name: str | None = None


_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_LEVEL_NAMES: Final = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}
_ROOT: Final = "root"
_KEPT: Final[Mapping[int, tuple[ConfigKind, Mapping[str, ConfigDefinition], Source]]] = {
    Resource.GROUP: (ConfigKind.GROUP, GROUP_CONFIGS, Source.GROUP),
    Resource.CLIENT_METRICS: (ConfigKind.CLIENT_METRICS, CLIENT_METRICS_CONFIGS, Source.CLIENT_METRICS),
    Resource.BROKER: (ConfigKind.BROKER, DYNAMIC_CONFIGS, Source.DYNAMIC_BROKER),
}
_WHAT: Final = {
    Resource.GROUP: "Group name",
    Resource.CLIENT_METRICS: "Client metrics subscription name",
    Resource.BROKER_LOGGER: "Broker id",
}


# ── showing ─────────────────────────────────────────────────────────────────────────────────────


def rows_of(call: Call, resource_type: int, name: str) -> list[Row]:
    """InvalidRequest for a resource that cannot be."""
    _check_name(call, resource_type, name)
    if resource_type == Resource.BROKER:
        return [*_dynamic_rows(call, name), *(_fixed_rows(call) if name else ())]
    if resource_type == Resource.BROKER_LOGGER:
        return list(_logger_rows())
    if resource_type in (Resource.GROUP, Resource.CLIENT_METRICS):
        return list(_kept_rows(call, resource_type, name))
    raise InvalidRequest(f"There are no configs of resource type {resource_type}.")


def _kept_rows(call: Call, resource_type: int, name: str) -> Iterator[Row]:
    kind, definitions, source = _KEPT[resource_type]
    values = call.broker.configs.of(kind, name)
    for definition in definitions.values():
        broker_name = None
        if kind is ConfigKind.GROUP:
            broker_name = definition.name if definition.name in NO_BROKER_DEFAULT else f"group.{definition.name}"
        yield Row(
            definition.name,
            values.get(definition.name, definition.default),
            definition.default,
            definition.type,
            source if definition.name in values else Source.DEFAULT,
            broker_name=broker_name,
        )


def _dynamic_rows(call: Call, name: str) -> Iterator[Row]:
    own = call.broker.configs.of(ConfigKind.BROKER, name) if name else {}
    of_all = call.broker.configs.of(ConfigKind.BROKER, "")
    for key, definition in DYNAMIC_CONFIGS.items():
        if key in own:
            value, source = own[key], Source.DYNAMIC_BROKER
        elif key in of_all:
            value, source = of_all[key], Source.DYNAMIC_DEFAULT_BROKER
        elif name:
            value, source = definition.default, Source.DEFAULT
        else:
            continue
        yield Row(key, value, definition.default, definition.type, source, definition.documentation, broker_name=key)


def _fixed_rows(call: Call) -> Iterator[Row]:
    groups = call.broker.groups.settings
    fixed: tuple[tuple[str, str, ConfigType], ...] = (
        ("advertised.listeners", f"PLAINTEXT://{call.host}:{call.port}", ConfigType.STRING),
        ("auto.create.topics.enable", str(call.broker.auto_create_topics).lower(), ConfigType.BOOLEAN),
        ("broker.id", str(call.broker.node_id), ConfigType.INT),
        ("compression.type", DEFINITIONS["compression.type"].default, ConfigType.STRING),
        ("default.replication.factor", "1", ConfigType.INT),
        ("delete.topic.enable", "true", ConfigType.BOOLEAN),
        ("fetch.max.bytes", str(MAX_FETCH_BYTES), ConfigType.INT),
        ("group.coordinator.rebalance.protocols", "classic", ConfigType.LIST),
        ("group.max.session.timeout.ms", str(groups.max_session_timeout_ms), ConfigType.INT),
        ("group.min.session.timeout.ms", str(groups.min_session_timeout_ms), ConfigType.INT),
        ("listeners", f"PLAINTEXT://{call.host}:{call.port}", ConfigType.STRING),
        ("log.cleanup.policy", "delete", ConfigType.LIST),
        ("log.dirs", str(call.broker.data.absolute()) if call.broker.data is not None else "", ConfigType.STRING),
        ("log.message.timestamp.type", DEFINITIONS["message.timestamp.type"].default, ConfigType.STRING),
        ("log.retention.bytes", "-1", ConfigType.LONG),
        ("log.retention.hours", "168", ConfigType.INT),
        ("log.retention.ms", "604800000", ConfigType.LONG),
        ("log.segment.bytes", DEFINITIONS["segment.bytes"].default, ConfigType.INT),
        ("message.max.bytes", DEFINITIONS["max.message.bytes"].default, ConfigType.INT),
        ("min.insync.replicas", "1", ConfigType.INT),
        ("node.id", str(call.broker.node_id), ConfigType.INT),
        ("num.partitions", str(call.broker.topics.default_partitions), ConfigType.INT),
        ("offsets.retention.minutes", str(groups.offsets_retention_ms // 60_000), ConfigType.INT),
        ("offsets.topic.num.partitions", "1", ConfigType.INT),
        ("offsets.topic.replication.factor", "1", ConfigType.INT),
        ("process.roles", "broker,controller", ConfigType.LIST),
        ("unclean.leader.election.enable", "false", ConfigType.BOOLEAN),
    )
    for name, value, kind in fixed:
        yield Row(name, value, value, kind, Source.STATIC_BROKER, read_only=True)


def _logger_rows() -> Iterator[Row]:
    for name, logger in _loggers().items():
        level = logger.getEffectiveLevel()
        shown = _LEVEL_NAMES.get(level) or logging.getLevelName(level)
        yield Row(name, shown, shown, ConfigType.STRING, Source.DYNAMIC_BROKER_LOGGER)


def _loggers() -> dict[str, logging.Logger]:
    """Ours and the root of all; others that happen to live in this process are nobody's business."""
    ours = [name for name in logging.Logger.manager.loggerDict if name.split(".")[0] == "trunkline"]
    return {_ROOT: logging.getLogger(), **{name: logging.getLogger(name) for name in sorted(ours)}}


# ── changing ────────────────────────────────────────────────────────────────────────────────────


def values_of(call: Call, resource_type: int, name: str) -> tuple[dict[str, str], Mapping[str, ConfigDefinition]]:
    """What is set, and what can be. InvalidRequest where nothing can."""
    if resource_type not in _KEPT:
        raise InvalidRequest(f"Unknown resource type {resource_type}: its configs cannot be changed.")
    if resource_type != Resource.BROKER and not name:
        raise InvalidRequest(f"Default {Resource(resource_type).name.lower()} resources are not allowed.")
    _check_name(call, resource_type, name)
    kind, definitions, _ = _KEPT[resource_type]
    return dict(call.broker.configs.of(kind, name)), definitions


def set_values(call: Call, resource_type: int, name: str, values: Mapping[str, str], *, validate_only: bool) -> None:
    """InvalidConfig, or InvalidRequest where Kafka says so, for a name nobody knows or a value out of range."""
    kind, definitions, _ = _KEPT[resource_type]
    for key, value in values.items():
        definition = definitions.get(key)
        if definition is None:
            if resource_type == Resource.GROUP:
                raise InvalidConfig(f"Unknown group config name: {key}")
            if resource_type == Resource.BROKER:
                raise InvalidRequest(f"Cannot update these configs dynamically: [{key}]")
            raise InvalidRequest(f"Unknown client metrics configuration: {key}")
        try:
            definition.check(value)
        except InvalidConfig as error:
            if resource_type == Resource.GROUP:
                raise
            raise InvalidRequest(str(error)) from None
    if not validate_only:
        call.broker.configs.set(kind, name, values)


def set_level(call: Call, node: str, logger: str, level: str | None, *, validate_only: bool) -> None:
    """Of a logger, for as long as the process lives; None takes it back to that of the root."""
    _check_name(call, Resource.BROKER_LOGGER, node)
    known = _loggers().get(logger)
    if known is None:
        raise InvalidConfig(f"Logger {logger} does not exist!")
    if level is not None and level not in _LEVELS:
        raise InvalidConfig(f"{level!r} is no level of a logger: use {', '.join(_LEVELS)}.")
    if level is None and logger == _ROOT:
        raise InvalidRequest("Removing the log level of the root logger is not allowed.")
    if not validate_only:
        known.setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _check_name(call: Call, resource_type: int, name: str) -> None:
    if not name and resource_type in _WHAT:
        raise InvalidRequest(f"{_WHAT[Resource(resource_type)]} must not be empty")
    if resource_type in (Resource.BROKER, Resource.BROKER_LOGGER) and name and name != str(call.broker.node_id):
        expected = f"{call.broker.node_id}" + (" or empty string" if resource_type == Resource.BROKER else "")
        raise InvalidRequest(f"Unexpected broker id, expected {expected}, but received {name}")


# ── listing ─────────────────────────────────────────────────────────────────────────────────────


def list_config_resources(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    wanted = request.resource_types or list(Resource)
    if call.version == 0:
        wanted = [Resource.CLIENT_METRICS]
    if any(kind not in set(Resource) for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    node = [str(call.broker.node_id)]
    names: Mapping[int, Iterator[str]] = {
        Resource.TOPIC: iter(call.broker.topics.image),
        Resource.BROKER: iter(node),
        Resource.BROKER_LOGGER: iter(node),
        Resource.CLIENT_METRICS: iter(call.broker.configs.all(ConfigKind.CLIENT_METRICS)),
        Resource.GROUP: iter(call.broker.configs.all(ConfigKind.GROUP)),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind in set(wanted) for name in names[kind]
        ]
    )
