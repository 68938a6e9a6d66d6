"""Runs the command as a shell would, in this process: arguments and stdin in; status, stdout and stderr out."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

from trunkline.cli.main import main


@dataclass(frozen=True)
class Done:
    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Cli:
    """`bootstrap` is given to each command; None leaves it to the command's own default."""

    bootstrap: str | None = None

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Done:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        command = [*arguments, "--bootstrap", self.bootstrap] if self.bootstrap else list(arguments)
        with (
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8")),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                status = main(command)
            except SystemExit as stop:  # argparse's way to refuse
                status = stop.code if isinstance(stop.code, int) else 1
        out.flush()
        return Done(status, out.buffer.getvalue(), err.getvalue())

    def ok(self, *arguments: str, stdin: bytes = b"") -> Done:
        done = self(*arguments, stdin=stdin)
        assert done.status == 0, done
        return done
