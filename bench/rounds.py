"""The measurement itself: both brokers up side by side, the load on one at a time, in turns.

Turns alternate (A B C, then C B A), so that a machine that grows faster or slower over the run favours nobody, and each
begins with the disk's write-back done, so that nobody pays for what another one left dirty.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from bench import probe, results, workload
from bench.kafka_server import KafkaServer
from bench.results import KAFKA, KAFKA_FLUSH, TRUNKLINE, Results
from bench.trunkline_server import TrunklineServer
from bench.workload import Outcome, Task

_LATENCY_RATE_PER_S = 1_000
_LATENCY_MESSAGE_BYTES = 100
_SETTLE_S = 3.0
_FLAT_WITHIN = 0.05
_DISTURBING_SHARE = 0.1
_LOG_ERRORS = 3  # syslog level: librdkafka tells of harmless purges at 6


class Server(Protocol):
    name: str
    bootstrap: str
    startup_s: float

    @property
    def pid(self) -> int: ...
    @property
    def version(self) -> str: ...
    def __enter__(self) -> Self: ...
    def stop(self) -> None: ...


@dataclass(frozen=True)
class Contender:
    """A running broker, and the configs of the topics it is measured with."""

    key: str
    label: str
    server: Server
    topic_configs: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """How much to measure. `time_limit_s` ends repetition, never a scenario's first round."""

    contenders: tuple[str, ...]
    scenarios: tuple[str, ...]
    message_bytes: tuple[int, ...] = (100, 1000)
    partitions: tuple[int, ...] = (1, 4)
    rounds: int = 5
    burst_s: float = 2.5
    burst_bytes: int = 512 << 20
    latency_s: float = 12.0
    latency_rounds: int = 3
    warm_up_s: tuple[float, float] = (12.0, 25.0)
    starts: int = 3
    time_limit_s: float = 500.0
    data_root: Path | None = None


class Bench:
    """Carries a plan out; `say` gets a line for each thing done."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._began = time.monotonic()
        self._topics = 0
        self.results = Results()
        self.versions: dict[str, str] = {}
        self.others: list[float] = []

    def run(self) -> Results:
        if "startup" in self._plan.scenarios:
            self._measure_starts()
        with contextlib.ExitStack() as stack:
            contenders = self._start_all(stack)
            time.sleep(_SETTLE_S)
            self._note_rss(results.RSS_AT_REST, contenders)
            for contender in _one_per_server(contenders):
                self._warm_up(contender)
            if "throughput" in self._plan.scenarios:
                self._measure_throughput(contenders)
                self._note_rss(results.RSS_AFTER_LOAD, contenders)
            if "latency" in self._plan.scenarios:
                self._measure_latency(contenders)
        return self.results

    def _new_server(self, key: str) -> Server:
        if key == TRUNKLINE:
            return TrunklineServer(data_root=self._plan.data_root)
        # Deleted topics leave the disk at once, not after a minute: a run must not fill it.
        return KafkaServer({"log.segment.delete.delay.ms": "1000"}, data_root=self._plan.data_root)

    def _measure_starts(self) -> None:
        for number in range(1, self._plan.starts + 1):
            for key in self._plan.contenders:
                if key == KAFKA_FLUSH:
                    continue
                server = self._new_server(key)
                try:
                    server.__enter__()
                    self._note(f"start {number}/{self._plan.starts}", server.name, f"{server.startup_s:.2f} s")
                    self.results.add(results.START_UP, key, server.startup_s)
                finally:
                    server.stop()

    def _start_all(self, stack: contextlib.ExitStack) -> list[Contender]:
        contenders: list[Contender] = []
        keys = self._plan.contenders
        if KAFKA in keys or KAFKA_FLUSH in keys:
            kafka = self._new_server(KAFKA)
            stack.callback(kafka.stop)
            kafka.__enter__()
            if KAFKA in keys:
                contenders.append(Contender(KAFKA, "Apache Kafka", kafka, {}))
            if KAFKA_FLUSH in keys:
                contenders.append(Contender(KAFKA_FLUSH, "Kafka, flush.messages=1", kafka, {"flush.messages": "1"}))
        if TRUNKLINE in keys:
            trunkline = self._new_server(TRUNKLINE)
            stack.callback(trunkline.stop)
            trunkline.__enter__()
            contenders.append(Contender(TRUNKLINE, "Trunkline", trunkline, {}))
        self.versions = {contender.server.name: contender.server.version for contender in contenders}
        return contenders

    def _note_rss(self, row: results.Row, contenders: Sequence[Contender]) -> None:
        for contender in _one_per_server(contenders):
            megabytes = probe.rss_bytes(contender.server.pid) / 1e6
            self.results.add(row, contender.key, megabytes)
            self._note(row.label, contender.label, f"{megabytes:.0f} MB")

    def _warm_up(self, contender: Contender) -> None:
        """Load until the rate is flat: a JVM compiles its hot code for its first ten seconds and more."""
        at_least_s, at_most_s = self._plan.warm_up_s
        began = time.monotonic()
        best = 0.0
        while True:
            with self._topic(contender, 1) as topic:
                produced = workload.run(self._task("produce", contender, topic, 1, 100, duration_s=2.0))
                workload.run(self._task("consume", contender, topic, 1, 100, limit=produced.messages))
            spent = time.monotonic() - began
            self._note("warm-up", contender.label, f"{produced.per_second / 1e3:,.0f} k msg/s")
            flat = produced.per_second < best * (1 + _FLAT_WITHIN)
            best = max(best, produced.per_second)
            if (flat and spent >= at_least_s) or spent >= at_most_s:
                return

    def _measure_throughput(self, contenders: Sequence[Contender]) -> None:
        for message_bytes in self._plan.message_bytes:
            for partitions in self._plan.partitions:
                case = f"{_bytes(message_bytes)}, {partitions} partition{'s' if partitions > 1 else ''}"
                for number, contender in self._turns(contenders, self._plan.rounds):
                    with self._guarded(f"{case} on {contender.label}"):
                        self._throughput_round(contender, case, message_bytes, partitions, number)

    def _throughput_round(
        self, contender: Contender, case: str, message_bytes: int, partitions: int, number: int
    ) -> None:
        title = f"{case}, round {number}/{self._plan.rounds}"
        with self._topic(contender, partitions) as topic:
            produced = self._client(self._task("produce", contender, topic, partitions, message_bytes))
            self._add(results.produce_rate(case), results.produce_cpu(case), contender, produced)
            self._note(f"produce {title}", contender.label, _told(produced))
            if contender.key == KAFKA_FLUSH:  # reading costs the same however it was written
                return
            task = self._task("consume", contender, topic, partitions, message_bytes, limit=produced.messages)
            consumed = self._client(task)
            self._add(results.consume_rate(case), results.consume_cpu(case), contender, consumed)
            self._note(f"consume {title}", contender.label, _told(consumed))

    def _add(self, rate: results.Row, cpu: results.Row, contender: Contender, outcome: Outcome) -> None:
        self.results.add(rate, contender.key, outcome.per_second / 1e3)
        self.results.add(cpu, contender.key, outcome.cpu_us_per_message)

    def _measure_latency(self, contenders: Sequence[Contender]) -> None:
        for number, contender in self._turns(contenders, self._plan.latency_rounds):
            with self._guarded(f"latency on {contender.label}"), self._topic(contender, 1) as topic:
                task = self._task(
                    "latency",
                    contender,
                    topic,
                    1,
                    _LATENCY_MESSAGE_BYTES,
                    duration_s=self._plan.latency_s,
                    rate_per_s=_LATENCY_RATE_PER_S,
                )
                outcome = self._client(task)
                self.results.add(results.LATENCY_P50, contender.key, outcome.p50_ms)
                self.results.add(results.LATENCY_P99, contender.key, outcome.p99_ms)
                self.results.add(results.LATENCY_CPU, contender.key, outcome.cpu_us_per_message)
                told = f"p50 {outcome.p50_ms:.2f} ms, p99 {outcome.p99_ms:.2f} ms, {outcome.cpu_us_per_message:.0f} µs"
                self._note(
                    f"latency, round {number}/{self._plan.latency_rounds}", contender.label, told + _disturbed(outcome)
                )

    def _turns(self, contenders: Sequence[Contender], rounds: int) -> Iterator[tuple[int, Contender]]:
        for number in range(1, rounds + 1):
            for contender in contenders if number % 2 else reversed(contenders):
                if number > 1 and time.monotonic() - self._began > self._plan.time_limit_s:
                    self._say(f"time limit reached in round {number} of {rounds}")
                    return
                os.sync()
                yield number, contender

    @contextlib.contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """A failed turn leaves a gap in the table and a line under it; the rest of the run goes on."""
        try:
            yield
        except RuntimeError as error:
            self.results.failures.append(f"{what}: {error}")
            self._say(f"FAILED {what}: {error}")

    @contextlib.contextmanager
    def _topic(self, contender: Contender, partitions: int) -> Iterator[str]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        self._topics += 1
        name = f"bench-{self._topics}"
        admin = AdminClient({"bootstrap.servers": contender.server.bootstrap, "log_level": _LOG_ERRORS})
        topic = NewTopic(name, partitions, 1, config=dict(contender.topic_configs))
        try:
            admin.create_topics([topic], operation_timeout=10)[name].result(20)
        except KafkaException as error:
            raise RuntimeError(f"topic {name} could not be created: {error}") from error
        try:
            yield name
        finally:
            with contextlib.suppress(KafkaException):
                admin.delete_topics([name], operation_timeout=10)[name].result(20)

    def _task(
        self,
        kind: workload.Kind,
        contender: Contender,
        topic: str,
        partitions: int,
        message_bytes: int,
        duration_s: float | None = None,
        limit: int | None = None,
        rate_per_s: int = 0,
    ) -> Task:
        return Task(
            kind=kind,
            bootstrap=contender.server.bootstrap,
            broker_pid=contender.server.pid,
            topic=topic,
            partitions=partitions,
            message_bytes=message_bytes,
            duration_s=self._plan.burst_s if duration_s is None else duration_s,
            limit=self._plan.burst_bytes // message_bytes if limit is None else limit,
            rate_per_s=rate_per_s,
        )

    def _client(self, task: Task) -> Outcome:
        outcome = workload.run(task)
        self.others.append(outcome.others)
        return outcome

    def _note(self, what: str, who: str, figures: str) -> None:
        self._say(f"[{time.monotonic() - self._began:4.0f} s] {what}: {who} {figures}")


def _one_per_server(contenders: Sequence[Contender]) -> list[Contender]:
    """Leaves out the one that shares its process with an earlier contender."""
    seen: dict[int, Contender] = {}
    for contender in contenders:
        seen.setdefault(contender.server.pid, contender)
    return list(seen.values())


def _told(outcome: Outcome) -> str:
    return f"{outcome.per_second / 1e3:,.0f} k msg/s, {outcome.cpu_us_per_message:.2f} µs{_disturbed(outcome)}"


def _disturbed(outcome: Outcome) -> str:
    return f" (others took {outcome.others:.0%} of the machine)" if outcome.others > _DISTURBING_SHARE else ""


def _bytes(count: int) -> str:
    return f"{count // 1000} kB" if count >= 1000 else f"{count} B"
