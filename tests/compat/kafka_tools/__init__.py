"""Apache Kafka's own command line tools, run from its jars against a broker; every check reads what a tool prints.

Each tool is a JVM of its own (a second or two), so checks prepare topics and records with a quick client and spend a
JVM only on what they are about.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.compat.kafka_tools import cluster, groups, records, topics
from tests.compat.kafka_tools.tools import Tools
from tests.compat.suite import Result, Suite, run_checks

CHECKS = topics.CHECKS | records.CHECKS | groups.CHECKS | cluster.CHECKS


def _run(bootstrap: str, match: str) -> Iterator[Result]:
    with Tools(bootstrap) as tools:
        yield from run_checks(CHECKS, tools, match)


SUITE = Suite("kafka-tools", "Apache Kafka's command line tools", _run)
