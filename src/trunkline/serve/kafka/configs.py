"""DescribeConfigs (key 32), versions 1-4, and IncrementalAlterConfigs (key 44), versions 0-1.

Topics: every config Kafka knows is shown; docs/compatibility.md says which act. Brokers: the values clients look at are
shown and read-only. Other resource types (loggers, client metrics, groups) are INVALID_REQUEST until they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from trunkline.model.errors import InvalidConfig, InvalidRequest, TrunklineError
from trunkline.model.ids import NodeId
from trunkline.model.limits import MAX_FETCH_BYTES
from trunkline.model.topic import DEFINITIONS, ConfigType, TopicConfig, check_topic_name, config_items
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import code_of, text_of
from trunkline.wire.kafka.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from trunkline.wire.kafka.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from trunkline.wire.kafka.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trunkline.wire.kafka.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

TOPIC: Final = 2
BROKER: Final = 4


class Source(IntEnum):
    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_WIRE_TYPES: Final = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
}

# A topic config and the broker config it takes its default from, where the names differ by more than a "log." before;
# None where there is no such config, or Kafka leaves it unset and shows nothing.
_BROKER_NAMES: Final[dict[str, str | None]] = {
    "durability": None,
    "follower.replication.throttled.replicas": None,
    "leader.replication.throttled.replicas": None,
    "remote.log.copy.disable": None,
    "remote.log.delete.on.disable": None,
    "remote.storage.enable": None,
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "max.message.bytes": "message.max.bytes",
    "min.insync.replicas": "min.insync.replicas",
    "compression.type": "compression.type",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "segment.ms": None,
    "segment.jitter.ms": None,
    "retention.ms": None,
    "segment.index.bytes": "log.index.size.max.bytes",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": None,
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
}


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


def topic_config_rows(config: TopicConfig) -> Iterator[Row]:
    """Every topic config with the value it has."""
    for name, definition in sorted(DEFINITIONS.items()):
        value = config.overrides.get(name)
        yield Row(
            name=name,
            value=definition.default if value is None else value,
            default=definition.default,
            type=definition.type,
            source=Source.DEFAULT if value is None else Source.TOPIC,
            documentation=definition.documentation,
            broker_name=_BROKER_NAMES.get(name, f"log.{name}"),
        )


def _broker_rows(call: Call) -> Iterator[Row]:
    groups = call.broker.groups.settings
    fixed: tuple[tuple[str, str, ConfigType], ...] = (
        ("advertised.listeners", f"PLAINTEXT://{call.host}:{call.port}", ConfigType.STRING),
        ("auto.create.topics.enable", str(call.broker.auto_create_topics).lower(), ConfigType.BOOLEAN),
        ("broker.id", str(call.broker.node_id), ConfigType.INT),
        ("default.replication.factor", "1", ConfigType.INT),
        ("delete.topic.enable", "true", ConfigType.BOOLEAN),
        ("fetch.max.bytes", str(MAX_FETCH_BYTES), ConfigType.INT),
        ("group.consumer.assignors", "uniform,range", ConfigType.LIST),
        ("group.consumer.heartbeat.interval.ms", str(groups.consumer_heartbeat_interval_ms), ConfigType.INT),
        ("group.consumer.migration.policy", "bidirectional", ConfigType.STRING),
        ("group.consumer.session.timeout.ms", str(groups.consumer_session_timeout_ms), ConfigType.INT),
        ("group.coordinator.rebalance.protocols", "classic,consumer", ConfigType.LIST),
        ("group.max.session.timeout.ms", str(call.broker.groups.settings.max_session_timeout_ms), ConfigType.INT),
        ("group.min.session.timeout.ms", str(call.broker.groups.settings.min_session_timeout_ms), ConfigType.INT),
        ("log.cleanup.policy", "delete", ConfigType.LIST),
        ("log.retention.bytes", "-1", ConfigType.LONG),
        ("log.retention.hours", "168", ConfigType.INT),
        ("log.retention.ms", "604800000", ConfigType.LONG),
        ("log.segment.bytes", DEFINITIONS["segment.bytes"].default, ConfigType.INT),
        ("message.max.bytes", DEFINITIONS["max.message.bytes"].default, ConfigType.INT),
        ("min.insync.replicas", "1", ConfigType.INT),
        ("node.id", str(call.broker.node_id), ConfigType.INT),
        ("num.partitions", str(call.broker.topics.default_partitions), ConfigType.INT),
        ("offsets.retention.minutes", str(call.broker.groups.settings.offsets_retention_ms // 60_000), ConfigType.INT),
    )
    for name, value, kind in fixed:
        yield Row(name, value, value, kind, Source.STATIC_BROKER, read_only=True)


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(call, request, resource) for resource in request.resources])


def _describe(call: Call, request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        rows = _rows(call, resource)
    except TrunklineError as error:
        result.error_code, result.error_message = code_of(error), text_of(error)
        return result
    wanted = resource.configuration_keys  # none at all, as null, means every one
    result.configs = [_shown(row, request) for row in rows if not wanted or row.name in wanted]
    return result


def _rows(call: Call, resource: DescribeConfigsResource) -> Sequence[Row]:
    if resource.resource_type == TOPIC:
        check_topic_name(resource.resource_name)
        return list(topic_config_rows(call.broker.topics.named(resource.resource_name).config))
    if resource.resource_type == BROKER:
        _check_node(resource.resource_name, call.broker.node_id)
        return list(_broker_rows(call)) if resource.resource_name else []
    raise InvalidRequest(f"Configs of resource type {resource.resource_type} are not kept here.")


def _check_node(name: str, node: NodeId) -> None:
    if name and name != str(node):
        raise InvalidRequest(f"Unexpected broker id, expected {node} or empty string, but received {name}")


def _shown(row: Row, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms: list[DescribeConfigsSynonym] = []
    if request.include_synonyms:
        if row.source is not Source.DEFAULT:
            synonyms.append(DescribeConfigsSynonym(name=row.name, value=row.value, source=row.source))
        if row.broker_name is not None:
            synonyms.append(DescribeConfigsSynonym(name=row.broker_name, value=row.default, source=Source.DEFAULT))
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=False,
        synonyms=synonyms,
        config_type=_WIRE_TYPES[row.type],
        documentation=row.documentation if request.include_documentation else None,
    )


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    responses: list[AlterConfigsResourceResponse] = []
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in request.resources:
        answer = AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("A resource stands in the request more than once.")
            _alter(call, resource, validate_only=request.validate_only)
        except TrunklineError as error:
            answer.error_code, answer.error_message = code_of(error), text_of(error)
        responses.append(answer)
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    if resource.resource_type == BROKER:
        raise InvalidRequest("This node's settings are changed with flags, environment or its TOML file.")
    if resource.resource_type != TOPIC:
        raise InvalidRequest(f"Configs of resource type {resource.resource_type} are not kept here.")
    if not resource.resource_name:
        raise InvalidRequest("Default topic resources are not allowed.")
    check_topic_name(resource.resource_name)
    topic = call.broker.topics.named(resource.resource_name)
    overrides = dict(topic.config.overrides)
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise InvalidRequest("Error due to duplicate config keys")
    for config in resource.configs:
        _apply(overrides, config)
    call.broker.topics.set_config(topic.name, overrides, validate_only=validate_only)


def _apply(overrides: dict[str, str], config: AlterableConfig) -> None:
    definition = DEFINITIONS.get(config.name)
    if config.config_operation == Operation.DELETE:
        overrides.pop(config.name, None)
        return
    if config.value is None:
        raise InvalidRequest(f"Null value not supported for: {config.name}")
    if config.config_operation == Operation.SET:
        overrides[config.name] = config.value
        return
    if config.config_operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise InvalidRequest(f"There is no config operation {config.config_operation}.")
    if definition is None or definition.type is not ConfigType.LIST:
        raise InvalidConfig(f"Can't append to or subtract from {config.name}: it is not a list.")
    overrides[config.name] = _edited(_items(overrides, config.name), config)


def _items(overrides: Mapping[str, str], name: str) -> list[str]:
    return config_items(overrides.get(name, DEFINITIONS[name].default))


def _edited(items: list[str], config: AlterableConfig) -> str:
    changes = config_items(config.value or "")
    if config.config_operation == Operation.APPEND:
        return ",".join([*items, *(item for item in changes if item not in items)])
    return ",".join(item for item in items if item not in changes)
