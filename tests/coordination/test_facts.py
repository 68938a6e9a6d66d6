"""Facts come back from their bytes as they were; bytes that are none are refused with a clear word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.coordination.facts import (
    Committed,
    Fact,
    GroupDeleted,
    GroupStored,
    OffsetCommitted,
    OffsetDeleted,
    StoredMember,
    decode,
    encode,
)
from trunkline.model.errors import CorruptLog
from trunkline.model.ids import Epoch, GroupId, Offset

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
optional = st.none() | text
members = st.builds(
    StoredMember, text, optional, text, text, int32, int32, st.binary(max_size=30), st.binary(max_size=30)
)
committed = st.builds(Committed, int64, int32, text, int64, st.none() | st.integers(0, 2**63 - 1))
facts = st.one_of(
    st.builds(GroupStored, text, optional, int32, optional, optional, int64, st.lists(members, max_size=4).map(tuple)),
    st.builds(GroupDeleted, text),
    st.builds(OffsetCommitted, text, text, int32, committed),
    st.builds(OffsetDeleted, text, text, int32),
)


@given(facts)
def test_a_fact_comes_back_from_its_bytes(fact: Fact) -> None:
    assert decode(*encode(fact)) == fact


@given(facts, facts)
def test_facts_have_one_key_exactly_if_they_are_about_one_thing(one: Fact, other: Fact) -> None:
    assert (encode(one)[0] == encode(other)[0]) == (_about(one) == _about(other))


def _about(fact: Fact) -> tuple[object, ...]:
    if isinstance(fact, OffsetCommitted | OffsetDeleted):
        return (fact.group_id, fact.topic, fact.partition)
    return (fact.group_id,)


@given(st.binary(max_size=80), st.none() | st.binary(max_size=80))
def test_any_bytes_are_a_fact_or_refused(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except CorruptLog:
        pass


@given(facts, st.data())
def test_a_fact_cut_short_or_damaged_is_another_fact_or_refused(fact: Fact, data: st.DataObject) -> None:
    key, value = encode(fact)
    damaged = bytearray(value or b"?")
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    for torn in (bytes(damaged), bytes(damaged[: data.draw(st.integers(0, len(damaged)))])):
        try:
            decode(key, torn)
        except CorruptLog:
            pass


GROUP = GroupStored(GroupId("g"), None, 1, None, None, 0, ())
OFFSET = OffsetCommitted(GroupId("g"), "t", 0, Committed(Offset(1), Epoch(0), "", 0))


@pytest.mark.parametrize("fact", [GROUP, OFFSET])
def test_a_version_that_is_not_known_is_named(fact: Fact) -> None:
    key, value = encode(fact)
    assert value is not None
    with pytest.raises(CorruptLog, match="version 9, only 1 is known"):
        decode(key, b"\x09" + value[1:])


def test_a_kind_that_is_not_known_is_named() -> None:
    with pytest.raises(CorruptLog, match="kind 7"):
        decode(b"\x07rest", b"")


def test_a_huge_member_count_is_refused_before_anything_is_made_of_it() -> None:
    key, value = encode(GROUP)
    assert value is not None
    with pytest.raises(CorruptLog, match="elements"):
        decode(key, value[:-4] + b"\x7f\xff\xff\xff")
