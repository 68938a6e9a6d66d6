"""The scenarios by name, and the versions at which each runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.compat.differential.peer import Peer

from trunkline.wire.kafka.apis import APIS, ApiKey

Run = Callable[[Peer, int], None]


@dataclass(frozen=True)
class Scenario:
    name: str
    key: ApiKey
    run: Run
    from_version: int
    to_version: int

    def versions(self, *, every: bool) -> list[int]:
        """All, or the first, a middle and the last."""
        first, last = self.from_version, self.to_version
        return list(range(first, last + 1)) if every else sorted({first, (first + last) // 2, last})


SCENARIOS: dict[str, Scenario] = {}


def scenario(key: ApiKey, *, since: int = 0, until: int = 99) -> Callable[[Run], Run]:
    """Registers a function as a scenario about this request, in the versions that both peers serve."""
    api = APIS[key]

    def register(run: Run) -> Run:
        name = f"{api.name}.{run.__name__}"
        first, last = max(api.min_version, since), min(api.max_stable_version, until)
        SCENARIOS[name] = Scenario(name, key, run, first, last)
        return run

    return register
