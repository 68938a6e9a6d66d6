"""A real Apache Kafka as a context manager: jars from Maven Central, one KRaft node on loopback, data in a temp folder.

    with KafkaServer(properties={"log.flush.interval.messages": "1"}) as kafka:
        kafka.bootstrap, kafka.pid, kafka.startup_s

`python -m bench.kafka_server [--port N] [--set key=value]` runs one in the foreground. Needs `java` (17 or newer), and
`mvn` once: the jars are kept in $TRUNKLINE_CACHE (default ~/.cache/trunkline) under kafka-<version>/.
JVM options are those of Kafka's own start script, so that memory and speed are what a user of Kafka sees.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import probe

VERSION = "4.3.0"
_SCALA = "2.13"
_ARTIFACTS = (
    ("org.apache.kafka", f"kafka_{_SCALA}", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
_JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_START_DEADLINE_S = 60.0
_START_ATTEMPTS = 3


def cache_dir() -> Path:
    return Path(os.environ.get("TRUNKLINE_CACHE") or Path.home() / ".cache" / "trunkline")


def jars() -> Path:
    """The folder with Kafka's jars, resolved through Maven on first use."""
    target = cache_dir() / f"kafka-{VERSION}"
    if target.is_dir():
        return target
    print(f"resolving Apache Kafka {VERSION} through Maven into {target} (once)", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(_pom())
        libs = Path(scratch) / "libs"
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={libs}", "-DincludeScope=runtime"]
        _run([_tool("mvn"), "-q", "-B", "-f", str(pom), *goal])
        try:
            libs.rename(target)
        except OSError:  # another process resolved them meanwhile
            if not target.is_dir():
                raise
    return target


def _pom() -> str:
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in _ARTIFACTS
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>trunkline</groupId><artifactId>kafka-jars</artifactId>"
        f"<version>1</version><dependencies>{wanted}</dependencies></project>"
    )


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"`{name}` is not on this machine; Apache Kafka needs Java 17 or newer, and Maven once")
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} ended with status {done.returncode}:\n{done.stdout[-4000:]}")


def java_command(main_class: str, *args: str, jvm_options: tuple[str, ...] = (), log_level: str = "warn") -> list[str]:
    """A command line that runs one of Kafka's main classes with its logs, from `log_level` up, on stderr."""
    options = [*jvm_options, f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"]
    return [_tool("java"), *options, "-cp", f"{jars()}/*", main_class, *args]


class KafkaServer:
    """One broker and controller in one JVM. `properties` override or add to the broker's settings."""

    name = "Apache Kafka"

    def __init__(
        self, properties: Mapping[str, str] | None = None, port: int = 0, data_root: Path | None = None
    ) -> None:
        self._properties = dict(properties or {})
        self._wanted_port = port
        self._data_root = data_root
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self.bootstrap = ""
        self.startup_s = 0.0

    @property
    def version(self) -> str:
        return VERSION

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("Kafka is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        attempts = 1 if self._wanted_port else _START_ATTEMPTS
        for attempt in range(attempts):
            try:
                self._start()
                return self
            except RuntimeError:
                self.stop()
                if attempt + 1 == attempts:
                    raise
            except BaseException:
                self.stop()
                raise
        raise AssertionError("unreachable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="trunkline-kafka-", dir=self._data_root))
        port = self._wanted_port or probe.free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        config = self._scratch / "server.properties"
        settings = self._settings(port, probe.free_port()) | self._properties
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        _run(java_command("kafka.tools.StorageTool", "format", "-t", "dHJ1bmtsaW5lLWJlbmNoLQ", "-c", str(config)))
        log = (self._scratch / "server.log").open("wb")
        with log:
            self._process = subprocess.Popen(
                java_command("kafka.Kafka", str(config), jvm_options=_JVM_OPTIONS),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.startup_s = probe.wait_until_answering(self.bootstrap, self._process, _START_DEADLINE_S)
        except RuntimeError as error:
            tail = (self._scratch / "server.log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{error}; its log ends with:\n{tail}") from error

    def _settings(self, port: int, controller_port: int) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": f"{self._scratch}/data",
            # One node cannot hold three replicas of the internal topics.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # As in the server.properties that Kafka ships for one node: a first group need not wait 3 s for company.
            "group.initial.rebalance.delay.ms": "0",
        }

    def stop(self) -> None:
        """Ends the process and removes its data. Safe to call twice."""
        if self._process is not None:
            probe.stop(self._process)
            self._process = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka_server", description="Run a throw-away Apache Kafka.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker setting")
    args = parser.parse_args()
    properties = dict(item.split("=", 1) for item in args.set)
    ended = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: ended.set())
    with KafkaServer(properties, port=args.port) as kafka:
        print(f"kafka   {kafka.bootstrap}\nready", flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
