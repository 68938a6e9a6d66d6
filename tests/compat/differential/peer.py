"""One side of the comparison: asks a broker, and writes down every answer in plain form."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.compat.differential.plain import Plain
from tests.support.raw_kafka import RawKafka

from trunkline.wire.kafka.apis import APIS, request_class
from trunkline.wire.kafka.message import Message, Struct

NO_ANSWER_SECONDS = 12.0
_KEYS_BY_NAME = {api.name: key for key, api in APIS.items()}
_RETRIED = {3, 5, 6, 14, 15, 16, 100}
"""Errors of a moment: the topic is not known everywhere yet, the coordinator still loads."""


def request(name: str, **values: Any) -> Message:
    """A request by its name, from plain values: nested structs are dicts."""
    message: Message = _built(request_class(_KEYS_BY_NAME[name]), values)
    return message


def _built(struct: Any, values: dict[str, Any]) -> Any:
    fields = {field.name: field for field in struct.FIELDS}
    ready: dict[str, Any] = {}
    for name, value in values.items():
        inner = fields[name].struct
        if inner is not None and isinstance(value, list):
            value = [_built(inner, each) for each in value]
        elif inner is not None and isinstance(value, dict):
            value = _built(inner, value)
        ready[name] = value
    return struct(**ready)


class Peer:
    def __init__(self, address: str, prefix: str) -> None:
        self.address = address
        self.prefix = prefix
        self.plain = Plain(prefix)
        self.transcript: dict[str, Any] = {}
        """What was answered, by the name of the step."""
        self._lines: list[RawKafka] = []
        self._line: RawKafka | None = None
        self._settled = 0

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    def name(self, word: str) -> str:
        """A name of a topic or a group that nobody else uses, the same on both peers."""
        return f"{self.prefix}-{word}"

    def open(self, seconds: float = NO_ANSWER_SECONDS) -> RawKafka:
        """One more connection, on which no answer within `seconds` counts as silence."""
        line = RawKafka(self.address, timeout_seconds=seconds)
        self._lines.append(line)
        return line

    def ask(self, step: str, api: str, version: int, line: RawKafka | None = None, **values: Any) -> Any:
        """The answer, written down under the name of the step; None where the connection was closed instead."""
        return self._note(step, lambda: self._answered(line or self._own(), request(api, **values), version))

    def receive(self, step: str, line: RawKafka) -> Any:
        """The answer to a request that was sent before without waiting."""
        return self._note(step, lambda: line.receive(Message))

    def silently(self, api: str, version: int, **values: Any) -> Any:
        """As `ask`, for what only prepares: not compared."""
        return self._answered(self._own(), request(api, **values), version)

    def note(self, step: str, what: Any) -> None:
        while step in self.transcript:
            step += "'"
        self.transcript[step] = what

    def close(self) -> None:
        for line in self._lines:
            line.close()

    def send(self, line: RawKafka, api: str, version: int, **values: Any) -> None:
        line.send(request(api, **values), version)

    def raw(self, step: str, data: bytes, shown: int = 6) -> None:
        """Bytes on a connection of their own: closed, silent, or how the answer starts (correlation id and error)."""
        line = self.open()
        line.socket.settimeout(1.5)
        try:
            line.send_bytes(data)
            self.note(step, f"answer {line.receive_frame()[:shown].hex()}")
        except TimeoutError:
            self.note(step, "silence")
        except OSError:
            self.note(step, "closed")

    def _own(self) -> RawKafka:
        if self._line is None:
            self._line = self.open()
        return self._line

    def _answered(self, line: RawKafka, message: Message, version: int) -> Any:
        line.send(message, version)
        return line.receive(Message)

    def _note(self, step: str, get: Callable[[], Struct]) -> Any:
        try:
            answer = get()
        except (ConnectionError, TimeoutError) as error:
            self.note(step, "silence" if isinstance(error, TimeoutError) else "closed")
            self._line = None  # the next request needs a new one
            return None
        self.note(step, self.plain.struct(answer))
        return answer

    # ── preparing ───────────────────────────────────────────────────────────────────────────────

    def topic(self, word: str, partitions: int = 1, **configs: str) -> str:
        """Makes a topic (configs with _ for .) and waits until it can be used."""
        name = self.name(word)
        rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        asked = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": rows}
        made = self.silently("CreateTopics", 7, topics=[asked], timeout_ms=10_000).topics[0]
        if made.error_code:
            raise RuntimeError(f"{name}: error {made.error_code}, {made.error_message}")
        self.plain.topics[made.topic_id] = f"id of {word}"
        look = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        self._until(
            lambda: [
                each.error_code
                for each in self.silently("ListOffsets", 7, replica_id=-1, topics=[{"name": name, "partitions": look}])
                .topics[0]
                .partitions
            ]
        )
        return name

    def settle(self) -> None:
        """Waits until everything that was changed before is seen: Kafka's broker learns of changes in their order."""
        self._settled += 1
        self.topic(f"settled-{self._settled}")

    def topic_id(self, name: str) -> bytes:
        answer = self.silently("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
        return bytes(answer.topics[0].topic_id)

    def ready(self) -> None:
        """Waits until groups (and their internal topic) and producer ids are there."""
        group = self.name("warm-up")
        commit = [{"name": self.topic("warm-up"), "partitions": [{"partition_index": 0, "committed_offset": 0}]}]
        fetch = {"group_id": group, "topics": None}
        self.silently("FindCoordinator", 3, key=group, key_type=0)
        self._until(lambda: [self.silently("OffsetFetch", 8, groups=[fetch]).groups[0].error_code])
        self.silently("OffsetCommit", 7, group_id=group, generation_id_or_member_epoch=-1, topics=commit)
        self._until(
            lambda: [self.silently("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1).error_code]
        )

    def _until(self, codes: Callable[[], list[int]], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while any(code in _RETRIED for code in codes()):
            if time.monotonic() > deadline:
                raise RuntimeError("the broker did not become ready")
            time.sleep(0.02)
