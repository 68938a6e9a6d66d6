"""`trunkline group`: list, describe (with lag), reset, delete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli import show
from trunkline.cli.client import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    Bootstrap,
    Cluster,
    Json,
    Properties,
    Timeout,
    code_of,
    reason,
    result_of,
    words_of,
)
from trunkline.cli.deleted import report_deleted
from trunkline.cli.failure import Failure
from trunkline.cli.positions import (
    At,
    Bounds,
    Earliest,
    Latest,
    Position,
    Since,
    bounds_of,
    parse_time_ms,
    partitions_of,
    resolve,
)
from trunkline.model.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""List, describe, reset and delete consumer groups.

    \b
    Examples:
      trunkline group list
      trunkline group describe billing
      trunkline group reset billing --topic orders --to-earliest --dry-run
    """,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The group.", show_default=False)]


@app.command("list")
def list_groups(
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """List consumer groups.

    \b
    Examples:
      trunkline group list
      trunkline group list --json
    """
    admin = Cluster(bootstrap, timeout, properties).admin()
    answer = result_of(admin.list_consumer_groups(request_timeout=timeout), "list groups")
    if answer.errors:
        raise Failure(f"cannot list groups: {reason(answer.errors[0])}")
    groups = sorted(answer.valid, key=lambda group: group.group_id)
    if as_json:
        show.document(
            [{"group": group.group_id, "state": _word(group.state), "type": _word(group.type)} for group in groups]
        )
    else:
        rows = [(group.group_id, _word(group.state), _word(group.type)) for group in groups]
        show.table(["group", "state", "type"], rows, empty="no groups yet")


@app.command()
def describe(
    name: Name,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Show a group: its state, its members and what they read, and how far behind it is.

    \b
    Examples:
      trunkline group describe billing
      trunkline group describe billing --json
    """
    cluster = Cluster(bootstrap, timeout, properties)
    admin = cluster.admin()
    group = _description(cluster, admin, name)
    committed = _committed(cluster, admin, name)
    if group is None or (_word(group.state) == "dead" and not committed):
        raise Failure(f"there is no group {name!r}: `trunkline group list` shows them")
    document = _document(cluster, admin, group, committed)
    if as_json:
        show.document(document)
    else:
        _print_group(document)


def _document(
    cluster: Cluster, admin: AdminClient, group: ConsumerGroupDescription, committed: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    members, owners = [], dict[TopicPartition, str]()
    for member in sorted(group.members, key=lambda member: (member.client_id, member.member_id)):
        assigned = [TopicPartition(tp.topic, tp.partition) for tp in _assigned(member)]
        owners.update(dict.fromkeys(assigned, member.client_id))
        members.append(
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.host,
                "instance": member.group_instance_id,
                "assignment": [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(assigned)],
            }
        )
    partitions = sorted(committed.keys() | owners.keys())
    ends = {tp: bound.end for tp, bound in _bounds_of_living(cluster, admin, partitions).items()}
    rows = []
    for tp in partitions:
        offset, end = committed.get(tp), ends.get(tp)
        lag = max(0, end - offset) if end is not None and offset is not None else None
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": offset,
                "end": end,
                "lag": lag,
                "client": owners.get(tp),
            }
        )
    return {
        "group": group.group_id,
        "state": _word(group.state),
        "type": _word(group.type),
        "assignor": group.partition_assignor or None,
        "coordinator": f"{group.coordinator.host}:{group.coordinator.port}" if group.coordinator else None,
        "lag": sum(row["lag"] for row in rows if row["lag"] is not None),
        "members": members,
        "partitions": rows,
    }


def _bounds_of_living(
    cluster: Cluster, admin: AdminClient, partitions: list[TopicPartition]
) -> dict[TopicPartition, Bounds]:
    """A group may remember offsets of topics that are gone."""
    known = admin.list_topics(timeout=cluster.timeout_s).topics
    return bounds_of(
        cluster, admin, [tp for tp in partitions if tp.topic in known and tp.partition in known[tp.topic].partitions]
    )


def _print_group(document: dict[str, Any]) -> None:
    show.fields({name: document[name] for name in ("group", "state", "type", "assignor", "coordinator", "lag")})
    if document["members"]:
        print()
        rows = [
            (member["client"], member["host"], member["member"], _ranges(member["assignment"]))
            for member in document["members"]
        ]
        show.table(["client", "host", "member", "reads"], rows)
    if document["partitions"]:
        print()
        names = ["topic", "partition", "committed", "end", "lag", "client"]
        show.table(names, [[row[name] for name in names] for row in document["partitions"]])


def _ranges(assignment: list[dict[str, Any]]) -> str:
    by_topic: dict[str, list[str]] = defaultdict(list)
    for item in assignment:
        by_topic[item["topic"]].append(str(item["partition"]))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items()) or "nothing"


def _assigned(member: Any) -> list[Any]:
    return member.assignment.topic_partitions if member.assignment else []


@app.command()
def reset(
    name: Name,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Whose offsets to set.", show_default=False)],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", metavar="N", min=0, help="Only this one. Repeats.")
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last record.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", min=0)] = None,
    to_time: Annotated[
        str | None, typer.Option("--to-time", metavar="ISO", help="To the first record at or after a time.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Forward, or back where N is negative.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be set.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Set where a group reads on. Its consumers must be stopped first.

    Offsets outside of what a partition holds are moved to its nearer edge.

    \b
    Examples:
      trunkline group reset billing --topic orders --to-earliest --dry-run
      trunkline group reset billing --topic orders --to-time 2031-05-01T12:00:00Z
      trunkline group reset billing --topic orders --partition 2 --shift-by -100
    """
    target = _target(to_earliest, to_latest, to_offset, to_time, shift_by)
    cluster = Cluster(bootstrap, timeout, properties)
    admin = cluster.admin()
    bounds = bounds_of(cluster, admin, partitions_of(cluster, admin, [topic], partition))
    _check_empty(cluster, admin, name)
    before = _committed(cluster, admin, name)
    if isinstance(target, int):
        after = _shifted(bounds, before, target, name)
    else:
        after = resolve(cluster, admin, target, bounds)
    if not dry_run:
        _commit(cluster, admin, name, after)
    if as_json:
        rows = [
            {"topic": tp.topic, "partition": tp.partition, "before": before.get(tp), "after": offset}
            for tp, offset in after.items()
        ]
        show.document({"group": name, "dry_run": dry_run, "partitions": rows})
    else:
        show.table(
            ["topic", "partition", "before", "after"],
            [(tp.topic, tp.partition, before.get(tp), offset) for tp, offset in after.items()],
        )
        show.note("dry run: nothing was changed" if dry_run else f"group {name} was reset")


def _target(
    to_earliest: bool, to_latest: bool, to_offset: int | None, to_time: str | None, shift_by: int | None
) -> Position | int:
    """Where to; an int is a shift."""
    given: list[Position | int] = []
    if to_earliest:
        given.append(Earliest())
    if to_latest:
        given.append(Latest())
    if to_offset is not None:
        given.append(At(to_offset))
    if shift_by is not None:
        given.append(shift_by)
    if to_time is not None:
        try:
            given.append(Since(parse_time_ms(to_time)))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--to-time") from None
    if len(given) != 1:
        raise typer.BadParameter(
            "give exactly one of --to-earliest, --to-latest, --to-offset, --to-time, --shift-by", param_hint="target"
        )
    return given[0]


def _shifted(
    bounds: Mapping[TopicPartition, Bounds], before: Mapping[TopicPartition, int], by: int, group: str
) -> dict[TopicPartition, int]:
    missing = [tp for tp in bounds if tp not in before]
    if missing:
        raise Failure(f"group {group!r} has no offset in {missing[0]} to shift: use --to-earliest or --to-offset there")
    return {tp: bound.clamp(before[tp] + by) for tp, bound in bounds.items()}


def _check_empty(cluster: Cluster, admin: AdminClient, name: str) -> None:
    group = _description(cluster, admin, name)
    if group is not None and group.members:
        clients = ", ".join(sorted({member.client_id for member in group.members}))
        raise Failure(f"group {name!r} is in use ({clients}): stop its consumers, then reset it")


def _commit(cluster: Cluster, admin: AdminClient, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka import TopicPartition as Committed

    partitions = [Committed(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(name, partitions)]
    answer = result_of(
        admin.alter_consumer_group_offsets(asked, request_timeout=cluster.timeout_s)[name], f"reset group {name!r}"
    )
    for partition in answer.topic_partitions:
        if partition.error is not None:
            raise Failure(
                f"cannot reset group {name!r} in {partition.topic}-{partition.partition}: {words_of(partition.error)}"
            )


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The groups.", show_default=False)],
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Delete groups with their offsets. Their consumers must be stopped first.

    \b
    Examples:
      trunkline group delete billing
      trunkline group delete billing reports --json
    """
    names = list(dict.fromkeys(names))
    admin = Cluster(bootstrap, timeout, properties).admin()
    futures = admin.delete_consumer_groups(names, request_timeout=timeout)
    report_deleted(futures, "group", as_json)


def _description(cluster: Cluster, admin: AdminClient, name: str) -> ConsumerGroupDescription | None:
    """None for a group that does not exist (brokers since Kafka 4.0 say so; older ones describe it as dead)."""
    from confluent_kafka import KafkaException

    try:
        return admin.describe_consumer_groups([name], request_timeout=cluster.timeout_s)[name].result()  # type: ignore[no-any-return]
    except KafkaException as error:
        if code_of(error) == "GROUP_ID_NOT_FOUND":
            return None
        raise Failure(f"cannot describe group {name!r}: {reason(error)}") from None


def _committed(cluster: Cluster, admin: AdminClient, name: str) -> dict[TopicPartition, int]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = [ConsumerGroupTopicPartitions(name)]
    answer = result_of(
        admin.list_consumer_group_offsets(asked, request_timeout=cluster.timeout_s)[name],
        f"read offsets of group {name!r}",
    )
    return {TopicPartition(tp.topic, tp.partition): tp.offset for tp in answer.topic_partitions if tp.offset >= 0}


def _word(value: Any) -> str:
    """`preparing rebalancing` for an enum's PREPARING_REBALANCING."""
    return value.name.lower().replace("_", " ") if value is not None else "unknown"
