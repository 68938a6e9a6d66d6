"""Bytes that are no message end in MalformedMessage, nothing else, and take no memory for what they only announce."""

from __future__ import annotations

import struct
import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire_kafka.values import MODULES, message_class, random_struct, versions

from trunkline.model.limits import MAX_MESSAGE_ELEMENTS
from trunkline.wire.kafka.apis import APIS, request_class
from trunkline.wire.kafka.codec import decode, encode
from trunkline.wire.kafka.errors import MalformedMessage
from trunkline.wire.kafka.frame import decode_request, decode_response, parse_header
from trunkline.wire.kafka.message import Message
from trunkline.wire.kafka.messages.fetch_request import FetchRequest
from trunkline.wire.kafka.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from trunkline.wire.kafka.messages.offset_commit_request import OffsetCommitRequest
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData


def refused_or_read(cls: type[Message], version: int, data: bytes | bytearray) -> bool:
    """Whether it was read. Any exception but MalformedMessage fails the test."""
    try:
        _, position = decode(cls, version, memoryview(data))
    except MalformedMessage:
        return False
    assert position <= len(data)
    return True


def small_message(cls: type[Message], version: int, seed: str) -> bytes:
    """A valid message of at most a few hundred bytes."""
    candidates = (random_struct(cls, version, Random(f"{seed} {n}")) for n in range(20))
    return min((b"".join(encode(message, version)) for message in candidates), key=lambda data: abs(len(data) - 250))


@pytest.mark.parametrize("module_name", MODULES)
def test_a_message_cut_short_anywhere_is_refused(module_name: str) -> None:
    cls = message_class(module_name)
    for version in {cls.VERSIONS[0], cls.VERSIONS[1]}:
        data = small_message(cls, version, "cut")
        for length in range(min(len(data), 1000)):
            assert not refused_or_read(cls, version, data[:length])


@pytest.mark.parametrize("module_name", MODULES)
def test_damaged_and_random_bytes_never_break_the_reader(module_name: str) -> None:
    cls = message_class(module_name)
    rng = Random(module_name)
    for version in versions(cls):
        data = small_message(cls, version, "flip")
        for _ in range(60):
            damaged = bytearray(data)
            for _ in range(rng.choice((1, 1, 4))):
                at = rng.randrange(len(data)) if data else 0
                damaged[at : at + 1] = rng.choice((b"\xff", b"\x80", b"\x7f", b"\x00", rng.randbytes(1), b""))
            refused_or_read(cls, version, damaged)
        for size in (0, 1, 5, 40, 300):
            refused_or_read(cls, version, rng.randbytes(size))
            refused_or_read(cls, version, b"\x7f" * size)
            refused_or_read(cls, version, b"\xff" * size)


@pytest.mark.parametrize("module_name", MODULES)
def test_announced_lengths_take_no_memory(module_name: str) -> None:
    cls = message_class(module_name)
    huge = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x7f\xff", b"\xff\xff\x7f")
    for version in {cls.VERSIONS[0], cls.VERSIONS[1]}:
        data = small_message(cls, version, "huge")
        refused_or_read(cls, version, data)
        tracemalloc.start()
        for at in range(min(len(data), 400)):
            for length in huge:
                refused_or_read(cls, version, data[:at] + length + data[at + len(length) :])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2_000_000


@given(st.binary(max_size=200), st.sampled_from(sorted(APIS)), st.integers(-2, 20))
def test_a_frame_of_any_bytes_is_a_request_or_malformed(data: bytes, api_key: int, version: int) -> None:
    for frame in (data, struct.pack(">hhih", api_key, version, 7, -1) + data):
        try:
            decode_request(memoryview(frame))
        except MalformedMessage:
            pass


@given(st.binary(max_size=200), st.sampled_from(sorted(APIS)))
def test_an_answer_of_any_bytes_is_read_or_malformed(data: bytes, api_key: int) -> None:
    try:
        decode_response(api_key, APIS[api_key].max_version, memoryview(data))
    except MalformedMessage:
        pass


@pytest.mark.parametrize("version", [3, 8])
@pytest.mark.parametrize("length", [-2, -2147483648, 2147483647, 11])
def test_a_records_length_that_is_not_there_is_refused(version: int, length: int) -> None:
    partition = PartitionProduceData(index=1, records=b"0123456789")
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    data = b"".join(encode(request, version)).replace(b"\0\0\0\n0123456789", struct.pack(">i", length) + b"0123456789")
    with pytest.raises(MalformedMessage, match=f"records has the length {length}, and 10 bytes remain"):
        decode(ProduceRequest, version, memoryview(data))


def test_a_string_that_is_no_utf8_is_refused() -> None:
    data = b"".join(encode(MetadataRequest(topics=[MetadataRequestTopic(name="abc")]), 1)).replace(b"abc", b"\xc3\x28c")
    with pytest.raises(MalformedMessage, match="UTF-8"):
        decode(MetadataRequest, 1, memoryview(data))


def test_null_where_the_version_has_none_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="topics is null"):
        decode(FetchRequest, 4, memoryview(struct.pack(">iiiibi", -1, 0, 0, 0, 0, -1)))
    assert decode(MetadataRequest, 4, memoryview(b"\xff\xff\xff\xff\x00"))[0].topics is None


def test_more_elements_than_a_message_may_have_are_refused_before_they_are_made() -> None:
    count = MAX_MESSAGE_ELEMENTS + 1
    request = bytearray(b"".join(encode(OffsetCommitRequest(), 2)))
    assert request[-4:] == bytes(4)
    request[-4:] = struct.pack(">i", count)
    data = memoryview(request + bytes(count * 8))
    tracemalloc.start()
    with pytest.raises(MalformedMessage, match="more elements than one message may have"):
        decode(OffsetCommitRequest, 2, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_elements_are_counted_over_all_arrays_of_a_message() -> None:
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=n)]) for n in range(5)]
    data = memoryview(b"".join(encode(ProduceRequest(topic_data=topics), 13)))
    assert len(decode(ProduceRequest, 13, data, elements=10)[0].topic_data) == 5
    with pytest.raises(MalformedMessage, match="1 too many"):
        decode(ProduceRequest, 13, data, elements=9)


def test_endless_unknown_tags_are_refused() -> None:
    body = b"".join(encode(ProduceRequest(), 9))[:-1]
    tags = b"".join(bytes((n % 128, 0)) for n in range(300))
    assert decode(ProduceRequest, 9, memoryview(body + b"\xac\x02" + tags))[1] == len(body) + 2 + len(tags)
    with pytest.raises(MalformedMessage, match="tagged fields announced"):
        decode(ProduceRequest, 9, memoryview(body + b"\xad\x02" + tags))
    with pytest.raises(MalformedMessage, match="more elements"):
        decode(ProduceRequest, 9, memoryview(body + b"\xac\x02" + tags), elements=299)


def test_a_varint_of_more_than_five_bytes_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="more than 32 bits"):
        decode(ProduceRequest, 9, memoryview(b"\xff\xff\xff\xff\xff\x01" + bytes(20)))


def test_a_version_that_does_not_exist_is_named() -> None:
    with pytest.raises(MalformedMessage, match="ProduceRequest has versions 3 to 13, not 2"):
        decode(request_class(0), 2, memoryview(b""))
    with pytest.raises(MalformedMessage, match="no request has the key 999"):
        request_class(999)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0\0\x09\0\0\0\x01\0", b"\0\0\0\x03\0\0\0\x01\0\x05abcd", b"\0\0\0\x03" + b"\xff" * 6]
)
def test_a_header_cut_short_is_refused(data: bytes) -> None:
    if data.endswith(b"\xff" * 6):
        assert parse_header(memoryview(data)).client_id is None
        data = data[:-2] + b"\xff\xfe"
    with pytest.raises(MalformedMessage, match="request header"):
        parse_header(memoryview(data))
