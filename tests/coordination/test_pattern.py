"""Patterns over topic names: what RE2 understands, in time that grows with the name only."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.coordination.pattern import TopicPattern
from trunkline.coordination.topic_view import TopicView
from trunkline.model.errors import InvalidPattern
from trunkline.model.ids import TopicId
from trunkline.model.topic import Topic, TopicConfig

pieces = st.recursive(
    st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\w", r"\d", r"\.", "^", "$", r"\b", "[a-c_]", "(?i:A)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda p: f"({'|'.join(p)})"),
    ),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(pieces, st.lists(st.text("abcA1_-.", max_size=8), min_size=1, max_size=5))
def test_it_matches_what_python_matches(pattern: str, names: list[str]) -> None:
    ours = TopicPattern(pattern)
    for name in names:
        assert ours.matches(name) == bool(re.fullmatch(pattern, name)), name


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("^topic-.*", "topic-1", True),
        ("topic", "topic-1", False),
        (r"[[:alpha:]]+", "abc", True),
        (r"[[:^digit:]]+", "ab1", False),
        (r"\Qa.b\E.*", "a.b-c", True),
        (r"\Qa.b\E", "axb", False),
        (r"(?i)ORDERS", "orders", True),
        (r"(?i:O)RDERS", "orders", False),
        (r"(?P<name>a)(?<other>b)", "ab", True),
        (r"a{,2}", "a{,2}", True),
        (r"\x61\x{62}", "ab", True),
        (r"[]a]+", "a", True),
        ("ü", "u", False),
        ("", "", True),
    ],
)
def test_the_syntax_of_re2(pattern: str, name: str, expected: bool) -> None:
    assert TopicPattern(pattern).matches(name) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a**",
        "*a",
        "[a",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        r"\1",
        "a{2,1}",
        "a{1001}",
        "(?P<n",
        "\\",
        "[b-a]",
        "[[:x:]]",
        "(" * 200 + ")" * 200,
        "((a{100}){100}){100}",
        "a" * 1001,
        r"\pN",
    ],
)
def test_what_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)*(.*)*(.*)*b", "(a?){100}a{100}"])
def test_no_pattern_takes_long_over_one_name(pattern: str) -> None:
    """With a search that tries, these take longer than the sun will shine."""
    assert not TopicPattern(pattern).matches("a" * 248 + "c")


def test_a_pattern_that_takes_long_over_all_topics_is_refused() -> None:
    names = (
        format(number * 2_654_435_761 % 2**40, "040b").replace("0", "a").replace("1", "b") * 6
        for number in range(5_000)
    )
    with pytest.raises(InvalidPattern):
        TopicPattern("(a|b)*a(a|b){200}").among(names)


def test_a_view_tries_only_names_that_are_new() -> None:
    def topics(*names: str) -> dict[str, Topic]:
        return {name: Topic(name, TopicId(name.encode().rjust(16)), 1, TopicConfig(), name[0] == "_") for name in names}

    view = TopicView(topics("a-1", "a-2", "b", "__internal"))
    assert view.matching("a-.*") == {"a-1", "a-2"}
    assert view.matching(".*") == {"a-1", "a-2", "b"}, "not the broker's own"
    later = TopicView(topics("a-2", "a-3", "b"), view)
    assert later.matching("a-.*") == {"a-2", "a-3"}
    with pytest.raises(InvalidPattern):
        later.check("(")
