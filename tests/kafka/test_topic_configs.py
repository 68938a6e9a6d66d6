"""Configs of topics that act on what is written: the codec, the timestamps, the sync."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kafka.test_produce import create, fetch_bytes, produce
from tests.support.raw_kafka import RawKafka, batch

from trunkline.model.errors import InvalidConfig
from trunkline.model.limits import RECOMPRESSED_BYTES
from trunkline.model.topic import Durability, TopicConfig
from trunkline.record.batch import read_header, split_batches
from trunkline.record.compression import Compression
from trunkline.record.recompress import recompressed
from trunkline.record.records import Record, decode_records, encode_batch
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.testing import Broker

CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


@pytest.mark.parametrize("wanted", CODECS)
@pytest.mark.parametrize("sent", list(Compression))
def test_batches_are_stored_in_the_codec_that_the_topic_asks_for(
    broker: Broker, topic: str, sent: Compression, wanted: str
) -> None:
    create(broker, topic, compression_type=wanted)
    with RawKafka(broker.kafka) as client:
        values = [b"value %d" % number for number in range(50)]
        assert produce(client, topic, batch(values, compression=sent)).error_code == ErrorCode.NONE
        stored = fetch_bytes(client, topic)
    [(header, _)] = split_batches(memoryview(bytearray(stored)))
    assert header.compression is CODECS[wanted]
    assert [record.value for record in decode_records(stored)] == values


def test_an_idempotent_producer_is_known_again_after_recompression(broker: Broker, topic: str) -> None:
    create(broker, topic, compression_type="zstd")
    with RawKafka(broker.kafka) as client:
        first = batch([b"a", b"b"], producer_id=7_000_001, producer_epoch=0, base_sequence=0)
        assert produce(client, topic, first).base_offset == 0
        assert produce(client, topic, first).base_offset == 0
        assert read_header(fetch_bytes(client, topic)).producer_id == 7_000_001


def test_a_batch_is_measured_as_it_came(broker: Broker, topic: str) -> None:
    create(broker, topic, compression_type="zstd", max_message_bytes="1000")
    with RawKafka(broker.kafka) as client:
        assert produce(client, topic, batch([b"x" * 5000])).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_grows_too_large_is_refused(broker: Broker, topic: str) -> None:
    create(broker, topic, compression_type="uncompressed", max_message_bytes="1000")
    with RawKafka(broker.kafka) as client:
        large = batch([b"x" * 5000], compression=Compression.GZIP)
        assert produce(client, topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_records_too_large_to_wait_for_stay_as_they_came() -> None:
    sent = bytearray(batch([b"x" * (RECOMPRESSED_BYTES + 1)], compression=Compression.GZIP))
    [(header, _)] = recompressed(split_batches(memoryview(sent)), Compression.ZSTD)
    assert header.compression is Compression.GZIP


RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**40),
        key=st.none() | st.binary(max_size=20),
        value=st.none() | st.binary(max_size=200),
    ),
    min_size=1,
    max_size=20,
)


@given(RECORDS, st.sampled_from(list(Compression)), st.sampled_from(list(Compression)))
def test_recompression_keeps_everything_but_the_codec(
    records: list[Record], sent: Compression, wanted: Compression
) -> None:
    original = encode_batch(records, compression=sent, producer_id=5, producer_epoch=1, base_sequence=9)
    [(_, again)] = recompressed(split_batches(memoryview(original)), wanted)
    [(header, _)] = split_batches(memoryview(bytearray(again)))
    assert header.compression is wanted
    assert decode_records(again) == decode_records(original)
    kept = read_header(original)
    for name in ("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "record_count"):
        assert getattr(header, name) == getattr(kept, name)


@pytest.mark.parametrize(
    ("overrides", "durability"),
    [
        ({"durability": "os"}, Durability.OS),
        ({"durability": "os", "flush.messages": "1"}, Durability.FSYNC),
        ({"durability": "os", "flush.ms": "0"}, Durability.FSYNC),
        ({"durability": "os", "flush.messages": "1000"}, Durability.OS),
        ({"flush.messages": "1000"}, Durability.FSYNC),
    ],
)
def test_a_flush_with_every_message_is_a_sync_with_every_write(
    overrides: dict[str, str], durability: Durability
) -> None:
    assert TopicConfig.parse(overrides).durability is durability


def test_a_codec_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidConfig):
        TopicConfig.parse({"compression.type": "brotli"})


def test_timestamps_out_of_bounds_are_refused(broker: Broker, topic: str) -> None:
    create(broker, topic, message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000")
    now_ms = time.time_ns() // 1_000_000
    with RawKafka(broker.kafka) as client:
        for offset_ms, code in (
            (0, ErrorCode.NONE),
            (-50_000, ErrorCode.NONE),
            (50_000, ErrorCode.NONE),
            (-70_000, ErrorCode.INVALID_TIMESTAMP),
            (70_000, ErrorCode.INVALID_TIMESTAMP),
        ):
            assert produce(client, topic, batch([b"x"], timestamp=now_ms + offset_ms)).error_code == code


def test_a_record_that_is_too_old_is_found_anywhere_in_its_batch(broker: Broker, topic: str) -> None:
    create(broker, topic, message_timestamp_before_max_ms="60000")
    now_ms = time.time_ns() // 1_000_000
    for codec in (Compression.NONE, Compression.GZIP):
        records = [Record(0, now_ms - age_ms, b"key", b"value") for age_ms in (0, 100_000, 0)]
        with RawKafka(broker.kafka) as client:
            answer = produce(client, topic, bytes(encode_batch(records, compression=codec)))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
