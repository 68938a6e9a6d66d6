"""The tables of the metadata database, and how an older database becomes a newer one.

    cluster         1 row    cluster_id · next_producer_id (ids below it were given out)
    topics          1 a topic    id (16 bytes) · name · partitions · internal
    topic_configs   1 an override    topic_id · name · value
    deleted_topics  1 a topic whose files may be left    id · name · partitions
    configs         1 a value    resource_type · resource_name · name · value

`PRAGMA user_version` counts the migrations applied, `application_id` tells our database from anybody else's.
Types are held by CHECKs: STRICT tables need SQLite 3.37, and there are systems with Python 3.11 and an older one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from trunkline.model.errors import CorruptMetadata, NewerFormat

APPLICATION_ID: Final = 0x54726B6C  # "Trkl"

Migration = Sequence[str]
"""Statements that run in one transaction. One that was released is never edited: add another."""

MIGRATIONS: Final[Sequence[Migration]] = (
    (
        """
        CREATE TABLE cluster (
            only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
            cluster_id TEXT NOT NULL CHECK (typeof(cluster_id) = 'text' AND length(cluster_id) = 22),
            next_producer_id INTEGER NOT NULL
                CHECK (typeof(next_producer_id) = 'integer' AND next_producer_id >= 0)
        )
        """,
        """
        CREATE TABLE topics (
            id BLOB NOT NULL PRIMARY KEY CHECK (typeof(id) = 'blob' AND length(id) = 16),
            name TEXT NOT NULL UNIQUE CHECK (typeof(name) = 'text'),
            partitions INTEGER NOT NULL CHECK (typeof(partitions) = 'integer' AND partitions > 0),
            internal INTEGER NOT NULL CHECK (internal IN (0, 1))
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE topic_configs (
            topic_id BLOB NOT NULL REFERENCES topics (id) ON DELETE CASCADE,
            name TEXT NOT NULL CHECK (typeof(name) = 'text'),
            value TEXT NOT NULL CHECK (typeof(value) = 'text'),
            PRIMARY KEY (topic_id, name)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE deleted_topics (
            id BLOB NOT NULL PRIMARY KEY CHECK (typeof(id) = 'blob' AND length(id) = 16),
            name TEXT NOT NULL CHECK (typeof(name) = 'text'),
            partitions INTEGER NOT NULL CHECK (typeof(partitions) = 'integer' AND partitions > 0)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE configs (
            resource_type TEXT NOT NULL CHECK (typeof(resource_type) = 'text'),
            resource_name TEXT NOT NULL CHECK (typeof(resource_name) = 'text'),
            name TEXT NOT NULL CHECK (typeof(name) = 'text'),
            value TEXT NOT NULL CHECK (typeof(value) = 'text'),
            PRIMARY KEY (resource_type, resource_name, name)
        ) WITHOUT ROWID
        """,
    ),
)


def check_format(database: sqlite3.Connection, what: str, newest: int = len(MIGRATIONS)) -> None:
    """May this program touch it? CorruptMetadata when it is no Trunkline database, NewerFormat when it is ahead.

    `what` names the database in errors. An empty database will do: migrations make it one of ours.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (application_id,) = database.execute("PRAGMA application_id").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application_id != APPLICATION_ID and (version or tables):
        raise CorruptMetadata(f"{what} is a SQLite database, but not one of Trunkline: give another data directory.")
    if version > newest:
        raise NewerFormat(
            f"{what} has format {version}, and this version of Trunkline knows formats up to {newest}: "
            "run the newer version that wrote it."
        )


def migrate(database: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """To the newest version, one transaction a step; a step that fails leaves what the step before it made."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    for number, migration in enumerate(migrations[version:], start=version + 1):
        database.execute("BEGIN IMMEDIATE")
        try:
            for statement in migration:
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {number}")
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise
