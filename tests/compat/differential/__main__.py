"""`python -m tests.compat.differential`: starts Apache Kafka and Trunkline, and compares their answers."""

from __future__ import annotations

import argparse
import contextlib
import sys
import uuid
from collections import defaultdict
from typing import Any

from bench.kafka_server import KafkaServer
from bench.trunkline_server import TrunklineServer
from tests.compat.differential import (
    scenarios_cluster,
    scenarios_configs,
    scenarios_connection,
    scenarios_fetch,
    scenarios_groups,
    scenarios_offsets,
    scenarios_positions,
    scenarios_produce,
    scenarios_topics,
)
from tests.compat.differential.compare import differences
from tests.compat.differential.known import KNOWN, Known
from tests.compat.differential.peer import Peer
from tests.compat.differential.registry import SCENARIOS, Scenario

FAMILIES = (
    scenarios_cluster,
    scenarios_configs,
    scenarios_connection,
    scenarios_fetch,
    scenarios_groups,
    scenarios_offsets,
    scenarios_positions,
    scenarios_produce,
    scenarios_topics,
)
"""Importing them is what registers their scenarios."""

KAFKA_SETTINGS = {"offsets.topic.num.partitions": "1"}
Found = dict[tuple[str, str, str], list[int]]
"""Versions by where, what Kafka said, what we said."""


def main() -> int:
    args = _arguments()
    chosen = [one for name, one in SCENARIOS.items() if args.match in name]
    with contextlib.ExitStack() as stack:
        kafka = args.kafka or stack.enter_context(KafkaServer(KAFKA_SETTINGS)).bootstrap
        ours = args.trunkline or stack.enter_context(TrunklineServer()).bootstrap
        run = uuid.uuid4().hex[:6]
        for address in (kafka, ours):
            peer = Peer(address, f"d{run}")
            peer.ready()
            peer.close()
        found: Found = defaultdict(list)
        steps = 0
        for one in chosen:
            steps += _run(one, kafka, ours, run, args, found)
    return _report(found, len(chosen), steps, whole=not args.match)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.differential", description=__doc__)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="an Apache Kafka that runs already")
    parser.add_argument("--trunkline", metavar="HOST:PORT", help="a Trunkline that runs already")
    parser.add_argument("--match", default="", metavar="TEXT", help="only scenarios whose name holds TEXT")
    parser.add_argument("--every-version", action="store_true", help="not only the first, a middle and the last")
    parser.add_argument("--show", action="store_true", help="print what Kafka answered")
    return parser.parse_args()


def _run(one: Scenario, kafka: str, ours: str, run: str, args: argparse.Namespace, found: Found) -> int:
    steps = 0
    for version in one.versions(every=args.every_version):
        prefix = f"d{run}-{one.name}-{version}"
        theirs, mine = (_transcript(one, version, address, prefix) for address in (kafka, ours))
        steps += len(theirs)
        if args.show:
            for step, answer in theirs.items():
                print(f"{one.name} v{version} {step}: {answer}")
        for where, they, we in differences(theirs, mine, one.name):
            found[where, str(they), str(we)].append(version)
    return steps


def _transcript(one: Scenario, version: int, address: str, prefix: str) -> dict[str, Any]:
    peer = Peer(address, prefix)
    try:
        one.run(peer, version)
    except Exception as error:  # what follows from a different answer before: shown as one more difference
        peer.note("ended early", f"{type(error).__name__}: {error}")
    finally:
        peer.close()
    return peer.transcript


def _report(found: Found, scenarios: int, steps: int, *, whole: bool) -> int:
    used: dict[Known, int] = defaultdict(int)
    new: Found = {}
    for (where, theirs, mine), versions in found.items():
        known = next((each for each in KNOWN if each.covers(where)), None)
        if known is None:
            new[where, theirs, mine] = versions
        else:
            used[known] += 1
    for where, theirs, mine in new:
        at = ",".join(map(str, new[where, theirs, mine]))
        print(f"{where}  v{at}\n    kafka      {theirs[:600]}\n    trunkline  {mine[:600]}")
    print(
        f"{scenarios} scenarios, {steps} answers; known differences in {sum(used.values())} fields, new in {len(new)}"
    )
    stale = [each for each in KNOWN if whole and each not in used]
    for each in stale:
        print(f"no longer seen, take it out of known.py: {each.pattern}")
    return 1 if new or stale else 0


if __name__ == "__main__":
    sys.exit(main())
