"""The metadata of one node in one SQLite file: WAL, a full sync per change, one writer.

A change is decided on the image (rules), written in one transaction, and shown in the image after the commit. So what a
reader sees is durable, and a failed write shows nothing. The file is locked: a second process is refused.

A new database is made under another name and moved into place when it is whole: an empty or half a file under the right
name is damage, never a first start that was cut short.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from trunkline.metadata import rules
from trunkline.metadata.facts import (
    ConfigsSet,
    DeletionFinished,
    Fact,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from trunkline.metadata.image import DeletedTopic, Image
from trunkline.metadata.schema import check_format, migrate
from trunkline.model.errors import CorruptMetadata, InvalidConfig, StorageFailed, StorageFull
from trunkline.model.ids import TopicId
from trunkline.model.topic import Topic, TopicConfig

_IN_MEMORY: Final = ":memory:"
_UNFINISHED: Final = ".new"
_TopicFact = TypeVar("_TopicFact", TopicCreated, PartitionsAdded, TopicConfigured)


class SqliteMetadata:
    """A MetadataStore. Made by `open`; `close` it when nobody writes any more."""

    def __init__(self, database: sqlite3.Connection, image: Image) -> None:
        self._database = database
        self._image = image
        self._writer = threading.Lock()

    @classmethod
    def open(cls, path: Path | None) -> SqliteMetadata:
        """The database at `path`, made when there is none; None keeps it in memory.

        CorruptMetadata, NewerFormat, StorageFull or StorageFailed, each in one line that names the file.
        """
        if path is not None:
            _create_if_missing(path)
        database = _connect(path)
        try:
            return cls(database, _load(database, _what(path)))
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        with self._writer:
            self._database.close()

    # ── reads: from memory ──────────────────────────────────────────────────────────────────────

    @property
    def cluster_id(self) -> str:
        return self._image.cluster_id

    @property
    def version(self) -> int:
        return self._image.version

    @property
    def topics(self) -> Mapping[str, Topic]:
        return self._image.topics

    @property
    def image(self) -> Image:
        """Everything at one version."""
        return self._image

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return self._image.topics_by_id.get(topic_id)

    def pending_deletions(self) -> Sequence[DeletedTopic]:
        return list(self._image.deleted.values())

    def configs(self, resource_type: str, resource_name: str) -> Mapping[str, str]:
        return self._image.configs(resource_type, resource_name)

    def configured(self, resource_type: str) -> Mapping[str, Mapping[str, str]]:
        return {name: values for (kind, name), values in self._image.all_configs.items() if kind == resource_type}

    # ── writes: decide, commit, show ────────────────────────────────────────────────────────────

    def create_topic(
        self,
        name: str,
        partitions: int,
        overrides: Mapping[str, str],
        *,
        internal: bool = False,
        memory: bool = False,
        validate_only: bool = False,
    ) -> Topic:
        with self._writer:
            fact = rules.create_topic(self._image, name, partitions, overrides, internal=internal, memory=memory)
            return self._topic_after(fact, validate_only)

    def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> Topic:
        with self._writer:
            return self._topic_after(rules.add_partitions(self._image, name, total), validate_only)

    def set_config(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> Topic:
        with self._writer:
            return self._topic_after(rules.set_config(self._image, name, overrides), validate_only)

    def delete_topic(self, name: str) -> Topic:
        with self._writer:
            fact = rules.delete_topic(self._image, name)
            self._commit(fact, durable=not fact.topic.memory)
            return fact.topic

    def forget_deleted(self, topic_id: TopicId) -> None:
        with self._writer:
            fact = rules.forget_deleted(self._image, topic_id)
            if fact is not None:
                self._commit(fact)

    def allocate_producer_ids(self, count: int) -> range:
        with self._writer:
            first = self._image.next_producer_id
            fact = rules.allocate_producer_ids(self._image, count)
            self._commit(fact)
            return range(first, fact.next_id)

    def set_configs(self, resource_type: str, resource_name: str, values: Mapping[str, str]) -> None:
        with self._writer:
            self._commit(rules.set_configs(resource_type, resource_name, values))

    def _topic_after(self, fact: _TopicFact, validate_only: bool) -> Topic:
        if not validate_only:
            self._commit(fact, durable=not fact.topic.memory)
        return fact.topic

    def _commit(self, fact: Fact, durable: bool = True) -> None:
        if durable:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                _write(self._database, fact)
                self._database.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise _failed(error, "The metadata could not be written") from error
        self._image = self._image.after(fact)

    def _roll_back(self) -> None:
        try:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # The first error is the one to tell; SQLite rolls back by itself before the next change.


def _write(database: sqlite3.Connection, fact: Fact) -> None:
    match fact:
        case TopicCreated(topic):
            database.execute(
                "INSERT INTO topics (id, name, partitions, internal) VALUES (?, ?, ?, ?)",
                (topic.id, topic.name, topic.partitions, int(topic.internal)),
            )
            _write_overrides(database, topic)
        case PartitionsAdded(topic):
            database.execute("UPDATE topics SET partitions = ? WHERE id = ?", (topic.partitions, topic.id))
        case TopicConfigured(topic):
            database.execute("DELETE FROM topic_configs WHERE topic_id = ?", (topic.id,))
            _write_overrides(database, topic)
        case TopicDeleted(topic):
            database.execute("DELETE FROM topics WHERE id = ?", (topic.id,))
            database.execute(
                "INSERT INTO deleted_topics (id, name, partitions) VALUES (?, ?, ?)",
                (topic.id, topic.name, topic.partitions),
            )
        case DeletionFinished(topic_id):
            database.execute("DELETE FROM deleted_topics WHERE id = ?", (topic_id,))
        case ProducerIdsAllocated(next_id):
            database.execute("UPDATE cluster SET next_producer_id = ?", (next_id,))
        case ConfigsSet(resource_type, resource_name, values):
            resource = (resource_type, resource_name)
            database.execute("DELETE FROM configs WHERE resource_type = ? AND resource_name = ?", resource)
            database.executemany(
                "INSERT INTO configs (resource_type, resource_name, name, value) VALUES (?, ?, ?, ?)",
                [(*resource, name, value) for name, value in values.items()],
            )


def _write_overrides(database: sqlite3.Connection, topic: Topic) -> None:
    database.executemany(
        "INSERT INTO topic_configs (topic_id, name, value) VALUES (?, ?, ?)",
        [(topic.id, name, value) for name, value in topic.config.overrides.items()],
    )


# ── opening ─────────────────────────────────────────────────────────────────────────────────────


def _create_if_missing(path: Path) -> None:
    try:
        if not path.exists():
            _create(path)
        elif path.stat().st_size == 0:
            raise CorruptMetadata(f"{path} is empty: restore it from a backup.")
    except OSError as error:
        raise StorageFailed(f"{path} cannot be used: {error.strerror}.") from error


def _create(path: Path) -> None:
    unfinished = path.with_name(path.name + _UNFINISHED)
    for leftover in path.parent.glob(unfinished.name + "*"):
        leftover.unlink()
    _connect(unfinished).close()  # The last connection moves the WAL into the database and syncs it.
    os.replace(unfinished, path)
    _sync_directory(path.parent)


def _connect(path: Path | None) -> sqlite3.Connection:
    """A database that is ours, whole, and at the newest version. Nothing is changed in one that is refused."""
    what = _what(path)
    with _telling(what):
        database = sqlite3.connect(path or _IN_MEMORY, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        with _telling(what):
            for pragma in ("locking_mode = EXCLUSIVE", "synchronous = FULL", "fullfsync = ON", "foreign_keys = ON"):
                database.execute(f"PRAGMA {pragma}")
            check_format(database, what)
            (problem,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if problem != "ok":
                raise _damaged(what, problem)
            database.execute("PRAGMA journal_mode = WAL")
            migrate(database)
            if path is None or path.suffix == _UNFINISHED:
                database.execute("INSERT INTO cluster VALUES (1, ?, 0)", (rules.new_cluster_id(),))
    except BaseException:
        database.close()
        raise
    return database


def _load(database: sqlite3.Connection, what: str) -> Image:
    with _telling(what):
        clusters = database.execute("SELECT cluster_id, next_producer_id FROM cluster").fetchall()
        if len(clusters) != 1:
            raise _damaged(what, "no cluster id")
        [(cluster_id, next_producer_id)] = clusters
        deleted = [
            DeletedTopic(name, TopicId(topic_id), partitions)
            for topic_id, name, partitions in database.execute("SELECT id, name, partitions FROM deleted_topics")
        ]
        configs: dict[tuple[str, str], dict[str, str]] = {}
        for kind, resource, name, value in database.execute(
            "SELECT resource_type, resource_name, name, value FROM configs"
        ):
            configs.setdefault((kind, resource), {})[name] = value
        return Image.of(cluster_id, _load_topics(database, what), deleted, configs, next_producer_id)


def _load_topics(database: sqlite3.Connection, what: str) -> list[Topic]:
    overrides: dict[bytes, dict[str, str]] = {}
    for topic_id, name, value in database.execute("SELECT topic_id, name, value FROM topic_configs"):
        overrides.setdefault(topic_id, {})[name] = value
    no_overrides = TopicConfig.parse({})
    topics = []
    for topic_id, name, partitions, internal in database.execute("SELECT id, name, partitions, internal FROM topics"):
        try:
            config = TopicConfig.parse(overrides[topic_id]) if topic_id in overrides else no_overrides
        except InvalidConfig as error:
            raise CorruptMetadata(f"{what}: topic '{name}' has a config that cannot be used: {error}") from error
        topics.append(Topic(name, TopicId(topic_id), partitions, config, internal=bool(internal)))
    return topics


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Errors of SQLite in our words, with the name of the database."""
    try:
        yield
    except UnicodeError as error:  # A damaged table definition, quoted by SQLite in its complaint.
        raise _damaged(what, "unreadable text") from error
    except sqlite3.Error as error:
        raise _failed(error, what) from error


def _damaged(what: str, how: str) -> CorruptMetadata:
    return CorruptMetadata(f"{what} is damaged ({how}): restore it from a backup.")


def _failed(error: sqlite3.Error, what: str) -> StorageFailed | CorruptMetadata:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT):
        return _damaged(what, str(error))
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(f"{what}: the disk is full.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageFailed(f"{what} is in use by another process.")
    return StorageFailed(f"{what}: {error}.")


def _what(path: Path | None) -> str:
    return str(path) if path is not None else "The metadata in memory"


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
