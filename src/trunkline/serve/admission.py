"""How many connections may be open at once, in all and from one address. Who is one too many is closed as it comes."""

from __future__ import annotations

from collections import Counter
from typing import Final

from trunkline.broker.configs import ConfigKind, Configs
from trunkline.model.broker_config import DYNAMIC_CONFIGS

_IN_ALL: Final = "max.connections"
_PER_ADDRESS: Final = "max.connections.per.ip"


class Admission:
    def __init__(self, configs: Configs, node: str) -> None:
        self._configs = configs
        self._node = node
        self._open: Counter[str] = Counter()
        self._in_all = 0
        configs.on_changed[ConfigKind.BROKER] = self.load
        self.load()

    def load(self) -> None:
        """Those that are open stay open, however many."""
        self._most = self._limit(_IN_ALL)
        self._most_per_address = self._limit(_PER_ADDRESS)

    def enter(self, address: str) -> str | None:
        """None, and it is counted until it leaves; or why it is turned away."""
        if self._in_all >= self._most:
            return f"{self._most} connections are open ({_IN_ALL})"
        if self._open[address] >= self._most_per_address:
            return f"{self._most_per_address} connections from its address are open ({_PER_ADDRESS})"
        self._open[address] += 1
        self._in_all += 1
        return None

    def leave(self, address: str) -> None:
        self._in_all -= 1
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]

    def _limit(self, name: str) -> int:
        own, of_all = (self._configs.of(ConfigKind.BROKER, node) for node in (self._node, ""))
        return int(own.get(name) or of_all.get(name) or DYNAMIC_CONFIGS[name].default)
