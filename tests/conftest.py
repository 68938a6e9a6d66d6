"""Brokers for tests: one in this process that all tests share, and real processes for those that kill them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import Server
from trunkline.testing import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Shared: use topics and groups of your own."""
    with Broker() as shared:
        yield shared


@pytest.fixture(scope="session")
def broker_address(broker: Broker) -> str:
    return broker.kafka


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A real process with a data directory of its own, started."""
    with Server(tmp_path / "data") as running:
        yield running
