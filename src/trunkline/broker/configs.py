"""Configs of what is no topic: nodes, groups, client metrics, quotas, users. The metadata store keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from trunkline.metadata.store import MetadataStore


class ConfigKind(Enum):
    """What a config belongs to; the value is its name in the store and must not change."""

    BROKER = "broker"
    """The name is the node's id, or empty for all nodes."""
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"
    QUOTA = "quota"
    USER = "user"


class Configs:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.on_changed: dict[ConfigKind, Callable[[], None]] = {}
        """Called after a change of that kind is kept."""

    def of(self, kind: ConfigKind, name: str) -> Mapping[str, str]:
        return self._store.configs(kind.value, name)

    def all(self, kind: ConfigKind) -> Mapping[str, Mapping[str, str]]:
        """Whatever has configs of this kind, by name."""
        return self._store.configured(kind.value)

    def set(self, kind: ConfigKind, name: str, values: Mapping[str, str]) -> None:
        """These and no others; none at all forgets the name. Durable when this returns."""
        self._store.set_configs(kind.value, name, values)
        if kind in self.on_changed:
            self.on_changed[kind]()
