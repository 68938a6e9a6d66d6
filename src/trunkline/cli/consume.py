"""`trunkline consume`: records out, as lines. Alone from any place, or as a member of a group that commits."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trunkline.cli import show
from trunkline.cli.client import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    Bootstrap,
    Cluster,
    Json,
    Properties,
    Timeout,
    words_of,
)
from trunkline.cli.failure import Failure
from trunkline.cli.interrupt import Interrupt
from trunkline.cli.positions import (
    At,
    Bounds,
    Earliest,
    Latest,
    Position,
    bounds_of,
    parse_position,
    partitions_of,
    resolve,
)
from trunkline.cli.record_text import Headers, Incoming, OutputFormat, line_writer
from trunkline.model.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message
    from confluent_kafka.admin import AdminClient

_JOIN_SECONDS: Final = 60.0
"""How long a group may take to give this member its partitions: the others finish their work first."""
_POLL_SECONDS: Final = 0.2
_BATCH: Final = 500


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Where from.", show_default=False)],
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="WHERE", help="start (default), end, an offset, -N (the last N), an ISO time."),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this one. Repeats.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="NAME", help="Read on where the group was, and commit.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f", help="Wait for new records instead of stopping at the end.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N records.")
    ] = None,
    form: Annotated[OutputFormat, typer.Option("--format", help="What a line is.")] = OutputFormat.VALUE,
    key_separator: Annotated[
        str,
        typer.Option(
            "--key-separator", metavar="TEXT", help="Between the parts of a line (default: a tab).", show_default=False
        ),
    ] = "\t",
    headers: Annotated[bool, typer.Option("--headers", help="Put headers in front of the line.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Print records, one a line, up to the end as it is now, or on and on with --follow.

    In a pipe, values are written as they are; on a terminal, bytes that could steer it are escaped. --json is --format
    json: one object a line, bytes that are no UTF-8 as base64 with "value_encoding": "base64".

    \b
    Examples:
      trunkline consume orders
      trunkline consume orders --from -10 --format full
      trunkline consume orders --from 2031-05-01T12:00:00Z --json
      trunkline consume orders --partition 0 --from 4200 --count 1
      trunkline consume orders payments --group audit --follow
    """
    topics = list(dict.fromkeys(topics))
    start = _start(from_, group, partition)
    write = line_writer(
        OutputFormat.JSON if as_json else form, key_separator.encode(), headers, terminal=sys.stdout.isatty()
    )
    cluster = Cluster(bootstrap, timeout, properties)
    admin = cluster.admin()
    partitions = partitions_of(cluster, admin, topics, partition)
    consumer = cluster.consumer(_config(group, start))
    reading = Reading(cluster, admin, consumer, write, follow, count, in_group=group is not None)
    try:
        with Interrupt() as interrupt:
            if group is None:
                reading.assign(partitions, start)
            else:
                reading.subscribe(topics)
            reading.run(interrupt)
    except BrokenPipeError:
        # Who reads our output has enough (`| head`). The interpreter must not flush into the pipe again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    finally:
        consumer.close()
    show.note(f"{reading.printed} {'record' if reading.printed == 1 else 'records'}")


def _start(text: str | None, group: str | None, partition: list[int] | None) -> Position:
    try:
        start = parse_position(text) if text is not None else Earliest()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None
    if group is not None:
        if partition:
            raise typer.BadParameter("a group shares out partitions itself: leave out one", param_hint="--partition")
        if not isinstance(start, Earliest | Latest):
            raise typer.BadParameter(
                "a group reads on where it was (start or end say where a new one begins); "
                "`trunkline group reset` moves it",
                param_hint="--from",
            )
    return start


def _config(group: str | None, start: Position) -> dict[str, Any]:
    return {
        "group.id": group if group is not None else f"trunkline-consume-{os.getpid()}",
        "enable.auto.commit": group is not None,
        "enable.auto.offset.store": False,  # only what was printed is committed
        "enable.partition.eof": True,
        "auto.offset.reset": "latest" if isinstance(start, Latest) else "earliest",
    }


class Reading:
    """One run of the consumer. Without --follow it ends where each partition ended when it began."""

    def __init__(
        self,
        cluster: Cluster,
        admin: AdminClient,
        consumer: Consumer,
        write: Callable[[Incoming], bytes],
        follow: bool,
        count: int | None,
        in_group: bool,
    ) -> None:
        self._cluster = cluster
        self._admin = admin
        self._consumer = consumer
        self._write = write
        self._follow = follow
        self._count = count
        self._in_group = in_group
        self._assigned = False
        self._open: dict[TopicPartition, int] = {}
        """Partitions that are not read to their end yet, and that end."""
        self._progress_at = time.monotonic()
        self.printed = 0

    def assign(self, partitions: list[TopicPartition], start: Position) -> None:
        from confluent_kafka import TopicPartition as Assigned

        bounds = bounds_of(self._cluster, self._admin, partitions)
        offsets = resolve(self._cluster, self._admin, start, bounds)
        if isinstance(start, At) and all(start.offset != offset for offset in offsets.values()):
            show.note(f"offset {start.offset} is outside of what is there: {_listed(bounds)}")
        self._assigned = True
        self._open = {tp: bounds[tp].end for tp in partitions if self._follow or offsets[tp] < bounds[tp].end}
        self._consumer.assign([Assigned(tp.topic, tp.partition, offsets[tp]) for tp in self._open])

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def _on_assign(self, consumer: Consumer, partitions: list[Any]) -> None:
        self._assigned = True
        self._progress_at = time.monotonic()
        given = [TopicPartition(tp.topic, tp.partition) for tp in partitions]
        if not self._follow:
            self._open.update({tp: b.end for tp, b in bounds_of(self._cluster, self._admin, given).items()})

    def _on_revoke(self, consumer: Consumer, partitions: list[Any]) -> None:
        for tp in partitions:
            self._open.pop(TopicPartition(tp.topic, tp.partition), None)

    def run(self, interrupt: Interrupt) -> None:
        while not interrupt.asked and not self._is_over():
            messages = self._consumer.consume(_BATCH, timeout=0)
            if not messages:
                sys.stdout.buffer.flush()
                messages = self._consumer.consume(1, timeout=_POLL_SECONDS)
            if messages:
                self._progress_at = time.monotonic()
                self._print(messages)
            else:
                self._check_stalled()
        sys.stdout.buffer.flush()

    def _print(self, messages: list[Message]) -> None:
        lines: list[bytes] = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._on_error(error, message)
                continue
            if self._count is not None and self.printed + len(lines) == self._count:
                break
            lines.append(self._write(incoming(message)))
            self._on_read(message)
        write_all(b"".join(lines))
        self.printed += len(lines)
        if self._in_group:
            self._store(messages, len(lines))

    def _is_over(self) -> bool:
        if self.printed == self._count:
            return True
        return self._assigned and not self._open and not self._follow

    def _on_read(self, message: Message) -> None:
        if not self._follow:
            tp = TopicPartition(message.topic() or "", message.partition() or 0)
            if (message.offset() or 0) + 1 >= self._open.get(tp, 0):
                self._open.pop(tp, None)

    def _store(self, messages: list[Message], count: int) -> None:
        """Mark the first `count` records for the next commit, now that they are written."""
        records = [message for message in messages if message.error() is None]
        for message in records[:count]:
            self._consumer.store_offsets(message)

    def _on_error(self, error: KafkaError, message: Message) -> None:
        if error.name() == "_PARTITION_EOF":
            # Also where the last offsets hold no record for us: control records, or an open transaction.
            if not self._follow:
                self._open.pop(TopicPartition(message.topic() or "", message.partition() or 0), None)
        elif not error.retriable():
            raise Failure(f"cannot read: {words_of(error)}")

    def _check_stalled(self) -> None:
        """Without --follow there is always something to come, so silence means that the broker is gone."""
        limit_s = self._cluster.timeout_s if self._assigned else max(self._cluster.timeout_s, _JOIN_SECONDS)
        if not self._follow and time.monotonic() - self._progress_at > limit_s:
            raise Failure(
                f"the broker at {self._cluster.bootstrap} has sent nothing for {limit_s:g} s: is it still up?"
            )


def write_all(data: bytes) -> None:
    """stdout is a raw file under PYTHONUNBUFFERED, whose write may take only a part."""
    left = memoryview(data)
    while left:
        left = left[sys.stdout.buffer.write(left) :]


def _listed(bounds: Mapping[TopicPartition, Bounds]) -> str:
    return ", ".join(f"{tp} has {bound.start} to {bound.end}" for tp, bound in bounds.items())


def incoming(message: Message) -> Incoming:
    kind, timestamp_ms = message.timestamp()
    return Incoming(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms if kind else None,
        message.key(),
        message.value(),
        _headers(message),
    )


def _headers(message: Message) -> Headers:
    pairs: Any = message.headers() or ()  # typed as all that may be given; what is received is a list of pairs
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
