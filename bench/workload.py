"""The client side of a measurement, in a process of its own so that its CPU is never charged to a broker.

`run(task)` starts one; the process does what the task says with confluent-kafka and prints its result as one JSON line.
Settings are the client's defaults (linger 5 ms, no compression) and acks=all, with two exceptions: the consumer's
fetch.queue.backoff.ms (1 s by default, it would measure the client's naps), and one record per request for latency.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import statistics
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Literal

from bench import probe

_QUEUE_HIGH_WATER = 90_000  # messages; librdkafka's own limit is 100,000
_BURST = 500
_DEADLINE_S = 60.0
_STAMP = struct.Struct(">q")

Kind = Literal["produce", "consume", "latency"]


@dataclass(frozen=True)
class Task:
    """What one client process does. `limit` bounds what it produces, or says how much there is to consume."""

    kind: Kind
    bootstrap: str
    broker_pid: int
    topic: str
    partitions: int
    message_bytes: int
    duration_s: float
    limit: int
    rate_per_s: int = 0


@dataclass(frozen=True)
class Outcome:
    """`broker_cpu_s` is what the broker's processes used between the first and the last message.

    `others` is the share of the machine that neither broker nor client used: what makes a figure doubtful.
    """

    messages: int
    elapsed_s: float
    broker_cpu_s: float
    others: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0

    @property
    def per_second(self) -> float:
        return self.messages / self.elapsed_s

    @property
    def cpu_us_per_message(self) -> float:
        return self.broker_cpu_s / self.messages * 1e6


class _Window:
    """The stretch of time that is measured: from its making to `close`."""

    def __init__(self, task: Task) -> None:
        self._pid = task.broker_pid
        self._broker_s, self._own_s = probe.cpu_seconds(self._pid), time.process_time()
        self._busy_s = probe.machine_busy_s()
        self.began = time.perf_counter()

    def close(self, messages: int) -> Outcome:
        elapsed_s = time.perf_counter() - self.began
        broker_s = probe.cpu_seconds(self._pid) - self._broker_s
        own_s = time.process_time() - self._own_s
        others_s = probe.machine_busy_s() - self._busy_s - broker_s - own_s
        share = max(0.0, others_s) / (elapsed_s * (os.cpu_count() or 1))
        return Outcome(messages, elapsed_s, broker_s, share)


def run(task: Task) -> Outcome:
    """Does the task in a fresh process; RuntimeError with the client's own words if it fails."""
    command = [sys.executable, "-m", "bench.workload", json.dumps(dataclasses.asdict(task))]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=task.duration_s + 2 * _DEADLINE_S
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"the {task.kind} client did not end in time") from error
    if done.returncode != 0:
        raise RuntimeError(f"the {task.kind} client failed: {done.stderr.strip()[-500:]}")
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def _produce(task: Task) -> Outcome:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": task.bootstrap, "acks": "all"})
    producer.list_topics(task.topic, timeout=10)
    value = b"x" * task.message_bytes
    sent = 0
    window = _Window(task)
    ends = window.began + task.duration_s
    while sent < task.limit and time.perf_counter() < ends:
        while len(producer) > _QUEUE_HIGH_WATER:
            producer.poll(0.001)
        for _ in range(_BURST):
            producer.produce(task.topic, value)
        sent += _BURST
        producer.poll(0)
    left = producer.flush(_DEADLINE_S)
    outcome = window.close(sent)
    stored = _stored(task)
    if left or stored != sent:
        raise SystemExit(f"{sent} messages sent, {left} still unsent, {stored} in the log")
    return outcome


def _stored(task: Task) -> int:
    """How many messages the topic holds: what a silent delivery failure would show in."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": task.bootstrap, "group.id": "bench"})
    try:
        marks = [
            consumer.get_watermark_offsets(TopicPartition(task.topic, partition), timeout=10)
            for partition in range(task.partitions)
        ]
    finally:
        consumer.close()
    return sum(high - low for low, high in marks)


def _consume(task: Task) -> Outcome:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.list_topics(task.topic, timeout=10)
    received = 0
    window = _Window(task)
    consumer.assign([TopicPartition(task.topic, partition, 0) for partition in range(task.partitions)])
    while received < task.limit:
        if time.perf_counter() - window.began > _DEADLINE_S:
            raise SystemExit(f"{received} of {task.limit} messages came within {_DEADLINE_S:.0f} s")
        for message in consumer.consume(10_000, 0.1):
            if message.error():
                raise SystemExit(str(message.error()))
            received += 1
    outcome = window.close(received)
    consumer.close()
    return outcome


def _latency(task: Task) -> Outcome:
    """From just before produce() to the message in the consumer's hands, one record per request."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": task.bootstrap, "acks": "all", "linger.ms": 0, "batch.num.messages": 1})
    receiver = _Receiver(task)
    receiver.start()
    padding = b"x" * (task.message_bytes - _STAMP.size)
    producer.produce(task.topic, _STAMP.pack(0) + padding)
    producer.flush(_DEADLINE_S)
    receiver.wait_for(1)
    count = int(task.rate_per_s * task.duration_s)
    window = _Window(task)
    for number in range(count):
        pause = window.began + number / task.rate_per_s - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        producer.produce(task.topic, _STAMP.pack(time.perf_counter_ns()) + padding)
        producer.poll(0)
    producer.flush(_DEADLINE_S)
    receiver.wait_for(count + 1)
    outcome = window.close(count)
    settled = receiver.latencies_ms[1 + count // 6 :]  # the first part warms the path
    cuts = statistics.quantiles(settled, n=100)
    return dataclasses.replace(outcome, p50_ms=cuts[49], p99_ms=cuts[98])


class _Receiver(threading.Thread):
    def __init__(self, task: Task) -> None:
        super().__init__(daemon=True)
        from confluent_kafka import Consumer, TopicPartition

        self.latencies_ms: list[float] = []
        self._consumer = Consumer(
            {"bootstrap.servers": task.bootstrap, "group.id": "bench", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(task.topic, partition, 0) for partition in range(task.partitions)])

    def run(self) -> None:
        while True:
            message = self._consumer.poll(1.0)
            now_ns = time.perf_counter_ns()
            if message is not None and not message.error():
                (sent_ns,) = _STAMP.unpack_from(message.value() or b"")
                self.latencies_ms.append((now_ns - sent_ns) / 1e6)

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while len(self.latencies_ms) < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(self.latencies_ms)} of {count} messages came within {_DEADLINE_S:.0f} s")
            time.sleep(0.01)


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    outcome = {"produce": _produce, "consume": _consume, "latency": _latency}[task.kind](task)
    print(json.dumps(dataclasses.asdict(outcome)), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
