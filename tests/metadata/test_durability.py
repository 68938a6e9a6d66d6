"""What is written stays, over restarts, kills, a disk that refuses and databases of other versions."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trunkline.metadata.schema import MIGRATIONS, migrate
from trunkline.metadata.sqlite import SqliteMetadata
from trunkline.model.errors import CorruptMetadata, NewerFormat, StorageFailed, StorageFull, TrunklineError

SOURCES = Path(__file__).parents[2] / "src"
VERSION_1 = Path(__file__).with_name("version_1.sql")

PRELUDE = """
import os, signal, sys
from pathlib import Path
from trunkline.metadata.sqlite import SqliteMetadata
store = SqliteMetadata.open(Path(sys.argv[1]))
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(path: Path, body: str) -> subprocess.Popen[str]:
    """Another process that opens the database as `store` and runs `body`."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + body, str(path)], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteMetadata.open(path)
    orders = store.create_topic("orders", 3, {"retention.ms": "1000"})
    store.create_topic("__offsets", 50, {"cleanup.policy": "compact"}, internal=True)
    store.create_topic("old", 2, {"retention.ms": "1"})
    store.add_partitions("orders", 5)
    store.set_config("orders", {"segment.bytes": "2000000"})
    deleted = store.delete_topic("old")
    store.allocate_producer_ids(1000)
    store.set_configs("group", "gränzfall\0", {"a": "", "b": "\U0001f600"})
    before = store.image
    store.close()

    again = SqliteMetadata.open(path)
    assert replace(again.image, version=before.version) == before
    assert again.topics["orders"].id == orders.id
    assert again.topics["orders"].config.overrides == {"segment.bytes": "2000000"}
    assert again.topics["__offsets"].internal
    assert [topic.id for topic in again.pending_deletions()] == [deleted.id]
    assert again.allocate_producer_ids(1) == range(1000, 1001)
    again.close()
    assert [file.name for file in tmp_path.iterdir()] == ["metadata.db"]


def test_memory_topics_are_forgotten_at_restart(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteMetadata.open(path)
    store.create_topic("kept", 1, {})
    store.create_topic("scratch", 1, {}, memory=True)
    store.add_partitions("scratch", 2)
    store.set_config("scratch", {"retention.ms": "5"})
    assert store.topics["scratch"].partitions == 2
    store.close()
    again = SqliteMetadata.open(path)
    assert list(again.topics) == ["kept"]
    again.close()


def test_nothing_answered_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    writer = run(
        path,
        """
for number in range(100_000):
    store.create_topic(f"t{number}", 1, {"retention.ms": str(number)})
    ids = store.allocate_producer_ids(10)
    print(number, ids.stop, flush=True)
""",
    )
    assert writer.stdout is not None
    answered, last_id = 0, 0
    for line in writer.stdout:
        answered, last_id = map(int, line.split())
        if answered == 25:
            writer.kill()
    writer.wait()
    store = SqliteMetadata.open(path)
    assert answered >= 25
    assert {f"t{number}" for number in range(answered + 1)} <= set(store.topics)
    assert store.topics["t7"].config.retention_ms == 7
    assert store.allocate_producer_ids(1).start >= last_id
    store.close()


def test_a_kill_between_deletion_and_removal_of_the_files_leaves_the_removal_to_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    body = "store.create_topic('orders', 7, {}); print(store.delete_topic('orders').id.hex(), flush=True); die()"
    killed = run(path, body)
    output, _ = killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    store = SqliteMetadata.open(path)
    [deleted] = store.pending_deletions()
    assert (deleted.name, deleted.partitions, deleted.id.hex()) == ("orders", 7, output.strip())
    assert not store.topics
    store.forget_deleted(deleted.id)
    store.close()
    again = SqliteMetadata.open(path)
    assert not again.pending_deletions()
    again.close()


def test_threads_may_write_at_once(tmp_path: Path) -> None:
    store = SqliteMetadata.open(tmp_path / "metadata.db")

    def write(writer: int) -> list[int]:
        ids: list[int] = []
        for number in range(10):
            store.create_topic(f"t{writer}-{number}", 1, {})
            ids += store.allocate_producer_ids(3)
        return ids

    with ThreadPoolExecutor(4) as threads:
        ids = [one for several in threads.map(write, range(4)) for one in several]
    assert sorted(ids) == list(range(120))
    assert len(store.topics) == 40
    store.close()


def test_a_database_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteMetadata.open(path)
    with pytest.raises(StorageFailed, match="in use by another process"):
        SqliteMetadata.open(path)
    other = run(path, "")
    assert other.wait() != 0
    store.create_topic("still-writable", 1, {})
    store.close()


def test_a_full_disk_refuses_changes_and_shows_none_of_them(tmp_path: Path) -> None:
    store = SqliteMetadata.open(tmp_path / "metadata.db")
    kept = store.create_topic("kept", 1, {})
    (pages,) = store._database.execute("PRAGMA page_count").fetchone()
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFull, match="disk is full"):
        store.create_topic("t0", 1, {"leader.replication.throttled.replicas": ",".join(["1:1"] * 7_500)})
    assert store.topics == {"kept": kept}
    store._database.execute("PRAGMA max_page_count = 100000")
    store.create_topic("t0", 1, {})
    store.close()
    again = SqliteMetadata.open(tmp_path / "metadata.db")
    assert set(again.topics) == {"kept", "t0"}
    again.close()


def test_a_disk_that_refuses_a_write_fails_that_change_only(tmp_path: Path) -> None:
    body = """
import resource
from trunkline.model.errors import StorageFailed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store.create_topic("before", 1, {})
largest = Path(sys.argv[1] + "-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
try:
    store.create_topic("refused", 1, {})
except StorageFailed as error:
    print(sorted(store.topics), flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.create_topic("after", 1, {})
die()
"""
    output, _ = run(tmp_path / "metadata.db", body).communicate()
    assert output == "['before']\n"
    store = SqliteMetadata.open(tmp_path / "metadata.db")
    assert set(store.topics) == {"before", "after"}
    store.close()


# ── databases that are not as they should be ────────────────────────────────────────────────────


def test_a_database_of_the_first_version_is_read_with_all_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with sqlite3.connect(path) as database:
        database.executescript(VERSION_1.read_text())
    database.close()
    store = SqliteMetadata.open(path)
    assert store.cluster_id == "q1Sh-9_ISia_zwGINzRvyQ"
    assert {(topic.name, topic.partitions, topic.internal) for topic in store.topics.values()} == {
        ("orders", 3, False),
        ("__offsets", 50, True),
    }
    assert store.topics["orders"].config.overrides == {"retention.ms": "1000"}
    assert [(topic.name, topic.partitions) for topic in store.pending_deletions()] == [("old", 2)]
    assert store.configs("group", "g") == {"consumer.session.timeout.ms": "6000"}
    assert store.allocate_producer_ids(1) == range(4000, 4001)
    store.close()


def test_migrations_run_once_each_and_in_order(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    steps = [*MIGRATIONS, ("CREATE TABLE extra (a)", "INSERT INTO extra VALUES (1)"), ("INSERT INTO extra VALUES (2)",)]
    migrate(database, MIGRATIONS)
    migrate(database, steps)
    migrate(database, steps)
    assert database.execute("SELECT a FROM extra ORDER BY a").fetchall() == [(1,), (2,)]
    assert database.execute("PRAGMA user_version").fetchone() == (len(steps),)
    database.close()


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(database, [*MIGRATIONS, ("CREATE TABLE extra (a)", "INSERT INTO missing VALUES (1)")])
    assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'extra'").fetchall()
    database.close()


def made(path: Path, *statements: str) -> Path:
    """A database made by this version and then changed by hand."""
    store = SqliteMetadata.open(path)
    store.create_topic("orders", 1, {"retention.ms": "5"})
    store.close()
    database = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()
    return path


def refused(path: Path, kind: type[TrunklineError], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        SqliteMetadata.open(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = made(tmp_path / "metadata.db", f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    refused(path, NewerFormat, f"has format {len(MIGRATIONS) + 1}")
    assert path.read_bytes() == before


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE topics (a)")
    database.commit()
    database.close()
    before = path.read_bytes()
    refused(path, CorruptMetadata, "not one of Trunkline")
    assert path.read_bytes() == before


def test_a_config_that_this_version_does_not_know_is_named(tmp_path: Path) -> None:
    path = made(tmp_path / "metadata.db", "UPDATE topic_configs SET name = 'of.the.future'")
    refused(path, CorruptMetadata, "'orders'.*of.the.future")


def test_a_database_without_its_cluster_id_does_not_become_another_cluster(tmp_path: Path) -> None:
    path = made(tmp_path / "metadata.db", "DELETE FROM cluster")
    refused(path, CorruptMetadata, "no cluster id")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(b"not a database at all" * 1000)
    refused(path, CorruptMetadata, "damaged.*restore")


def test_an_empty_file_is_refused_and_not_taken_for_a_new_cluster(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.touch()
    refused(path, CorruptMetadata, "is empty")


def test_a_first_start_that_was_cut_short_is_started_over(tmp_path: Path) -> None:
    (tmp_path / "metadata.db.new").write_bytes(b"half a database")
    (tmp_path / "metadata.db.new-wal").write_bytes(b"and its log")
    SqliteMetadata.open(tmp_path / "metadata.db").close()
    assert [file.name for file in tmp_path.iterdir()] == ["metadata.db"]


def test_a_place_that_cannot_hold_a_database_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "missing" / "metadata.db", StorageFailed, "missing")
    (tmp_path / "directory").mkdir()
    refused(tmp_path / "directory", StorageFailed, "directory")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(page=st.integers(0, 7), at=st.integers(0, 4095), garbage=st.binary(min_size=1, max_size=600))
def test_damage_is_told_or_harmless_and_never_a_crash(tmp_path: Path, page: int, at: int, garbage: bytes) -> None:
    path = tmp_path / "metadata.db"
    path.unlink(missing_ok=True)
    made(path)
    whole = bytearray(path.read_bytes())
    whole[page * 4096 + at : page * 4096 + at + len(garbage)] = garbage
    path.write_bytes(whole)
    with contextlib.suppress(CorruptMetadata):
        SqliteMetadata.open(path).close()


# ── memory and disk agree ───────────────────────────────────────────────────────────────────────

NAMES = st.sampled_from(["a", "b", "c.d", "c_d"])
CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "segment.ms"]), st.integers(1, 9).map(str))
COMMANDS = st.one_of(
    st.tuples(st.just("create_topic"), NAMES, st.integers(0, 3), CONFIGS),
    st.tuples(st.just("add_partitions"), NAMES, st.integers(1, 9)),
    st.tuples(st.just("set_config"), NAMES, CONFIGS),
    st.tuples(st.just("delete_topic"), NAMES),
    st.tuples(st.just("allocate_producer_ids"), st.integers(0, 5)),
    st.tuples(st.just("set_configs"), st.just("group"), st.text(max_size=3), st.dictionaries(st.text(), st.text())),
    st.tuples(st.just("forget_all")),
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(commands=st.lists(COMMANDS, max_size=12))
def test_what_a_fresh_start_reads_is_what_readers_saw(tmp_path: Path, commands: list[tuple[object, ...]]) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    for directory in (live, copy):
        shutil.rmtree(directory, ignore_errors=True)
    live.mkdir()
    store = SqliteMetadata.open(live / "metadata.db")
    for command, *arguments in commands:
        before = store.image
        try:
            if command == "forget_all":
                for topic in store.pending_deletions():
                    store.forget_deleted(topic.id)
            else:
                getattr(store, str(command))(*arguments)
        except TrunklineError:
            assert store.image is before
    shutil.copytree(live, copy)  # As a kill would leave it: nothing was closed.
    seen = store.image
    store.close()
    for directory in (copy, live):
        fresh = SqliteMetadata.open(directory / "metadata.db")
        assert replace(fresh.image, version=seen.version) == seen
        fresh.close()
