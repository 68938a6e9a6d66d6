"""Trunkline as a context manager of the same shape as KafkaServer: its own process, data in a temp folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import probe

_START_DEADLINE_S = 30.0


class TrunklineServer:
    """`trunkline serve` with a Kafka listener only; `flags` go to the command line as they are."""

    name = "Trunkline"

    def __init__(self, flags: Sequence[str] = (), data_root: Path | None = None) -> None:
        self._flags = list(flags)
        self._data_root = data_root
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self.bootstrap = ""
        self.startup_s = 0.0

    @property
    def version(self) -> str:
        try:
            return metadata.version("trunkline")
        except metadata.PackageNotFoundError:
            return "from source"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("Trunkline is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="trunkline-bench-", dir=self._data_root))
        ready_file = self._scratch / "ready.json"
        log_path = self._scratch / "server.log"
        listeners = ["--kafka", "127.0.0.1:0", "--amqp", "off", "--redis", "off", "--http", "off"]
        where = ["--data", str(self._scratch / "data"), "--ready-file", str(ready_file)]
        began = time.monotonic()
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trunkline", "serve", *where, *listeners, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.bootstrap = self._wait_for(ready_file, self._process)
            probe.wait_until_answering(self.bootstrap, self._process, _START_DEADLINE_S)
        except RuntimeError as error:
            raise RuntimeError(
                f"{error}; its log ends with:\n{log_path.read_text(errors='replace')[-3000:]}"
            ) from error
        self.startup_s = time.monotonic() - began

    @staticmethod
    def _wait_for(ready_file: Path, process: subprocess.Popen[bytes]) -> str:
        """The Kafka address from the ready file, which is written whole or not at all."""
        deadline = time.monotonic() + _START_DEADLINE_S
        while not ready_file.exists():
            if process.poll() is not None:
                raise RuntimeError(f"Trunkline ended with status {process.returncode} before it was ready")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Trunkline was not ready within {_START_DEADLINE_S:.0f} s")
            time.sleep(0.005)
        return str(json.loads(ready_file.read_text())["kafka"])

    def stop(self) -> None:
        """Ends the process and removes its data. Safe to call twice."""
        if self._process is not None:
            probe.stop(self._process)
            self._process = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
