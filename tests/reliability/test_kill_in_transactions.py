"""kill -9 of the real process in the middle of transactions: consume, transform, produce, and each record just once."""

from __future__ import annotations

import threading
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from tests.kafka.test_clients import consume
from tests.support.server import Server

RECORDS: Final = 600
KILLS: Final = 3
PATIENCE_SECONDS: Final = 120


class Worker:
    """Reads `source`, writes to two topics and commits what it read in one transaction, until it has done it all."""

    def __init__(self, server: Server, source: str) -> None:
        self._server = server
        self._source = source
        self._outputs = (f"{source}-a", f"{source}-b")
        self.done = threading.Event()
        self.committed = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self._work():
                pass
        except BaseException as failure:
            self.failure = failure
        self.done.set()
        self.committed.set()

    def _work(self) -> bool:
        """One life of a worker: it ends with an error that only a new producer recovers from, or with the work."""
        # Without the second one librdkafka forgets its only broker, and then waits for it as the group's coordinator.
        address = {"bootstrap.servers": self._server.kafka, "metadata.recovery.strategy": "none"}
        consumer = Consumer(
            {
                **address,
                "group.id": self._source,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
            }
        )
        producer = Producer(
            {**address, "transactional.id": self._source, "linger.ms": 1, "transaction.timeout.ms": 10000}
        )
        try:
            producer.init_transactions(30)
            consumer.subscribe([self._source])
            while True:
                messages = consumer.consume(7, timeout=3)
                if not messages and self._is_finished(consumer):
                    return True
                if messages:
                    self._transform(consumer, producer, [int(message.value() or b"") for message in messages])
        except KafkaException:
            return False
        finally:
            consumer.close()

    def _transform(self, consumer: Consumer, producer: Producer, numbers: list[int]) -> None:
        producer.begin_transaction()
        for number in numbers:
            for output in self._outputs:
                producer.produce(output, b"%d" % number)
        position = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        self.committed.set()

    def _is_finished(self, consumer: Consumer) -> bool:
        assigned = consumer.assignment()
        return bool(assigned) and all(each.offset == RECORDS for each in consumer.committed(assigned, 10))


def test_each_record_is_transformed_just_once_whenever_the_broker_is_killed(server: Server, topic: str) -> None:
    source = Producer({"bootstrap.servers": server.kafka})
    for number in range(RECORDS):
        source.produce(topic, b"%d" % number)
    assert source.flush(30) == 0
    worker = Worker(server, topic)
    worker.thread.start()
    for _ in range(KILLS):
        worker.committed.clear()
        assert worker.committed.wait(PATIENCE_SECONDS)
        if worker.done.is_set():
            break
        server.kill()
        server.start()
    assert worker.done.wait(PATIENCE_SECONDS)
    assert worker.failure is None
    for output in (f"{topic}-a", f"{topic}-b"):
        messages = consume(server.kafka, output, RECORDS, **{"isolation.level": "read_committed"})
        assert [int(message.value()) for message in messages] == list(range(RECORDS))
