"""DescribeConfigs (key 32), versions 1-4, IncrementalAlterConfigs (key 44), 0-1, and AlterConfigs (key 33), 0-2.

Topics: every config Kafka knows is shown; docs/compatibility.md says which act. Nodes, loggers, groups and client
metrics: config_resources.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from trunkline.model.errors import InvalidConfig, InvalidRequest, TrunklineError
from trunkline.model.topic import (
    DEFINITIONS,
    ConfigDefinition,
    ConfigType,
    TopicConfig,
    check_topic_name,
    config_items,
)
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.config_resources import Resource, Row, Source, rows_of, set_level, set_values, values_of
from trunkline.serve.kafka.errors import ErrorCode, code_of, text_of
from trunkline.wire.kafka.messages.alter_configs_request import AlterConfigsRequest
from trunkline.wire.kafka.messages.alter_configs_request import AlterConfigsResource as OldResource
from trunkline.wire.kafka.messages.alter_configs_response import AlterConfigsResourceResponse as OldResourceResponse
from trunkline.wire.kafka.messages.alter_configs_response import AlterConfigsResponse
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
    if resource.resource_type == Resource.TOPIC:
        check_topic_name(resource.resource_name)
        return list(topic_config_rows(call.broker.topics.named(resource.resource_name).config))
    return rows_of(call, resource.resource_type, resource.resource_name)


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
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=why, resource_type=asked.resource_type, resource_name=asked.resource_name
            )
            for asked, code, why in _altered(
                request.resources, lambda asked: _alter(call, asked, validate_only=request.validate_only)
            )
        ]
    )


def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            OldResourceResponse(
                error_code=code, error_message=why, resource_type=asked.resource_type, resource_name=asked.resource_name
            )
            for asked, code, why in _altered(
                request.resources, lambda asked: _replace(call, asked, validate_only=request.validate_only)
            )
        ]
    )


R = TypeVar("R", AlterConfigsResource, OldResource)


def _altered(resources: Sequence[R], alter: Callable[[R], None]) -> Iterator[tuple[R, ErrorCode, str | None]]:
    """Each resource for itself: what is refused of one changes nothing for the others."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    for resource in resources:
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("A resource stands in the request more than once.")
            names = [config.name for config in resource.configs]
            if len(set(names)) != len(names):
                raise InvalidRequest("Error due to duplicate config keys")
            alter(resource)
        except TrunklineError as error:
            yield resource, code_of(error), text_of(error)
        else:
            yield resource, ErrorCode.NONE, None


def _alter(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    kind, name = resource.resource_type, resource.resource_name
    if kind == Resource.BROKER_LOGGER:
        for config in resource.configs:
            _set_level(call, name, config, validate_only=validate_only)
        return
    values, definitions = _current(call, kind, name)
    for config in resource.configs:
        _apply(values, config, definitions)
    _keep(call, kind, name, values, validate_only=validate_only)


def _replace(call: Call, resource: OldResource, *, validate_only: bool) -> None:
    """The old request: what it does not name goes back to its default."""
    _current(call, resource.resource_type, resource.resource_name)
    values: dict[str, str] = {}
    for config in resource.configs:
        if config.value is None:
            raise InvalidRequest(f"Null value not supported for: {config.name}")
        values[config.name] = config.value
    _keep(call, resource.resource_type, resource.resource_name, values, validate_only=validate_only)


def _current(call: Call, kind: int, name: str) -> tuple[dict[str, str], Mapping[str, ConfigDefinition]]:
    if kind != Resource.TOPIC:
        return values_of(call, kind, name)
    if not name:
        raise InvalidRequest("Default topic resources are not allowed.")
    check_topic_name(name)
    return dict(call.broker.topics.named(name).config.overrides), DEFINITIONS


def _keep(call: Call, kind: int, name: str, values: Mapping[str, str], *, validate_only: bool) -> None:
    if kind == Resource.TOPIC:
        call.broker.topics.set_config(name, values, validate_only=validate_only)
    else:
        set_values(call, kind, name, values, validate_only=validate_only)


def _set_level(call: Call, node: str, config: AlterableConfig, *, validate_only: bool) -> None:
    if config.config_operation not in (Operation.SET, Operation.DELETE):
        raise InvalidRequest("A logger has one level: nothing can be appended to or subtracted from it.")
    level = config.value if config.config_operation == Operation.SET else None
    set_level(call, node, config.name, level, validate_only=validate_only)


def _apply(overrides: dict[str, str], config: AlterableConfig, definitions: Mapping[str, ConfigDefinition]) -> None:
    definition = definitions.get(config.name)
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
    items = config_items(overrides.get(config.name, definition.default))
    overrides[config.name] = _edited(items, config)


def _edited(items: list[str], config: AlterableConfig) -> str:
    changes = config_items(config.value or "")
    if config.config_operation == Operation.APPEND:
        return ",".join([*items, *(item for item in changes if item not in items)])
    return ",".join(item for item in items if item not in changes)
