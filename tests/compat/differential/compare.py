"""Two transcripts, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.compat.differential.plain import DROPPED_BESIDE_AN_ERROR


class Difference(NamedTuple):
    where: str
    """step / path of the field"""
    kafka: Any
    ours: Any


ABSENT = "nothing"


def differences(kafka: Any, ours: Any, where: str = "") -> Iterator[Difference]:
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for key in [*kafka, *(key for key in ours if key not in kafka)]:
            if key in DROPPED_BESIDE_AN_ERROR and (key in kafka) != (key in ours):
                continue  # one side has an error: that is shown, and its text says no more
            yield from differences(kafka.get(key, ABSENT), ours.get(key, ABSENT), f"{where}/{key}" if where else key)
    elif kafka != ours:
        yield Difference(where, kafka, ours)
