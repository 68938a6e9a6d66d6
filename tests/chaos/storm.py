"""The storm: real clients at work, a broker that dies in every way, and an audit after each restart."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.audit import audit
from tests.chaos.workloads import CommitEach, DeleteRecords, MakeAndDeleteTopics, Produce, Promises, Workload
from tests.support.server import Server

FLAGS = (
    "--journal-file-bytes",
    "512KiB",
    "--checkpoint-bytes",
    "256KiB",
    "--retention-check-ms",
    "300",
    "--hot-tail-bytes",
    "256KiB",
    "--max-open-files",
    "16",
)
"""So small that checkpoints, rolled journal files, cold reads and evicted files happen all the time."""
DEATHS = ("kill", "kill", "kill", "kill at once", "kill in recovery", "terminate", "freeze")


@dataclass
class Result:
    deaths: Counter[str] = field(default_factory=Counter)
    audits: int = 0
    acknowledged: int = 0
    commits: int = 0
    topics_deleted: int = 0
    slowest_start_seconds: float = 0.0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


class Storm:
    def __init__(self, data: Path, seed: int, deaths: tuple[str, ...] = DEATHS) -> None:
        """`deaths`: the kinds to choose from."""
        self._deaths = deaths
        self._random = random.Random(seed)
        self._server = Server(data, *FLAGS)
        self._promises = Promises()
        self._workloads: list[Workload] = []
        self.result = Result()

    def run(self, deaths: int) -> Result:
        started = time.monotonic()
        self._server.start()
        try:
            self._begin()
            for _ in range(deaths):
                self._one_life()
                if self.result.wrong:
                    break
            else:
                self._end()
        finally:
            if self._server.process.poll() is None:
                self._server.kill()
        self.result.seconds = time.monotonic() - started
        return self.result

    def _begin(self) -> None:
        address, promises = self._server.kafka, self._promises
        promises.trimmed_by_retention.add("short")
        small = {"segment.bytes": str(1 << 20)}
        self._workloads = [
            Produce(address, promises, "once", 3, idempotent=True, configs=small),
            Produce(address, promises, "plain", 2, idempotent=False),
            Produce(address, promises, "os", 1, idempotent=True, configs={"durability": "os", **small}),
            Produce(address, promises, "trimmed", 1, idempotent=True, value_bytes=500, per_step=20, configs=small),
            Produce(
                address,
                promises,
                "short",
                1,
                idempotent=True,
                value_bytes=5000,
                per_step=10,
                configs={**small, "retention.bytes": str(3 << 20)},
            ),
            CommitEach(address, promises, "once", "commit-each"),
            MakeAndDeleteTopics(address, promises),
            DeleteRecords(address, promises, "trimmed"),
        ]
        for workload in self._workloads:
            workload.start()

    def _one_life(self) -> None:
        time.sleep(self._random.uniform(0.2, 1.5))
        death = self._random.choice(self._deaths)
        self.result.deaths[death] += 1
        self._die(death)
        started = time.monotonic()
        if death != "freeze":
            self._server.start()
            self.result.slowest_start_seconds = max(self.result.slowest_start_seconds, time.monotonic() - started)
        self._audit()
        if self.result.wrong:
            number = self.result.deaths.total()
            self.result.wrong.insert(0, f"all of the following was found after death {number}, {death!r}")
            self.result.wrong += [f"the broker said: {line.rstrip()}" for line in self._server.log_lines[-10:]]

    def _die(self, death: str) -> None:
        server = self._server
        if death == "terminate":
            status, _, errors = server.stop()
            if status != 0 or "Traceback" in errors:
                self.result.wrong.append(f"SIGTERM under load ended with status {status}: {errors[-500:]}")
            return
        if death == "freeze":
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(self._random.uniform(0.2, 2.0))
            server.process.send_signal(signal.SIGCONT)
            return
        server.kill()
        if death == "kill at once":
            server.start()
            server.kill()
        elif death == "kill in recovery":
            for _ in range(3):
                server.spawn()
                time.sleep(self._random.uniform(0.05, 0.4))
                server.kill()

    def _audit(self) -> None:
        for workload in self._workloads:
            workload.ask_to_hold()
        for workload in self._workloads:
            workload.hold(90)
        self.result.audits += 1
        self.result.wrong += audit(self._server.kafka, self._promises)
        self.result.wrong += [line for line in self._server.log_lines if "Traceback" in line]
        for workload in self._workloads:
            workload.go_on()

    def _end(self) -> None:
        """After a clean stop nothing of deleted topics is left on the disk."""
        for workload in self._workloads:
            workload.end()
        promises = self._promises
        self.result.acknowledged = sum(map(len, promises.acknowledged.values()))
        self.result.commits = sum(promises.committed.values())
        self.result.topics_deleted = len(promises.deleted)
        self._server.stop()
        left = [path.name for path in (self._server.data / "topics").iterdir()]
        self.result.wrong += [
            f"{name} is left of a deleted topic"
            for name in left
            if name.endswith((".deleted", ".unknown")) or name.rpartition("-")[0] in promises.deleted
        ]
