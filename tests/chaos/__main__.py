"""`python -m tests.chaos`: some dozens of deaths in a few minutes, and a table of what held.

python -m tests.chaos --deaths 40 --seed 7 --report docs/reliability.md
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.report import report, table
from tests.chaos.storm import DEATHS, Storm

_SHOWN = 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--deaths", type=int, default=40, help="how often the broker dies (default: 40)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run's choices, not its timing")
    parser.add_argument("--only", choices=sorted(set(DEATHS)), default=None, help="die in this way only")
    parser.add_argument("--report", type=Path, default=None, help="write the table there, too")
    parser.add_argument("--keep", action="store_true", help="keep the data directory of a run that failed")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    directory = Path(tempfile.mkdtemp(prefix="trunkline-chaos-"))
    result = Storm(directory / "data", seed, (options.only,) if options.only else DEATHS).run(options.deaths)
    print(table(result, seed))
    for line in result.wrong[:_SHOWN]:
        print(f"WRONG  {line}")
    if len(result.wrong) > _SHOWN:
        print(f"       and {len(result.wrong) - _SHOWN} more")
    if result.wrong and options.keep:
        print(f"the data is in {directory}")
    else:
        _remove(directory)
    if options.report is not None and not result.wrong:
        options.report.write_text(report(result, seed))
    return 1 if result.wrong else 0


def _remove(directory: Path) -> None:
    import shutil

    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
