"""What the checks of this suite work with: the tools themselves, and quick ways to prepare topics and groups."""

from __future__ import annotations

import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.kafka_server import java_command
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

# Tools live for a second: the quick compiler and the plain collector start fastest.
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256M")
_TOOL_DEADLINE_S = 60.0
_QUIET = {"log_level": 2}

_PACKAGES = {
    "ConfigCommand": "kafka.admin",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group",
}


@dataclass(frozen=True)
class Printed:
    """What a tool printed and how it ended."""

    tool: str
    out: str
    err: str
    status: int

    @property
    def lines(self) -> list[str]:
        return [line for line in self.out.splitlines() if line.strip()]

    def expect(self, *parts: str) -> Printed:
        """Status 0 and every part somewhere on stdout."""
        assert self.status == 0, f"{self.tool} ended with status {self.status}: {self._tail()}"
        return self.has(*parts)

    def has(self, *parts: str) -> Printed:
        for part in parts:
            assert part in self.out, f"{self.tool} did not print {part!r}: {self._tail()}"
        return self

    def refuses(self, *parts: str) -> Printed:
        """Told the user why not: every part somewhere on stdout or stderr."""
        for part in parts:
            assert part in self.out + self.err, f"{self.tool} did not say {part!r}: {self._tail()}"
        return self

    def row(self, *parts: str) -> list[str]:
        """The columns of the one line that holds all parts."""
        rows = [line.split() for line in self.lines if all(part in line.split() for part in parts)]
        assert len(rows) == 1, f"{self.tool} printed {len(rows)} lines with {parts}: {self._tail()}"
        return rows[0]

    def _tail(self) -> str:
        return " / ".join((self.out + self.err).strip().splitlines()[-6:])[-600:]


class Tools:
    """Runs tools against one broker. Names made here are new on every run, so any broker may be used again."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._run_id = uuid.uuid4().hex[:6]
        self._names = 0
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
        self._scratch = tempfile.TemporaryDirectory(prefix="trunkline-compat-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scratch.cleanup()

    def command(self, tool: str, *args: str) -> list[str]:
        package = _PACKAGES.get(tool, "org.apache.kafka.tools")
        where = ("--bootstrap-server", self.bootstrap)
        # ClusterTool and TransactionsCommand take a verb; the former wants the address after it.
        ordered = (args[0], *where, *args[1:]) if tool == "ClusterTool" else (*where, *args)
        return java_command(f"{package}.{tool}", *ordered, jvm_options=_JVM_OPTIONS, log_level="error")

    def run(self, tool: str, *args: str, typed: str = "", deadline_s: float = _TOOL_DEADLINE_S) -> Printed:
        try:
            done = subprocess.run(
                self.command(tool, *args), input=typed, capture_output=True, text=True, check=False, timeout=deadline_s
            )
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{tool} did not end within {deadline_s:.0f} s; printed {late.stdout!r}") from None
        return Printed(tool, done.stdout, done.stderr, done.returncode)

    def start(self, tool: str, *args: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(tool, *args), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def new_name(self, kind: str) -> str:
        self._names += 1
        return f"compat-{kind}-{self._run_id}-{self._names}"

    def new_file(self, text: str) -> Path:
        path = Path(self._scratch.name) / self.new_name("file")
        path.write_text(text)
        return path

    def new_topic(self, partitions: int = 1, values: int = 0, **configs: str) -> str:
        """A topic with `values` records v0, v1, … in partition 0, one millisecond of timestamp apart from 1,000 on."""
        name = self.new_name("topic")
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self._admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(20)
        producer = Producer({"bootstrap.servers": self.bootstrap, **_QUIET})
        for number in range(values):
            producer.produce(name, f"v{number}", partition=0, timestamp=1_000 + number)
        assert producer.flush(20) == 0, f"records for {name} were not accepted"
        return name

    def drop_topic(self, name: str) -> None:
        """Removes a topic that a tool makes under a fixed name, if it is there."""
        if name in self.topics():
            self._admin.delete_topics([name])[name].result(20)
            wait_until(lambda: name not in self.topics(), f"the end of {name}")

    def new_group(self, topic: str, offset: int) -> str:
        """A group without members that has committed `offset` in partition 0."""
        name = self.new_name("group")
        place = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, offset)])
        self._admin.alter_consumer_group_offsets([place])[name].result(20)
        return name

    def committed(self, group: str, topic: str) -> int:
        """The committed offset in partition 0, or a negative number for none."""
        place = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        found: Any = self._admin.list_consumer_group_offsets([place])[group].result(20)
        return int(found.topic_partitions[0].offset)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=20).topics)

    def broker_id(self) -> str:
        return str(next(iter(self._admin.list_topics(timeout=20).brokers)))

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", **_QUIET})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
            return int(low), int(high)
        finally:
            consumer.close()


Check = Callable[[Tools], None]


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = 30.0) -> None:
    ends = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < ends, f"{what} did not come within {deadline_s:.0f} s"
        time.sleep(0.1)
