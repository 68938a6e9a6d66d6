"""`trunkline serve`: flags, variables and the config file become Settings, and a node runs until it is stopped.

Read with argparse, before typer is even imported: importing typer takes longer than all the rest of a start-up.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from trunkline.model.settings import OPTIONS, SettingsError, load, unknown_variables

_ADDRESSES = """\
ADDR is HOST:PORT, [IPV6]:PORT, a bare port on localhost, or off; port 0 takes a free one.
SIZE is bytes, or a number with KiB, MiB or GiB.
Each flag is also a variable (--hot-tail-bytes: TRUNKLINE_HOT_TAIL_BYTES) and a key in the TOML file (hot-tail-bytes).
Flags win over variables, variables over the file.

examples:
  trunkline serve                                        the default ports, data in ./trunkline-data
  trunkline serve --memory --kafka localhost:0           a throw-away broker on a free port
  trunkline serve --data /var/lib/trunkline --amqp off --redis off
  trunkline serve --kafka 0.0.0.0:9092 --advertise broker.example.org --insecure
  TRUNKLINE_PARTITIONS=4 trunkline serve --config trunkline.toml
"""


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="trunkline serve",
        usage="trunkline serve [--data DIR] [--memory] [--config FILE] [--kafka ADDR] [flags]",
        description="Start a broker, and serve until SIGTERM or ^C.",
        epilog=_ADDRESSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    result.add_argument("--config", metavar="FILE", help="TOML file with any of these settings")
    tuning = result.add_argument_group("tuning")
    for option in OPTIONS:
        group = tuning if option.tuning else result
        if option.switch:
            group.add_argument(option.flag, action=argparse.BooleanOptionalAction, default=None, help=option.help)
        else:
            group.add_argument(option.flag, metavar=option.metavar, default=None, help=option.help)
    return result


def serve(argv: Sequence[str]) -> int:
    """The exit status of the node: 0 after a clean stop, 1 when it could not start, 2 for flags that cannot be."""
    flags = vars(parser().parse_args(argv))
    config = flags.pop("config") or os.environ.get("TRUNKLINE_CONFIG")
    try:
        settings = load(flags, os.environ, Path(config) if config else None)
    except SettingsError as error:
        print(f"trunkline serve: {error}", file=sys.stderr)
        return 2
    for name in unknown_variables(os.environ):
        print(f"trunkline serve: warning: nothing reads the variable {name}", file=sys.stderr)

    from trunkline.node import run

    return run(settings)
