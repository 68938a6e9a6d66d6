"""Sets of partitions by topic id, and what can be done with two of them. Plain values: nobody changes one in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from trunkline.model.ids import TopicId

Partitions = Mapping[TopicId, tuple[int, ...]]
"""Ascending indexes, and no topic without any: so two that hold the same are equal."""

NONE: Final[Partitions] = MappingProxyType({})


def of(pairs: Iterable[tuple[TopicId, int]]) -> Partitions:
    found: dict[TopicId, set[int]] = {}
    for topic_id, partition in pairs:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in found.items()}


def each(partitions: Partitions) -> Iterator[tuple[TopicId, int]]:
    for topic_id, indexes in partitions.items():
        for index in indexes:
            yield topic_id, index


def count(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def common(some: Partitions, others: Partitions) -> Partitions:
    if some == others:
        return some
    kept = {topic_id: tuple(sorted({*indexes} & {*others.get(topic_id, ())})) for topic_id, indexes in some.items()}
    return {topic_id: indexes for topic_id, indexes in kept.items() if indexes}


def without(some: Partitions, others: Partitions) -> Partitions:
    if not others or some == others:
        return NONE if others else some
    kept = {topic_id: tuple(sorted({*indexes} - {*others.get(topic_id, ())})) for topic_id, indexes in some.items()}
    return {topic_id: indexes for topic_id, indexes in kept.items() if indexes}


def together(some: Partitions, others: Partitions) -> Partitions:
    if not some or not others:
        return some or others
    topic_ids = [*some, *(topic_id for topic_id in others if topic_id not in some)]
    return {topic_id: tuple(sorted({*some.get(topic_id, ()), *others.get(topic_id, ())})) for topic_id in topic_ids}
