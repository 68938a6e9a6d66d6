"""Quotas and connection limits, seen from the wire: slow clients are told, greedy ones are slowed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.test_config_resources import change
from tests.kafka.test_produce import create, produce, request
from tests.support.raw_kafka import RawKafka, batch
from tests.support.server import Server
from tests.support.waiting import eventually

from trunkline.serve.kafka.config_resources import Resource
from trunkline.serve.kafka.configs import Operation
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from trunkline.wire.kafka.messages.alter_client_quotas_response import AlterClientQuotasResponse
from trunkline.wire.kafka.messages.api_versions_request import ApiVersionsRequest
from trunkline.wire.kafka.messages.api_versions_response import ApiVersionsResponse
from trunkline.wire.kafka.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from trunkline.wire.kafka.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from trunkline.wire.kafka.messages.fetch_response import FetchResponse
from trunkline.wire.kafka.messages.produce_response import ProduceResponse

ANY, STRICT = 2, True


@pytest.fixture
def own() -> Iterator[Broker]:
    """A broker of its own: quotas are for all of its clients."""
    with Broker() as broker:
        yield broker


def alter(client: RawKafka, entity: dict[str, str | None], **values: float | None) -> int:
    """None takes a quota away."""
    entry = EntryData(
        entity=[EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    return client.ask(AlterClientQuotasRequest(entries=[entry]), 1, AlterClientQuotasResponse).entries[0].error_code


def described(client: RawKafka, *components: ComponentData, strict: bool = False) -> list[tuple[str, str, float]]:
    answer = client.ask(
        DescribeClientQuotasRequest(components=list(components), strict=strict), 1, DescribeClientQuotasResponse
    )
    return [
        ("+".join(f"{part.entity_type}={part.entity_name}" for part in entry.entity), value.key, value.value)
        for entry in answer.entries or ()
        for value in entry.values
    ]


def test_a_producer_past_its_quota_is_told_and_not_read_from_for_as_long(own: Broker) -> None:
    create(own, "t")
    with RawKafka(own.kafka) as client:
        assert alter(client, {"client-id": "raw"}, producer_byte_rate=10_000.0) == ErrorCode.NONE
        calm = client.ask(request("t", batch([b"x"])), 12, ProduceResponse)
        assert calm.throttle_time_ms == 0
        greedy = client.ask(request("t", batch([b"x" * 103_000])), 12, ProduceResponse)
        assert 100 <= greedy.throttle_time_ms <= 1000
        assert greedy.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        started = time.monotonic()
        client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert time.monotonic() - started >= greedy.throttle_time_ms / 1000 - 0.05


def test_a_consumer_past_its_quota_is_told(own: Broker) -> None:
    create(own, "t")
    with RawKafka(own.kafka) as client:
        for _ in range(3):
            produce(client, "t", batch([b"x" * 5000]))
        alter(client, {"client-id": None}, consumer_byte_rate=1000.0)
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        fetch = FetchRequest(topics=[FetchTopic(topic="t", partitions=[asked])])
        first = client.ask(fetch, 12, FetchResponse)
        assert first.throttle_time_ms == 0
        assert len(first.responses[0].partitions[0].records or b"") <= 10_000
        assert client.ask(fetch, 12, FetchResponse).throttle_time_ms > 0


def test_a_client_that_takes_the_nodes_time_is_told(own: Broker) -> None:
    with RawKafka(own.kafka) as client:
        alter(client, {"user": "ANONYMOUS"}, request_percentage=0.001)
        throttled = eventually(
            lambda: client.ask(DescribeClientQuotasRequest(), 1, DescribeClientQuotasResponse).throttle_time_ms,
            "a request that is throttled",
        )
        assert throttled > 0


def test_others_are_not_slowed_by_the_quota_of_one(own: Broker) -> None:
    create(own, "t")
    with RawKafka(own.kafka) as client:
        alter(client, {"client-id": "somebody else"}, producer_byte_rate=1.0)
        answer = client.ask(request("t", batch([b"x" * 50_000])), 12, ProduceResponse)
        assert answer.throttle_time_ms == 0


def test_quotas_are_described_by_whom_they_are_for(own: Broker) -> None:
    with RawKafka(own.kafka) as client:
        alter(client, {"client-id": "a"}, producer_byte_rate=1000.0)
        alter(client, {"client-id": None}, consumer_byte_rate=2000.0)
        alter(client, {"user": "u", "client-id": "a"}, request_percentage=12.5)
        alter(client, {"ip": "127.0.0.1"}, connection_creation_rate=5.0)
        everything = described(client)
        assert len(everything) == 4
        clients = ComponentData(entity_type="client-id", match_type=ANY, match=None)
        assert len(described(client, clients)) == 3
        assert described(client, clients, strict=STRICT) == [
            ("client-id=a", "producer_byte_rate", 1000.0),
            ("client-id=None", "consumer_byte_rate", 2000.0),
        ]
        default = ComponentData(entity_type="client-id", match_type=1, match=None)
        assert described(client, default) == [("client-id=None", "consumer_byte_rate", 2000.0)]
        alter(client, {"client-id": "a"}, producer_byte_rate=None)
        assert len(described(client)) == 3


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({}, {"consumer_byte_rate": 1.0}),
        ({"planet": "earth"}, {"consumer_byte_rate": 1.0}),
        ({"user": ""}, {"consumer_byte_rate": 1.0}),
        ({"ip": "127.0.0.1", "user": "u"}, {"consumer_byte_rate": 1.0}),
        ({"ip": "not an address"}, {"connection_creation_rate": 1.0}),
        ({"user": "u"}, {"nobody_knows": 1.0}),
        ({"user": "u"}, {"connection_creation_rate": 1.0}),
        ({"user": "u"}, {"consumer_byte_rate": -1.0}),
        ({"user": "u"}, {"consumer_byte_rate": 1.5}),
        ({"user": "u"}, {"consumer_byte_rate": float("nan")}),
    ],
)
def test_quotas_that_cannot_be_are_refused(
    broker: Broker, entity: dict[str, str | None], values: dict[str, float]
) -> None:
    with RawKafka(broker.kafka) as client:
        assert alter(client, entity, **values) == ErrorCode.INVALID_REQUEST


def test_filters_that_cannot_be_are_refused(broker: Broker) -> None:
    with RawKafka(broker.kafka) as client:
        for component, code in (
            (ComponentData(entity_type="planet", match_type=ANY, match=None), ErrorCode.UNSUPPORTED_VERSION),
            (ComponentData(entity_type="user", match_type=7, match=None), ErrorCode.INVALID_REQUEST),
            (ComponentData(entity_type="user", match_type=0, match=None), ErrorCode.INVALID_REQUEST),
            (ComponentData(entity_type="user", match_type=ANY, match="u"), ErrorCode.INVALID_REQUEST),
        ):
            asked = DescribeClientQuotasRequest(components=[component])
            assert client.ask(asked, 1, DescribeClientQuotasResponse).error_code == code


def test_quotas_survive_kill_9(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        with RawKafka(server.kafka) as client:
            alter(client, {"client-id": None}, producer_byte_rate=1234.0)
        server.kill()
        server.start()
        with RawKafka(server.kafka) as client:
            assert described(client) == [("client-id=None", "producer_byte_rate", 1234.0)]


@pytest.mark.parametrize("name", ["max__connections", "max__connections__per__ip"])
def test_one_connection_too_many_is_closed(own: Broker, name: str) -> None:
    with RawKafka(own.kafka) as first:
        assert change(first, Resource.BROKER, "", **{name: "2"}) == ErrorCode.NONE  # type: ignore[arg-type]
        with RawKafka(own.kafka) as second:
            second.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            with RawKafka(own.kafka) as third:
                assert third.is_closed_by_broker()

        def has_room() -> bool:
            with RawKafka(own.kafka) as again:
                try:
                    again.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
                except (ConnectionError, OSError):
                    return False
                return True

        eventually(has_room, "room for another connection")
        change(first, Resource.BROKER, "", Operation.DELETE, **{name: None})
