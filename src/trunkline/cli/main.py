"""The entry point: `serve` and `--version` at once, everything else through typer, errors as one line.

Exit status: 0 done, 1 it failed (the broker said no, or cannot be reached), 2 the command line is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from trunkline import __version__


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["serve"]:
        from trunkline.cli.serve import serve

        return serve(arguments[1:])
    if arguments == ["--version"]:
        print(f"trunkline {__version__}")
        return 0
    return _run_client_command(arguments)


def _run_client_command(arguments: list[str]) -> int:
    from trunkline.cli.app import app
    from trunkline.cli.failure import Failure

    try:
        app(args=arguments, prog_name="trunkline")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except Failure as failure:
        print(f"trunkline: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
