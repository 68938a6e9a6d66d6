"""Configs of topics, nodes, loggers, groups and client metrics: set, shown, refused, and still there after kill -9."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.kafka.test_produce import create
from tests.support.raw_kafka import RawKafka
from tests.support.server import Server

from trunkline.serve.kafka.config_resources import Resource, Source
from trunkline.serve.kafka.configs import Operation
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker
from trunkline.wire.kafka.messages import alter_configs_request as old
from trunkline.wire.kafka.messages import incremental_alter_configs_request as new
from trunkline.wire.kafka.messages.alter_configs_response import AlterConfigsResponse
from trunkline.wire.kafka.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from trunkline.wire.kafka.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from trunkline.wire.kafka.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from trunkline.wire.kafka.messages.list_config_resources_request import ListConfigResourcesRequest
from trunkline.wire.kafka.messages.list_config_resources_response import ListConfigResourcesResponse


@pytest.fixture
def client(broker: Broker) -> RawKafka:
    return RawKafka(broker.kafka)


def change(client: RawKafka, kind: int, name: str, operation: int = Operation.SET, **values: str | None) -> int:
    """Names with __ for the dots."""
    configs = [
        new.AlterableConfig(name=key.replace("__", "."), config_operation=operation, value=value)
        for key, value in values.items()
    ]
    asked = new.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = new.IncrementalAlterConfigsRequest(resources=[asked])
    return client.ask(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code


def replace(
    client: RawKafka, kind: int, name: str, values: Mapping[str, str | None], validate_only: bool = False
) -> int:
    configs = [old.AlterableConfig(name=key, value=value) for key, value in values.items()]
    asked = old.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = old.AlterConfigsRequest(resources=[asked], validate_only=validate_only)
    return client.ask(request, 2, AlterConfigsResponse).responses[0].error_code


def describe(client: RawKafka, kind: int, name: str) -> DescribeConfigsResult:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    return client.ask(request, 4, DescribeConfigsResponse).results[0]


def shown(client: RawKafka, kind: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    result = describe(client, kind, name)
    assert result.error_code == ErrorCode.NONE
    return {row.name: row for row in result.configs}


def test_the_old_request_replaces_what_was_set(client: RawKafka, broker: Broker, topic: str) -> None:
    create(broker, topic)
    assert replace(client, Resource.TOPIC, topic, {"retention.ms": "5000", "segment.ms": "7000"}) == ErrorCode.NONE
    assert replace(client, Resource.TOPIC, topic, {"retention.ms": "6000"}) == ErrorCode.NONE
    assert replace(client, Resource.TOPIC, topic, {"retention.ms": "9000"}, validate_only=True) == ErrorCode.NONE
    rows = shown(client, Resource.TOPIC, topic)
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("6000", Source.TOPIC)
    assert rows["segment.ms"].config_source == Source.DEFAULT


@pytest.mark.parametrize(
    ("kind", "name", "values", "code"),
    [
        (Resource.TOPIC, "", {"retention.ms": "1"}, ErrorCode.INVALID_REQUEST),
        (Resource.TOPIC, "nobody-made-this", {"retention.ms": "1"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Resource.BROKER, "1", {"num.partitions": "3"}, ErrorCode.INVALID_REQUEST),
        (Resource.BROKER, "9", {"max.connections": "3"}, ErrorCode.INVALID_REQUEST),
        (Resource.BROKER_LOGGER, "1", {"root": "INFO"}, ErrorCode.INVALID_REQUEST),
        (Resource.GROUP, "g", {"consumer.session.timeout.ms": None}, ErrorCode.INVALID_REQUEST),
        (Resource.GROUP, "g", {"nobody.knows": "1"}, ErrorCode.INVALID_CONFIG),
        (Resource.CLIENT_METRICS, "m", {"nobody.knows": "1"}, ErrorCode.INVALID_REQUEST),
        (99, "x", {"a": "b"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_set_is_refused_as_kafka_does(
    client: RawKafka, kind: int, name: str, values: dict[str, str | None], code: ErrorCode
) -> None:
    assert replace(client, kind, name, values) == code


def test_groups_have_configs_before_they_exist(client: RawKafka) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    assert change(client, Resource.GROUP, group, consumer__session__timeout__ms="46000") == ErrorCode.NONE
    row = shown(client, Resource.GROUP, group)["consumer.session.timeout.ms"]
    assert (row.value, row.config_source) == ("46000", Source.GROUP)
    assert [(synonym.name, synonym.value) for synonym in row.synonyms] == [
        ("consumer.session.timeout.ms", "46000"),
        ("group.consumer.session.timeout.ms", "45000"),
    ]
    assert change(client, Resource.GROUP, group, consumer__session__timeout__ms="4") == ErrorCode.INVALID_CONFIG
    listed = client.ask(ListConfigResourcesRequest(resource_types=[Resource.GROUP]), 1, ListConfigResourcesResponse)
    assert group in [resource.resource_name for resource in listed.config_resources]
    change(client, Resource.GROUP, group, Operation.DELETE, consumer__session__timeout__ms=None)
    assert shown(client, Resource.GROUP, group)["consumer.session.timeout.ms"].value == "45000"
    listed = client.ask(ListConfigResourcesRequest(resource_types=[Resource.GROUP]), 1, ListConfigResourcesResponse)
    assert group not in [resource.resource_name for resource in listed.config_resources]


def test_client_metrics_are_kept_and_items_can_be_appended(client: RawKafka) -> None:
    name = f"metrics-{uuid.uuid4().hex[:8]}"
    assert change(client, Resource.CLIENT_METRICS, name, match="client_id=a") == ErrorCode.NONE
    assert change(client, Resource.CLIENT_METRICS, name, Operation.APPEND, match="client_id=b") == ErrorCode.NONE
    assert shown(client, Resource.CLIENT_METRICS, name)["match"].value == "client_id=a,client_id=b"
    assert change(client, Resource.CLIENT_METRICS, name, interval__ms="5") == ErrorCode.INVALID_REQUEST


def test_a_node_shows_what_it_was_told_at_start_and_what_was_set_since(client: RawKafka) -> None:
    rows = shown(client, Resource.BROKER, "1")
    assert rows["node.id"].read_only
    assert rows["auto.create.topics.enable"].value == "true"
    assert not rows["max.connections.per.ip"].read_only
    assert change(client, Resource.BROKER, "", max__connections__per__ip="1000") == ErrorCode.NONE
    assert shown(client, Resource.BROKER, "1")["max.connections.per.ip"].config_source == Source.DYNAMIC_DEFAULT_BROKER
    assert change(client, Resource.BROKER, "1", max__connections__per__ip="2000") == ErrorCode.NONE
    assert shown(client, Resource.BROKER, "1")["max.connections.per.ip"].value == "2000"
    assert list(shown(client, Resource.BROKER, "")) == ["max.connections.per.ip"]
    for name in ("", "1"):
        change(client, Resource.BROKER, name, Operation.DELETE, max__connections__per__ip=None)
    assert shown(client, Resource.BROKER, "") == {}


def test_the_level_of_a_logger_can_be_changed(client: RawKafka) -> None:
    logger = "trunkline.serve.kafka.session"
    assert change(client, Resource.BROKER_LOGGER, "1", trunkline__serve__kafka__session="DEBUG") == ErrorCode.NONE
    assert shown(client, Resource.BROKER_LOGGER, "1")[logger].value == "DEBUG"
    change(client, Resource.BROKER_LOGGER, "1", Operation.DELETE, trunkline__serve__kafka__session=None)
    assert shown(client, Resource.BROKER_LOGGER, "1")[logger].value != "DEBUG"
    assert change(client, Resource.BROKER_LOGGER, "1", nobody="DEBUG") == ErrorCode.INVALID_CONFIG
    assert change(client, Resource.BROKER_LOGGER, "1", root="LOUD") == ErrorCode.INVALID_CONFIG
    assert describe(client, Resource.BROKER_LOGGER, "").error_code == ErrorCode.INVALID_REQUEST


def test_an_unknown_resource_type_cannot_be_listed(client: RawKafka) -> None:
    answer = client.ask(ListConfigResourcesRequest(resource_types=[99]), 1, ListConfigResourcesResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_configs_survive_kill_9(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        with RawKafka(server.kafka) as client:
            change(client, Resource.GROUP, "g", consumer__heartbeat__interval__ms="6000")
        server.kill()
        server.start()
        with RawKafka(server.kafka) as client:
            assert shown(client, Resource.GROUP, "g")["consumer.heartbeat.interval.ms"].value == "6000"
