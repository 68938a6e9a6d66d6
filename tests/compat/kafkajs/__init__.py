"""kafkajs, the way services use it: checks.js does the calls, this starts it and reads its verdicts.

kafkajs itself comes from the npm registry once and is kept in $TRUNKLINE_CACHE (default ~/.cache/trunkline).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.kafka_server import cache_dir
from tests.compat.suite import Result, Suite

_VERSION = "2.2.4"
_SCRIPT = Path(__file__).parent / "checks.js"
_REFUSES_MISSING = (
    "Kafka answers the first metadata request for a missing topic with UNKNOWN_TOPIC_OR_PARTITION, which ends "
    "kafkajs's subscribe; creating the topic before the answer is kinder"
)


def _modules() -> Path:
    """The node_modules folder with kafkajs, installed on first use."""
    target = cache_dir() / f"kafkajs-{_VERSION}"
    if not target.is_dir():
        print(f"installing kafkajs {_VERSION} into {target} (once)", file=sys.stderr, flush=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as scratch:
            where = Path(scratch) / "kafkajs"
            where.mkdir()
            command = [
                _tool("npm"),
                "install",
                "--prefix",
                str(where),
                "--no-audit",
                "--no-fund",
                f"kafkajs@{_VERSION}",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=where)
            if done.returncode != 0:
                raise RuntimeError(f"npm could not install kafkajs: {done.stderr[-2000:]}")
            try:
                where.rename(target)
            except OSError:  # another process installed it meanwhile
                if not target.is_dir():
                    raise
    return target / "node_modules"


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"`{name}` is not on this machine; the kafkajs suite needs Node.js and npm")
    return found


def _run(bootstrap: str, match: str) -> Iterator[Result]:
    """Verdicts as the script prints them; if it dies, what it left unsaid is one failed check."""
    environment = os.environ | {"NODE_PATH": str(_modules()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    command = [_tool("node"), str(_SCRIPT), bootstrap, match]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        for line in script.stdout:
            yield Result(**json.loads(line))
    if script.returncode != 0:
        yield Result("checks.js runs to its end", False, 0.0, f"node ended with status {script.returncode}")


SUITE = Suite(
    "kafkajs",
    "kafkajs as services use it",
    _run,
    fails_on_kafka={
        "consumer: subscribe to a topic that does not exist yet": _REFUSES_MISSING,
        "services: a shop of three services started on an empty broker": _REFUSES_MISSING,
    },
)
