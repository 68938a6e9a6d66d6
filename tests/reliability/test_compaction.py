"""A compacted topic as its users see it: the last value of every key, at its offset, also after kill -9."""

from __future__ import annotations

import random
import re
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tests.support.server import Server
from tests.support.waiting import eventually

Row = tuple[int, bytes, bytes | None]
CLEANED_SOON = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "200",
    "delete.retention.ms": "86400000",
}


def make_topic(address: str, name: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(20)


def read_all(address: str, topic: str) -> list[Row]:
    """From the first offset to the end of the log, as a new consumer sees it."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "table", "enable.partition.eof": True, "fetch.wait.max.ms": 20}
    )
    found: list[Row] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(20)
            assert message is not None, "the log's end was not reached"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append(row(message))
    finally:
        consumer.close()


def shows(address: str, wanted: list[Row]) -> bool:
    return read_all(address, "table") == wanted


def row(message: Message) -> Row:
    offset, key = message.offset(), message.key()
    assert offset is not None
    assert isinstance(key, bytes)
    assert message.headers() == [("of", key)]
    value = message.value()
    assert value is None or isinstance(value, bytes)
    return offset, key, value


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_only_the_last_value_of_every_key_is_left_and_a_kill_changes_nothing(tmp_path: Path, codec: str) -> None:
    flags = ("--compaction-check-ms", "50", "--http", "127.0.0.1:0")
    with Server(tmp_path / "data", *flags) as server:
        make_topic(server.kafka, "table", CLEANED_SOON)
        expected: dict[bytes, Row] = {}
        rng = random.Random(3)
        offset = 0
        for part in range(2):
            producer = Producer(
                {"bootstrap.servers": server.kafka, "compression.type": codec, "enable.idempotence": part == 1}
            )
            for number in range(500):
                key = b"%d" % rng.randrange(30)
                value = None if number % 100 == 99 else b"%d:%d" % (part, number) * 20
                producer.produce("table", value, key, headers=[("of", key)])
                expected[key] = (offset, key, value)
                offset += 1
            assert producer.flush(20) == 0
            wanted = sorted(expected.values())
            eventually(partial(shows, server.kafka, wanted), f"part {part} is cleaned")
            server.kill()
            server.start()
            assert read_all(server.kafka, "table") == wanted
        assert next((tmp_path / "data" / "topics" / "table-0").glob("0*-*.log"))


def test_progress_is_in_the_metrics_and_a_config_change_starts_it(tmp_path: Path) -> None:
    with Server(tmp_path / "data", "--compaction-check-ms", "50", "--http", "127.0.0.1:0") as server:
        make_topic(server.kafka, "table", {**CLEANED_SOON, "cleanup.policy": "delete"})
        producer = Producer({"bootstrap.servers": server.kafka})
        for number in range(50):
            producer.produce("table", b"%d" % number, b"key", headers=[("of", b"key")])
        assert producer.flush(20) == 0
        assert len(read_all(server.kafka, "table")) == 50
        set_config(server.kafka, "table", "cleanup.policy", "compact,delete")
        eventually(lambda: read_all(server.kafka, "table") == [(49, b"key", b"49")], "the topic is cleaned")
        with urllib.request.urlopen(f"http://{server.addresses['http']}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert re.search(r"^trunkline_compaction_runs_total [1-9]", text, re.MULTILINE)
        assert "trunkline_compaction_removed_records_total 49.0" in text


def set_config(address: str, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(20)


def test_a_message_without_a_key_is_refused_however_large_its_batch(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        make_topic(server.kafka, "table", CLEANED_SOON)
        producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 500, "compression.type": "lz4"})
        errors: list[KafkaError] = []
        for number in range(400):
            producer.produce(
                "table",
                random.randbytes(200),
                None if number == 300 else b"key",
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        assert producer.flush(20) == 0
        assert {error.code() for error in errors} == {KafkaError.INVALID_RECORD}


def test_a_committed_offset_survives_cleaning_of_the_groups_own_topic(tmp_path: Path) -> None:
    with Server(tmp_path / "data", "--compaction-check-ms", "50") as server:
        make_topic(server.kafka, "work", {})
        producer = Producer({"bootstrap.servers": server.kafka})
        producer.produce("work", b"1")
        assert producer.flush(20) == 0
        commit(server.kafka, [f"group-{number % 7}" for number in range(40)])
        set_config(server.kafka, "__consumer_offsets", "max.compaction.lag.ms", "100")
        segments = tmp_path / "data" / "topics" / "__consumer_offsets-0"
        eventually(lambda: list(segments.glob("0*-*.log")), "the groups' topic is cleaned")
        server.kill()
        server.start()
        for number in range(7):
            consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": f"group-{number}"})
            (committed,) = consumer.committed([TopicPartition("work", 0)], timeout=20)
            consumer.close()
            assert committed.offset == 1


def commit(address: str, groups: list[str]) -> None:
    for group in groups:
        consumer = Consumer({"bootstrap.servers": address, "group.id": group})
        try:
            consumer.commit(offsets=[TopicPartition("work", 0, 1)], asynchronous=False)
        except KafkaException as error:
            raise AssertionError(f"{group}: {error}") from error
        finally:
            consumer.close()
