"""Groups of the consumer protocol (KIP-848) with librdkafka: shared, taken over, found by pattern, never doubled."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from tests.kafka.test_groups import Worker, make_topic, shares
from tests.support.raw_kafka import RawKafka
from tests.support.server import Server
from tests.support.waiting import eventually

from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.api_versions_request import ApiVersionsRequest
from trunkline.wire.kafka.messages.api_versions_response import ApiVersionsResponse
from trunkline.wire.kafka.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from trunkline.wire.kafka.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from trunkline.wire.kafka.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from trunkline.wire.kafka.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Members heartbeat often, so that tests need not wait."""
    with Broker(consumer_heartbeat_interval_ms=200, consumer_session_timeout_ms=6_000) as broker:
        yield broker.kafka


class NewWorker(Worker):
    def __init__(self, address: str, group: str, topic: str, config: dict[str, Any] | None = None) -> None:
        by_broker = {"session.timeout.ms": None, "heartbeat.interval.ms": None}
        super().__init__(address, group, topic, {"group.protocol": "consumer", **by_broker, **(config or {})})


def stop_all(workers: list[Worker]) -> None:
    threads = [threading.Thread(target=worker.stop) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_partitions_are_shared_and_taken_over_when_a_member_leaves(address: str, topic: str) -> None:
    admin = make_topic(address, topic, 6)
    group = f"g-{topic}"
    workers: list[Worker] = [NewWorker(address, group, topic) for _ in range(3)]
    try:
        eventually(lambda: all(len(w.assigned) == 2 for w in workers), "each of three members has two partitions")
        described = admin.describe_consumer_groups([group])[group].result(20)
        assert described.type == ConsumerGroupType.CONSUMER
        workers.pop().stop()
        eventually(lambda: all(len(w.assigned) == 3 for w in workers), "two members share the six partitions")
        assert shares(workers) == list(range(6))
        listed = {one.group_id: one for one in admin.list_consumer_groups().result(20).valid}
        assert listed[group].type == ConsumerGroupType.CONSUMER
    finally:
        stop_all(workers)
    eventually(
        lambda: admin.describe_consumer_groups([group])[group].result(20).state == ConsumerGroupState.EMPTY,
        "the group is empty",
    )
    admin.delete_consumer_groups([group])[group].result(20)
    assert [line for worker in workers for line in worker.complaints] == []


def test_a_pattern_finds_topics_as_they_come(address: str, topic: str) -> None:
    admin = make_topic(address, f"{topic}-a", 2)
    worker = NewWorker(address, f"g-{topic}", f"^{topic}-.*")
    try:
        eventually(lambda: len(worker.assigned) == 2, "the first topic is read")
        for future in admin.create_topics([NewTopic(f"{topic}-b", 5)]).values():
            future.result(20)
        eventually(lambda: len(worker.assigned) == 5, "the second one is read too")
        producer = Producer({"bootstrap.servers": address})
        producer.produce(f"{topic}-a", b"one")
        producer.produce(f"{topic}-b", b"two")
        assert producer.flush(20) == 0
        eventually(lambda: {b"one", b"two"} <= set(worker.seen), "records of both")
    finally:
        worker.stop()


def test_a_static_member_comes_back_without_disturbing_the_others(address: str, topic: str) -> None:
    make_topic(address, topic, 4)

    def worker(instance: str) -> Worker:
        return NewWorker(address, f"g-{topic}", topic, {"group.instance.id": instance})

    workers = [worker("i0"), worker("i1")]
    try:
        eventually(lambda: shares(workers) == [0, 1, 2, 3] and all(w.assigned for w in workers), "both have a share")
        first, second = (set(w.assigned) for w in workers)
        workers.pop().stop()
        workers.append(worker("i1"))
        eventually(lambda: workers[1].assigned == second, "it has its partitions again")
        assert workers[0].assigned == first
    finally:
        stop_all(workers)


def test_commits_are_resumed_from(address: str, topic: str) -> None:
    make_topic(address, topic, 1)
    producer = Producer({"bootstrap.servers": address})
    for number in range(20):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0
    config = {
        "bootstrap.servers": address,
        "group.id": f"g-{topic}",
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    first = Consumer(config)
    first.subscribe([topic])
    read = [message.value() for message in first.consume(10, 20)]
    first.commit(asynchronous=False)
    first.close()
    second = Consumer(config)
    second.subscribe([topic])
    read += [message.value() for message in second.consume(10, 20)]
    assert [each.offset for each in second.committed([TopicPartition(topic, 0)], 10)] == [10]
    second.close()
    assert read == [b"%d" % number for number in range(20)]


def test_a_rebalance_under_load_loses_nothing_and_doubles_nothing(address: str, topic: str) -> None:
    """Members leave in good order, so what they committed is where the next one goes on."""
    make_topic(address, topic, 8)
    group = f"g-{topic}"
    producer = Producer({"bootstrap.servers": address})
    workers: list[Worker] = [NewWorker(address, group, topic)]
    gone: list[Worker] = []
    try:
        for wave in range(6):
            for number in range(200):
                producer.produce(topic, b"%d-%d" % (wave, number), partition=number % 8)
            producer.poll(0)
            workers.append(NewWorker(address, group, topic))
            eventually(lambda: shares(workers) == list(range(8)) and all(w.assigned for w in workers), "a share each")
            if wave % 2:
                gone.append(workers.pop(0))
                gone[-1].stop()
        assert producer.flush(20) == 0
        expected = {b"%d-%d" % (wave, number) for wave in range(6) for number in range(200)}
        everybody = workers + gone
        eventually(lambda: set().union(*(w.seen for w in everybody)) == expected, "every message was read")
    finally:
        stop_all(workers)
    seen: Counter[bytes] = Counter()
    for worker in workers + gone:
        seen += worker.seen
    assert [value for value, times in seen.items() if times > 1] == []


def test_a_group_moves_to_the_new_protocol_and_back_while_it_reads(address: str, topic: str) -> None:
    make_topic(address, topic, 6)
    group = f"g-{topic}"
    cooperative = {"partition.assignment.strategy": "cooperative-sticky"}
    workers: list[Worker] = [Worker(address, group, topic, cooperative) for _ in range(2)]
    try:
        eventually(lambda: all(len(w.assigned) == 3 for w in workers), "two classic members share")
        workers.append(NewWorker(address, group, topic))
        eventually(lambda: all(len(w.assigned) == 2 for w in workers), "a new one has its share too", 40)
        workers.pop().stop()
        eventually(lambda: all(len(w.assigned) == 3 for w in workers), "two classic members share again", 40)
    finally:
        stop_all(workers)


def test_members_go_on_after_kill_9(server: Server, topic: str) -> None:
    make_topic(server.kafka, topic, 4)
    workers: list[Worker] = [NewWorker(server.kafka, f"g-{topic}", topic) for _ in range(2)]
    try:
        eventually(lambda: all(len(w.assigned) == 2 for w in workers), "both have a share", 40)

        def epochs() -> list[tuple[str, int]]:
            with RawKafka(server.kafka) as raw:
                request = ConsumerGroupDescribeRequest(group_ids=[f"g-{topic}"])
                [group] = raw.ask(request, 1, ConsumerGroupDescribeResponse).groups
                return sorted((member.member_id, member.member_epoch) for member in group.members)

        before = epochs()
        shared = [set(worker.assigned) for worker in workers]
        server.kill()
        server.start()
        assert epochs() == before
        producer = Producer({"bootstrap.servers": server.kafka})
        for partition in range(4):
            producer.produce(topic, b"%d" % partition, partition=partition)
        assert producer.flush(30) == 0
        eventually(lambda: sum(len(w.seen) for w in workers) == 4, "what came after is read", 40)
        assert [set(worker.assigned) for worker in workers] == shared
        assert epochs() == before
    finally:
        stop_all(workers)


def test_the_feature_is_listed_and_errors_carry_a_message(address: str, topic: str) -> None:
    with RawKafka(address) as raw:
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        listed = raw.ask(request, 4, ApiVersionsResponse)
        assert {key.api_key for key in listed.api_keys} >= {68, 69}
        assert [(f.name, f.max_version_level) for f in listed.finalized_features if f.name == "group.version"] == [
            ("group.version", 1)
        ]
        beat = ConsumerGroupHeartbeatRequest(group_id=f"g-{topic}", member_id="nobody", member_epoch=4)
        answer = raw.ask(beat, 1, ConsumerGroupHeartbeatResponse)
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Consumer group g-{topic} not found.",
        )
        beat = ConsumerGroupHeartbeatRequest(
            group_id=f"g-{topic}",
            member_id="me",
            rebalance_timeout_ms=1000,
            topic_partitions=[],
            subscribed_topic_regex="(",
        )
        answer = raw.ask(beat, 1, ConsumerGroupHeartbeatResponse)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        [described] = raw.ask(
            ConsumerGroupDescribeRequest(group_ids=[f"g-{topic}"]), 1, ConsumerGroupDescribeResponse
        ).groups
        assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_administrator_sees_the_protocols(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    [future] = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    configs = future.result(20)
    assert configs["group.coordinator.rebalance.protocols"].value == "classic,consumer"
    assert configs["group.consumer.heartbeat.interval.ms"].value == "200"
