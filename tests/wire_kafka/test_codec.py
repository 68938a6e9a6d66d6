"""What the codec promises beyond the bytes: nothing copied, defaults for what a version lacks, clear refusals."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.wire.kafka.codec import decode, encode
from trunkline.wire.kafka.errors import MalformedMessage
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from trunkline.wire.kafka.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from trunkline.wire.kafka.messages.metadata_request import MetadataRequest
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from trunkline.wire.kafka.varint import read_uvarint, write_uvarint


def produce(records: bytes | memoryview | None) -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=records)
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[partition])])


def fetched(*partitions: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=list(partitions))])


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_decoded_records_are_a_writable_view_of_the_buffer_they_came_in(version: int) -> None:
    buffer = bytearray(b"header" + b"".join(encode(produce(b"R" * 500), version)))
    request, _ = decode(ProduceRequest, version, memoryview(buffer), 6)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[0:4] = b"BASE"
    assert buffer.count(b"BASERRRR") == 1


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_sent_from_where_they_lie(version: int) -> None:
    first, second, third = memoryview(b"a" * 300), b"b" * 5, memoryview(bytearray(b"c" * 70))
    response = fetched(PartitionData(records=[first, b"", second]), PartitionData(), PartitionData(records=third))
    chunks = encode(response, version)
    assert [chunk for chunk in chunks if any(chunk is records for records in (first, second, third))] == [
        first,
        second,
        third,
    ]
    assert len(chunks) == 6 - (version < 12)
    decoded, _ = decode(FetchResponse, version, memoryview(b"".join(chunks)))
    assert [partition.records for partition in decoded.responses[0].partitions] == [
        b"a" * 300 + second,
        None,
        b"c" * 70,
    ]


@pytest.mark.parametrize("version", [4, 18])
def test_no_records_and_null_records_differ_on_the_wire(version: int) -> None:
    response = fetched(PartitionData(records=b""), PartitionData(records=[]), PartitionData(records=None))
    (chunk,) = encode(response, version)
    decoded, _ = decode(FetchResponse, version, memoryview(chunk))
    assert [partition.records for partition in decoded.responses[0].partitions] == [b"", b"", None]


def test_what_a_version_lacks_is_left_out_and_read_as_its_default() -> None:
    partition = FetchPartition(partition=1, fetch_offset=9, last_fetched_epoch=4, partition_max_bytes=7)
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition])], rack_id="r1", session_id=5)
    decoded, _ = decode(FetchRequest, 4, memoryview(b"".join(encode(request, 4))))
    expected = FetchPartition(partition=1, fetch_offset=9, partition_max_bytes=7)
    assert decoded == FetchRequest(topics=[FetchTopic(topic="t", partitions=[expected])])
    assert (decoded.rack_id, decoded.session_id, decoded.session_epoch) == ("", 0, -1)
    assert decoded.topics[0].partitions[0].last_fetched_epoch == -1


def test_tagged_structs_are_none_unless_they_were_sent() -> None:
    leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=8)
    response = fetched(PartitionData(current_leader=leader), PartitionData())
    decoded, _ = decode(FetchResponse, 12, memoryview(b"".join(encode(response, 12))))
    sent, not_sent = decoded.responses[0].partitions
    assert (sent.current_leader, sent.snapshot_id, not_sent.current_leader) == (leader, None, None)


def test_unknown_tagged_fields_are_passed_over() -> None:
    body = b"".join(encode(FetchRequest(replica_state=ReplicaState(replica_id=7)), 15))
    assert body.count(b"\x01\x01\x0d") == 1
    known = body[body.index(b"\x01\x01\x0d") + 1 :]
    data = body[: -len(known) - 1] + b"\x03" + known + b"\x64\x02hi" + b"\x80\x01\x00"
    decoded, position = decode(FetchRequest, 15, memoryview(data))
    assert (decoded.replica_state, position) == (ReplicaState(replica_id=7), len(data))


def test_a_tagged_field_of_another_size_than_announced_is_refused() -> None:
    data = b"".join(encode(FetchRequest(replica_state=ReplicaState(replica_id=7)), 15))
    with pytest.raises(MalformedMessage, match="replica_state was announced with 14 bytes and takes 13"):
        decode(FetchRequest, 15, memoryview(data.replace(b"\x01\x01\x0d", b"\x01\x01\x0e") + b"\0"))


def test_what_follows_a_message_is_left_to_the_caller() -> None:
    data = b"".join(encode(MetadataRequest(), 12))
    assert decode(MetadataRequest, 12, memoryview(data + b"more"))[1] == len(data)


def test_each_message_has_lists_of_its_own() -> None:
    FetchRequest().topics.append(FetchTopic())
    assert FetchRequest().topics == []
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None


def test_a_value_that_does_not_fit_its_field_is_named() -> None:
    with pytest.raises(MalformedMessage, match="ProduceRequest version 9 cannot be written"):
        encode(ProduceRequest(timeout_ms=2**31), 9)
    with pytest.raises(MalformedMessage, match="cannot be written"):
        encode(ProduceRequest(topic_data=[TopicProduceData(topic_id=None)]), 13)  # type: ignore[arg-type]
    with pytest.raises(MalformedMessage, match="cannot be written"):
        encode(ProduceRequest(transactional_id="x" * 40_000), 8)


def test_messages_tell_their_values() -> None:
    assert repr(produce(b"x").topic_data[0].partition_data[0]) == "PartitionProduceData(index=3, records=b'x')"
    assert produce(b"x") == produce(memoryview(b"x"))
    assert produce(b"x") != produce(b"y")
    assert produce(None) != FetchRequest()


@given(st.integers(0, 2**32 - 1))
def test_varints_are_read_back(value: int) -> None:
    data = write_uvarint(value)
    assert read_uvarint(memoryview(b"\xff" + data), 1) == (value, 1 + len(data))


def test_importing_the_frame_imports_no_message() -> None:
    code = "import sys, trunkline.wire.kafka.frame; print(*[m for m in sys.modules if '.messages.' in m or 'kio' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.strip() == ""
