"""`python -m tests.compat`: the peers' own clients and tools against Trunkline (or any broker), by name and count."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator

from bench.kafka_server import KafkaServer
from bench.trunkline_server import TrunklineServer
from tests.compat import kafka_python_suite, kafka_tools, kafkajs, page
from tests.compat.suite import Result, Suite

SUITES = {suite.name: suite for suite in (kafka_tools.SUITE, kafkajs.SUITE, kafka_python_suite.SUITE)}


def main() -> int:
    args = _arguments()
    suites = [SUITES[name] for name in args.suite or SUITES]
    worst = 0
    outcomes: list[tuple[Suite, list[Result]]] = []
    try:
        for suite in suites:
            with _broker(args, suite) as bootstrap:
                status, results = _run(suite, bootstrap, args)
                worst = max(worst, status)
                outcomes.append((suite, results))
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if not (args.suite or args.match or args.bootstrap or args.kafka):
        page.write(outcomes)
    return worst


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__)
    parser.add_argument("suite", nargs="*", choices=[[], *SUITES], help=f"some of {', '.join(SUITES)} (default: all)")
    broker = parser.add_mutually_exclusive_group()
    broker.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="a broker that runs already (default: starts Trunkline)"
    )
    broker.add_argument("--kafka", action="store_true", help="start a real Apache Kafka: proves the checks themselves")
    parser.add_argument("--match", default="", metavar="TEXT", help="only checks whose name holds TEXT")
    parser.add_argument("--update", action="store_true", help="write what passes into the suite's list")
    return parser.parse_args()


@contextlib.contextmanager
def _broker(args: argparse.Namespace, suite: Suite) -> Iterator[str]:
    if args.bootstrap:
        yield args.bootstrap
    elif args.kafka:
        with KafkaServer(suite.kafka_properties) as kafka:
            yield kafka.bootstrap
    else:
        with TrunklineServer(suite.flags) as trunkline:
            yield trunkline.bootstrap


def _run(suite: Suite, bootstrap: str, args: argparse.Namespace) -> tuple[int, list[Result]]:
    print(f"\n{suite.name}: {suite.what}, on {bootstrap}", flush=True)
    listed = suite.listed()
    results: list[Result] = []
    for result in suite.run(bootstrap, args.match):
        results.append(result)
        verdict = "pass" if result.passed else "FAIL"
        print(f"  {verdict}  {result.seconds:5.1f} s  {result.name}", flush=True)
        if not result.passed:
            print(f"                 {result.detail}", flush=True)
    print(f"{suite.name}: {sum(result.passed for result in results)} of {len(results)} checks pass", flush=True)
    if args.kafka:
        return _judge_kafka(suite, results), results
    if args.update and not args.match:
        suite.write_list(results)
        print(f"{suite.name}: list written")
        return 0, results
    return judge(suite, results, listed, whole=not args.match), results


def judge(suite: Suite, results: list[Result], listed: set[str], whole: bool) -> int:
    """Exit status: what is listed must pass. A listed check that a whole run no longer has counts as one that fails."""
    passed = {result.name for result in results if result.passed}
    new = sorted(passed - listed)
    if new:
        print(
            f"  {len(new)} pass and are not in {suite.list_path.name} yet (--update writes them in): {'; '.join(new)}"
        )
    ran = {result.name for result in results}
    broken = sorted((listed if whole else listed & ran) - passed)
    for name in broken:
        print(f"  BROKEN: {name} is in {suite.list_path.name} and does not pass")
    return 1 if broken else 0


def _judge_kafka(suite: Suite, results: list[Result]) -> int:
    """On Apache Kafka everything must pass, but for what it is known to refuse."""
    status = 0
    for result in results:
        if not result.passed and result.name in suite.fails_on_kafka:
            print(f"  known: {result.name}: {suite.fails_on_kafka[result.name]}")
        elif not result.passed:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
