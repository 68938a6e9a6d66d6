"""kafka-topics and kafka-configs."""

from __future__ import annotations

from tests.compat.kafka_tools.tools import Check, Tools, wait_until


def _create(tools: Tools) -> None:
    name = tools.new_name("topic")
    tools.run("TopicCommand", "--create", "--topic", name, "--partitions", "3").expect(f"Created topic {name}.")
    assert name in tools.topics()


def _create_with_configs(tools: Tools) -> None:
    name = tools.new_name("topic")
    wanted = ["--config", "retention.ms=60000", "--config", "cleanup.policy=compact"]
    tools.run("TopicCommand", "--create", "--topic", name, *wanted).expect(f"Created topic {name}.")
    printed = tools.run("TopicCommand", "--describe", "--topic", name)
    printed.expect("PartitionCount: 1", "retention.ms=60000", "cleanup.policy=compact")


def _create_with_assignment(tools: Tools) -> None:
    name = tools.new_name("topic")
    broker = tools.broker_id()
    assignment = ["--replica-assignment", f"{broker},{broker}"]
    tools.run("TopicCommand", "--create", "--topic", name, *assignment).expect(f"Created topic {name}.")
    tools.run("TopicCommand", "--describe", "--topic", name).expect("PartitionCount: 2")


def _create_existing(tools: Tools) -> None:
    name = tools.new_topic()
    printed = tools.run("TopicCommand", "--create", "--topic", name)
    assert printed.status != 0
    printed.refuses("TopicExistsException")


def _create_if_not_exists(tools: Tools) -> None:
    tools.run("TopicCommand", "--create", "--if-not-exists", "--topic", tools.new_topic()).expect()


def _create_with_bad_config(tools: Tools) -> None:
    name = tools.new_name("topic")
    printed = tools.run("TopicCommand", "--create", "--topic", name, "--config", "retention.ms=soon")
    printed.refuses("retention.ms")
    assert name not in tools.topics()


def _create_with_bad_name(tools: Tools) -> None:
    printed = tools.run("TopicCommand", "--create", "--topic", "not/legal")
    assert printed.status != 0
    printed.refuses("InvalidTopicException")


def _list(tools: Tools) -> None:
    first, second = tools.new_topic(), tools.new_topic()
    printed = tools.run("TopicCommand", "--list").expect()
    assert {first, second} <= set(printed.lines)


def _describe(tools: Tools) -> None:
    name = tools.new_topic(partitions=3)
    printed = tools.run("TopicCommand", "--describe", "--topic", name)
    printed.expect(f"Topic: {name}", "TopicId: ", "PartitionCount: 3", "ReplicationFactor: 1", "Partition: 2")
    leader = f"Leader: {tools.broker_id()}"
    assert printed.out.count(leader) == 3, f"expected {leader} three times in: {printed.out}"


def _describe_missing(tools: Tools) -> None:
    printed = tools.run("TopicCommand", "--describe", "--topic", tools.new_name("missing"))
    assert printed.status != 0
    printed.refuses("does not exist")


def _add_partitions(tools: Tools) -> None:
    name = tools.new_topic(partitions=2)
    tools.run("TopicCommand", "--alter", "--topic", name, "--partitions", "5").expect()
    tools.run("TopicCommand", "--describe", "--topic", name).expect("PartitionCount: 5", "Partition: 4")


def _remove_partitions(tools: Tools) -> None:
    printed = tools.run("TopicCommand", "--alter", "--topic", tools.new_topic(partitions=2), "--partitions", "1")
    assert printed.status != 0
    printed.refuses("InvalidPartitionsException")


def _delete(tools: Tools) -> None:
    name = tools.new_topic()
    tools.run("TopicCommand", "--delete", "--topic", name).expect()
    wait_until(lambda: name not in tools.topics(), f"the end of {name}")


def _describe_configs(tools: Tools) -> None:
    name = tools.new_topic(retention_ms="90000")
    printed = tools.run("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", name)
    printed.expect("retention.ms=90000", "DYNAMIC_TOPIC_CONFIG")


def _describe_all_configs(tools: Tools) -> None:
    printed = tools.run("ConfigCommand", "--describe", "--all", "--topic", tools.new_topic())
    printed.expect("cleanup.policy=delete", "retention.ms=604800000", "max.message.bytes=", "segment.bytes=")


def _set_config(tools: Tools) -> None:
    name = tools.new_topic()
    change = ["--add-config", "retention.ms=1234567,max.message.bytes=2000000"]
    tools.run("ConfigCommand", "--alter", "--topic", name, *change).expect("Completed updating config")
    printed = tools.run("ConfigCommand", "--describe", "--topic", name)
    printed.expect("retention.ms=1234567", "max.message.bytes=2000000")


def _unset_config(tools: Tools) -> None:
    name = tools.new_topic(retention_ms="90000")
    tools.run("ConfigCommand", "--alter", "--topic", name, "--delete-config", "retention.ms").expect()
    printed = tools.run("ConfigCommand", "--describe", "--topic", name).expect()
    assert "retention.ms=" not in printed.out


def _set_bad_config(tools: Tools) -> None:
    name = tools.new_topic()
    printed = tools.run("ConfigCommand", "--alter", "--topic", name, "--add-config", "retention.ms=soon")
    assert printed.status != 0
    printed.refuses("retention.ms")


def _set_unknown_config(tools: Tools) -> None:
    name = tools.new_topic()
    printed = tools.run("ConfigCommand", "--alter", "--topic", name, "--add-config", "no.such.config=1")
    assert printed.status != 0
    printed.refuses("no.such.config")


def _describe_broker_configs(tools: Tools) -> None:
    printed = tools.run("ConfigCommand", "--describe", "--all", "--broker", tools.broker_id())
    printed.expect("All configs for broker", "num.partitions=", "log.retention.ms=")


CHECKS: dict[str, Check] = {
    "topics: create": _create,
    "topics: create with configs": _create_with_configs,
    "topics: create with an assignment": _create_with_assignment,
    "topics: create one that exists is refused": _create_existing,
    "topics: create if not exists": _create_if_not_exists,
    "topics: create with a bad config is refused": _create_with_bad_config,
    "topics: create with a bad name is refused": _create_with_bad_name,
    "topics: list": _list,
    "topics: describe": _describe,
    "topics: describe one that does not exist": _describe_missing,
    "topics: alter to more partitions": _add_partitions,
    "topics: alter to fewer partitions is refused": _remove_partitions,
    "topics: delete": _delete,
    "configs: describe a topic": _describe_configs,
    "configs: describe all of a topic": _describe_all_configs,
    "configs: alter a topic": _set_config,
    "configs: delete a topic's config": _unset_config,
    "configs: a bad value is refused": _set_bad_config,
    "configs: an unknown name is refused": _set_unknown_config,
    "configs: describe a broker": _describe_broker_configs,
}
