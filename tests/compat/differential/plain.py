"""Answers as plain values that can be compared: what differs from broker to broker is named instead.

Ids that a broker makes up (members, producers, topics) are numbered in the order in which they are met, so that the
same id in two places stays the same. Texts for people count as "text": their wording is free, and beside an error
whether there is one at all. Lists of structs are keyed by what identifies an element; their order says nothing in this
protocol.
"""

from __future__ import annotations

import re
import time
from typing import Any, Final

from trunkline.model.errors import TrunklineError
from trunkline.record.batch import read_header
from trunkline.wire.kafka.message import Struct

_DROPPED: Final = {"throttle_time_ms"}
TEXTS: Final = {"error_message", "batch_index_error_message", "documentation"}
DROPPED_BESIDE_AN_ERROR: Final = TEXTS | {"log_start_offset"}
"""Kafka gives the log start with some refusals and not with others; clients do not look."""
_PLACES: Final = {"host", "port", "cluster_id", "rack"}
_KEYS: Final = (
    *("topic", "name", "topic_id", "partition_index", "partition", "index", "group_id", "key", "api_key"),
    *("resource_name", "resource_type", "member_id", "group_instance_id", "node_id", "broker_id"),
)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NOBODY: Final = bytes(range(16))
"""An id that no topic has."""
_IDS: Final = {bytes(16): "zero id", NOBODY: "nobody's id"}
_SURELY_NOW_MS: Final = 1_750_000_000_000


class Plain:
    """Remembers what it has named: one for each run of a scenario on one peer."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers: dict[str, dict[Any, int]] = {}
        self.topics: dict[bytes, str] = {}
        """Topic names by the ids that this peer gave them."""

    def struct(self, struct: Struct) -> dict[str, Any]:
        dropped = _DROPPED | DROPPED_BESIDE_AN_ERROR if getattr(struct, "error_code", 0) else _DROPPED
        return {
            field.name: self._value(field.name, getattr(struct, field.name))
            for field in struct.FIELDS
            if field.name not in dropped
        }

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, Struct):
            return self.struct(value)
        if isinstance(value, list) and value and isinstance(value[0], Struct):
            return self._structs(value)
        if isinstance(value, list):
            return [self._value(name, each) for each in value]
        if name == "records":
            return None if value is None else self._batches(bytes(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(name, bytes(value))
        if isinstance(value, str):
            return self._text(name, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(name, value)
        return value

    def _structs(self, structs: list[Struct]) -> dict[str, Any]:
        keyed: dict[str, Any] = {}
        for struct in structs:
            plain = self.struct(struct)
            words = (f"{plain[key]}" for key in _KEYS if isinstance(plain.get(key), str | int) and plain[key] != "")
            word = next(words, "")
            while word in keyed:
                word += "'"
            keyed[word] = plain
        return keyed

    def _bytes(self, name: str, value: bytes) -> str:
        if name == "topic_id":
            return self.topics.get(value, _IDS.get(value, "some id"))
        return value.hex()

    def _text(self, name: str, value: str) -> str:
        if name in TEXTS:
            return "text"
        if name in _PLACES and value:
            return name
        if _UUID.search(value):
            return _UUID.sub(lambda found: f"#{self._nth('uuid', found[0])}", value)
        return value.replace(self._prefix, "~")

    def _number(self, name: str, value: int) -> Any:
        if name == "port" and value > 0:
            return "port"
        if name == "producer_id" and value >= 0:
            return f"producer #{self._nth(name, value)}"
        if name == "session_id" and value:
            return "some session"
        if abs(value - time.time() * 1000) < 86_400_000 or (value > _SURELY_NOW_MS and name.endswith("time_ms")):
            return "now"
        return value

    def _nth(self, kind: str, value: Any) -> int:
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(value, len(numbers) + 1)

    def _batches(self, data: bytes) -> list[str]:
        shown: list[str] = []
        position = 0
        while position < len(data):
            try:
                header = read_header(data, position)
            except TrunklineError:
                shown.append(f"{len(data) - position} more bytes")
                break
            stamped = self._number("timestamp", header.max_timestamp)
            shown.append(
                f"offsets {header.base_offset}-{header.last_offset} epoch {header.leader_epoch} time {stamped} "
                f"attributes {header.attributes} producer {self._number('producer_id', header.producer_id)}"
                f"/{header.producer_epoch}/{header.base_sequence} {header.size_bytes} bytes"
                + (" cut" if position + header.size_bytes > len(data) else "")
            )
            position += max(header.size_bytes, 1)
        return shown
