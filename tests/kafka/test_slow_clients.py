"""Clients that are slow, greedy or silent cost little, and harm nobody else."""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.kafka_calls import create, fetch, fetch_request, produce, produce_request
from tests.support.raw_kafka import RawKafka, batch
from tests.support.server import Server
from tests.support.waiting import eventually

from trunkline.model.limits import ClientLimits
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.fetch_response import FetchResponse
from trunkline.wire.kafka.messages.metadata_request import MetadataRequest
from trunkline.wire.kafka.messages.metadata_response import MetadataResponse
from trunkline.wire.kafka.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from trunkline.wire.kafka.messages.produce_response import ProduceResponse

MIB = 1 << 20
IMPATIENT = ClientLimits(
    handshake_seconds=0.5,
    least_request_bytes_per_second=100_000,
    in_flight_requests=5,
    output_pause_bytes=64 * 1024,
    output_stall_seconds=1.0,
)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.fixture(scope="module")
def impatient() -> Iterator[Broker]:
    """Says goodbye early, so that tests need not wait long."""
    with Broker(client_limits=IMPATIENT) as broker:
        yield broker


def is_served(address: str) -> bool:
    with RawKafka(address) as client:
        return bool(client.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers)


def fill(client: RawKafka, topic: str, megabytes: int) -> None:
    create(client, topic)
    for _ in range(megabytes):
        assert produce(client, topic, bytes(1_000_000)).error_code == 0


def test_a_reader_that_takes_nothing_is_dropped(impatient: Broker, topic: str) -> None:
    with RawKafka(impatient.kafka) as writer:
        fill(writer, topic, 12)
    dropped = impatient.node.stats.of_protocol("kafka").dropped
    with RawKafka(impatient.kafka) as reader:
        for _ in range(4):
            reader.send(fetch_request(topic, max_bytes=50 * MIB), 11)
        eventually(lambda: impatient.node.stats.of_protocol("kafka").dropped > dropped, "the reader is dropped")
    assert is_served(impatient.kafka)


def test_a_reader_that_is_slow_but_reads_gets_everything(impatient: Broker, topic: str) -> None:
    with RawKafka(impatient.kafka) as writer:
        fill(writer, topic, 12)
    with RawKafka(impatient.kafka) as reader:
        reader.send(fetch_request(topic, max_bytes=50 * MIB), 11)
        taken = threading.Event()
        (size,) = struct.unpack(">i", reader.socket.recv(4, 0x100))  # MSG_WAITALL
        left = size
        while left:
            taken.wait(0.02)  # slower than the stall limit allows for the whole, and never still
            left -= len(reader.socket.recv(min(left, 100_000)))
    assert size > 11 * MIB


def test_a_byte_now_and_then_does_not_keep_a_connection(impatient: Broker) -> None:
    with RawKafka(impatient.kafka) as client:
        assert client.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
        client.send_bytes(struct.pack(">i", 1000))
        dropped = impatient.node.stats.of_protocol("kafka").dropped

        def is_dropped() -> bool:
            try:
                client.send_bytes(b"\0")
            except OSError:
                return True
            return impatient.node.stats.of_protocol("kafka").dropped > dropped

        eventually(is_dropped, "the slow sender is dropped")


@pytest.mark.parametrize("part", [b"", b"\0\0", struct.pack(">i", 100) + bytes(50)])
def test_silence_before_the_first_request_is_complete_ends_the_connection(impatient: Broker, part: bytes) -> None:
    with RawKafka(impatient.kafka) as client:
        client.send_bytes(part)
        assert client.is_closed_by_broker()


def test_requests_past_the_limit_wait_their_turn_and_are_all_answered_in_order(impatient: Broker, topic: str) -> None:
    with RawKafka(impatient.kafka) as client:
        create(client, topic)
        for number in range(100):
            client.send(produce_request(topic, b"%d" % number), 9)
        answers = [client.receive(ProduceResponse).responses[0].partition_responses[0] for _ in range(100)]
        assert [answer.base_offset for answer in answers] == list(range(100))


def test_large_fetches_in_a_row_are_all_answered(impatient: Broker, topic: str) -> None:
    with RawKafka(impatient.kafka) as client:
        fill(client, topic, 3)
        for _ in range(20):
            client.send(fetch_request(topic, max_bytes=5 * MIB), 11)
        for _ in range(20):
            assert len(client.receive(FetchResponse).responses[0].partitions[0].records or b"") > 2 * MIB


def test_more_connections_than_allowed_are_turned_away_and_later_ones_taken_again() -> None:
    with Broker(client_limits=ClientLimits(connections=3)) as broker:
        clients = [RawKafka(broker.kafka) for _ in range(3)]
        for client in clients:
            assert client.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
        with RawKafka(broker.kafka) as one_too_many:
            assert one_too_many.is_closed_by_broker()
        for client in clients:
            client.close()
        connections = broker.node.stats.of_protocol("kafka")
        assert connections.refused == 1
        eventually(lambda: connections.open == 0, "the connections are closed")
        assert is_served(broker.kafka)


def test_writers_are_slowed_down_to_what_the_disk_takes_and_nothing_is_lost(tmp_path: Path, topic: str) -> None:
    limits = ClientLimits(unsynced_bytes=10_000)
    with Broker(tmp_path / "data", client_limits=limits) as broker, RawKafka(broker.kafka) as client:
        create(client, topic)
        for number in range(300):
            client.send(produce_request(topic, b"%d" % number + bytes(2000)), 9)
        answers = [client.receive(ProduceResponse).responses[0].partition_responses[0] for _ in range(300)]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, n) for n in range(300)]


def test_small_batches_do_not_keep_the_large_requests_that_they_came_in(tmp_path: Path, topic: str) -> None:
    with Server(tmp_path / "data") as server, RawKafka(server.kafka) as client:
        create(client, topic)
        good = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch([b"x"]))])
        ballast = PartitionProduceData(index=0, records=bytes(10 * MIB))
        bad = TopicProduceData(name="no-such-topic", partition_data=[ballast])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=5000, topic_data=[good, bad])
        before = server.resident_bytes()
        for _ in range(30):
            client.ask(request, 9, ProduceResponse)
        assert server.resident_bytes() - before < 150 * MIB
        assert fetch(client, topic).high_watermark == 30


def test_a_greedy_reader_that_takes_nothing_costs_little_memory(tmp_path: Path, topic: str) -> None:
    with Server(tmp_path / "data") as server, RawKafka(server.kafka) as writer:
        fill(writer, topic, 100)
        before = server.resident_bytes()
        with RawKafka(server.kafka) as reader:
            for number in range(100):
                reader.send(fetch_request(topic, number % 50, max_bytes=50 * MIB), 11)
            for _ in range(50):
                assert is_served(server.kafka)
            assert server.resident_bytes() - before < 250 * MIB


def test_a_flood_of_connections_leaves_the_journal_its_files(tmp_path: Path, topic: str) -> None:
    limited = ("bash", "-c", 'ulimit -n 150 && exec "$@"', "limited")
    with Server(tmp_path / "data", "--max-open-files", "16", prefix=limited) as server:
        with RawKafka(server.kafka) as client:
            create(client, topic)
            flood = [RawKafka(server.kafka) for _ in range(300)]
            for number in range(20):
                assert produce(client, topic, b"%d" % number).error_code == 0
            for other in flood:
                other.close()
        eventually(lambda: is_served(server.kafka), "new clients are taken again")
        assert server.process.poll() is None
        assert len(server.log_lines) < 60
