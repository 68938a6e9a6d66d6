"""Bad input closes the connection that sent it, and harms nobody else."""

from __future__ import annotations

import os
import socket
import struct

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.raw_kafka import RawKafka
from tests.support.waiting import eventually

from trunkline.model import limits
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.metadata_request import MetadataRequest
from trunkline.wire.kafka.messages.metadata_response import MetadataResponse


def still_serves(broker: Broker) -> bool:
    with RawKafka(broker.kafka) as client:
        return bool(client.ask(MetadataRequest(topics=[]), 12, MetadataResponse).brokers)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(min_size=1, max_size=200), st.integers(0, 100), st.integers(0, 20))
def test_random_bytes_in_a_well_sized_frame(broker: Broker, body: bytes, key: int, version: int) -> None:
    with RawKafka(broker.kafka, timeout_seconds=5) as client:
        frame = struct.pack(">hhih", key, version, 1, -1) + body
        client.send_bytes(struct.pack(">i", len(frame)) + frame)
        client.socket.shutdown(socket.SHUT_WR)
        while client.socket.recv(65536):
            pass
    assert still_serves(broker)


def test_a_frame_that_is_too_large_or_negative_is_refused_at_once(broker: Broker) -> None:
    for size in (limits.MAX_REQUEST_BYTES + 1, 2**31 - 1, -1, -(2**31), 3):
        with RawKafka(broker.kafka) as client:
            client.send_bytes(struct.pack(">i", size))
            assert client.is_closed_by_broker()
    assert still_serves(broker)


def test_http_on_the_kafka_port_is_turned_away(broker: Broker) -> None:
    with RawKafka(broker.kafka) as client:
        client.send_bytes(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert client.is_closed_by_broker()


def test_an_announced_large_frame_costs_no_memory_before_it_arrives(broker: Broker) -> None:
    def resident_bytes() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident_bytes()
    clients = [RawKafka(broker.kafka) for _ in range(50)]
    for client in clients:
        client.send_bytes(struct.pack(">i", limits.MAX_REQUEST_BYTES) + bytes(10))
    assert still_serves(broker)
    grown = resident_bytes() - before
    for client in clients:
        client.close()
    assert grown < 50 * limits.FIRST_REQUEST_BYTES + 20_000_000


def test_a_client_that_vanishes_in_a_long_poll_leaves_nothing_behind(broker: Broker) -> None:
    clients = [RawKafka(broker.kafka) for _ in range(20)]
    for client in clients:
        client.send_bytes(struct.pack(">i", 50) + bytes(7))
        client.close()
    connections = broker.node.stats.of_protocol("kafka")
    eventually(lambda: connections.open <= 2, "all connections of vanished clients are closed")
