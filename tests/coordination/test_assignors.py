"""Sharing partitions: everything is assigned once, evenly, and as little as possible moves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.coordination.assignors import Assignor, Candidate, assign_ranges, assign_uniformly
from trunkline.coordination.partitions import Partitions, common, count, each, of, together, without
from trunkline.model.ids import MemberId, TopicId


def topic(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def candidate(name: str, topics: set[int], before: Partitions | None = None, instance: str | None = None) -> Candidate:
    return Candidate(MemberId(name), instance, frozenset(map(topic, topics)), before or {})


groups = st.lists(st.sets(st.integers(1, 4), max_size=4), min_size=1, max_size=8)
sizes = st.lists(st.integers(1, 12), min_size=4, max_size=4)


@pytest.mark.parametrize("assign", [assign_uniformly, assign_ranges])
@settings(max_examples=300, deadline=None)
@given(wishes=groups, later=groups, sizes=sizes)
def test_each_partition_is_assigned_once_to_one_that_wants_it(
    assign: Assignor, wishes: list[set[int]], later: list[set[int]], sizes: list[int]
) -> None:
    counts = {topic(number + 1): size for number, size in enumerate(sizes)}
    before: dict[MemberId, Partitions] = {}
    for wanted in (wishes, later):
        candidates = [
            candidate(f"m{index}", one, before.get(MemberId(f"m{index}"))) for index, one in enumerate(wanted)
        ]
        found = assign(candidates, counts)
        assert set(found) == {one.member_id for one in candidates}
        owners = Counter(pair for parts in found.values() for pair in each(parts))
        read = set().union(*wanted)
        assert owners == Counter((topic(number), index) for number in read for index in range(counts[topic(number)]))
        assert all(set(found[one.member_id]) <= one.topics for one in candidates)
        before = found


@settings(max_examples=200, deadline=None)
@given(members=st.integers(1, 12), later=st.integers(1, 12), sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_uniform_is_even_and_moves_no_more_than_it_must(members: int, later: int, sizes: list[int]) -> None:
    counts = {topic(number): size for number, size in enumerate(sizes)}
    wanted = set(range(len(sizes)))
    before = assign_uniformly([candidate(f"m{index}", wanted) for index in range(members)], counts)
    after = assign_uniformly(
        [candidate(f"m{index}", wanted, before.get(MemberId(f"m{index}"))) for index in range(later)], counts
    )
    loads = [count(parts) for parts in after.values()]
    assert max(loads) - min(loads) <= 1
    total, least = sum(sizes), sum(sizes) // later
    kept = sum(count(common(after[member], before[member])) for member in after if member in before)
    if later >= members:
        assert kept >= total - sum(loads[members:]) - members, "only what the new ones get moves"
    else:
        assert kept == sum(min(count(before[member]), count(after[member])) for member in after)
        assert least <= min(loads)


def test_members_that_want_different_topics_are_evened_out() -> None:
    counts = {topic(1): 8, topic(2): 8}
    found = assign_uniformly([candidate("both", {1, 2}), candidate("one", {1})], counts)
    assert [count(parts) for parts in found.values()] == [8, 8]
    found = assign_uniformly(
        [candidate("both", {1, 2}, found[MemberId("both")]), candidate("two", {2}), candidate("one", {1})], counts
    )
    assert max(map(count, found.values())) - min(map(count, found.values())) <= 1


def test_ranges_are_the_same_in_topics_of_the_same_size() -> None:
    counts = {topic(1): 7, topic(2): 7}
    found = assign_ranges(
        [candidate("b", {1, 2}), candidate("a", {1, 2}), candidate("z", {1, 2}, instance="0")], counts
    )
    assert found[MemberId("z")] == {topic(1): (0, 1, 2), topic(2): (0, 1, 2)}, "static members come first"
    assert found[MemberId("a")] == {topic(1): (3, 4), topic(2): (3, 4)}
    assert found[MemberId("b")] == {topic(1): (5, 6), topic(2): (5, 6)}


pairs = st.frozensets(st.tuples(st.integers(1, 3).map(topic), st.integers(0, 5)))


@given(pairs, pairs)
def test_partitions_are_sets(some: frozenset[tuple[TopicId, int]], others: frozenset[tuple[TopicId, int]]) -> None:
    assert set(each(common(of(some), of(others)))) == some & others
    assert set(each(without(of(some), of(others)))) == some - others
    assert set(each(together(of(some), of(others)))) == some | others
    assert together(of(some), of(others)) == of(some | others)
