"""Pytest plugin: what kafka-python's integration tests import and its sdist does not ship.

The sdist leaves out test/__init__.py (so Python's own `test` package wins) and test/service.py, which starts brokers.
A broker that is given by KAFKA_URI is never started, so a class that does nothing is enough.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType


class ExternalService:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def stop(self) -> None:
        pass

    def dump_logs(self) -> None:
        pass


class SpawnedService:
    def __init__(self, *_: object) -> None:
        raise RuntimeError("these tests run on a broker that is given, and start none")


def _offer() -> None:
    package, service = ModuleType("test"), ModuleType("test.service")
    package.__path__ = [str(Path.cwd() / "test")]
    service.__dict__.update(ExternalService=ExternalService, SpawnedService=SpawnedService)
    sys.modules.update({"test": package, "test.service": service})


_offer()
