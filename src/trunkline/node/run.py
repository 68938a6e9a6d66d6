"""`trunkline serve` from the first line to the exit status."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from trunkline.log.disk import Disk
from trunkline.model.errors import TrunklineError, in_one_line
from trunkline.model.settings import Settings
from trunkline.model.topic import Durability
from trunkline.node.data_directory import DataDirectoryError
from trunkline.node.node import NOT_YET, Node
from trunkline.serve.complaints import Complaints
from trunkline.serve.listener import CannotListen

log = logging.getLogger(__name__)


class CannotTell(Exception):
    """One clear line for the person who wants to be told that the node is ready."""


class _Stopped(BaseException):
    """A signal came while recovery was at work."""


def run(settings: Settings, *, disk: Disk | None = None) -> int:
    """Serve until SIGTERM or ^C. 0 is a clean stop; 1 is told in one line on stderr. `disk`: as for Node."""
    logging.basicConfig(
        level=settings.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        return _run_loop(_serve(settings, disk))
    except _Stopped:
        print("stopped", flush=True)
        return 0
    except (CannotListen, CannotTell, DataDirectoryError, TrunklineError) as error:
        print(f"trunkline: {error}", file=sys.stderr)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        print(f"trunkline: {error.strerror or error}{where}: is there room on the disk of --data?", file=sys.stderr)
    except Exception as error:
        log.debug("an error of ours", exc_info=error)
        print(f"trunkline: this is an error of ours, please report it: {in_one_line(error)}", file=sys.stderr)
    return 1


def _run_loop(main: Coroutine[Any, Any, int]) -> int:
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    try:
        import uvloop

        new_loop = uvloop.new_event_loop
    except ImportError:
        pass
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


async def _serve(settings: Settings, disk: Disk | None) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_reporter())
    node = Node(settings, disk=disk)

    def stop_early(number: int, frame: object) -> None:
        if node.opening:
            raise _Stopped
        loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_early)
    await node.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _calm_collector()
    for line in start_lines(node):
        print(line)
    if settings.ready_file is not None:
        try:
            _write_ready_file(settings.ready_file, node)
        except CannotTell:
            await node.stop()
            raise
    print("ready", flush=True)
    node.failure.add_done_callback(lambda _: stop.set())
    await stop.wait()
    await node.stop()
    if node.failure.done():
        error = node.failure.result()
        print(
            f"trunkline: {error} Nothing more can be promised, so this node stops. What was acknowledged is safe; "
            "check the disk, then start again.",
            file=sys.stderr,
        )
        return 1
    print("stopped", flush=True)
    return 0


def _calm_collector() -> None:
    """What was made at start-up lives as long as the node: looking through it again and again would be felt in p99."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _reporter() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Errors that nobody waited for: one line each, and not too many of them."""
    complaints = Complaints(log)

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        complaints.say("%s%s", context["message"], f": {in_one_line(error)}" if error is not None else "")
        log.debug("%s", context["message"], exc_info=error)

    return report


def start_lines(node: Node) -> list[str]:
    """What listens where, what an ack means, where the data is."""
    settings = node.settings
    lines = []
    for name, address in settings.listeners().items():
        if name in NOT_YET:
            lines.append(f"{name:<8}not yet (would be {address}; silence this with --{name} off)")
        else:
            lines.append(f"{name:<8}{node.listeners[name].address}")
    if settings.memory:
        ack = "an ack means that this process has the write in memory; nothing survives its end"
    elif settings.durability is Durability.FSYNC:
        ack = "an ack means that the write is synced to the disk: it survives kill -9 and power loss"
    else:
        ack = "an ack means that the operating system has the write: it survives kill -9, not power loss"
    lines.append(f"{'acks':<8}{ack}")
    lines.append(f"{'data':<8}{'in memory' if settings.memory else settings.data.absolute()}")
    return lines


def _write_ready_file(path: Path, node: Node) -> None:
    """Written aside and renamed, so that whoever waits for it never reads half of it."""
    addresses = {
        name: node.listeners[name].address if name in node.listeners else None
        for name in ("kafka", "amqp", "redis", "http")
    }
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps({**addresses, "pid": os.getpid()}) + "\n")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CannotTell(f"The ready file {path} cannot be written: {error.strerror}.") from error
