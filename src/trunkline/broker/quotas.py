"""Quotas: how many bytes, and how much of the node's time, a client may take per second before it is slowed down.

A quota belongs to an entity: a client id, a user, both together, or the default of either. The most particular one that
fits a client holds, in Kafka's order (`_CANDIDATES`). Clients that nobody signed in are all user ANONYMOUS. Each has a
bucket that fills at its rate and holds what WINDOW_SECONDS fill; who takes more than is in it is told to wait until the
debt is paid. No clock of its own: times are passed in.

    tokens   full ────╮take            ╭── full again
                      │      ╭─────────╯
             0  ──────┼──────┼──────────────▶ time
                      ╰──────╯ throttled: debt / rate
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from trunkline.broker.configs import ConfigKind, Configs

ANONYMOUS: Final = "ANONYMOUS"
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
WINDOW_SECONDS: Final = 10.0
"""What may be taken at once after a rest, and the longest that anybody is told to wait; as Kafka's ten samples."""
_MOST_BUCKETS: Final = 10_000


class QuotaKey(Enum):
    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUESTS = "request_percentage"
    """Of the time of one processor."""


@dataclass(frozen=True, slots=True)
class Entity:
    """Whom a quota is for: None for a part that does not matter, DEFAULT for all that have no quota of their own."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @classmethod
    def parse(cls, text: str) -> Entity:
        parts = json.loads(text)
        values = {key: DEFAULT if name is None else name for key, name in parts.items()}
        return cls(values.get(USER), values.get(CLIENT_ID), values.get(IP))

    @property
    def parts(self) -> dict[str, str | None]:
        """By type; the name None is the default."""
        given = {CLIENT_ID: self.client_id, IP: self.ip, USER: self.user}
        return {kind: None if name == DEFAULT else name for kind, name in given.items() if name is not None}

    def __str__(self) -> str:
        return json.dumps(self.parts, sort_keys=True)


DEFAULT: Final = ""


class Bucket:
    __slots__ = ("_at", "_tokens", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._tokens = rate * WINDOW_SECONDS
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """The seconds to wait until what was taken is there."""
        rate = self.rate
        self._tokens = min(self._tokens + (now - self._at) * rate, rate * WINDOW_SECONDS) - amount
        self._at = now
        return min(-self._tokens / rate, WINDOW_SECONDS) if self._tokens < 0 else 0.0


class Quotas:
    def __init__(self, configs: Configs) -> None:
        self._configs = configs
        self._entities: dict[Entity, Mapping[str, float]] = {}
        self._buckets: dict[tuple[QuotaKey, str | None, str | None], Bucket] = {}
        self._found: dict[tuple[QuotaKey, str], tuple[float, str | None, str | None] | None] = {}
        self.active = False
        """Whether there is any quota: where there is none, nobody needs to ask."""
        configs.on_changed[ConfigKind.QUOTA] = self.load
        self.load()

    @property
    def entities(self) -> Mapping[Entity, Mapping[str, float]]:
        return self._entities

    def load(self) -> None:
        """Take over what is kept; buckets whose rate did not change keep what is in them."""
        kept = self._configs.all(ConfigKind.QUOTA)
        self._entities = {
            Entity.parse(name): {key: float(value) for key, value in values.items()} for name, values in kept.items()
        }
        self._found.clear()
        self.active = bool(self._entities)

    def set(self, entity: Entity, values: Mapping[str, float]) -> None:
        """These and no others. Durable, and in force, when this returns."""
        self._configs.set(ConfigKind.QUOTA, str(entity), {key: repr(value) for key, value in values.items()})

    def take(self, key: QuotaKey, client_id: str, amount: float, now: float) -> float:
        """The seconds that this client must wait after it took `amount`; 0 where it has no such quota."""
        found = self._quota(key, client_id)
        if found is None:
            return 0.0
        rate, user, client = found
        bucket = self._buckets.get((key, user, client))
        if bucket is None:
            if len(self._buckets) >= _MOST_BUCKETS:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[key, user, client] = Bucket(rate, now)
        bucket.rate = rate
        return bucket.take(amount, now)

    def most_at_once(self, key: QuotaKey, client_id: str) -> float | None:
        """What a client with a quota may take in one go; None where it has none."""
        found = self._quota(key, client_id)
        return None if found is None else found[0] * WINDOW_SECONDS

    def _quota(self, key: QuotaKey, client_id: str) -> tuple[float, str | None, str | None] | None:
        """(rate, user, client id): the latter two name the bucket, which a default gives each client for itself."""
        try:
            return self._found[key, client_id]
        except KeyError:
            pass
        if len(self._found) >= _MOST_BUCKETS:
            self._found.clear()
        found = self._found[key, client_id] = self._search(key, client_id)
        return found

    def _search(self, key: QuotaKey, client_id: str) -> tuple[float, str | None, str | None] | None:
        for user, client in _CANDIDATES:
            entity = Entity(user, client_id if client == _THIS else client)
            rate = self._entities.get(entity, {}).get(key.value)
            if rate is not None:
                of_client = None if client is None else client_id
                of_user = None if user is None else ANONYMOUS
                return (rate / 100 if key is QuotaKey.REQUESTS else rate), of_user, of_client
        return None


_THIS: Final = "\0this"
_CANDIDATES: Final[tuple[tuple[str | None, str | None], ...]] = (
    (ANONYMOUS, _THIS),
    (ANONYMOUS, DEFAULT),
    (ANONYMOUS, None),
    (DEFAULT, _THIS),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, _THIS),
    (None, DEFAULT),
)
