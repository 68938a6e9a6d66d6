"""Places in partitions as people name them: start, end, an offset, a time, the last N. Resolved by asking the broker.

start                                end
├──────────────┬──────────────────────┤
earliest    an offset, a time      latest        what lies outside is moved to the nearer edge
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from trunkline.cli.client import Cluster, reason
from trunkline.cli.failure import Failure
from trunkline.model.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, OffsetSpec


@dataclass(frozen=True, slots=True)
class Earliest:
    pass


@dataclass(frozen=True, slots=True)
class Latest:
    pass


@dataclass(frozen=True, slots=True)
class At:
    offset: int


@dataclass(frozen=True, slots=True)
class Since:
    """The first record at or after a time; the end where there is none."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Last:
    """This many records before the end of each partition."""

    count: int


Position = Earliest | Latest | At | Since | Last


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset that can be read, and the one that the next record will get."""

    start: int
    end: int

    def clamp(self, offset: int) -> int:
        return min(max(offset, self.start), self.end)


def parse_position(text: str) -> Position:
    """`start`, `end`, an offset, `-N` for the last N, or an ISO time. ValueError says what is expected."""
    word = text.strip().lower()
    if word in ("start", "earliest", "beginning"):
        return Earliest()
    if word in ("end", "latest"):
        return Latest()
    if word.isascii() and word.isdigit():
        return At(int(word))
    if word.startswith("-") and word[1:].isascii() and word[1:].isdigit():
        return Last(int(word[1:]))
    try:
        return Since(parse_time_ms(text))
    except ValueError:
        raise ValueError(f"{text!r} is none of: start, end, an offset, -N (the last N), an ISO time") from None


def parse_time_ms(text: str) -> int:
    """ISO 8601, `2031-05-01`, `2031-05-01T12:00:00Z`; without a zone it is local time. ValueError otherwise."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is no ISO time such as 2031-05-01T12:00:00Z") from None


def partitions_of(
    cluster: Cluster, admin: AdminClient, topics: Collection[str], only: Collection[int] | None = None
) -> list[TopicPartition]:
    """The partitions of these topics, all or some. A Failure where one does not exist; asking does not create it."""
    from confluent_kafka import KafkaException

    try:
        # All topics, because to ask for one by name would create it.
        known = admin.list_topics(timeout=cluster.timeout_s).topics
    except KafkaException as error:
        raise Failure(f"cannot list topics: {reason(error)}") from None
    for topic in topics:
        if topic not in known:
            raise no_topic(topic)
        there = known[topic].partitions
        for partition in only or ():
            if partition not in there:
                raise Failure(f"topic {topic!r} has no partition {partition}: it has 0 to {len(there) - 1}")
    return [
        TopicPartition(topic, partition) for topic in topics for partition in sorted(only or known[topic].partitions)
    ]


def no_topic(topic: str) -> Failure:
    return Failure(
        f"there is no topic {topic!r}: `trunkline topic list` shows them, `trunkline topic create` makes one"
    )


def bounds_of(
    cluster: Cluster, admin: AdminClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, Bounds]:
    from confluent_kafka.admin import OffsetSpec

    starts = _look_up(cluster, admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    ends = _look_up(cluster, admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    return {partition: Bounds(starts[partition], ends[partition]) for partition in partitions}


def resolve(
    cluster: Cluster, admin: AdminClient, position: Position, bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, int]:
    """The offset of `position` in each partition, moved into what the partition holds."""
    match position:
        case Earliest():
            return {partition: bound.start for partition, bound in bounds.items()}
        case Latest():
            return {partition: bound.end for partition, bound in bounds.items()}
        case At(offset):
            return {partition: bound.clamp(offset) for partition, bound in bounds.items()}
        case Last(count):
            return {partition: bound.clamp(bound.end - count) for partition, bound in bounds.items()}
        case Since(timestamp_ms):
            from confluent_kafka.admin import OffsetSpec

            found = _look_up(cluster, admin, bounds, OffsetSpec.for_timestamp(timestamp_ms))
            return {
                partition: bound.clamp(found[partition]) if found[partition] >= 0 else bound.end
                for partition, bound in bounds.items()
            }


def _look_up(
    cluster: Cluster, admin: AdminClient, partitions: Collection[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    from confluent_kafka import KafkaException
    from confluent_kafka import TopicPartition as Asked

    if not partitions:
        return {}
    asked = {Asked(partition.topic, partition.partition): spec for partition in partitions}
    found: dict[TopicPartition, int] = {}
    for answer, future in admin.list_offsets(asked, request_timeout=cluster.timeout_s).items():
        partition = TopicPartition(answer.topic, answer.partition)
        try:
            found[partition] = future.result().offset
        except KafkaException as error:
            raise Failure(f"cannot look up offsets of {partition}: {reason(error)}") from None
    return found
