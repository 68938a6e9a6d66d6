"""Fixtures: `trunkline_broker` is a fresh broker in memory for one test.

# conftest.py
pytest_plugins = ["trunkline.testing.pytest_plugin"]

def test_orders(trunkline_broker):
    producer = Producer({"bootstrap.servers": trunkline_broker.kafka})
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trunkline.testing.broker import Broker


@pytest.fixture
def trunkline_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
