"""A short storm in every test run; `python -m tests.chaos` makes long ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.storm import Storm


@pytest.mark.timeout(180)
def test_every_promise_holds_over_a_few_deaths(tmp_path: Path) -> None:
    result = Storm(tmp_path / "data", seed=3).run(deaths=4)
    assert result.wrong == []
    assert result.audits == 4
