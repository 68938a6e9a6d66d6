"""One request on its way through the broker: who asks, in which version, and where this node is to be found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from trunkline.broker.broker import Broker
from trunkline.serve.kafka.fetch_sessions import FetchSessions


@dataclass(slots=True)
class Call:
    broker: Broker
    version: int
    client_id: str
    client_host: str
    host: str
    """What this client is told to connect to."""
    port: int
    apis: ApiTable
    fetch_sessions: FetchSessions


@dataclass(frozen=True, slots=True)
class Api:
    """A request that is served: its versions, and the function that turns it into the broker's verbs.

    A handler returns its response, or an awaitable of it where it must wait; None means no answer (acks=0).
    Requests of a connection are handled in order of arrival up to their first wait, and answered in order.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    handle: Callable[[Call, Any], Awaitable[Any] | Any]
    listed_min_version: int | None = None
    """What ApiVersions says where it differs from the truth."""


ApiTable = dict[int, Api]
