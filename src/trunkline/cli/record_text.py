"""A record as a line of text, both ways: what `produce` reads and what `consume` writes.

JSON, one object a line; what `consume --json` writes, `produce --format json` reads back into the same record:

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1935230400000,
     "key": "k", "value": "v", "headers": [["trace", "abc"]]}

Bytes that are no UTF-8 are base64, and marked: "value_encoding": "base64", ["trace", "qg==", "base64"].
A null value is a tombstone. For typing by hand, `value` may be any JSON (its text is sent), and `headers` an object.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trunkline.cli.show import iso_time, printable

Headers = tuple[tuple[str, bytes | None], ...]

_READ: Final = frozenset({"key", "key_encoding", "value", "value_encoding", "headers", "partition", "timestamp"})
_encode: Final = json.JSONEncoder(ensure_ascii=False).encode
_IGNORED: Final = frozenset({"topic", "offset"})


class InputFormat(StrEnum):
    VALUE = "value"
    KEY_VALUE = "key-value"
    JSON = "json"


class OutputFormat(StrEnum):
    VALUE = "value"
    KEY_VALUE = "key-value"
    JSON = "json"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be produced. None for the partition or the time leaves the choice to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class BadLine(Exception):
    """A line that is no record; the text says why."""


# ── lines to records ────────────────────────────────────────────────────────────────────────────


def line_parser(form: InputFormat, separator: bytes) -> Callable[[bytes], Outgoing]:
    """What turns a line (without its end) into a record, or raises BadLine."""
    if form is InputFormat.VALUE:
        return Outgoing
    if form is InputFormat.JSON:
        return _from_json
    return lambda line: _from_key_value(line, separator)


def _from_key_value(line: bytes, separator: bytes) -> Outgoing:
    key, found, value = line.partition(separator)
    if not found:
        raise BadLine(f"no key separator {separator.decode(errors='replace')!r} (--key-separator says another)")
    return Outgoing(value, key)


def _from_json(line: bytes) -> Outgoing:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadLine('a JSON object is expected, such as {"key": "k", "value": "v"}')
    unknown = fields.keys() - _READ - _IGNORED
    if unknown:
        raise BadLine(f"unknown field {min(unknown)!r}: {', '.join(sorted(_READ))} are read")
    if "value" not in fields:
        raise BadLine('no "value" (a tombstone says "value": null)')
    return Outgoing(
        _bytes(fields["value"], fields.get("value_encoding"), "value"),
        _bytes(fields.get("key"), fields.get("key_encoding"), "key"),
        _headers(fields.get("headers")),
        _whole_number(fields, "partition"),
        _whole_number(fields, "timestamp"),
    )


def _bytes(value: Any, encoding: Any, field: str) -> bytes | None:
    if encoding not in (None, "utf-8", "base64"):
        raise BadLine(f"{field}: encoding {encoding!r} is neither base64 nor utf-8")
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()
    except (binascii.Error, ValueError) as error:
        raise BadLine(f"{field}: {error}") from None


def _headers(value: Any) -> Headers:
    if value is None:
        return ()
    items = [list(pair) for pair in value.items()] if isinstance(value, dict) else value
    if not isinstance(items, list) or not all(
        isinstance(item, list) and len(item) in (2, 3) and isinstance(item[0], str) for item in items
    ):
        raise BadLine('headers: {"name": "value"} or [["name", "value"]] is expected')
    return tuple((item[0], _bytes(item[1], item[2] if len(item) == 3 else None, f"header {item[0]}")) for item in items)


def _whole_number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not 0 <= value < (2**31 if name == "partition" else 2**63)
    ):
        raise BadLine(f"{name}: {value!r} is no number that it could have")
    return value


# ── records to lines ────────────────────────────────────────────────────────────────────────────


def line_writer(form: OutputFormat, separator: bytes, headers: bool, terminal: bool) -> Callable[[Incoming], bytes]:
    """What turns a record into a line with its end. For a terminal, bytes that could steer it are escaped."""
    if form is OutputFormat.JSON:
        return _to_json
    if form is OutputFormat.FULL:
        return _to_full
    shown = _shown if terminal else _raw

    def write(record: Incoming) -> bytes:
        parts = [shown(record.key), shown(record.value)] if form is OutputFormat.KEY_VALUE else [shown(record.value)]
        if headers:
            parts.insert(0, ",".join(_header_texts(record.headers)).encode())
        return separator.join(parts) + b"\n"

    return write


def _to_json(record: Incoming) -> bytes:
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    for name, value in (("key", record.key), ("value", record.value)):
        text, encoded = _text(value)
        fields[name] = text
        if encoded:
            fields[f"{name}_encoding"] = "base64"
    fields["headers"] = []
    for name, value in record.headers:
        text, encoded = _text(value)
        fields["headers"].append([name, text, "base64"] if encoded else [name, text])
    return _encode(fields).encode() + b"\n"


def _to_full(record: Incoming) -> bytes:
    parts = [f"{record.topic}-{record.partition}@{record.offset}"]
    if record.timestamp_ms is not None:
        parts.append(iso_time(record.timestamp_ms))
    if record.key is not None:
        parts.append(f"key={_shown(record.key).decode()}")
    parts += _header_texts(record.headers)
    parts.append(_shown(record.value).decode() if record.value is not None else "(tombstone)")
    return "  ".join(parts).encode() + b"\n"


def _header_texts(headers: Headers) -> list[str]:
    return [f"{printable(name)}={_shown(value).decode()}" for name, value in headers]


def _text(value: bytes | None) -> tuple[str | None, bool]:
    """As JSON holds it, and whether that is base64."""
    if value is None:
        return None, False
    try:
        return value.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(value).decode(), True


def _shown(value: bytes | None) -> bytes:
    return printable((value or b"").decode(errors="backslashreplace")).encode()


def _raw(value: bytes | None) -> bytes:
    return value or b""
