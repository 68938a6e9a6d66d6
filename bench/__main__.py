"""`python -m bench`: Trunkline beside the real Apache Kafka, in one run, on one machine."""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from bench import machine, report
from bench.results import KAFKA, KAFKA_FLUSH, TRUNKLINE
from bench.rounds import Bench, Plan

_CONTENDERS = (KAFKA, KAFKA_FLUSH, TRUNKLINE)
_SCENARIOS = ("startup", "throughput", "latency")
_PAGE = Path("docs/benchmarks.md")


def main() -> int:
    args = _arguments()
    plan = _plan(args)
    facts = {
        "date": datetime.date.today().isoformat(),
        "command": "python -m bench " + " ".join(sys.argv[1:]) if sys.argv[1:] else "make bench",
        **machine.facts(plan.data_root),
    }
    bench = Bench(plan, _say)
    try:
        results = bench.run()
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except RuntimeError as error:
        _say(f"error: {error}")
        return 2
    facts |= bench.versions
    if bench.others:
        facts["taken by others while measuring"] = (
            f"median {statistics.median(bench.others):.0%}, worst {max(bench.others):.0%} of the machine's CPU"
        )
    print("\n" + report.table(results))
    for failure in results.failures:
        print(f"failed: {failure}")
    whole = not args.quick and args.only == _CONTENDERS and args.scenario == _SCENARIOS
    output = args.output or (_PAGE if whole else None)
    if output is not None:
        report.write(output, results, facts)
        _say(f"written to {output}")
    return 1 if results.failures else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=f"{__doc__} Needs Java 17 or newer, and Maven on first use."
    )
    parser.add_argument("--quick", action="store_true", help="one to two minutes; the figures are rougher")
    parser.add_argument(
        "--only", type=_some_of(_CONTENDERS), default=_CONTENDERS, metavar="A,B", help=_choices(_CONTENDERS)
    )
    parser.add_argument(
        "--scenario", type=_some_of(_SCENARIOS), default=_SCENARIOS, metavar="A,B", help=_choices(_SCENARIOS)
    )
    parser.add_argument("--output", type=Path, help=f"write the page here (default: {_PAGE}, for whole runs only)")
    parser.add_argument("--data-root", type=Path, help="folder on the disk to measure on (default: the system's temp)")
    return parser.parse_args()


def _choices(known: tuple[str, ...]) -> str:
    return f"some of {', '.join(known)} (default: all)"


def _some_of(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        wanted = text.split(",")
        for name in wanted:
            if name not in known:
                raise argparse.ArgumentTypeError(f"`{name}` is none of {', '.join(known)}")
        return tuple(name for name in known if name in wanted)

    return parse


def _plan(args: argparse.Namespace) -> Plan:
    if not args.quick:
        return Plan(contenders=args.only, scenarios=args.scenario, data_root=args.data_root)
    return Plan(
        contenders=args.only,
        scenarios=args.scenario,
        data_root=args.data_root,
        partitions=(1,),
        rounds=2,
        burst_s=2.0,
        latency_s=5.0,
        latency_rounds=1,
        warm_up_s=(6.0, 10.0),
        starts=1,
        time_limit_s=90.0,
    )


if __name__ == "__main__":
    sys.exit(main())
