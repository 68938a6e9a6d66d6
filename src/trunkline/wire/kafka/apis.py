"""Which requests there are, and where their classes are found once they are needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from trunkline.wire.kafka.api_keys import API_ROWS, ApiKey
from trunkline.wire.kafka.errors import MalformedMessage
from trunkline.wire.kafka.message import Message

__all__ = ["APIS", "Api", "ApiKey", "request_class", "response_class"]


class Api(NamedTuple):
    key: int
    name: str
    """As in "Produce": what the request is called without "Request"."""
    module: str
    min_version: int
    max_version: int
    max_stable_version: int
    """Lower than `max_version` where Kafka itself does not offer its newest version yet."""
    flexible_from: int


APIS: Final[dict[int, Api]] = {key: Api(key, *row) for key, row in API_ROWS.items()}


@cache
def request_class(api_key: int) -> type[Message]:
    """MalformedMessage for a key that no request has."""
    return _message_class(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Message]:
    return _message_class(api_key, "Response")


def _message_class(api_key: int, kind: str) -> type[Message]:
    api = APIS.get(api_key)
    if api is None:
        raise MalformedMessage(f"no request has the key {api_key}")
    module = import_module(f"trunkline.wire.kafka.messages.{api.module}_{kind.lower()}")
    cls = getattr(module, f"{api.name}{kind}")
    assert isinstance(cls, type)
    assert issubclass(cls, Message)
    return cls
