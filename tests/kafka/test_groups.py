"""Consumer groups with real clients: partitions are shared, nothing is lost or doubled, and storms settle."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.waiting import eventually


def make_topic(address: str, topic: str, partitions: int) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, partitions)]).values():
        future.result(20)
    return admin


class Worker:
    """A consumer on a thread of its own, as a service would run it."""

    def __init__(self, address: str, group: str, topic: str, config: dict[str, Any] | None = None) -> None:
        self.seen: Counter[bytes] = Counter()
        self.assigned: set[int] = set()
        self.complaints: list[str] = []
        self._stop = threading.Event()
        settings = {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "error_cb": lambda error: self.complaints.append(str(error)),
            **(config or {}),
        }
        settings = {name: value for name, value in settings.items() if value is not None}
        self._consumer = Consumer(settings, logger=logging.getLogger("tests.worker"))
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None:
                if message.error() is not None:
                    self.complaints.append(str(message.error()))
                else:
                    self.seen[message.value() or b""] += 1
            self.assigned = {each.partition for each in self._consumer.assignment()}
        self.assigned = set()
        self._consumer.close()


def shares(workers: list[Worker]) -> list[int]:
    return sorted(partition for worker in workers for partition in worker.assigned)


def test_partitions_are_shared_and_taken_over_when_a_member_leaves(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 6)
    workers = [Worker(broker_address, f"g-{topic}", topic) for _ in range(3)]
    try:
        eventually(lambda: all(len(w.assigned) == 2 for w in workers), "each of three members has two partitions")
        workers.pop().stop()
        eventually(lambda: all(len(w.assigned) == 3 for w in workers), "two members share the six partitions")
        assert shares(workers) == list(range(6))
    finally:
        for worker in workers:
            worker.stop()


def test_cooperative_members_share_too(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 4)
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    workers = [Worker(broker_address, f"g-{topic}", topic, strategy) for _ in range(2)]
    try:
        eventually(lambda: all(len(w.assigned) == 2 for w in workers), "two members have two partitions each")
    finally:
        for worker in workers:
            worker.stop()


def test_a_static_member_comes_back_without_disturbing_the_others(broker_address: str, topic: str) -> None:
    admin = make_topic(broker_address, topic, 4)
    group = f"g-{topic}"

    def worker(instance: str) -> Worker:
        return Worker(broker_address, group, topic, {"group.instance.id": instance, "session.timeout.ms": 30000})

    workers = [worker("i0"), worker("i1")]
    try:
        eventually(lambda: shares(workers) == [0, 1, 2, 3] and all(w.assigned for w in workers), "both have a share")
        before = set(workers[0].assigned)
        workers.pop().stop()
        workers.append(worker("i1"))
        eventually(lambda: shares(workers) == [0, 1, 2, 3], "the member that came back has its share again")
        assert workers[0].assigned == before
        described = admin.describe_consumer_groups([group])[group].result(20)
        assert {member.group_instance_id for member in described.members} == {"i0", "i1"}
    finally:
        for each in workers:
            each.stop()


def test_twenty_members_that_come_and_go_settle_and_read_everything(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 20)
    group = f"g-{topic}"
    chance = random.Random(7)
    producer = Producer({"bootstrap.servers": broker_address})
    workers = [Worker(broker_address, group, topic) for _ in range(20)]
    gone: list[Worker] = []
    try:
        for wave in range(3):
            for number in range(200):
                producer.produce(topic, b"%d-%d" % (wave, number), partition=number % 20)
            assert producer.flush(20) == 0
            leaving = [workers.pop(chance.randrange(len(workers))) for _ in range(8)]
            stopping = [threading.Thread(target=worker.stop) for worker in leaving]
            for thread in stopping:
                thread.start()
            workers += [Worker(broker_address, group, topic) for _ in range(8)]
            for thread in stopping:
                thread.join()
            gone += leaving
        eventually(lambda: shares(workers) == list(range(20)), "twenty members have one partition each", 60)
        everybody = workers + gone
        expected = {b"%d-%d" % (wave, number) for wave in range(3) for number in range(200)}
        eventually(lambda: set().union(*(w.seen for w in everybody)) == expected, "every message was read", 60)
    finally:
        for worker in workers:
            worker.stop()
    complaints = [line for worker in workers + gone for line in worker.complaints]
    assert [line for line in complaints if "UNKNOWN_MEMBER" in line or "fenced" in line.lower()] == []


def test_groups_are_listed_described_changed_and_deleted(broker_address: str, topic: str) -> None:
    admin = make_topic(broker_address, topic, 2)
    group = f"g-{topic}"
    worker = Worker(broker_address, group, topic)
    try:
        eventually(lambda: len(worker.assigned) == 2, "the member has both partitions")
        described = admin.describe_consumer_groups([group])[group].result(20)
        assert described.state == ConsumerGroupState.STABLE
        assert {each.partition for member in described.members for each in member.assignment.topic_partitions} == {0, 1}
        assert group in {each.group_id for each in admin.list_consumer_groups().result(20).valid}
    finally:
        worker.stop()
    eventually(
        lambda: admin.describe_consumer_groups([group])[group].result(20).state == ConsumerGroupState.EMPTY,
        "the group is empty",
    )
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 42, "note")])
    admin.alter_consumer_group_offsets([wanted])[group].result(20)
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
    assert [(each.partition, each.offset) for each in listed.topic_partitions if each.partition == 1] == [(1, 42)]
    admin.delete_consumer_groups([group])[group].result(20)
    assert group not in {each.group_id for each in admin.list_consumer_groups().result(20).valid}
