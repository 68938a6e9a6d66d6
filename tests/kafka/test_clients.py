"""What people run today works unchanged: confluent-kafka (librdkafka), kafka-python, aiokafka."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka import KafkaConsumer, KafkaProducer

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def consume(address: str, topic: str, count: int, **config: Any) -> list[Any]:
    """Read `count` messages of a topic from its start, with librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"group-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **config,
        }
    )
    consumer.subscribe([topic])
    messages: list[Any] = []
    try:
        while len(messages) < count:
            batch = consumer.consume(count - len(messages), timeout=20)
            assert batch, f"only {len(messages)} of {count} messages came"
            for message in batch:
                assert message.error() is None, message.error()
                messages.append(message)
    finally:
        consumer.close()
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_back_what_it_wrote_with_every_codec(broker_address: str, topic: str, codec: str) -> None:
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": broker_address, "compression.type": codec, "linger.ms": 5})
    for number in range(500):
        producer.produce(
            topic,
            key=b"k%d" % (number % 7),
            value=b"value %d " % number * 20,
            headers=[("number", str(number).encode()), ("empty", None)],
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert failures == []
    messages = consume(broker_address, topic, 500)
    assert [message.value() for message in messages] == [b"value %d " % number * 20 for number in range(500)]
    assert [message.offset() for message in messages] == list(range(500))
    assert messages[3].headers() == [("number", b"3"), ("empty", None)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_kafka_python_reads_back_what_it_wrote(broker_address: str, topic: str, codec: str | None) -> None:
    producer = KafkaProducer(bootstrap_servers=broker_address, compression_type=codec)
    futures = [producer.send(topic, value=b"v%d" % number, key=b"k") for number in range(50)]
    producer.flush(20)
    assert [future.get(10).offset for future in futures] == list(range(50))
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=broker_address, auto_offset_reset="earliest", consumer_timeout_ms=15000
    )
    values = [next(consumer).value for _ in range(50)]
    consumer.close()
    assert values == [b"v%d" % number for number in range(50)]


def test_aiokafka_reads_back_what_it_wrote_in_a_group(broker_address: str, topic: str) -> None:
    async def scenario() -> list[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=broker_address, enable_idempotence=True) as producer:
            for number in range(50):
                await producer.send_and_wait(topic, b"v%d" % number)
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=broker_address, group_id=f"group-{topic}", auto_offset_reset="earliest"
        )
        async with consumer:
            values = [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(50)]
            await consumer.commit()
        return values

    assert asyncio.run(scenario()) == [b"v%d" % number for number in range(50)]


def test_a_consumer_goes_on_where_its_group_committed(broker_address: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker_address})
    for number in range(10):
        producer.produce(topic, b"%d" % number)
    producer.flush(20)
    config = {"bootstrap.servers": broker_address, "group.id": f"group-{topic}", "enable.auto.commit": False}
    first = Consumer({**config, "auto.offset.reset": "earliest"})
    first.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
    first.close()
    assert [message.value() for message in consume(broker_address, topic, 4)] == [b"6", b"7", b"8", b"9"]


def test_a_waiting_consumer_gets_a_new_message_at_once(broker_address: str, topic: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker_address, "group.id": f"group-{topic}", "auto.offset.reset": "earliest"}
    )
    producer = Producer({"bootstrap.servers": broker_address})
    producer.produce(topic, b"first")
    producer.flush(20)
    consumer.subscribe([topic])
    first = consumer.poll(20)
    assert first is not None
    assert first.value() == b"first"
    producer.produce(topic, b"second")
    producer.flush(20)
    second = consumer.poll(20)
    consumer.close()
    assert second is not None
    assert second.value() == b"second"
