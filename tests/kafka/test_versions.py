"""A client learns what is served, and every version that is listed is answered."""

from __future__ import annotations

import struct

import pytest
from tests.support.raw_kafka import RawKafka

from trunkline.serve.kafka.apis import served
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.wire.kafka.apis import APIS, ApiKey, request_class, response_class
from trunkline.wire.kafka.frame import decode_response
from trunkline.wire.kafka.messages.api_versions_request import ApiVersionsRequest
from trunkline.wire.kafka.messages.api_versions_response import ApiVersionsResponse

EVERY_VERSION = [
    pytest.param(api.key, version, id=f"{api.name}-{version}")
    for api in served().values()
    for version in range(api.min_version, api.max_version + 1)
]


def test_the_list_names_what_is_served_and_nothing_else(broker_address: str) -> None:
    with RawKafka(broker_address) as client:
        for version in range(5):
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
            answer = client.ask(request, version, ApiVersionsResponse)
            assert answer.error_code == ErrorCode.NONE
            assert {row.api_key for row in answer.api_keys} == set(served())


def test_produce_is_listed_from_version_0_so_that_librdkafka_compresses(broker_address: str) -> None:
    with RawKafka(broker_address) as client:
        answer = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        [produce] = [row for row in answer.api_keys if row.api_key == ApiKey.PRODUCE]
        assert (produce.min_version, produce.max_version) == (0, APIS[ApiKey.PRODUCE].max_version)


def test_a_client_from_the_future_is_told_what_it_may_ask(broker_address: str) -> None:
    with RawKafka(broker_address) as client:
        body = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1) + b"\x00whatever comes then"
        client.send_bytes(struct.pack(">i", len(body)) + body)
        correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, memoryview(client.receive_frame()))
        assert correlation_id == 7
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        [itself] = answer.api_keys
        assert (itself.api_key, itself.max_version) == (ApiKey.API_VERSIONS, APIS[ApiKey.API_VERSIONS].max_version)


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_every_listed_version_is_answered_in_its_own_form(broker_address: str, key: int, version: int) -> None:
    if key == ApiKey.PRODUCE:
        request = request_class(key)(acks=1)  # type: ignore[call-arg]
    else:
        request = request_class(key)()
    with RawKafka(broker_address) as client:
        assert isinstance(client.ask(request, version, response_class(key)), response_class(key))


def test_a_request_that_is_not_served_closes_the_connection(broker_address: str) -> None:
    for key, version in ((52, 0), (ApiKey.PRODUCE, 2), (999, 0)):
        with RawKafka(broker_address) as client:
            body = struct.pack(">hhih", key, version, 1, -1) + bytes(20)
            client.send_bytes(struct.pack(">i", len(body)) + body)
            assert client.is_closed_by_broker()
