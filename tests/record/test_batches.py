"""What a producer may send, what comes back out of it, and what lying bytes get."""

from __future__ import annotations

import gzip
import struct

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model import limits
from trunkline.model.errors import CorruptBatch, InvalidRecord, UnsupportedBatchFormat, UnsupportedCompression
from trunkline.record.batch import HEADER_BYTES, read_header, set_crc, split_batches, stamp, stamp_append_time
from trunkline.record.compression import Compression, DecompressedTooLarge, compress, decompress
from trunkline.record.records import Record, decode_records, encode_batch

RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**45),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


def one(value: bytes = b"value", key: bytes | None = b"key") -> Record:
    return Record(0, 1_000, key, value)


@given(RECORDS, st.sampled_from(Compression), st.integers(0, 2**60))
def test_records_come_back_as_they_went_in(records: list[Record], compression: Compression, base: int) -> None:
    batch = encode_batch(records, base_offset=base, compression=compression)
    [(header, view)] = split_batches(memoryview(batch))
    assert header.compression is compression
    assert header.unkeyed is any(record.key is None for record in records)
    back = decode_records(view)
    assert [record.offset for record in back] == list(range(base, base + len(records)))
    assert [(r.timestamp, r.key, r.value, r.headers) for r in back] == [
        (r.timestamp, r.key, r.value, r.headers) for r in records
    ]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_another_implementation_reads_our_batches(compression: Compression) -> None:
    records = [Record(0, 5_000 + i, b"k%d" % i, b"v" * i, (("h", b"1"), ("n", None))) for i in range(200)]
    theirs = DefaultRecordBatch(bytes(encode_batch(records, compression=compression)))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == [
        (i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(records)
    ]


def test_batches_of_another_implementation_are_read_here() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for i in range(100):
        builder.append(i, 7_000 + i, b"k", b"v%d" % i, [("a", b"b")])
    [(header, view)] = split_batches(memoryview(bytearray(builder.build())))
    assert header.record_count == 100
    assert decode_records(view)[99] == Record(99, 7_099, b"k", b"v99", (("a", b"b"),))


def test_several_batches_in_one_request_are_split() -> None:
    sent = encode_batch([one()]) + encode_batch([one(), one()])
    assert [header.record_count for header, _ in split_batches(memoryview(sent))] == [1, 2]


def test_nothing_sent_is_an_invalid_record() -> None:
    with pytest.raises(InvalidRecord):
        split_batches(memoryview(b""))


def test_stamping_changes_offset_and_epoch_but_not_the_checksum() -> None:
    batch = encode_batch([one(), one()])
    stamp(batch, 77, 5)
    [(header, view)] = split_batches(memoryview(batch))
    assert (header.base_offset, header.last_offset, header.next_offset, header.leader_epoch) == (77, 78, 79, 5)
    assert [record.offset for record in decode_records(view)] == [77, 78]


def test_append_time_counts_for_every_record() -> None:
    batch = encode_batch([one(), one()])
    stamp_append_time(batch, 123_456)
    [(header, view)] = split_batches(memoryview(batch))
    assert header.is_append_time
    assert {record.timestamp for record in decode_records(view)} == {123_456}


def test_a_flipped_bit_is_a_corrupt_batch() -> None:
    batch = encode_batch([one()])
    batch[-3] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        split_batches(memoryview(batch))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_named_as_such(magic: int) -> None:
    batch = encode_batch([one()])
    batch[16] = magic
    with pytest.raises(UnsupportedBatchFormat, match=f"v{magic}"):
        split_batches(memoryview(batch))


def test_an_unknown_codec_is_refused() -> None:
    batch = encode_batch([one()])
    batch[22] |= 7
    set_crc(batch)
    with pytest.raises(UnsupportedCompression):
        split_batches(memoryview(batch))


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_lying_batch_length_is_corrupt(length: int) -> None:
    batch = encode_batch([one()])
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatch):
        split_batches(memoryview(batch))


@pytest.mark.parametrize("kept", [1, 16, 60, 61, -1])
def test_a_batch_that_was_cut_is_an_invalid_record(kept: int) -> None:
    """Not a corrupt one: clients would send that again and again."""
    batch = encode_batch([one()])
    with pytest.raises(InvalidRecord):
        split_batches(memoryview(batch[:kept]))


@pytest.mark.parametrize(("delta", "count"), [(0, 2), (1, 1), (-1, 0), (0, 0), (2, 3), (2**31 - 1, -(2**31))])
def test_a_lying_count_or_delta_is_an_invalid_record(delta: int, count: int) -> None:
    batch = encode_batch([one(), one()])
    struct.pack_into(">i", batch, 23, delta)
    struct.pack_into(">i", batch, 57, count)
    set_crc(batch)
    with pytest.raises(InvalidRecord):
        split_batches(memoryview(batch))


def test_clients_may_not_write_control_batches() -> None:
    with pytest.raises(InvalidRecord, match="control"):
        split_batches(memoryview(encode_batch([one()], is_control=True)))


def test_a_producer_without_a_sequence_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="sequence"):
        split_batches(memoryview(encode_batch([one()], producer_id=4, producer_epoch=0)))


@given(RECORDS, st.data())
def test_damaged_records_with_a_right_checksum_never_crash_the_walk(records: list[Record], data: st.DataObject) -> None:
    batch = encode_batch(records)
    at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255))
    set_crc(batch)
    try:
        split_batches(memoryview(batch))
        walked = True
    except InvalidRecord:
        walked = False
    if not walked:
        with pytest.raises(InvalidRecord):
            decode_all(batch)


def decode_all(batch: bytearray) -> None:
    for index, record in enumerate(decode_records(batch)):
        if record.offset != index:
            raise InvalidRecord("out of order")


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises((CorruptBatch, InvalidRecord, UnsupportedBatchFormat)):
        split_batches(memoryview(data))


@pytest.mark.parametrize("compression", list(Compression)[1:])
@pytest.mark.parametrize("size", [0, 1, 70_000, 1_000_000])
def test_every_codec_gives_back_what_it_took(compression: Compression, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    assert bytes(decompress(compression, memoryview(bytes(compress(compression, data))))) == data


def test_raw_snappy_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"hello" * 100))
    assert bytes(decompress(Compression.SNAPPY, memoryview(raw))) == b"hello" * 100


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_a_bomb_raises_instead_of_allocating(compression: Compression) -> None:
    bomb = memoryview(bytes(compress(compression, bytes(3_000_000))))
    with pytest.raises(DecompressedTooLarge):
        decompress(compression, bomb, 1_000_000)
    with pytest.raises(DecompressedTooLarge):
        decompress(compression, bomb, 1_000)


def test_a_snappy_length_that_lies_raises_instead_of_allocating() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, memoryview(b"\xff\xff\xff\xff\x0f" + bytes(20)))


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_bytes_that_a_codec_did_not_write_are_corrupt(compression: Compression) -> None:
    for data in (b"x", b"no codec wrote this", bytes(compress(compression, b"hello" * 99))[:-7]):
        with pytest.raises(CorruptBatch):
            decompress(compression, memoryview(data))


def test_a_small_batch_of_very_many_records_costs_no_walk() -> None:
    records = [Record(0, 0, None, b"")] * (limits.OPENED_BATCH_RECORDS + 1)
    batch = encode_batch(records, compression=Compression.ZSTD)
    assert len(batch) < limits.OPENED_BATCH_BYTES
    [(header, _)] = split_batches(memoryview(batch))
    assert header.record_count == len(records)
    assert not header.unkeyed


def test_gzip_of_the_standard_library_is_read() -> None:
    assert bytes(decompress(Compression.GZIP, memoryview(gzip.compress(b"abc" * 9)))) == b"abc" * 9


def test_sequences_wrap_around() -> None:
    batch = encode_batch([one()] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 0
