"""What cleaning decides batch by batch where transactions are concerned."""

from __future__ import annotations

from tests.log.helpers import NOW_MS

from trunkline.log.compaction import Aborted, AbortedTransaction, Cleaner, OffsetMap
from trunkline.log.pace import Pace
from trunkline.record.batch import BatchHeader, read_header
from trunkline.record.records import Record, decode_records, encode_batch

Batch = tuple[BatchHeader, memoryview]
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


def data(offset: int, key: bytes, value: bytes | None, producer: int = 1) -> Batch:
    return transactional(Record(0, NOW_MS, key, value), offset, producer)


def marker(offset: int, kind: bytes, producer: int = 1) -> Batch:
    return transactional(Record(0, NOW_MS, kind, b"\0\0\0\0\0\0"), offset, producer, is_control=True)


def transactional(record: Record, offset: int, producer: int, is_control: bool = False) -> Batch:
    batch = encode_batch(
        [record],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        is_control=is_control,
    )
    return made(batch)


def made(batch: bytearray) -> Batch:
    return read_header(batch), memoryview(batch)


def clean(
    batches: list[Batch], *aborted: AbortedTransaction, now_ms: int, last: dict[int, int] | None = None
) -> list[Batch]:
    end, known = batches[-1][0].next_offset, Aborted(aborted)
    offsets = OffsetMap(0, 1000, Pace().breathe)
    for header, batch in batches:
        offsets.add(header, batch, known)
    cleaner = Cleaner(
        offsets.offsets,
        now_ms,
        1000,
        last_offsets=last or {},
        log_end=end + 1,
        aborted=known,
        breathe=Pace().breathe,
    )
    kept = [cleaner.clean(header, batch) for header, batch in batches]
    return [(read_header(batch), batch) for batch in kept if batch is not None]


def offsets_of(batches: list[Batch]) -> list[int]:
    return [header.base_offset for header, _ in batches]


def test_an_aborted_record_replaces_nothing_and_goes() -> None:
    log = [data(0, b"k", b"committed"), marker(1, COMMIT), data(2, b"k", b"aborted"), marker(3, ABORT)]
    aborted = AbortedTransaction(1, 2, 3)
    assert offsets_of(clean(log, aborted, now_ms=NOW_MS)) == [0, 1, 3]
    assert offsets_of(clean(log, now_ms=NOW_MS)) == [1, 2, 3]


def test_a_marker_goes_when_its_records_are_gone_and_its_time_has_passed() -> None:
    log = [data(0, b"k", b"1"), marker(1, COMMIT), data(2, b"k", b"2", producer=2), marker(3, COMMIT, producer=2)]
    log = clean(log, now_ms=NOW_MS)
    assert offsets_of(log) == [1, 2, 3]
    assert log[0][0].base_timestamp == NOW_MS, "its record was met in this round"
    log = clean(log, now_ms=NOW_MS + 10)
    assert (offsets_of(log), log[0][0].base_timestamp) == ([1, 2, 3], NOW_MS + 1010)
    assert decode_records(log[0][1])[0].timestamp == NOW_MS
    assert offsets_of(clean(log, now_ms=NOW_MS + 1009)) == [1, 2, 3]
    assert offsets_of(clean(log, now_ms=NOW_MS + 1010)) == [2, 3]
    kept = clean(log, now_ms=NOW_MS + 1010, last={1: 1})
    shell = kept[0][0]
    assert (shell.base_offset, shell.record_count, shell.is_control) == (1, 0, True)


def test_a_tombstone_keeps_its_time_whatever_horizon_its_batch_gets() -> None:
    rows = [Record(0, NOW_MS + shift, b"%d" % shift, None, (("h", b"v"),)) for shift in (0, -70_000, 9)]
    log = clean([made(encode_batch(rows))], now_ms=NOW_MS + 5)
    assert [record.timestamp for record in decode_records(log[0][1])] == [NOW_MS, NOW_MS - 70_000, NOW_MS + 9]
    assert decode_records(log[0][1])[0].headers == (("h", b"v"),)
    assert (log[0][0].base_timestamp, log[0][0].max_timestamp) == (NOW_MS + 1005, NOW_MS + 9)
