"""Random messages of any class and version, and a list of all classes."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from random import Random
from typing import Any

import trunkline.wire.kafka.messages
from trunkline.wire.kafka.layout import covers
from trunkline.wire.kafka.message import Field, Message, Struct

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
MODULES = sorted(module.name for module in pkgutil.iter_modules(trunkline.wire.kafka.messages.__path__))
Choices = Mapping[tuple[str, str], list[int]]
"""(struct, field): the only values to draw from."""


def message_class(module_name: str) -> type[Message]:
    module = import_module(f"trunkline.wire.kafka.messages.{module_name}")
    (cls,) = (c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Message) and c is not Message)
    return cls


def versions(cls: type[Message]) -> range:
    return range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


def random_struct(cls: type[Struct], version: int, rng: Random, choices: Choices | None = None) -> Any:
    """Every field that the version has gets a value; the others keep their defaults."""
    values = {}
    for field in cls.FIELDS:
        if covers(field.versions, version):
            only = (choices or {}).get((cls.__name__, field.name))
            values[field.name] = _random_field(field, version, rng, only, choices)
    return cls(**values)


def _random_field(field: Field, version: int, rng: Random, only: list[int] | None, choices: Choices | None) -> Any:
    can_be_none = covers(field.nullable, version) or (field.tag is not None and field.kind == "struct")
    if can_be_none and rng.random() < 0.25:
        return None
    kind = field.kind.removeprefix("[]")
    if kind == field.kind:
        return _random_value(field, kind, version, rng, only, choices)
    count = rng.choice((0, 1, 2, 3)) if field.struct is not None else rng.choice((0, 1, 3, 130))
    return [_random_value(field, kind, version, rng, only, choices) for _ in range(count)]


def _random_value(
    field: Field, kind: str, version: int, rng: Random, only: list[int] | None, choices: Choices | None
) -> Any:
    if field.struct is not None:
        struct = random_struct(field.struct, version, rng, choices)
        return None if field.tag is not None and struct == field.struct() else struct
    if only is not None:
        return rng.choice(only)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.uniform(-1e300, 1e300)
    if kind == "uuid":
        return rng.randbytes(16)
    if kind == "string":
        return rng.choice(("", "a", "orders", "naïve-Ω-🚂", "x" * 126, "y" * 127, "z" * 300))
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 61, 127, 128, 20_000)))
    low, high = RANGES[kind]
    return rng.choice((low, -1 if low else 1, 0, 1, high, rng.randint(low, high)))
