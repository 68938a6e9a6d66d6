"""What real clients do all the time while the broker is killed, and what they were promised.

Each workload runs in a thread of its own and writes down every answer it got. `audit` reads those promises, with the
thread paused between two steps, and compares them with what the restarted broker says.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PATIENT: dict[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "socket.timeout.ms": 10_000,
    "log_level": 0,
}
Place = tuple[str, int]
"""A partition: topic and index."""


@dataclass
class Promises:
    """What was answered to clients. Only grows, except where a client asked for a deletion."""

    acknowledged: dict[Place, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    sent_once: dict[Place, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """Of idempotent producers: everything handed to the client, in order."""
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    start_at_least: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    """From answered DeleteRecords."""
    trimmed_by_retention: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


class Workload(threading.Thread):
    """`step` is done again and again; `hold` makes it wait between two steps."""

    def __init__(self, address: str, promises: Promises) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.address = address
        self.promises = promises
        self._may_run = threading.Event()
        self._idle = threading.Event()
        self._ended = False
        self._may_run.set()

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, **PATIENT}

    def run(self) -> None:
        try:
            self.begin()
            while not self._ended:
                if not self._may_run.is_set():
                    self.settle()
                    self._idle.set()
                    self._may_run.wait()
                    self._idle.clear()
                    continue
                self.step()
            self.finish()
        except Exception as error:  # a workload that ends early must be seen, whatever ended it
            self.promises.failures.append(f"{self.name} ended: {error!r}")
            self._idle.set()

    def ask_to_hold(self) -> None:
        self._may_run.clear()

    def hold(self, seconds: float) -> None:
        """Returns when the thread stands still, with nothing in flight."""
        self.ask_to_hold()
        if not self._idle.wait(seconds):
            self.promises.failures.append(f"{self.name} did not come to rest within {seconds:.0f} s")

    def go_on(self) -> None:
        self._may_run.set()

    def end(self) -> None:
        self._ended = True
        self._may_run.set()
        self.join(30)

    def begin(self) -> None: ...

    def step(self) -> None:
        raise NotImplementedError

    def settle(self) -> None: ...

    def finish(self) -> None: ...


class Produce(Workload):
    """One topic, some partitions, numbered values. Idempotent: each is there once and in order."""

    def __init__(
        self,
        address: str,
        promises: Promises,
        topic: str,
        partitions: int,
        *,
        idempotent: bool,
        value_bytes: int = 20,
        per_step: int = 20,
        configs: dict[str, str] | None = None,
    ) -> None:
        super().__init__(address, promises)
        self.name = f"producer of {topic}"
        self.topic = topic
        self.partitions = partitions
        self.idempotent = idempotent
        self._value_bytes = value_bytes
        self._per_step = per_step
        self._configs = configs or {}
        self._number = 0

    def begin(self) -> None:
        create(AdminClient(self.client), NewTopic(self.topic, self.partitions, config=self._configs), self.promises)
        self._producer = Producer(
            {
                **self.client,
                "enable.idempotence": self.idempotent,
                "max.in.flight": 5 if self.idempotent else 1,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
            }
        )

    def step(self) -> None:
        for _ in range(self._per_step):
            partition = self._number % self.partitions
            value = (b"%d " % self._number).ljust(self._value_bytes, b".")
            if self.idempotent:
                self.promises.sent_once[self.topic, partition].append(value)
            self._producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            self._number += 1
        self._producer.poll(0.02)
        while len(self._producer) > 2000:
            self._producer.poll(0.05)

    def settle(self) -> None:
        if self._producer.flush(60):
            self.promises.failures.append(f"{self.name}: messages were not answered within 60 s")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        place = (self.topic, message.partition() or 0)
        if error is not None:
            self.promises.failures.append(f"{self.name}: {error}")
            return
        offset, value = message.offset(), message.value() or b""
        before = self.promises.acknowledged[place].setdefault(offset or 0, value)
        if before != value:
            self.promises.failures.append(f"{place}: offset {offset} was given out twice")


class CommitEach(Workload):
    """A group member that commits every message by itself. Committed positions must never go back."""

    def __init__(self, address: str, promises: Promises, topic: str, group: str) -> None:
        super().__init__(address, promises)
        self._topic = topic
        self._group = group

    def begin(self) -> None:
        self._consumer = Consumer(
            {
                **self.client,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._consumer.subscribe([self._topic])

    def step(self) -> None:
        message = self._consumer.poll(0.05)
        if message is None or message.error() is not None:
            return
        partition, offset = message.partition() or 0, message.offset() or 0
        key = (self._group, self._topic, partition)
        if offset < self.promises.committed.get(key, 0):
            self.promises.failures.append(f"{key}: offset {offset} came again after {self.promises.committed[key]}")
        try:
            self._consumer.commit(offsets=[TopicPartition(self._topic, partition, offset + 1)], asynchronous=False)
        except KafkaException:
            # Not answered: the message may come again, which the position seen so far allows.
            self._consumer.seek(TopicPartition(self._topic, partition, self.promises.committed.get(key, offset)))
            return
        self.promises.committed[key] = offset + 1

    def finish(self) -> None:
        self._consumer.close()


class MakeAndDeleteTopics(Workload):
    """Topics that come, get some messages, and go: every second one is deleted again."""

    def begin(self) -> None:
        self._admin = AdminClient(self.client)
        self._number = 0

    def step(self) -> None:
        self._number += 1
        name = f"passing-{self._number}"
        create(self._admin, NewTopic(name, 2), self.promises)
        producer = Producer({**self.client, "enable.idempotence": True, "message.timeout.ms": 60_000})

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                place = (name, message.partition() or 0)
                self.promises.acknowledged[place][message.offset() or 0] = message.value() or b""
            else:
                self.promises.failures.append(f"{name}: {error}")

        for number in range(6):
            producer.produce(name, b"%d" % number, partition=number % 2, on_delivery=delivered)
        producer.flush(60)
        if self._number % 2:
            self._delete_topic(name)

    def _delete_topic(self, name: str) -> None:
        self.promises.topics.discard(name)
        for place in [place for place in self.promises.acknowledged if place[0] == name]:
            del self.promises.acknowledged[place]
        while True:
            try:
                self._admin.delete_topics([name], request_timeout=5)[name].result(20)
                break
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    break  # an earlier try was done, and not answered
                time.sleep(0.05)
        self.promises.deleted.add(name)


class DeleteRecords(Workload):
    """Cuts the head of a topic now and then; what was cut never comes back."""

    def __init__(self, address: str, promises: Promises, topic: str) -> None:
        super().__init__(address, promises)
        self._topic = topic

    def begin(self) -> None:
        self._admin = AdminClient(self.client)

    def step(self) -> None:
        time.sleep(0.1)
        place = (self._topic, 0)
        acknowledged = self.promises.acknowledged[place]
        if not acknowledged:
            return
        before = max(acknowledged) // 2
        try:
            answer = self._admin.delete_records([TopicPartition(self._topic, 0, before)], request_timeout=5)
            next(iter(answer.values())).result(20)
        except KafkaException:
            # It may be done or not; what is below may be missing from now on.
            self._forget(before)
            return
        self.promises.start_at_least[place] = max(self.promises.start_at_least[place], before)
        self._forget(before)

    def _forget(self, before: int) -> None:
        acknowledged = self.promises.acknowledged[self._topic, 0]
        for offset in [offset for offset in list(acknowledged) if offset < before]:
            del acknowledged[offset]


def create(admin: AdminClient, topic: NewTopic, promises: Promises) -> None:
    """Until it is answered, or found to be there."""
    while True:
        try:
            admin.create_topics([topic], request_timeout=5)[topic.topic].result(20)
            break
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                break
            time.sleep(0.05)
    promises.topics.add(topic.topic)
