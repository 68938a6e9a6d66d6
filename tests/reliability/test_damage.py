"""Damaged files are named, by file and position and with what to do; nothing acknowledged is cut in silence."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.support.kafka_calls import STORAGE_ERROR, create, fetch, produce
from tests.support.raw_kafka import RawKafka
from tests.support.server import Server
from tests.support.waiting import eventually

COUNT = 30


def value(number: int) -> bytes:
    return b"value-%04d-" % number + bytes(5000)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """Started, with records in it that were acknowledged one by one: each has a group of its own in the journal."""
    running = Server(tmp_path / "data", "--hot-tail-bytes", "0").start()
    with RawKafka(running.kafka) as client:
        create(client, "orders")
        for number in range(COUNT):
            assert produce(client, "orders", value(number)).error_code == 0
    return running


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def refused(server: Server) -> str:
    server.spawn()
    status, _, errors = server.wait(30)
    assert status == 1
    assert errors.count("\n") == 1, errors
    assert "Traceback" not in errors
    return errors


def journal_of(server: Server) -> Path:
    return max((server.data / "journal").glob("*.journal"))


def readable(server: Server) -> int:
    """How many of the records are there, from the first on, each as it was sent."""
    with RawKafka(server.kafka) as client:
        for number in range(COUNT):
            answer = fetch(client, "orders", number)
            if answer.error_code or answer.high_watermark <= number:
                return number
            assert value(number) in bytes(answer.records or b"")  # type: ignore[arg-type]
    return COUNT


def test_a_damaged_journal_is_named_and_cut_only_when_told_to(server: Server) -> None:
    server.kill()
    journal = journal_of(server)
    position = journal.read_bytes().index(b"value-0010-")
    flip(journal, position)
    line = refused(server)
    assert f"journal/{journal.name} is damaged at position " in line
    assert "--accept-journal-cut" in line
    assert refused(server) == line, "a refused start changes nothing"
    told = Server(server.data, *server.flags, "--accept-journal-cut").start()
    # Only the journal was damaged: the segment that stands beside it still has what the journal lost.
    assert readable(told) == COUNT
    assert any("cut there, as told" in line for line in told.log_lines)
    assert told.stop()[0] == 0
    server.start()
    assert readable(server) == COUNT
    server.kill()


def test_a_torn_end_of_the_journal_is_no_damage(server: Server) -> None:
    server.kill()
    journal = journal_of(server)
    position = journal.read_bytes().rindex(b"value-%04d-" % (COUNT - 1))
    flip(journal, position)
    server.start()
    assert readable(server) >= COUNT - 1
    server.kill()


@pytest.mark.parametrize("stopped", ["clean", "killed"])
@pytest.mark.parametrize("position", [0, 8, 40])
def test_a_damaged_checkpoint_is_named(server: Server, stopped: str, position: int) -> None:
    server.stop()
    if stopped == "killed":
        server.start()
        server.kill()
    flip(server.data / "checkpoint", position)
    line = refused(server)
    assert "checkpoint" in line
    assert "backup" in line


def test_a_damaged_journal_header_is_named(server: Server) -> None:
    server.kill()
    journal = journal_of(server)
    flip(journal, 20)
    line = refused(server)
    assert f"journal/{journal.name}: the header at position 0 is damaged" in line


def test_a_missing_journal_is_named(server: Server) -> None:
    server.stop()
    server.start()
    server.kill()
    for journal in (server.data / "journal").glob("*.journal"):
        journal.unlink()
    assert "journal" in refused(server)


def test_a_damaged_record_is_an_error_for_who_reads_it_with_file_and_position_in_the_log(server: Server) -> None:
    assert server.stop()[0] == 0
    segment = server.data / "topics" / "orders-0" / "00000000000000000000.log"
    flip(segment, segment.read_bytes().index(b"value-0010-"))
    server.start()
    with RawKafka(server.kafka) as client:
        for _ in range(50):
            assert fetch(client, "orders", 10).error_code == STORAGE_ERROR
        assert fetch(client, "orders", 20).error_code == 0
        assert produce(client, "orders", value(99)).base_offset == COUNT
    lines = eventually(lambda: [line for line in server.log_lines if "damaged" in line], "the damage is told")
    assert "topics/orders-0/00000000000000000000.log is damaged at position " in lines[0]
    assert len(lines) == 1, "once, however often it is met"
    server.kill()


def test_a_segment_that_is_too_short_after_a_kill_is_named(server: Server) -> None:
    server.stop()
    server.start()
    server.kill()
    segment = server.data / "topics" / "orders-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:5000])
    line = refused(server)
    assert "topics/orders-0/00000000000000000000.log is damaged at position 5000" in line


def test_indexes_are_rebuilt_when_they_are_damaged(server: Server) -> None:
    server.stop()
    for index in (server.data / "topics" / "orders-0").glob("*index"):
        index.write_bytes(b"\xff" * index.stat().st_size)
    server.start()
    assert readable(server) == COUNT
    server.kill()


def test_records_are_not_overwritten_when_the_metadata_gives_their_name_to_another_id(server: Server) -> None:
    server.stop()
    with sqlite3.connect(server.data / "metadata.db") as database:
        database.execute("UPDATE topics SET id = ? WHERE name = 'orders'", (bytes(range(1, 17)),))
    database.close()
    line = refused(server)
    assert "topics/orders-0/00000000000000000000.log" in line
    assert b"value-0010-" in (server.data / "topics" / "orders-0" / "00000000000000000000.log").read_bytes()


def test_a_file_that_vanishes_while_it_is_served_is_no_position_to_reset_to(server: Server) -> None:
    told = Server(server.data, *server.flags, "--max-open-files", "8")
    assert server.stop()[0] == 0
    told.start()
    with RawKafka(told.kafka) as client:
        assert fetch(client, "orders", 0).error_code == 0
        for number in range(12):  # so that the file is no longer held open
            create(client, f"other-{number}")
            assert produce(client, f"other-{number}", b"x").error_code == 0
        (told.data / "topics" / "orders-0" / "00000000000000000000.log").unlink()
        assert fetch(client, "orders", 0).error_code == STORAGE_ERROR
    told.kill()


def test_a_file_that_vanishes_is_a_storage_error_and_no_position_to_reset_to(server: Server) -> None:
    server.stop()
    server.start()
    (server.data / "topics" / "orders-0" / "00000000000000000000.log").unlink()
    with RawKafka(server.kafka) as client:
        assert fetch(client, "orders", 0).error_code == STORAGE_ERROR
    server.kill()
