"""The compat runner holds what once passed: the list of a suite is a promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compat.__main__ import judge
from tests.compat.page import text
from tests.compat.suite import Result, Suite, run_checks


def _nothing(bootstrap: str, match: str) -> Iterator[Result]:
    yield from ()


_SUITE = Suite("example", "an example", _nothing)


def test_a_listed_check_that_fails_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    results = [Result("a", True, 0.1), Result("b", False, 0.1, "refused")]
    assert judge(_SUITE, results, listed={"a", "b"}, whole=True) == 1
    assert "BROKEN: b" in capsys.readouterr().out


def test_a_check_that_never_passed_does_not_fail_the_run() -> None:
    results = [Result("a", True, 0.1), Result("b", False, 0.1, "not yet")]
    assert judge(_SUITE, results, listed={"a"}, whole=True) == 0


def test_a_listed_check_that_is_gone_counts_as_broken_unless_only_a_part_ran() -> None:
    results = [Result("a", True, 0.1)]
    assert judge(_SUITE, results, listed={"a", "gone"}, whole=True) == 1
    assert judge(_SUITE, results, listed={"a", "gone"}, whole=False) == 0


def test_a_check_that_raises_is_a_failed_check_and_the_next_one_runs() -> None:
    def fails(given: str) -> None:
        raise AssertionError(f"{given} said no")

    results = list(run_checks({"a": fails, "b": lambda given: None}, "the broker", ""))
    assert [(result.name, result.passed) for result in results] == [("a", False), ("b", True)]
    assert "the broker said no" in results[0].detail


def test_the_page_names_what_does_not_pass_and_why() -> None:
    suite = Suite("tools", "the tools", lambda *_: iter(()), {"odd": "refused there"})
    page = text([(suite, [Result("a", True, 1.0), Result("b", False, 1.0, "broke | here")])], "2030-01-01")
    assert "| tools | the tools | 2 | 1 |" in page
    assert "| tools | b | broke / here |" in page
    assert "| tools | odd | refused there |" in page
