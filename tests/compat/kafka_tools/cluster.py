"""What a tool can learn of the broker itself, and Kafka's own test of what a broker lets its clients do."""

from __future__ import annotations

from tests.compat.kafka_tools.tools import Check, Tools


def _api_versions(tools: Tools) -> None:
    printed = tools.run("BrokerApiVersionsCommand").expect(f"{tools.bootstrap} (id: ", "Produce(0): ")
    for api in ("Fetch(1)", "ListOffsets(2)", "Metadata(3)", "OffsetCommit(8)", "ApiVersions(18)", "CreateTopics(19)"):
        line = next((line for line in printed.lines if api in line), "")
        assert "usable: " in line, f"{api} is not usable: {line}"


def _cluster_id(tools: Tools) -> None:
    (line,) = tools.run("ClusterTool", "cluster-id").expect("Cluster ID: ").lines
    assert len(line.removeprefix("Cluster ID: ").strip()) > 1


def _endpoints(tools: Tools) -> None:
    host, _, port = tools.bootstrap.rpartition(":")
    row = tools.run("ClusterTool", "list-endpoints").expect("HOST", "ENDPOINT_TYPE").row(host, port)
    assert row[0] == tools.broker_id()


def _log_dirs(tools: Tools) -> None:
    topic = tools.new_topic(values=3)
    printed = tools.run("LogDirsCommand", "--describe", "--topic-list", topic)
    printed.expect("Received log directory information", f'"partition":"{topic}-0"')


def _features(tools: Tools) -> None:
    tools.run("FeatureCommand", "describe").expect("SupportedMinVersion")


def _transactions(tools: Tools) -> None:
    tools.run("TransactionsCommand", "list").expect("TransactionalId", "TransactionState")


def _transaction(tools: Tools) -> None:
    topic, name = tools.new_topic(), tools.new_name("tx")
    load = ["--num-records", "10", "--record-size", "100", "--throughput", "-1", "--transactional-id", name]
    tools.run("ProducerPerformance", "--topic", topic, *load).expect("10 records sent")
    assert "CompleteCommit" in tools.run("TransactionsCommand", "describe", "--transactional-id", name).row(name)
    producers = tools.run("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", "0")
    producers.expect("ProducerId", "CurrentTransactionStartOffset")
    assert len(producers.lines) == 2
    tools.run("TransactionsCommand", "find-hanging", "--topic", topic, "--partition", "0").expect("StartOffset")


def _client_compatibility(tools: Tools) -> None:
    """Kafka's own client test: metadata, offsets by time, idempotent produce, consume, topics, configs."""
    supported = ["offsets-for-times", "cluster-id", "create-topics", "describe-configs", "idempotent-producer"]
    flags = [part for name in supported for part in (f"--{name}-supported", "true")]
    flags += ["--expect-record-too-large-exception", "false", "--num-cluster-nodes", "1"]
    for acls in ("true", "false"):  # a broker without ACLs is a broker all the same
        tools.drop_topic("newtopic")  # the tool's own name for what it creates
        topic = tools.new_topic()
        printed = tools.run("ClientCompatibilityTest", "--topic", topic, *flags, "--describe-acls-supported", acls)
        if "describeAcls" not in printed.out + printed.err and "DESCRIBE_ACLS" not in printed.out + printed.err:
            break
    printed.expect("SUCCESS")


CHECKS: dict[str, Check] = {
    "broker-api-versions": _api_versions,
    "cluster: cluster-id": _cluster_id,
    "cluster: list-endpoints": _endpoints,
    "log-dirs: describe": _log_dirs,
    "features: describe": _features,
    "transactions: list": _transactions,
    "transactions: describe, describe-producers, find-hanging": _transaction,
    "client-compatibility-test": _client_compatibility,
}
