"""kill -9 of the real process under real clients: what was acknowledged is there afterwards."""

from __future__ import annotations

import threading
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.kafka.test_clients import consume
from tests.support.server import Server


def end_of(server: Server, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "end"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    consumer.close()
    return int(end)


def test_acknowledged_messages_survive_kills_in_order_and_once(server: Server, topic: str) -> None:
    acknowledged: list[tuple[int | None, bytes | None]] = []
    failed: list[object] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            acknowledged.append((message.offset(), message.value()))

    producer = Producer({"bootstrap.servers": server.kafka, "enable.idempotence": True, "linger.ms": 1})
    number = 0
    for _ in range(4):
        for _ in range(2000):
            producer.produce(topic, b"%d" % number, on_delivery=delivered)
            number += 1
        while len(acknowledged) < number - 1500:
            producer.poll(0.05)
        server.kill()
        server.start()
    assert producer.flush(60) == 0
    assert failed == []
    messages = consume(server.kafka, topic, number)
    assert [message.value() for message in messages] == [b"%d" % each for each in range(number)]
    assert {(message.offset(), message.value()) for message in messages} == set(acknowledged)


def test_committed_offsets_and_topics_survive_a_kill(server: Server, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.kafka})
    for future in admin.create_topics([NewTopic(topic, 3, config={"retention.ms": "1234567"})]).values():
        future.result(20)
    config = {"bootstrap.servers": server.kafka, "group.id": "survivors", "enable.auto.commit": False}
    consumer = Consumer(config)
    for offset in range(1, 200):
        consumer.commit(offsets=[TopicPartition(topic, 1, offset)], asynchronous=False)
    cluster_id = admin.list_topics(timeout=20).cluster_id
    server.kill()
    server.start()
    again = Consumer(config)
    assert again.committed([TopicPartition(topic, 1)], timeout=20)[0].offset == 199
    metadata = AdminClient({"bootstrap.servers": server.kafka}).list_topics(timeout=20)
    assert metadata.cluster_id == cluster_id
    assert len(metadata.topics[topic].partitions) == 3
    consumer.close()
    again.close()


def test_a_clean_stop_keeps_everything_and_exits_with_0(tmp_path: Path, topic: str) -> None:
    server = Server(tmp_path / "data").start()
    producer = Producer({"bootstrap.servers": server.kafka})
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0
    status, output, _ = server.stop()
    assert status == 0
    assert output.splitlines()[-2:] == ["ready", "stopped"]
    with server:
        assert len(consume(server.kafka, topic, 100)) == 100


def test_consumers_in_a_group_go_on_after_a_kill(server: Server, topic: str) -> None:
    producer = Producer({"bootstrap.servers": server.kafka})
    seen: set[bytes] = set()
    done = threading.Event()

    def work() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": server.kafka,
                "group.id": f"group-{topic}",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 500,
            }
        )
        consumer.subscribe([topic])
        while not done.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                seen.add(message.value() or b"")
        try:
            consumer.close()
        except KafkaException:
            pass

    worker = threading.Thread(target=work)
    worker.start()
    try:
        from tests.support.waiting import eventually

        for round_number in range(3):
            for number in range(100):
                producer.produce(topic, b"%d-%d" % (round_number, number))
            assert producer.flush(30) == 0
            expected = (round_number + 1) * 100
            eventually(lambda: len(seen) == expected, f"{expected} messages are consumed", 40)  # noqa: B023
            server.kill()
            server.start()
    finally:
        done.set()
        worker.join()


def test_a_stop_in_the_middle_of_checkpoints_keeps_what_was_acknowledged(tmp_path: Path, topic: str) -> None:
    server = Server(tmp_path / "data", "--checkpoint-bytes", "1MiB", "--journal-file-bytes", "1MiB")
    acknowledged: set[bytes | None] = set()
    for round_number in range(4):
        server.start()
        producer = Producer({"bootstrap.servers": server.kafka, "message.timeout.ms": 3000})
        for number in range(3000):
            producer.produce(
                topic,
                b"%d-%d " % (round_number, number) + b"x" * 1000,
                on_delivery=lambda error, message: None if error else acknowledged.add(message.value()),
            )
        before = len(acknowledged)
        while len(acknowledged) < before + 500:
            producer.poll(0.01)
        assert server.stop()[0] == 0
        producer.flush(10)
    with server:
        found = {message.value() for message in consume(server.kafka, topic, end_of(server, topic))}
        assert acknowledged <= found
