"""kafka-python's own integration tests, as its source distribution ships them.

The sdist comes from PyPI once and is kept with a virtual environment for it in $TRUNKLINE_CACHE (default
~/.cache/trunkline). plugins/kafka_python_service.py stands in for the one module of the tests that the sdist lacks.
The broker is set up as kafka-python's own is: node 0, and sessions may be as short as 1 s. Left out: the tests of SASL
and TLS, which start brokers of their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

from bench.kafka_server import cache_dir
from tests.compat.suite import Result, Suite

_VERSION = "3.0.12"
_PLUGINS = Path(__file__).parent / "plugins"
_TEST_DEADLINE_S = 60
_FILES = [f"test/integration/test_{part}_integration.py" for part in ("admin", "consumer", "producer")]
_NEEDS = ("pytest>=9,<10", "pytest-timeout>=2.3,<3", "pytest-mock>=3.14,<4", "lz4", "python-snappy", "zstandard")
_VERDICT = re.compile(r"^test/integration/(?P<name>\S+)::(?P<test>\S+) (?P<verdict>PASSED|FAILED|ERROR|SKIPPED)")
_TOOK = re.compile(r"^(?P<seconds>[\d.]+)s (?:call|setup) +test/integration/(?P<name>\S+)::(?P<test>\S+)")
_REASON = re.compile(r"^(?:FAILED|ERROR) test/integration/(?P<name>\S+)::(?P<test>\S+?)(?: - (?P<why>.*))?$")


def _home() -> Path:
    """The unpacked sdist with its virtual environment in .venv, made on first use."""
    target = cache_dir() / f"kafka-python-{_VERSION}"
    if target.is_dir():
        return target
    print(f"fetching kafka-python {_VERSION} into {target} (once)", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as scratch:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        wanted = f"kafka-python=={_VERSION}"
        _call([*pip, "download", "--no-deps", "--no-binary", ":all:", "--dest", scratch, wanted])
        (archive,) = Path(scratch).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        unpacked = archive.with_suffix("").with_suffix("")
        try:
            unpacked.rename(target)
        except OSError:  # another process fetched it meanwhile
            if not target.is_dir():
                raise
    return target


def _python(home: Path) -> Path:
    """A Python with what the tests import; kafka-python itself is imported from the sdist."""
    python = home / ".venv" / "bin" / "python"
    done = home / ".venv" / ".installed"
    if not done.exists():
        venv.create(home / ".venv", with_pip=True)
        _call([str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *_NEEDS])
        done.touch()
    return python


def _call(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:5])} … ended with status {done.returncode}: {done.stdout[-2000:]}")


def _run(bootstrap: str, match: str) -> Iterator[Result]:
    """One pytest run; verdicts are read from its report at the end, skipped tests are left out."""
    home = _home()
    command = [str(_python(home)), "-m", "pytest", *_FILES, "-p", "kafka_python_service"]
    looks = ["-vv", "-rfE", "--tb=line", "--show-capture=no", "--durations=0", "-p", "no:cacheprovider"]
    narrowed = ["-k", match.replace("::", " and ")] if match else []
    environment = os.environ | {
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": "4.2.0",
        "KAFKA_ROOT": str(home),  # must exist; nothing is started from it
        "PYTHONPATH": str(_PLUGINS),
        "COLUMNS": "1000",
    }
    done = subprocess.run(
        [*command, *looks, *narrowed, f"--timeout={_TEST_DEADLINE_S}"],
        cwd=home,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    results = sorted(_read(done.stdout), key=lambda result: result.name)
    if not results and not match:
        raise RuntimeError(f"kafka-python's tests did not run: {done.stdout[-2000:]}")
    yield from results


def _read(report: str) -> Iterator[Result]:
    verdicts: dict[str, str] = {}
    seconds: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for line in report.splitlines():
        if found := _VERDICT.match(line):
            verdicts[_name(found)] = found["verdict"]
        elif found := _TOOK.match(line):
            seconds[_name(found)] = seconds.get(_name(found), 0.0) + float(found["seconds"])
        elif found := _REASON.match(line):
            reasons[_name(found)] = found["why"] or ""
    for name, verdict in verdicts.items():
        if verdict != "SKIPPED":
            yield Result(name, verdict == "PASSED", seconds.get(name, 0.0), reasons.get(name, "")[:300])


def _name(found: re.Match[str]) -> str:
    return f"{found['name'].removesuffix('.py')}::{found['test']}"


SUITE = Suite(
    "kafka-python",
    f"kafka-python {_VERSION}'s own integration tests",
    _run,
    fails_on_kafka={
        "test_admin_integration::test_create_describe_delete_acls": "needs an authorizer",
        "test_admin_integration::test_create_partitions": "names the replicas' node 0; this Kafka is node 1",
        "test_consumer_integration::test_kafka_version_infer": "kafka-python knows no broker newer than 4.2",
    },
    flags=("--node-id", "0", "--min-session-timeout-ms", "1000"),
    kafka_properties={"group.min.session.timeout.ms": "1000"},
)
