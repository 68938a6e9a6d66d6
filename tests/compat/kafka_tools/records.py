"""Records in and out: console producer and consumer, performance tools, verifiable clients, offsets, delete-records."""

from __future__ import annotations

import json
import re

from tests.compat.kafka_tools.tools import Check, Printed, Tools

_CODECS = ("gzip", "snappy", "lz4", "zstd")
_PERF_RECORDS = 20_000


def _consume(tools: Tools, topic: str, count: int, *args: str) -> Printed:
    """Reads until `count` records came; the tool itself gives up after 20 s without one."""
    bounds = ["--max-messages", str(count), "--timeout-ms", "20000"]
    return tools.run("ConsoleConsumer", "--topic", topic, *bounds, *args).expect()


def _console_round_trip(tools: Tools) -> None:
    topic = tools.new_topic()
    tools.run("ConsoleProducer", "--topic", topic, typed="one\ntwo\nthree\n").expect()
    assert _consume(tools, topic, 3, "--from-beginning").lines == ["one", "two", "three"]


def _console_first_use(tools: Tools) -> None:
    topic = tools.new_name("auto")
    tools.run("ConsoleProducer", "--topic", topic, typed="hello\n").expect()
    assert _consume(tools, topic, 1, "--from-beginning").lines == ["hello"]


def _console_keys(tools: Tools) -> None:
    topic = tools.new_topic()
    parse = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    tools.run("ConsoleProducer", "--topic", topic, *parse, typed="k1:a\nk2:b\n").expect()
    shown = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=="]
    assert _consume(tools, topic, 2, "--from-beginning", *shown).lines == ["k1=a", "k2=b"]


def _console_headers(tools: Tools) -> None:
    topic = tools.new_topic()
    tools.run("ConsoleProducer", "--topic", topic, "--reader-property", "parse.headers=true", typed="h1:x,h2:y\tv\n")
    shown = [f"print.{part}=true" for part in ("headers", "timestamp", "partition", "offset")]
    flags = [flag for part in shown for flag in ("--formatter-property", part)]
    (line,) = _consume(tools, topic, 1, "--from-beginning", *flags).lines
    assert re.fullmatch(r"CreateTime:\d+\tPartition:0\tOffset:0\th1:x,h2:y\tv", line), line


def _console_codecs(tools: Tools) -> None:
    topic = tools.new_topic()
    for codec in _CODECS:
        lines = "".join(f"{codec} {number}\n" for number in range(50))
        tools.run("ConsoleProducer", "--topic", topic, "--compression-codec", codec, typed=lines).expect()
    printed = _consume(tools, topic, 200, "--from-beginning")
    assert printed.lines == [f"{codec} {number}" for codec in _CODECS for number in range(50)]


def _console_acks(tools: Tools) -> None:
    topic = tools.new_topic()
    for acks in ("0", "1"):
        flags = ["--request-required-acks", acks, "--command-property", "enable.idempotence=false"]
        tools.run("ConsoleProducer", "--topic", topic, *flags, typed=f"acks {acks}\n").expect()
    assert _consume(tools, topic, 2, "--from-beginning").lines == ["acks 0", "acks 1"]


def _console_too_large(tools: Tools) -> None:
    topic = tools.new_topic(max_message_bytes="1000")
    printed = tools.run("ConsoleProducer", "--topic", topic, "--sync", typed="x" * 5000 + "\n")
    printed.refuses("RecordTooLargeException")
    assert tools.watermarks(topic) == (0, 0)


def _console_from_offset(tools: Tools) -> None:
    topic = tools.new_topic(values=6)
    assert _consume(tools, topic, 2, "--partition", "0", "--offset", "3").lines == ["v3", "v4"]


def _console_group(tools: Tools) -> None:
    topic, group = tools.new_topic(values=5), tools.new_name("group")
    first = _consume(tools, topic, 2, "--group", group, "--from-beginning")
    second = _consume(tools, topic, 3, "--group", group)
    assert (first.lines, second.lines) == (["v0", "v1"], ["v2", "v3", "v4"])


def _console_new_protocol(tools: Tools) -> None:
    topic, group = tools.new_topic(values=3), tools.new_name("group")
    flags = ["--group", group, "--from-beginning", "--command-property", "group.protocol=consumer"]
    assert _consume(tools, topic, 3, *flags).lines == ["v0", "v1", "v2"]


def _console_pattern(tools: Tools) -> None:
    topic = tools.new_topic(values=2)
    bounds = ["--max-messages", "2", "--timeout-ms", "20000", "--from-beginning"]
    printed = tools.run("ConsoleConsumer", "--include", f"{topic}.*", *bounds).expect()
    assert printed.lines == ["v0", "v1"]


def _console_read_committed(tools: Tools) -> None:
    topic = tools.new_topic(values=2)
    flags = ["--isolation-level", "read_committed", "--from-beginning"]
    assert _consume(tools, topic, 2, *flags).lines == ["v0", "v1"]


def _producer_perf(tools: Tools) -> None:
    topic = tools.new_topic(partitions=2)
    load = ["--num-records", str(_PERF_RECORDS), "--record-size", "100", "--throughput", "-1"]
    tools.run("ProducerPerformance", "--topic", topic, *load).expect(f"{_PERF_RECORDS} records sent", "99th")
    stored = [tools.watermarks(topic, partition)[1] for partition in range(2)]
    assert sum(stored) == _PERF_RECORDS


def _producer_perf_options(tools: Tools) -> None:
    topic = tools.new_topic()
    load = ["--num-records", str(_PERF_RECORDS), "--record-size", "100", "--throughput", "-1"]
    props = ["--command-property", "compression.type=zstd", "acks=1", "batch.size=65536", "enable.idempotence=false"]
    tools.run("ProducerPerformance", "--topic", topic, *load, *props).expect(f"{_PERF_RECORDS} records sent")
    assert tools.watermarks(topic)[1] == _PERF_RECORDS


def _producer_perf_transactions(tools: Tools) -> None:
    topic = tools.new_topic()
    load = ["--num-records", "2000", "--record-size", "100", "--throughput", "-1"]
    transactions = ["--transactional-id", tools.new_name("tx"), "--transaction-duration-ms", "100"]
    tools.run("ProducerPerformance", "--topic", topic, *load, *transactions).expect("2000 records sent")


def _consumer_perf(tools: Tools) -> None:
    topic = tools.new_topic(values=5_000)
    printed = tools.run("ConsumerPerformance", "--topic", topic, "--num-records", "5000", "--hide-header").expect()
    assert printed.lines[-1].split(", ")[4] == "5000", printed.lines[-1]


def _end_to_end(tools: Tools) -> None:
    load = ["--num-records", "200", "--producer-acks", "all", "--record-size", "100"]
    tools.run("EndToEndLatency", "--topic", tools.new_topic(), *load).expect("Avg latency", "Percentiles")


def _verifiable_producer(tools: Tools) -> None:
    topic = tools.new_topic()
    printed = tools.run("VerifiableProducer", "--topic", topic, "--max-messages", "100", "--acks", "-1").expect()
    events = [json.loads(line) for line in printed.lines]
    assert sum(event["name"] == "producer_send_success" for event in events) == 100
    assert next(event for event in events if event["name"] == "tool_data")["acked"] == 100


def _verifiable_consumer(tools: Tools) -> None:
    topic, group = tools.new_topic(values=100), tools.new_name("group")
    flags = ["--topic", topic, "--group-id", group, "--max-messages", "100", "--reset-policy", "earliest"]
    printed = tools.run("VerifiableConsumer", *flags).expect()
    events = [json.loads(line) for line in printed.lines]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 100
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")
    assert tools.committed(group, topic) == 100


def _offsets(tools: Tools) -> None:
    topic = tools.new_topic(partitions=2, values=10)
    tools.run("GetOffsetShell", "--topic", topic).expect(f"{topic}:0:10", f"{topic}:1:0")


def _offsets_earliest(tools: Tools) -> None:
    topic = tools.new_topic(values=10)
    tools.run("GetOffsetShell", "--topic", topic, "--time", "earliest").expect(f"{topic}:0:0")


def _offsets_by_time(tools: Tools) -> None:
    topic = tools.new_topic(values=10)
    tools.run("GetOffsetShell", "--topic", topic, "--time", "1004").expect(f"{topic}:0:4")


def _offsets_max_timestamp(tools: Tools) -> None:
    topic = tools.new_topic(values=10)
    tools.run("GetOffsetShell", "--topic", topic, "--time", "max-timestamp").expect(f"{topic}:0:9")


def _delete_records(tools: Tools) -> None:
    topic = tools.new_topic(values=10)
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}
    path = tools.new_file(json.dumps(wanted))
    tools.run("DeleteRecordsCommand", "--offset-json-file", str(path)).expect("low_watermark: 4")
    assert tools.watermarks(topic) == (4, 10)


CHECKS: dict[str, Check] = {
    "console: produce, then consume from the beginning": _console_round_trip,
    "console: produce to a topic that does not exist yet": _console_first_use,
    "console: keys": _console_keys,
    "console: headers, timestamp, partition and offset": _console_headers,
    "console: all compression codecs": _console_codecs,
    "console: acks 0 and 1": _console_acks,
    "console: a record over max.message.bytes is refused": _console_too_large,
    "console: consume from an offset": _console_from_offset,
    "console: a group goes on where it stopped": _console_group,
    "console: a group with group.protocol=consumer": _console_new_protocol,
    "console: consume topics by pattern": _console_pattern,
    "console: consume read_committed": _console_read_committed,
    "producer-perf": _producer_perf,
    "producer-perf: zstd, acks 1, not idempotent": _producer_perf_options,
    "producer-perf: transactions": _producer_perf_transactions,
    "consumer-perf": _consumer_perf,
    "e2e-latency": _end_to_end,
    "verifiable-producer": _verifiable_producer,
    "verifiable-consumer": _verifiable_consumer,
    "get-offsets: latest": _offsets,
    "get-offsets: earliest": _offsets_earliest,
    "get-offsets: by time": _offsets_by_time,
    "get-offsets: max timestamp": _offsets_max_timestamp,
    "delete-records": _delete_records,
}
