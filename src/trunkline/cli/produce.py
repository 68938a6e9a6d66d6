"""`trunkline produce`: lines in, records out. Says how many arrived; what did not makes the exit status 1."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

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
    code_of,
    pairs,
    reason,
    words_of,
)
from trunkline.cli.failure import Failure
from trunkline.cli.interrupt import Interrupt
from trunkline.cli.record_text import BadLine, InputFormat, Outgoing, line_parser

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_DELIVERY_MS: Final = 30_000
"""How long a record may take to be acknowledged, retries included, before it counts as failed."""
_LONG_SECONDS: Final = 2.0


class Acks(StrEnum):
    NONE = "0"
    ONE = "1"
    ALL = "all"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to.", show_default=False)],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read lines from here instead of stdin.")
    ] = None,
    form: Annotated[InputFormat, typer.Option("--format", help="What a line is.")] = InputFormat.VALUE,
    key_separator: Annotated[
        str,
        typer.Option(
            "--key-separator", metavar="TEXT", help="Between key and value (default: a tab).", show_default=False
        ),
    ] = "\t",
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="The key of every record.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="On every record. Repeats.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", metavar="N", min=0)] = None,
    acks: Annotated[Acks, typer.Option("--acks", help="Whose word counts.")] = Acks.ALL,
    compression: Annotated[Compression, typer.Option("--compression", "-z")] = Compression.NONE,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Send each line of stdin, or of a file, as a record.

    A line is a value, key<TAB>value, or a JSON object with "value" and optionally "key", "headers", "partition" and
    "timestamp" (ms); what `consume --json` writes can be sent again. The summary goes to stderr.

    \b
    Examples:
      echo 'hello' | trunkline produce orders
      printf 'k1:v1\\nk2:v2\\n' | trunkline produce orders --format key-value --key-separator :
      echo '{"key": "k1", "value": "v1", "headers": {"trace": "abc"}}' | trunkline produce orders --format json
      trunkline produce orders --file orders.txt --header source=import --compression zstd
    """
    if not key_separator:
        raise typer.BadParameter("must not be empty", param_hint="--key-separator")
    if key is not None and form is not InputFormat.VALUE:
        raise typer.BadParameter(
            "is for --format value: in the other formats each line has its own", param_hint="--key"
        )
    extra = tuple((name, value.encode()) for name, value in pairs(header, "--header").items())
    parse = line_parser(form, key_separator.encode())
    defaults = Outgoing(None, key.encode() if key is not None else None, extra, partition)
    with _opened(file) as lines:
        producer = Cluster(bootstrap, timeout, properties).producer(_config(acks, compression))
        bad_line = ""
        sending = Sending(producer, topic, defaults)
        with Interrupt() as interrupt:
            try:
                records = _records(interrupt.until_asked(lines), parse, skip_blank=form is InputFormat.JSON)
                sending.send_all(records)
            except BadLine as error:
                bad_line = str(error)
            if interrupt.asked:
                show.note("stopped; waiting for what was sent to be acknowledged")
            sending.finish()
    sending.report(as_json)
    if bad_line:
        raise Failure(bad_line)


def _config(acks: Acks, compression: Compression) -> dict[str, Any]:
    return {
        "acks": acks.value,
        "enable.idempotence": acks is Acks.ALL,
        "compression.type": compression.value,
        "linger.ms": 5,
        "message.timeout.ms": _DELIVERY_MS,
        "message.max.bytes": 100_000_000,  # the topic's own limit decides, not the client's guess of it
        "delivery.report.only.error": True,
    }


@contextlib.contextmanager
def _opened(file: Path | None) -> Iterator[IO[bytes]]:
    if file is None:
        if sys.stdin.isatty():
            show.note("one record a line; ^D ends")
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from None
    with opened:
        yield opened


def _records(
    lines: Iterable[bytes], parse: Callable[[bytes], Outgoing], skip_blank: bool
) -> Iterator[tuple[int, Outgoing]]:
    """Line number and record. BadLine names the first line that is none."""
    for number, line in enumerate(lines, 1):
        line = line.removesuffix(b"\n")
        if skip_blank and not line.strip():
            continue
        try:
            yield number, parse(line)
        except BadLine as error:
            raise BadLine(f"line {number} and what follows were not sent: {error}") from None


class Sending:
    """One run of the producer: what was handed over, what failed and why first."""

    def __init__(self, producer: Producer, topic: str, defaults: Outgoing) -> None:
        self._producer = producer
        self._topic = topic
        self._defaults = defaults
        self._handed_over = 0
        self._failed = 0
        self._first_error = ""
        self._started = time.monotonic()
        self._progress_at = self._started + _LONG_SECONDS
        self._show_progress = sys.stderr.isatty() and not sys.stdin.isatty()

    def send_all(self, records: Iterable[tuple[int, Outgoing]]) -> None:
        from confluent_kafka import KafkaException

        for number, record in records:
            try:
                self._send(record)
            except (KafkaException, BufferError) as error:
                self._fail(f"line {number}: {reason(error)}")
                if code_of(error) in ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "_FATAL"):
                    return
            if self._show_progress and time.monotonic() > self._progress_at:
                self._print_progress()

    def _send(self, record: Outgoing) -> None:
        fields: dict[str, Any] = {"on_delivery": self._on_delivery}
        partition = record.partition if record.partition is not None else self._defaults.partition
        if partition is not None:
            fields["partition"] = partition
        if record.timestamp_ms is not None:
            fields["timestamp"] = record.timestamp_ms
        headers = [*record.headers, *self._defaults.headers]
        if headers:
            fields["headers"] = headers
        key = record.key if record.key is not None else self._defaults.key
        self._handed_over += 1
        while True:
            try:
                self._producer.produce(self._topic, record.value, key, **fields)
            except BufferError:
                self._producer.poll(0.1)  # the queue is full: room comes with the next acknowledgements or failures
            else:
                self._producer.poll(0)
                return

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(words_of(error))

    def _fail(self, why: str) -> None:
        self._failed += 1
        self._first_error = self._first_error or why

    def finish(self) -> None:
        """Wait until each record was acknowledged or has failed. A second ^C gives up waiting."""
        try:
            while self._producer.flush(0.25):
                if self._show_progress and time.monotonic() > self._progress_at:
                    self._print_progress()
        except KeyboardInterrupt:
            self._failed += len(self._producer)
            self._first_error = self._first_error or "stopped before they were acknowledged"
            self._producer.purge()
        if self._show_progress:
            sys.stderr.write("\r\x1b[K")

    def report(self, as_json: bool) -> None:
        sent, seconds = self._handed_over - self._failed, time.monotonic() - self._started
        rate = round(sent / seconds) if seconds > 0 else 0
        if as_json:
            show.document({"sent": sent, "failed": self._failed, "seconds": round(seconds, 3), "per_second": rate})
        else:
            show.note(f"{sent} sent to {self._topic} in {seconds:.2f} s ({rate}/s)")
        if self._failed:
            lines = "line was" if self._failed == 1 else "lines were"
            raise Failure(f"{self._failed} {lines} not delivered to {self._topic!r}: {self._first_error}")

    def _print_progress(self) -> None:
        now = time.monotonic()
        self._progress_at = now + 0.5
        acknowledged = self._handed_over - self._failed - len(self._producer)
        sys.stderr.write(f"\r\x1b[K{acknowledged} sent, {acknowledged / (now - self._started):.0f}/s")
        sys.stderr.flush()
