"""The same message as kio has it. kio is another codec for Kafka's protocol, written by others from the same source.

It must see well-formed bytes only: some five bytes abort its process.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, classify_field
from kio.static.constants import EntityType
from tests.wire_kafka.values import Choices

from trunkline.wire.kafka.layout import covers
from trunkline.wire.kafka.message import Struct

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHOICES: dict[str, list[int]] = {
    "error_code": [code.value for code in ErrorCode],
    "timedelta_i32": [-(2**31), -1, 0, 1, 30_000, 2**31 - 1],
    "timedelta_i64": [-1, 0, 1, 30_000, 2**40],
    "datetime_i64": [0, 1, 1_700_000_000_123],
}


def kio_class(module_name: str, version: int) -> Any:
    if module_name.endswith("_request"):
        return load_entity_schema(module_name.removesuffix("_request"), version, EntityType.request)
    if module_name.endswith("_response"):
        return load_entity_schema(module_name.removesuffix("_response"), version, EntityType.response)
    if module_name.endswith("_header"):
        return load_entity_schema(module_name, version, EntityType.header)
    return load_entity_schema(module_name, version, EntityType.data)


def choices(cls: type[Struct], kio_cls: Any) -> Choices:
    """Fields that kio takes for times and error codes: only values it can hold."""
    found: dict[tuple[str, str], list[int]] = {}
    for field, theirs in _pairs(cls, kio_cls):
        kind = theirs.metadata.get("kafka_type")
        if kind in CHOICES:
            found[cls.__name__, field.name] = CHOICES[kind]
        elif field.struct is not None:
            found.update(choices(field.struct, _struct_class(theirs)))
    return found


def to_kio(struct: Struct, kio_cls: Any) -> Any:
    values: dict[str, Any] = {}
    for field, theirs in _pairs(type(struct), kio_cls):
        value = getattr(struct, field.name)
        if value is None and theirs.metadata.get("tag") is not None and field.kind == "struct":
            continue
        if field.kind.startswith("[]") and value is not None:
            values[theirs.name] = tuple(_convert(element, theirs) for element in value)
        else:
            values[theirs.name] = None if value is None else _convert(value, theirs)
    return kio_cls(**values)


def kio_encode(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def kio_decode(kio_cls: Any, data: bytes) -> Any:
    message, size = entity_reader(kio_cls)(data, 0)
    assert size == len(data), "kio left bytes over"
    return message


def _pairs(cls: type[Struct], kio_cls: Any) -> Iterator[tuple[Any, Any]]:
    """Our fields of this version with kio's. kio drops the `_ms` of what it takes for a time."""
    version = kio_cls.__version__
    ours = [field for field in cls.FIELDS if covers(field.versions, version)]
    theirs = {field.name: field for field in dataclasses.fields(kio_cls)}
    assert len(ours) == len(theirs), (ours, theirs)
    for field in ours:
        yield field, theirs.get(field.name) or theirs[field.name.removesuffix("_ms")]


def _struct_class(field: Any) -> Any:
    shape = classify_field(field)
    assert isinstance(shape, EntityField | EntityTupleField)
    return shape.type_


def _convert(value: Any, field: Any) -> Any:
    kind = field.metadata.get("kafka_type")
    if isinstance(value, Struct):
        return to_kio(value, _struct_class(field))
    if kind in ("timedelta_i32", "timedelta_i64"):
        return timedelta(milliseconds=value)
    if kind == "datetime_i64":
        return EPOCH + timedelta(milliseconds=value)
    if kind == "error_code":
        return ErrorCode(value)
    if kind == "uuid":
        return UUID(bytes=value)
    return value
