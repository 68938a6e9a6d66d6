"""A real `trunkline serve` process, for tests that stop it, kill it or look at what it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

READY_SECONDS = 30


class Server:
    """`with Server(tmp_path) as server: …`; `kill` is kill -9, after which `start` recovers from the same data."""

    def __init__(self, data: Path, *flags: str, environment: dict[str, str] | None = None) -> None:
        self.data = data
        self.flags = flags
        self.environment = environment or {}
        self.process: subprocess.Popen[str]
        self.addresses: dict[str, str] = {}
        self._port = 0

    @property
    def kafka(self) -> str:
        return self.addresses["kafka"]

    def start(self) -> Server:
        """Returns once it is ready. A restart takes the port it had before, so that clients find it again."""
        ready = self.data.parent / f"{self.data.name}.ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "trunkline", "serve", "--data", str(self.data), "--ready-file", str(ready)]
        listeners = ["--kafka", f"127.0.0.1:{self._port}", "--amqp", "off", "--redis", "off", "--http", "off"]
        self.process = subprocess.Popen(
            [*command, *listeners, *self.flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        )
        deadline = time.monotonic() + READY_SECONDS
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                output, errors = self.process.communicate(timeout=10)
                raise AssertionError(f"the broker did not start:\n{output}\n{errors}")
            time.sleep(0.01)
        self.addresses = json.loads(ready.read_text())
        self._port = int(self.kafka.rsplit(":", 1)[1])
        return self

    def stop(self) -> tuple[int, str, str]:
        """SIGTERM; the exit status and what it printed."""
        self.process.send_signal(signal.SIGTERM)
        output, errors = self.process.communicate(timeout=30)
        return self.process.returncode, output, errors

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=10)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()
