"""Who is to read what: the ways to share partitions among members that the broker knows.

`uniform`, the default, gives everybody the same number of partitions, one more or less, and moves as few as it can
from where they are. `range` gives each member a run of neighbouring partitions of every topic, the same run of topics
with as many partitions, so that records with one key of several topics meet in one member; it moves what it must.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trunkline.coordination.partitions import NONE, Partitions, each, of
from trunkline.model.ids import MemberId, TopicId

_ROUNDS: Final = 8
"""How often members with different subscriptions are compared; each round only ever brings them closer."""


@dataclass(frozen=True, slots=True)
class Candidate:
    member_id: MemberId
    instance_id: str | None
    topics: frozenset[TopicId]
    """Existing topics that it wants to read."""
    before: Partitions
    """What it was to read until now."""


Assignor = Callable[[Sequence[Candidate], Mapping[TopicId, int]], dict[MemberId, Partitions]]
"""Candidates, and how many partitions each topic has; what each of them is to read."""


def assign_uniformly(candidates: Sequence[Candidate], counts: Mapping[TopicId, int]) -> dict[MemberId, Partitions]:
    if not candidates:
        return {}
    first = candidates[0].topics
    if all(one.topics == first for one in candidates):
        return _share_evenly(candidates, {topic_id: counts[topic_id] for topic_id in sorted(first)})
    return _share_by_subscription(candidates, counts)


def _share_evenly(candidates: Sequence[Candidate], counts: Mapping[TopicId, int]) -> dict[MemberId, Partitions]:
    """All want the same. Those that have more than the least share keep one above it, while there are such."""
    least, spare = divmod(sum(counts.values()), len(candidates))
    taken: dict[TopicId, bytearray] = {topic_id: bytearray(count) for topic_id, count in counts.items()}
    kept: list[list[tuple[TopicId, int]]] = []
    for one in candidates:
        mine = [pair for pair in each(one.before) if pair[1] < counts.get(pair[0], 0) and not taken[pair[0]][pair[1]]]
        for topic_id, index in mine:
            taken[topic_id][index] = 1
        kept.append(mine)
    rooms: list[int] = []
    for mine in kept:
        quota = least
        if len(mine) > least and spare:
            quota += 1
            spare -= 1
        for topic_id, index in mine[quota:]:
            taken[topic_id][index] = 0
        del mine[quota:]
        rooms.append(quota)
    for position, mine in enumerate(kept):  # who has room gets what is left over of the spare ones
        if spare and rooms[position] == least and len(mine) <= least:
            rooms[position] += 1
            spare -= 1
    free = ((topic_id, index) for topic_id, marks in taken.items() for index, mark in enumerate(marks) if not mark)
    for mine, room in zip(kept, rooms, strict=True):
        while len(mine) < room and (pair := next(free, None)) is not None:
            mine.append(pair)
    return {one.member_id: of(mine) for one, mine in zip(candidates, kept, strict=True)}


def _share_by_subscription(
    candidates: Sequence[Candidate], counts: Mapping[TopicId, int]
) -> dict[MemberId, Partitions]:
    """Everybody keeps what it has; what is free goes to the least laden; then the laden give to those with less.

    Candidates are known by their position. Topics with few readers come first: they leave the least choice.
    """
    shares: dict[TopicId, dict[int, list[int]]] = {}
    for position, one in enumerate(candidates):
        for topic_id in one.topics:
            shares.setdefault(topic_id, {})[position] = []
    order = sorted(shares, key=lambda topic_id: (len(shares[topic_id]), topic_id))
    loads = [0] * len(candidates)
    free: dict[TopicId, dict[int, None]] = {}
    for topic_id in order:
        left = free[topic_id] = dict.fromkeys(range(counts[topic_id]))
        for position, indexes in shares[topic_id].items():
            for index in candidates[position].before.get(topic_id, ()):
                if index in left:
                    del left[index]
                    indexes.append(index)
                    loads[position] += 1
    for topic_id in order:
        queue = [(loads[position], position) for position in shares[topic_id]]
        heapq.heapify(queue)
        for index in free[topic_id]:
            load, position = queue[0]
            shares[topic_id][position].append(index)
            loads[position] = load + 1
            heapq.heapreplace(queue, (load + 1, position))
    for _ in range(_ROUNDS):
        moved = sum(_even_out(shares[topic_id], loads) for topic_id in order)
        if not moved:
            break
    found: list[dict[TopicId, tuple[int, ...]]] = [{} for _ in candidates]
    for topic_id in order:
        for position, indexes in shares[topic_id].items():
            if indexes:
                found[position][topic_id] = tuple(sorted(indexes))
    return {one.member_id: mine for one, mine in zip(candidates, found, strict=True)}


def _even_out(shares: dict[int, list[int]], loads: list[int]) -> bool:
    """Within one topic. Whether something moved. Entries of the queues may be out of date, and are looked up again."""
    poor = [(loads[position], position) for position in shares]
    rich = [(-loads[position], position) for position, indexes in shares.items() if indexes]
    heapq.heapify(poor)
    heapq.heapify(rich)
    moved = False
    while rich:
        giver, taker = rich[0][1], poor[0][1]
        if -rich[0][0] != loads[giver] or not shares[giver]:
            heapq.heappop(rich)
            if shares[giver]:
                heapq.heappush(rich, (-loads[giver], giver))
        elif poor[0][0] != loads[taker]:
            heapq.heapreplace(poor, (loads[taker], taker))
        elif loads[giver] - loads[taker] < 2:
            return moved
        else:
            shares[taker].append(shares[giver].pop())
            loads[giver] -= 1
            loads[taker] += 1
            heapq.heappush(rich, (-loads[taker], taker))
            moved = True
    return moved


def assign_ranges(candidates: Sequence[Candidate], counts: Mapping[TopicId, int]) -> dict[MemberId, Partitions]:
    """Static members first, by instance id, so that a restart moves nothing."""
    in_order = sorted(candidates, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id))
    readers: dict[TopicId, int] = {}
    for one in in_order:
        for topic_id in one.topics:
            readers[topic_id] = readers.get(topic_id, 0) + 1
    served = dict.fromkeys(readers, 0)
    found: dict[MemberId, Partitions] = {}
    for one in in_order:
        mine: dict[TopicId, tuple[int, ...]] = {}
        for topic_id in sorted(one.topics):
            least, spare = divmod(counts[topic_id], readers[topic_id])
            turn = served[topic_id]
            served[topic_id] += 1
            start = turn * least + min(turn, spare)
            indexes = tuple(range(start, start + least + (turn < spare)))
            if indexes:
                mine[topic_id] = indexes
        found[one.member_id] = mine or NONE
    return found


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
DEFAULT: Final = "uniform"
