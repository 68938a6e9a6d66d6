"""A real `trunkline serve` process, for tests that stop it, kill it or look at what it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO

READY_SECONDS = 30
_KEPT_LINES = 5000


class Server:
    """`with Server(tmp_path) as server: …`; `kill` is kill -9, after which `start` recovers from the same data."""

    def __init__(
        self, data: Path, *flags: str, environment: dict[str, str] | None = None, prefix: tuple[str, ...] = ()
    ) -> None:
        """`prefix`: a command that runs the server's command, to give it limits of its own."""
        self.data = data
        self.flags = flags
        self.environment = environment or {}
        self.prefix = prefix
        self.process: subprocess.Popen[str]
        self.addresses: dict[str, str] = {}
        self._port = 0
        self._output: _Lines
        self._errors: _Lines

    @property
    def kafka(self) -> str:
        return self.addresses["kafka"]

    @property
    def http(self) -> str:
        return self.addresses["http"]

    @property
    def log_lines(self) -> list[str]:
        """What this run has written to stderr so far."""
        return list(self._errors.lines)

    def start(self) -> Server:
        """Returns once it is ready. A restart takes the port it had before, so that clients find it again."""
        self.spawn()
        return self.wait_until_ready()

    def spawn(self) -> None:
        """Start the process, and wait for nothing."""
        self._ready_file.unlink(missing_ok=True)
        command = [*self.prefix, sys.executable, "-m", "trunkline", "serve", "--data", str(self.data)]
        listeners = ["--kafka", f"127.0.0.1:{self._port}", "--amqp", "off", "--redis", "off", "--http", "off"]
        self.process = subprocess.Popen(
            [*command, "--ready-file", str(self._ready_file), *listeners, *self.flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._output, self._errors = _Lines(self.process.stdout), _Lines(self.process.stderr)

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> Server:
        deadline = time.monotonic() + seconds
        while not self._ready_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                if self.process.poll() is None:
                    self.process.kill()
                _, output, errors = self.wait(10)
                raise AssertionError(f"the broker did not start:\n{output}\n{errors}")
            time.sleep(0.01)
        self.addresses = json.loads(self._ready_file.read_text())
        self._port = int(self.kafka.rsplit(":", 1)[1])
        return self

    def wait(self, seconds: float = 30) -> tuple[int, str, str]:
        """Until it ends: the exit status and what it printed."""
        status = self.process.wait(seconds)
        return status, self._output.all(), self._errors.all()

    def stop(self, seconds: float = 30) -> tuple[int, str, str]:
        """SIGTERM; the exit status and what it printed."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.wait(10)

    def resident_bytes(self) -> int:
        """The memory that the process has now (Linux)."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()

    @property
    def _ready_file(self) -> Path:
        return self.data.parent / f"{self.data.name}.ready"


class _Lines:
    """Reads a pipe as it fills, so that a talkative process never waits for its reader."""

    def __init__(self, pipe: IO[str]) -> None:
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._pipe = pipe
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def all(self) -> str:
        self._thread.join(10)
        return "".join(self.lines)

    def _read(self) -> None:
        with self._pipe as pipe:
            for line in pipe:
                self.lines.append(line)
