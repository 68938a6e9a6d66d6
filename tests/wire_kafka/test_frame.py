"""Headers around messages, as real clients send and expect them."""

from __future__ import annotations

import struct
from random import Random

import pytest
from tests.wire_kafka.values import random_struct

from trunkline.wire.kafka.apis import APIS, ApiKey, request_class, response_class
from trunkline.wire.kafka.codec import decode
from trunkline.wire.kafka.frame import decode_request, decode_response, encode_request, encode_response, parse_header
from trunkline.wire.kafka.messages.api_versions_request import ApiVersionsRequest
from trunkline.wire.kafka.messages.api_versions_response import ApiVersionsResponse
from trunkline.wire.kafka.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from trunkline.wire.kafka.messages.request_header import RequestHeader
from trunkline.wire.kafka.messages.response_header import ResponseHeader


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_requests_and_answers_travel_in_every_version(api_key: int) -> None:
    api = APIS[api_key]
    for version in range(api.min_version, api.max_version + 1):
        rng = Random(version)
        request = random_struct(request_class(api_key), version, rng)
        sent = b"".join(encode_request(request, version, 77, "tester"))
        assert struct.unpack(">i", sent[:4]) == (len(sent) - 4,)
        header, received = decode_request(memoryview(sent)[4:])
        assert header[:4] == (api_key, version, 77, "tester")
        assert received == request
        answer = random_struct(response_class(api_key), version, rng)
        sent = b"".join(encode_response(api_key, version, 78, answer))
        assert struct.unpack(">i", sent[:4]) == (len(sent) - 4,)
        assert decode_response(api_key, version, memoryview(sent)[4:]) == (78, answer)


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_the_table_of_requests_agrees_with_the_messages(api_key: int) -> None:
    api = APIS[api_key]
    for cls in (request_class(api_key), response_class(api_key)):
        assert (api_key, api.min_version, api.max_version) == (cls.API_KEY, *cls.VERSIONS)
        assert api.flexible_from == cls.FLEXIBLE
    assert ApiKey(api_key).name.replace("_", "").lower() == api.name.lower()


def test_kafka_offers_one_version_less_where_its_newest_is_not_stable() -> None:
    unstable = [api.name for api in APIS.values() if api.max_stable_version != api.max_version]
    assert unstable == ["InitProducerId"]


@pytest.mark.parametrize(("version", "client_id"), [(1, None), (1, ""), (2, "rdkafka"), (3, "Ω"), (4, None)])
def test_a_header_is_read_as_the_protocol_defines_it(version: int, client_id: str | None) -> None:
    data = memoryview(b"".join(encode_request(ApiVersionsRequest(), version, 5, client_id)))[4:]
    header = parse_header(data)
    defined, position = decode(RequestHeader, 2 if version >= 3 else 1, data)
    assert header == (18, version, 5, client_id, position)
    assert (defined.request_api_key, defined.request_api_version) == (18, version)
    assert (defined.correlation_id, defined.client_id) == (5, client_id)


def test_tagged_fields_in_a_header_are_passed_over() -> None:
    head = struct.pack(">hhih", ApiKey.METADATA, 12, 9, 2) + b"me"
    assert parse_header(memoryview(head + b"\x00body"))[3:] == ("me", len(head) + 1)
    assert parse_header(memoryview(head + b"\x02\x00\x01x\x05\x00body"))[3:] == ("me", len(head) + 6)


@pytest.mark.parametrize("api_key", [18, 3, 4711, -1])
def test_the_header_of_an_unknown_version_or_key_still_gives_the_correlation_id(api_key: int) -> None:
    data = struct.pack(">hhih", api_key, 99, 1234, 2) + b"me\xff\xff"
    assert parse_header(memoryview(data)) == (api_key, 99, 1234, "me", 12)


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_the_answer_to_api_versions_has_the_oldest_header(version: int) -> None:
    (sent,) = encode_response(ApiKey.API_VERSIONS, version, 5, ApiVersionsResponse(error_code=35))
    header, position = decode(ResponseHeader, 0, memoryview(sent), 4)
    assert header.correlation_id == 5
    assert decode(ApiVersionsResponse, version, memoryview(sent), position)[0].error_code == 35


def test_the_size_of_an_answer_counts_the_records_it_does_not_copy() -> None:
    records = [memoryview(b"a" * 1000), memoryview(b"b" * 24)]
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)])])
    first, *rest = encode_response(ApiKey.FETCH, 16, 5, answer)
    assert rest[0] is records[0]
    assert rest[1] is records[1]
    assert struct.unpack(">i", first[:4]) == (len(first) - 4 + sum(map(len, rest)),)
