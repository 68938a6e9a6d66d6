"""Records of many partitions in one line: by time, and each partition in its own order whatever its times say."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from trunkline.cli.record_text import Incoming


def merged(records: Iterable[Incoming]) -> list[Incoming]:
    """Records without a time come right after the one before them in their partition."""
    partitions: dict[tuple[str, int], list[Incoming]] = {}
    for record in records:
        partitions.setdefault((record.topic, record.partition), []).append(record)
    keyed: list[tuple[int, str, int, int, Incoming]] = []
    for (topic, partition), own in partitions.items():
        own.sort(key=lambda record: record.offset)
        # A time that goes back counts as the latest before it: then sorting by time keeps the partition's order.
        times = accumulate((record.timestamp_ms or 0 for record in own), max)
        keyed += [(at, topic, partition, record.offset, record) for at, record in zip(times, own, strict=True)]
    keyed.sort(key=lambda item: item[:4])
    return [item[4] for item in keyed]
