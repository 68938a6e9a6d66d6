"""Connections to a broker through confluent-kafka, made lazily; and its errors as one line for people.

A client is handed out only once the broker has answered, so that "cannot be reached" is told apart from all else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeVar

import typer

from trunkline.cli.failure import Failure

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

_Result = TypeVar("_Result")
_PROBE_SECONDS: Final = 0.25
"""How long one look for the broker blocks in C, where ^C is not seen."""

Bootstrap = Annotated[
    str,
    typer.Option("--bootstrap", "-b", metavar="HOST:PORT", envvar="TRUNKLINE_BOOTSTRAP", help="The broker to talk to."),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for answers.")]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property", "-X", metavar="NAME=VALUE", help="A librdkafka property, such as security.protocol=ssl. Repeats."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for scripts instead of a table.")]
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
DEFAULT_TIMEOUT: Final = 5.0


class _Client(Protocol):
    def cluster_id(self, *, timeout: float) -> str: ...
    def poll(self, timeout: float) -> object: ...


@dataclass(slots=True)
class Cluster:
    """Where the broker is, and how long it may take to answer."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    timeout_s: float = DEFAULT_TIMEOUT
    properties: Iterable[str] | None = None
    last_error: str = field(default="", init=False)
    """What librdkafka last said about its connections."""

    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return self._reached(self._made(AdminClient, {}))

    def producer(self, config: dict[str, Any]) -> Producer:
        from confluent_kafka import Producer

        return self._reached(self._made(Producer, config))

    def consumer(self, config: dict[str, Any]) -> Consumer:
        from confluent_kafka import Consumer

        return self._reached(self._made(Consumer, config))

    def _made(self, kind: type[_Result], config: dict[str, Any]) -> _Result:
        from confluent_kafka import KafkaException

        config = {
            "bootstrap.servers": self.bootstrap,
            "client.id": "trunkline-cli",
            "error_cb": self._remember,
            "logger": _quiet_logger(),
            **config,
            **pairs(self.properties, "--property"),
        }
        try:
            return kind(config)  # type: ignore[call-arg]
        except KafkaException as error:
            raise Failure(f"the client cannot be set up: {reason(error)}") from None

    def _reached(self, client: _Result) -> _Result:
        from confluent_kafka import KafkaException

        probe: _Client = client  # type: ignore[assignment]  # all three clients have these two methods
        deadline = time.monotonic() + self.timeout_s
        while True:
            left_s = deadline - time.monotonic()
            try:
                probe.cluster_id(timeout=max(0.01, min(left_s, _PROBE_SECONDS)))
                return client
            except KafkaException:
                probe.poll(0)
                if left_s <= 0:
                    raise self.unreachable() from None

    def unreachable(self) -> Failure:
        why = f" ({self.last_error})" if self.last_error else ""
        return Failure(
            f"no broker answers at {self.bootstrap} within {self.timeout_s:g} s{why}. "
            "`trunkline serve` starts one; --bootstrap HOST:PORT names another"
        )

    def _remember(self, error: KafkaError) -> None:
        text = error.str()
        if error.name() != "_ALL_BROKERS_DOWN" and text:
            self.last_error = text.removesuffix(")").rpartition(": ")[2].partition(" (after")[0]


def result_of(future: Future[_Result], doing: str) -> _Result:
    """What the broker answered; a Failure that starts with "cannot {doing}" if it refused."""
    from confluent_kafka import KafkaException

    try:
        return future.result()
    except KafkaException as error:
        raise Failure(f"cannot {doing}: {reason(error)}") from None


_PLAIN_WORDS: Final = {
    "UNKNOWN_TOPIC_OR_PART": "there is no such topic or partition",
    "_UNKNOWN_TOPIC": "there is no such topic",
    "_UNKNOWN_PARTITION": "there is no such partition",
    "GROUP_ID_NOT_FOUND": "there is no such group",
    "NON_EMPTY_GROUP": "its consumers are still connected; stop them first",
    "MSG_SIZE_TOO_LARGE": "larger than the topic's max.message.bytes",
    "_MSG_TIMED_OUT": "the broker did not acknowledge in time",
}


def reason(exception: Exception) -> str:
    """Why, in words for people."""
    error: Any = exception.args[0] if exception.args else exception
    return words_of(error) if hasattr(error, "str") else str(error)


def words_of(error: KafkaError) -> str:
    """What the broker or librdkafka said, or plain words for what people meet often."""
    said = error.str().removeprefix("Broker: ").removeprefix("Local: ").rstrip(".")
    return _PLAIN_WORDS.get(error.name(), said)


def code_of(exception: Exception) -> str:
    """The name of a KafkaException's error, such as UNKNOWN_TOPIC_OR_PART; empty for others."""
    error = exception.args[0] if exception.args else None
    return str(error.name()) if error is not None and hasattr(error, "name") else ""


def pairs(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """`NAME=VALUE` as people type it, to a dict."""
    result: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        result[name.strip()] = value
    return result


def _quiet_logger() -> logging.Logger:
    """librdkafka's log lines would break up the output; what matters in them comes back as errors."""
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.NullHandler())
    return logger
