"""A bare Kafka connection for tests that say exactly what goes over the wire, in exactly the version they mean."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from trunkline.record.compression import NONE, Compression
from trunkline.record.records import Record, encode_batch
from trunkline.wire.kafka.frame import decode_response, encode_request
from trunkline.wire.kafka.message import Message
from trunkline.wire.kafka.messages.fetch_response import PartitionData

M = TypeVar("M", bound=Message)


class RawKafka:
    def __init__(self, address: str, *, timeout_seconds: float = 15) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout_seconds)
        self._correlation_id = 0
        self._expected: list[tuple[int, int, int]] = []

    def send(self, request: Message, version: int) -> None:
        """Ask without waiting; answers come in order through `receive`."""
        self._correlation_id += 1
        self.socket.sendall(b"".join(encode_request(request, version, self._correlation_id, "raw")))
        self._expected.append((request.API_KEY, version, self._correlation_id))

    def receive(self, response: type[M]) -> M:
        key, version, correlation_id = self._expected.pop(0)
        got, message = decode_response(key, version, memoryview(self.receive_frame()))
        assert got == correlation_id, "answers must come in the order of the requests"
        assert isinstance(message, response)
        return message

    def ask(self, request: Message, version: int, response: type[M]) -> M:
        self.send(request, version)
        return self.receive(response)

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_closed_by_broker(self) -> bool:
        """Whether nothing but the end comes next."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawKafka:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)


def records_of(partition: PartitionData) -> bytes:
    """The record bytes of a fetch answer."""
    records = partition.records
    assert not isinstance(records, (list, tuple))
    return bytes(records or b"")  # type: ignore[arg-type]


def batch(
    values: Sequence[bytes],
    *,
    timestamp: int = 1_700_000_000_000,
    compression: Compression = NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A record batch as a producer would send it."""
    records = [Record(0, timestamp, b"key", value) for value in values]
    return bytes(
        encode_batch(
            records,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )
