"""What the broker says after a restart, held against what it had promised before."""

from __future__ import annotations

from collections import defaultdict

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.chaos.workloads import PATIENT, Place, Promises

_SECONDS = 30
_TRIES = 20
Bounds = dict[Place, tuple[int, int]]
Found = dict[Place, dict[int, bytes]]


def audit(address: str, promises: Promises) -> list[str]:
    """Everything that is wrong; nothing, where every promise holds. No client may write meanwhile."""
    client = {"bootstrap.servers": address, **PATIENT}
    wrong = list(promises.failures)
    names = set(AdminClient(client).list_topics(timeout=_SECONDS).topics)
    wrong += [f"topic {name} is gone" for name in promises.topics - names]
    wrong += [f"topic {name} was deleted and is back" for name in promises.deleted & names]
    places = sorted(place for place in promises.acknowledged if place[0] in promises.topics & names)
    consumer = Consumer(
        {
            **client,
            "group.id": "audit",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "error",
        }
    )
    try:
        bounds, found = _read_still(consumer, places)
    finally:
        consumer.close()
    for place in places:
        wrong += _audit_partition(place, *bounds[place], found[place], promises)
    return wrong + _audit_committed(address, promises)


def _read_still(consumer: Consumer, places: list[Place]) -> tuple[Bounds, Found]:
    """Everything, read while no log's start moved: retention may still be at work on what was written before."""
    for _ in range(_TRIES):
        bounds = _bounds(consumer, places)
        found = read_all(consumer, bounds)
        if _bounds(consumer, places) == bounds:
            return bounds, found
    raise AssertionError(f"logs did not come to rest: {bounds}")


def _bounds(consumer: Consumer, places: list[Place]) -> Bounds:
    return {place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=_SECONDS) for place in places}


def read_all(consumer: Consumer, bounds: Bounds) -> Found:
    """Offset to value, in the order in which they came, of everything between the bounds."""
    found: Found = defaultdict(dict)
    missing = sum(high - low for low, high in bounds.values())
    consumer.assign([TopicPartition(*place, low) for place, (low, high) in bounds.items() if low < high])
    while missing > 0 and (messages := consumer.consume(min(missing, 5000), timeout=_SECONDS)):
        for message in messages:
            if message.error() is not None:  # a log's start was moved below the reader
                missing = 0
                break
            place = (message.topic() or "", message.partition() or 0)
            found[place][message.offset() or 0] = message.value() or b""
        missing -= len(messages)
    consumer.unassign()
    return found


def _audit_partition(place: Place, low: int, high: int, found: dict[int, bytes], promises: Promises) -> list[str]:
    wrong: list[str] = []
    if list(found) != list(range(low, high)):
        wrong.append(f"{place}: offsets {low} to {high} are not all there, each once: {len(found)} came")
    if low < promises.start_at_least[place]:
        wrong.append(f"{place}: starts at {low}, although all below {promises.start_at_least[place]} was deleted")
    for offset, value in promises.acknowledged[place].items():
        if offset < low and place[0] in promises.trimmed_by_retention:
            continue
        if found.get(offset) != value:
            is_now = found.get(offset, b"nothing")
            wrong.append(f"{place}: offset {offset} was acknowledged as {value[:20]!r}, it is {is_now[:20]!r} now")
    if place in promises.sent_once:
        expected = promises.sent_once[place][low:]
        if list(found.values()) != expected:
            wrong.append(f"{place}: {len(found)} values are not the {len(expected)} that were sent, once and in order")
    return wrong[:5]


def _audit_committed(address: str, promises: Promises) -> list[str]:
    by_group: dict[str, dict[Place, int]] = defaultdict(dict)
    for (group, topic, partition), promised in promises.committed.items():
        by_group[group][topic, partition] = promised
    wrong: list[str] = []
    for group, promised_offsets in by_group.items():
        consumer = Consumer({"bootstrap.servers": address, **PATIENT, "group.id": group})
        places = [TopicPartition(*place) for place in promised_offsets]
        for position in consumer.committed(places, timeout=_SECONDS):
            promised = promised_offsets[position.topic, position.partition]
            if position.offset < promised:
                wrong.append(f"{group} had committed {promised} of {position.topic}-{position.partition}, "
                             f"it is {position.offset} now")  # fmt: skip
        consumer.close()
    return wrong
