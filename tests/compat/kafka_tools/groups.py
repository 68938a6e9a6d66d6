"""kafka-consumer-groups and kafka-groups."""

from __future__ import annotations

from tests.compat.kafka_tools.tools import Check, Printed, Tools, wait_until


def _groups(tools: Tools, *args: str) -> Printed:
    return tools.run("ConsumerGroupCommand", *args)


def _list(tools: Tools) -> None:
    group = tools.new_group(tools.new_topic(values=3), 1)
    assert group in _groups(tools, "--list").expect().lines


def _list_states(tools: Tools) -> None:
    group = tools.new_group(tools.new_topic(values=3), 1)
    assert _groups(tools, "--list", "--state").expect().row(group)[-1] == "Empty"


def _describe(tools: Tools) -> None:
    topic = tools.new_topic(values=10)
    group = tools.new_group(topic, 4)
    printed = _groups(tools, "--describe", "--group", group).expect("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    assert printed.row(group, topic)[:6] == [group, topic, "0", "4", "10", "6"]


def _describe_members(tools: Tools) -> None:
    topic, group = tools.new_topic(partitions=2, values=3), tools.new_name("group")
    consumer = tools.start("ConsoleConsumer", "--topic", topic, "--group", group, "--from-beginning")
    try:
        wait_until(lambda: tools.committed(group, topic) == 3, "the first commit of a live group")
        members = _groups(tools, "--describe", "--group", group, "--members", "--verbose").expect("CONSUMER-ID")
        assert f"{topic}:0,1" in members.out.replace(" ", ""), members.out
        state = _groups(tools, "--describe", "--group", group, "--state").expect("COORDINATOR")
        assert "Stable" in state.out, state.out
        refused = _groups(tools, "--delete", "--group", group)
        refused.refuses("GroupNotEmptyException")
    finally:
        consumer.terminate()
        consumer.wait(30)
    # Its member left with a LeaveGroup, or its session timed out.
    wait_until(lambda: "has no active members" in _groups(tools, "--describe", "--group", group).err, "an empty group")


def _describe_missing(tools: Tools) -> None:
    _groups(tools, "--describe", "--group", tools.new_name("missing")).refuses("GroupIdNotFoundException")


def _reset(tools: Tools, start: int, *to: str) -> int:
    topic = tools.new_topic(values=10)
    group = tools.new_group(topic, start)
    _groups(tools, "--reset-offsets", "--group", group, "--topic", topic, *to, "--execute").expect("NEW-OFFSET")
    return tools.committed(group, topic)


def _reset_to_earliest(tools: Tools) -> None:
    assert _reset(tools, 4, "--to-earliest") == 0


def _reset_to_latest(tools: Tools) -> None:
    assert _reset(tools, 4, "--to-latest") == 10


def _reset_by_shift(tools: Tools) -> None:
    assert _reset(tools, 4, "--shift-by", "3") == 7


def _reset_to_time(tools: Tools) -> None:
    assert _reset(tools, 4, "--to-datetime", "1970-01-01T00:00:01.006+00:00") == 6


def _reset_dry_run(tools: Tools) -> None:
    topic = tools.new_topic(values=10)
    group = tools.new_group(topic, 4)
    printed = _groups(tools, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--dry-run")
    assert printed.expect().row(group, topic) == [group, topic, "0", "0"]
    assert tools.committed(group, topic) == 4


def _reset_new_group(tools: Tools) -> None:
    topic, group = tools.new_topic(values=10), tools.new_name("group")
    _groups(tools, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "2", "--execute").expect()
    assert tools.committed(group, topic) == 2


def _delete_offsets(tools: Tools) -> None:
    topic = tools.new_topic(values=10)
    group = tools.new_group(topic, 4)
    printed = _groups(tools, "--delete-offsets", "--group", group, "--topic", topic)
    assert printed.expect("Successful").row(topic, "0")[-1] == "Successful"
    assert tools.committed(group, topic) < 0


def _delete(tools: Tools) -> None:
    topic = tools.new_topic(values=10)
    group = tools.new_group(topic, 4)
    _groups(tools, "--delete", "--group", group).expect("was successful")
    assert tools.committed(group, topic) < 0


def _delete_missing(tools: Tools) -> None:
    _groups(tools, "--delete", "--group", tools.new_name("missing")).refuses("GroupIdNotFoundException")


def _list_all_kinds(tools: Tools) -> None:
    group = tools.new_group(tools.new_topic(values=3), 1)
    row = tools.run("GroupsCommand", "--list").expect("GROUP", "TYPE", "PROTOCOL").row(group)
    assert row[:2] == [group, "Classic"]


CHECKS: dict[str, Check] = {
    "consumer-groups: list": _list,
    "consumer-groups: list with states": _list_states,
    "consumer-groups: describe shows lag": _describe,
    "consumer-groups: describe members and state of a live group, which cannot be deleted": _describe_members,
    "consumer-groups: describe one that does not exist": _describe_missing,
    "consumer-groups: reset to earliest": _reset_to_earliest,
    "consumer-groups: reset to latest": _reset_to_latest,
    "consumer-groups: reset by a shift": _reset_by_shift,
    "consumer-groups: reset to a time": _reset_to_time,
    "consumer-groups: reset as a dry run changes nothing": _reset_dry_run,
    "consumer-groups: reset makes a group that did not exist": _reset_new_group,
    "consumer-groups: delete offsets": _delete_offsets,
    "consumer-groups: delete": _delete,
    "consumer-groups: delete one that does not exist": _delete_missing,
    "groups: list": _list_all_kinds,
}
