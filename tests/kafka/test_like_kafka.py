"""Answers that clients know from Apache Kafka, field by field: what tests/compat/differential found, kept without it.

Requests are made from plain values, as there; each test is one habit of Kafka's that somebody's client may rely on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.differential.batches import TIME_MS, attributes, batch, lie
from tests.compat.differential.peer import Peer

from trunkline.model.topic import EFFECTIVE
from trunkline.record.compression import Compression
from trunkline.record.records import Record, encode_batch
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker


@pytest.fixture
def peer(broker: Broker, topic: str) -> Iterator[Peer]:
    asking = Peer(broker.kafka, topic)
    yield asking
    asking.close()


def produce(peer: Peer, topic: str, records: bytes, version: int = 9, **more: Any) -> Any:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    values = {"acks": -1, "timeout_ms": 10_000, "transactional_id": None, "topic_data": data, **more}
    return peer.silently("Produce", version, **values).responses[0].partition_responses[0]


# ── metadata and topics ─────────────────────────────────────────────────────────────────────────


def test_a_topic_asked_for_twice_is_described_once(peer: Peer) -> None:
    topic = peer.topic("one")
    by_name, by_id = {"name": topic}, {"name": None, "topic_id": peer.topic_id(topic)}
    answer = peer.silently("Metadata", 12, topics=[by_name, by_name, by_id])
    assert [each.name for each in answer.topics] == [topic]


def test_topic_ids_mean_something_from_metadata_version_12_on(peer: Peer) -> None:
    asked = [{"name": None, "topic_id": peer.topic_id(peer.topic("one"))}]
    old = peer.silently("Metadata", 10, topics=asked)
    assert [each.error_code for each in old.topics] == [ErrorCode.INVALID_REQUEST]
    assert old.brokers == []


def test_a_topic_that_was_created_has_no_error_message_at_all(peer: Peer) -> None:
    wish = {"name": peer.name("made"), "num_partitions": 1, "replication_factor": 1}
    [made] = peer.silently("CreateTopics", 7, topics=[wish], timeout_ms=10_000).topics
    assert (made.error_code, made.error_message) == (ErrorCode.NONE, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", None),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("compression.gzip.level", "12"),
        ("compression.zstd.level", "99"),
        ("compression.lz4.level", "0"),
        ("leader.replication.throttled.replicas", "everything"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_topic_with_a_config_that_kafka_refuses_is_not_made(peer: Peer, name: str, value: str | None) -> None:
    wish = {"name": peer.name("bad"), "num_partitions": 1, "replication_factor": 1}
    wanted = [{**wish, "configs": [{"name": name, "value": value}]}]
    [made] = peer.silently("CreateTopics", 7, topics=wanted, timeout_ms=10_000).topics
    assert made.error_code == ErrorCode.INVALID_CONFIG


def test_an_empty_cleanup_policy_keeps_everything(peer: Peer) -> None:
    topic = peer.topic("kept", cleanup_policy="")
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": ["cleanup.policy"]}
    [row] = peer.silently("DescribeConfigs", 4, resources=[resource]).results[0].configs
    assert row.value == ""


def test_a_topic_that_stands_in_a_deletion_twice_stays(peer: Peer) -> None:
    topic = peer.topic("one")
    by_id = {"name": None, "topic_id": peer.topic_id(topic)}
    for twice in ([{"name": topic}, {"name": topic}], [{"name": topic}, by_id]):
        [answer] = peer.silently("DeleteTopics", 6, topics=twice, timeout_ms=10_000).responses
        assert answer.error_code == ErrorCode.INVALID_REQUEST
    [answer] = peer.silently("DeleteTopics", 6, topics=[by_id], timeout_ms=10_000).responses
    assert (answer.error_code, answer.name) == (ErrorCode.NONE, topic)
    [answer] = peer.silently("DeleteTopics", 6, topics=[{"name": None}], timeout_ms=10_000).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_records_of_a_compacted_topic_are_not_cut(peer: Peer) -> None:
    topic = peer.topic("compacted", cleanup_policy="compact")
    cut = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}]
    answer = peer.silently("DeleteRecords", 2, topics=cut, timeout_ms=10_000)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION


# ── configs ─────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_list_of_config_names_asks_for_all(peer: Peer) -> None:
    resource = {"resource_type": 2, "resource_name": peer.topic("one"), "configuration_keys": []}
    [result] = peer.silently("DescribeConfigs", 4, resources=[resource]).results
    assert "retention.ms" in {row.name for row in result.configs}


def test_configs_of_a_bad_topic_name_are_an_invalid_topic(peer: Peer) -> None:
    [result] = peer.silently("DescribeConfigs", 4, resources=[{"resource_type": 2, "resource_name": "a b"}]).results
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_altering_configs_judges_as_kafka_does(peer: Peer) -> None:
    topic = peer.topic("one")

    def alter(operation: int, name: str, value: str | None, times: int = 1) -> list[int]:
        configs = [{"config_operation": operation, "name": name, "value": value}]
        resource = {"resource_type": 2, "resource_name": topic, "configs": configs}
        answer = peer.silently("IncrementalAlterConfigs", 1, resources=[resource] * times)
        return [each.error_code for each in answer.responses]

    assert alter(0, "retention.ms", None) == [ErrorCode.INVALID_REQUEST]
    assert alter(1, "no.such.config", None) == [ErrorCode.NONE]
    assert alter(0, "retention.ms", "5", times=2) == [ErrorCode.INVALID_REQUEST] * 2
    assert alter(3, "cleanup.policy", "delete") == [ErrorCode.NONE]


# ── produce ─────────────────────────────────────────────────────────────────────────────────────


def test_zstd_needs_produce_version_7(peer: Peer) -> None:
    topic = peer.topic("one")
    packed = batch([b"a" * 100], compression=Compression.ZSTD)
    assert produce(peer, topic, packed, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(peer, topic, packed, 7).error_code == ErrorCode.NONE


def test_a_transactional_batch_outside_of_a_transaction_is_refused(peer: Peer) -> None:
    topic = peer.topic("one")
    claimed = lie(attributes(0x10), producer_id=5, producer_epoch=0, base_sequence=0)
    assert produce(peer, topic, claimed).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_records_that_cannot_be_opened_are_refused_for_good(peer: Peer) -> None:
    topic = peer.topic("one")
    for codec in (1, 2, 3, 4):
        assert produce(peer, topic, lie(attributes(codec))).error_code == ErrorCode.INVALID_RECORD


def test_records_without_a_key_are_named_one_by_one(peer: Peer) -> None:
    topic = peer.topic("compacted", cleanup_policy="compact")
    records = [Record(0, TIME_MS, key, b"v") for key in (None, b"k", None)]
    answer = produce(peer, topic, bytes(encode_batch(records)))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [0, 2]


def test_a_failed_acks_0_closes_the_connection_so_that_the_client_looks_again(peer: Peer) -> None:
    data = [{"name": peer.name("no"), "partition_data": [{"index": 0, "records": batch([b"a"])}]}]
    line = peer.open()
    peer.send(line, "Produce", 9, acks=0, timeout_ms=10_000, transactional_id=None, topic_data=data)
    assert line.is_closed_by_broker()


def test_lz4_blocks_stand_alone_as_java_clients_need_it(peer: Peer) -> None:
    packed = encode_batch([Record(0, TIME_MS, b"k", bytes(200_000))], compression=Compression.LZ4)
    assert bytes(packed[61:68]).hex() == "04224d18604082"
    assert produce(peer, peer.topic("one"), bytes(packed)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("id_and_epoch", [(5, -1), (-1, 5)])
def test_a_producer_has_an_id_and_an_epoch_or_neither(peer: Peer, id_and_epoch: tuple[int, int]) -> None:
    number, epoch = id_and_epoch
    asked: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 1}
    answer = peer.silently("InitProducerId", 4, producer_id=number, producer_epoch=epoch, **asked)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_clients_cannot_write_cut_or_make_the_brokers_own_topics(peer: Peer) -> None:
    """What they wrote there would be read as committed offsets at the next start."""
    peer.ready()
    own = "__consumer_offsets"
    assert produce(peer, own, batch([b"garbage"])).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    cut = [{"name": own, "partitions": [{"partition_index": 0, "offset": -1}]}]
    [answer] = peer.silently("DeleteRecords", 2, topics=cut, timeout_ms=10_000).topics[0].partitions
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    wish = {"name": "__transaction_state", "num_partitions": 1, "replication_factor": 1}
    [made] = peer.silently("CreateTopics", 7, topics=[wish], timeout_ms=10_000).topics
    assert made.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    [topic] = peer.silently("Metadata", 12, topics=[{"name": "__transaction_state"}]).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ── fetch and positions ─────────────────────────────────────────────────────────────────────────


def fetch(peer: Peer, topic: str, *partitions: int, **more: Any) -> Any:
    rows = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in partitions]
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1000, **more}
    return peer.silently("Fetch", 11, topics=[{"topic": topic, "partitions": rows}], **values).responses[0].partitions


def test_aborted_transactions_are_null_unless_committed_reads_ask(peer: Peer) -> None:
    topic = peer.topic("one")
    assert fetch(peer, topic, 0)[0].aborted_transactions is None
    assert fetch(peer, topic, 0, isolation_level=1)[0].aborted_transactions == []


def test_a_partition_that_is_not_there_does_not_end_the_wait_for_the_others(peer: Peer) -> None:
    topic, line = peer.topic("one"), peer.open()
    rows = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in (0, 9)]
    asked = {"topics": [{"topic": topic, "partitions": rows}], "min_bytes": 1, "max_wait_ms": 20_000, "max_bytes": 1000}
    peer.send(line, "Fetch", 11, **asked)
    assert produce(peer, topic, batch([b"a"])).error_code == ErrorCode.NONE
    there, missing = peer.receive("both", line).responses[0].partitions
    assert len(there.records) > 0
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("stamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_a_look_up_newer_than_the_request_is_an_unsupported_version(peer: Peer, stamp: int, version: int) -> None:
    rows = [{"partition_index": 0, "timestamp": stamp}]
    topics = [{"name": peer.topic("one"), "partitions": rows}]
    answer = peer.silently("ListOffsets", version, replica_id=-1, topics=topics)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_partition_looked_up_twice_is_an_invalid_request(peer: Peer) -> None:
    rows = [{"partition_index": 0, "timestamp": stamp} for stamp in (-1, -2)]
    topics = [{"name": peer.topic("one"), "partitions": rows}]
    [answer] = peer.silently("ListOffsets", 7, replica_id=-1, topics=topics).topics[0].partitions
    assert answer.error_code == ErrorCode.INVALID_REQUEST


# ── groups and offsets ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_refused_join_names_no_protocol(peer: Peer, version: int, name: str | None) -> None:
    answer = peer.silently(
        "JoinGroup", version, group_id=peer.name("g"), session_timeout_ms=0, protocol_type="consumer"
    )
    assert (answer.error_code, answer.protocol_name) == (ErrorCode.INVALID_SESSION_TIMEOUT, name)


def test_a_sync_must_name_its_protocol_from_version_5_on(peer: Peer) -> None:
    values: dict[str, Any] = {"group_id": peer.name("g"), "member_id": "m", "generation_id": 1}
    assert peer.silently("SyncGroup", 4, **values).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert peer.silently("SyncGroup", 5, **values).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_member_commit_in_a_group_nobody_knows(peer: Peer, version: int, code: ErrorCode) -> None:
    topics = [{"name": peer.topic("one"), "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    values: dict[str, Any] = {"group_id": peer.name("g"), "member_id": "m", "generation_id_or_member_epoch": 3}
    answer = peer.silently("OffsetCommit", version, topics=topics, **values)
    assert answer.topics[0].partitions[0].error_code == code


def test_a_group_whose_last_member_leaves_is_empty_at_once_whoever_was_about_to_join(peer: Peer) -> None:
    group = peer.name("g")
    values: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    member = peer.silently("JoinGroup", 3, **values).member_id
    assert peer.silently("JoinGroup", 5, **values).error_code == ErrorCode.MEMBER_ID_REQUIRED
    peer.silently("LeaveGroup", 0, group_id=group, member_id=member)
    assert peer.silently("DescribeGroups", 5, groups=[group]).groups[0].group_state == "Empty"


def test_offsets_of_what_does_not_exist_cannot_be_deleted(peer: Peer) -> None:
    topic, group = peer.topic("one"), peer.name("g")
    commit = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    peer.silently("OffsetCommit", 7, group_id=group, generation_id_or_member_epoch=-1, topics=commit)
    rows = [{"name": topic, "partitions": [{"partition_index": index} for index in (0, 9)]}]
    known, unknown = peer.silently("OffsetDelete", 0, group_id=group, topics=rows).topics[0].partitions
    assert (known.partition_index, known.error_code) == (0, ErrorCode.NONE)
    assert (unknown.partition_index, unknown.error_code) == (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_group_named_twice_is_deleted_once(peer: Peer) -> None:
    topic, group = peer.topic("one"), peer.name("g")
    commit = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    peer.silently("OffsetCommit", 7, group_id=group, generation_id_or_member_epoch=-1, topics=commit)
    [answer] = peer.silently("DeleteGroups", 2, groups_names=[group, group]).results
    assert answer.error_code == ErrorCode.NONE


# ── hostile lengths ─────────────────────────────────────────────────────────────────────────────


def test_an_error_about_a_very_long_name_still_fits_the_answer(peer: Peer) -> None:
    """Before flexible versions a string has 32 KiB: an error that quotes a name of that length does not."""
    name = "\0" * 32_767
    grow = [{"name": name, "count": 3, "assignments": None}]
    [answer] = peer.silently("CreatePartitions", 0, topics=grow, timeout_ms=1).results
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    [described] = peer.silently("DescribeConfigs", 1, resources=[{"resource_type": 4, "resource_name": name}]).results
    assert described.error_code == ErrorCode.INVALID_REQUEST


def test_a_member_with_a_very_long_instance_id_is_answered(peer: Peer) -> None:
    protocols = [{"name": "range", "metadata": b""}]
    values: dict[str, Any] = {"group_id": peer.name("g"), "protocol_type": "consumer", "protocols": protocols}
    instance = "i" * 32_767
    answer = peer.silently("JoinGroup", 5, group_instance_id=instance, session_timeout_ms=10_000, **values)
    assert answer.error_code == ErrorCode.NONE
    assert [each.group_instance_id for each in answer.members] == [instance]


def test_the_compatibility_page_names_every_config_that_acts() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    assert not [name for name in EFFECTIVE if f"`{name}`" not in page]
