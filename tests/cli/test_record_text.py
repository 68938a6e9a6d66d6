"""Records as lines: what is written can be read back, and nothing in a record can harm a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.cli.record_text import (
    BadLine,
    Incoming,
    InputFormat,
    Outgoing,
    OutputFormat,
    line_parser,
    line_writer,
)

maybe_bytes = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
incoming = st.builds(
    Incoming,
    topic=st.just("orders"),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.integers(0, 2**63 - 1),
    key=maybe_bytes,
    value=maybe_bytes,
    headers=st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=4).map(tuple),
)
from_json = line_parser(InputFormat.JSON, b"\t")


def written(record: Incoming, form: OutputFormat, *, headers: bool = False, terminal: bool = False) -> bytes:
    return line_writer(form, b"\t", headers, terminal)(record)


@given(incoming)
def test_what_consume_writes_as_json_produce_reads_back_unchanged(record: Incoming) -> None:
    line = written(record, OutputFormat.JSON)
    assert line.count(b"\n") == 1
    assert from_json(line) == Outgoing(record.value, record.key, record.headers, record.partition, record.timestamp_ms)


@given(incoming, st.sampled_from([OutputFormat.VALUE, OutputFormat.KEY_VALUE, OutputFormat.FULL]))
def test_on_a_terminal_no_record_can_steer_it_or_fake_a_line(record: Incoming, form: OutputFormat) -> None:
    line = written(record, form, headers=True, terminal=True).decode()
    assert line.endswith("\n")
    assert line[:-1].replace("\t", "").isprintable()


@given(st.binary(max_size=20))
def test_in_a_pipe_values_are_as_they_are(value: bytes) -> None:
    record = Incoming("t", 0, 0, None, b"k", value)
    assert written(record, OutputFormat.VALUE) == value + b"\n"
    assert written(record, OutputFormat.KEY_VALUE) == b"k\t" + value + b"\n"


def test_bytes_that_are_no_utf8_are_marked_base64_in_json() -> None:
    fields = json.loads(written(Incoming("t", 0, 0, 1, b"k", b"\xaa", (("h", b"\xff"),)), OutputFormat.JSON))
    assert fields["value"] == "qg=="
    assert fields["value_encoding"] == "base64"
    assert "key_encoding" not in fields
    assert fields["headers"] == [["h", "/w==", "base64"]]


def test_full_shows_place_time_key_headers_and_value() -> None:
    record = Incoming("orders", 2, 7, 1_935_230_400_123, b"k", "grün\x1b".encode(), (("trace", b"abc"),))
    assert written(record, OutputFormat.FULL).decode() == (
        "orders-2@7  2031-04-29T12:00:00.123Z  key=k  trace=abc  grün\\x1b\n"
    )
    assert b"(tombstone)" in written(Incoming("t", 0, 0, 2**62, None, None), OutputFormat.FULL)


def test_a_key_ends_at_the_first_separator() -> None:
    parse = line_parser(InputFormat.KEY_VALUE, b"::")
    assert parse(b"k::v::w") == Outgoing(b"v::w", b"k")
    with pytest.raises(BadLine, match="no key separator '::'"):
        parse(b"k:v")


def test_json_typed_by_hand_may_have_any_value_and_headers_as_an_object() -> None:
    record = from_json(b'{"value": {"total": 3}, "headers": {"a": "1", "b": null}}')
    assert record == Outgoing(b'{"total":3}', headers=(("a", b"1"), ("b", None)))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "a JSON object is expected"),
        (b'{"key": "k"}', 'no "value"'),
        (b'{"value": "v", "headrs": {}}', "unknown field 'headrs'"),
        (b'{"value": "v", "partition": -1}', "partition: -1"),
        (b'{"value": "v", "partition": true}', "partition: True"),
        (b'{"value": "v", "timestamp": "now"}', "timestamp: 'now'"),
        (b'{"value": "v", "headers": 1}', "headers:"),
        (b'{"value": "v", "headers": [["a"]]}', "headers:"),
        (b'{"value": "@", "value_encoding": "base64"}', "value:"),
        (b'{"value": "v", "value_encoding": "hex"}', "neither base64 nor utf-8"),
        (b'{"value": "\\ud800"}', "value:"),
    ],
)
def test_a_json_line_that_is_no_record_says_why(line: bytes, says: str) -> None:
    with pytest.raises(BadLine, match=says):
        from_json(line)
