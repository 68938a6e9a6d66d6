"""`trunkline tail`: the last records of several topics in the order of their times, then new ones as they come."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

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
from trunkline.cli.consume import incoming, write_all
from trunkline.cli.failure import Failure
from trunkline.cli.interrupt import Interrupt
from trunkline.cli.merge import merged
from trunkline.cli.positions import Last, Since, bounds_of, parse_time_ms, partitions_of, resolve
from trunkline.cli.record_text import Incoming, OutputFormat, line_writer
from trunkline.model.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_WINDOW_SECONDS: Final = 0.2
"""New records that come within it are put in the order of their times; it is also how late a line may be."""
_BATCH: Final = 500
_MOST: Final = 100_000


def tail(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Where from. Repeats.", show_default=False)],
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", min=0, max=_MOST, help="The last N of all topics together.")
    ] = 10,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="From an ISO time on, instead of the last N.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f/-F", help="Go on with new records, or stop at the end.")
    ] = True,
    form: Annotated[OutputFormat, typer.Option("--format", help="What a line is.")] = OutputFormat.FULL,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Show the newest records of one or more topics in the order of their times, and go on with new ones.

    Each partition keeps its own order, whatever the times of its records say. --json is --format json.

    \b
    Examples:
      trunkline tail orders
      trunkline tail orders payments shipments -n 50
      trunkline tail orders --since 2031-05-01T12:00:00Z --no-follow --json
    """
    write = line_writer(OutputFormat.JSON if as_json else form, b"\t", False, terminal=sys.stdout.isatty())
    try:
        start = Last(lines) if since is None else Since(parse_time_ms(since))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    cluster = Cluster(bootstrap, timeout, properties)
    admin = cluster.admin()
    partitions = partitions_of(cluster, admin, list(dict.fromkeys(topics)))
    bounds = bounds_of(cluster, admin, partitions)
    offsets = resolve(cluster, admin, start, bounds)
    consumer = cluster.consumer(
        {
            "group.id": f"trunkline-tail-{os.getpid()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    ends = {tp: bound.end for tp, bound in bounds.items() if offsets[tp] < bound.end}
    tailing = Tailing(cluster, consumer, write, keep=lines if since is None else None)
    try:
        with Interrupt() as interrupt:
            tailing.assign(offsets if follow else {tp: offsets[tp] for tp in ends})
            tailing.history(ends, interrupt)
            if follow:
                tailing.follow(interrupt)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        consumer.close()


class Tailing:
    """One run: what is there already, then what comes. `keep`: only so many of what is there are shown."""

    def __init__(
        self, cluster: Cluster, consumer: Consumer, write: Callable[[Incoming], bytes], keep: int | None
    ) -> None:
        self._cluster = cluster
        self._consumer = consumer
        self._write = write
        self._keep = keep
        self._early: list[Incoming] = []
        """Records behind the end that was meant, read before all others were: shown with the new ones."""

    def assign(self, offsets: dict[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Assigned

        self._consumer.assign([Assigned(tp.topic, tp.partition, offset) for tp, offset in offsets.items()])

    def history(self, ends: dict[TopicPartition, int], interrupt: Interrupt) -> None:
        """Up to `ends`, in order. Of a long history no more than _MOST records are held at once: the newest."""
        held: deque[Incoming] = deque(maxlen=_MOST)
        left = dict(ends)
        progress_at = time.monotonic()
        while left and not interrupt.asked:
            records, ended = self._poll()
            for tp in ended:
                left.pop(tp, None)
            for record in records:
                tp = TopicPartition(record.topic, record.partition)
                if record.offset >= ends.get(tp, 0):
                    self._early.append(record)
                    continue
                held.append(record)
                if record.offset + 1 >= ends[tp]:
                    left.pop(tp, None)
            if records or ended:
                progress_at = time.monotonic()
            elif time.monotonic() - progress_at > self._cluster.timeout_s:
                raise self._cluster.unreachable()
        if len(held) == _MOST:
            show.note(f"there is more: only {_MOST} records of what is there already are put in order and shown")
        ordered = merged(held)
        if self._keep is not None:
            ordered = ordered[max(len(ordered) - self._keep, 0) :]
        self._show(ordered)

    def follow(self, interrupt: Interrupt) -> None:
        self._show(merged(self._early))
        while not interrupt.asked:
            records, _ = self._poll()
            self._show(merged(records))

    def _poll(self) -> tuple[list[Incoming], list[TopicPartition]]:
        """What came within a window, and the partitions that were read to their end."""
        records: list[Incoming] = []
        ended: list[TopicPartition] = []
        messages: list[Message] = self._consumer.consume(_BATCH, timeout=_WINDOW_SECONDS)
        for message in messages:
            error = message.error()
            if error is None:
                records.append(incoming(message))
            elif error.name() == "_PARTITION_EOF":
                ended.append(TopicPartition(message.topic() or "", message.partition() or 0))
            elif not error.retriable():
                raise Failure(f"cannot read: {words_of(error)}")
        return records, ended

    def _show(self, records: list[Incoming]) -> None:
        if records:
            write_all(b"".join(map(self._write, records)))
            sys.stdout.buffer.flush()
