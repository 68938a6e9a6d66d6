"""Brokers for the command's tests: librdkafka's own mock where it suffices, a real one for all else."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator

import pytest
from tests.cli.runner import Cli


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TRUNKLINE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def cli() -> Cli:
    return Cli()


@pytest.fixture(scope="session")
def mock_address() -> Iterator[str]:
    """A mock broker inside librdkafka: produce, fetch and groups, no topic administration. Topics have 4 partitions."""
    from confluent_kafka import Producer

    owner = Producer(
        {"bootstrap.servers": "ignored", "test.mock.num.brokers": 1, "logger": logging.Logger("mock")}
    )  # the broker lives as long as this client
    [broker] = owner.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    owner.flush(1)


@pytest.fixture
def mocked(mock_address: str) -> Cli:
    return Cli(mock_address)


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Cli:
    """A real broker, as the suite's `broker_address` gives it."""
    try:
        address: str = request.getfixturevalue("broker_address")
    except pytest.FixtureLookupError:
        pytest.skip("no `broker_address` fixture: tests/conftest.py has to start a broker and give HOST:PORT")
    return Cli(address)


@pytest.fixture
def name() -> str:
    """A topic or group of this test alone."""
    return f"cli-{uuid.uuid4().hex[:12]}"
