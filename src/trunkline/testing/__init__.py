"""Public helpers for tests: a broker in the test's process, pytest fixtures, and a disk that misbehaves on command."""

from trunkline.testing.broker import Broker

__all__ = ["Broker"]
