"""`trunkline topic`: create, list, describe, delete, config."""

from __future__ import annotations

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
    pairs,
    reason,
    result_of,
)
from trunkline.cli.deleted import report_deleted
from trunkline.cli.failure import Failure
from trunkline.cli.positions import bounds_of, no_topic
from trunkline.model.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConfigEntry, TopicDescription

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Create, list, describe, delete and configure topics.

    \b
    Examples:
      trunkline topic create orders --partitions 3
      trunkline topic describe orders
      trunkline topic config orders --set retention.ms=86400000
    """,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="The topics.", show_default=False)]


@app.command()
def create(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", metavar="N", min=1, help="Default: the broker's own.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic config. Repeats.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing topic is no error.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Create a topic.

    \b
    Examples:
      trunkline topic create orders
      trunkline topic create orders --partitions 3 --config retention.ms=86400000
      trunkline topic create events --config durability=os --if-not-exists
    """
    configs = pairs(config, "--config")
    cluster = Cluster(bootstrap, timeout, properties)
    admin = cluster.admin()
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    wanted = NewTopic(name, num_partitions=partitions or -1, replication_factor=-1, config=configs)
    created = True
    try:
        admin.create_topics([wanted], operation_timeout=timeout, request_timeout=timeout)[name].result()
    except KafkaException as error:
        if code_of(error) != "TOPIC_ALREADY_EXISTS":
            raise Failure(f"cannot create topic {name!r}: {reason(error)}") from None
        if not if_not_exists:
            raise Failure(f"topic {name!r} exists already; --if-not-exists makes that no error") from None
        created = False
    if as_json:
        show.document({"topic": name, "created": created})
    else:
        print(f"created topic {name}" if created else f"topic {name} exists already")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also topics whose names start with __.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """List topics.

    \b
    Examples:
      trunkline topic list
      trunkline topic list --internal --json
    """
    from confluent_kafka import KafkaException

    admin = Cluster(bootstrap, timeout, properties).admin()
    try:
        known = admin.list_topics(timeout=timeout).topics
    except KafkaException as error:
        raise Failure(f"cannot list topics: {reason(error)}") from None
    names = sorted(name for name in known if internal or not name.startswith("__"))
    if as_json:
        show.document([{"topic": name, "partitions": len(known[name].partitions)} for name in names])
    else:
        rows = [(name, len(known[name].partitions)) for name in names]
        show.table(["topic", "partitions"], rows, empty="no topics yet; `trunkline topic create NAME` makes one")


@app.command()
def describe(
    names: Names,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Show topics: id, configs that were set, and each partition's leader and offsets.

    \b
    Examples:
      trunkline topic describe orders
      trunkline topic describe orders payments --json
    """
    cluster = Cluster(bootstrap, timeout, properties)
    admin = cluster.admin()
    documents = [_described(cluster, admin, description) for description in _descriptions(cluster, admin, names)]
    if as_json:
        show.document(documents)
        return
    for index, document in enumerate(documents):
        if index:
            print()
        _print_description(document)


def _descriptions(cluster: Cluster, admin: AdminClient, names: list[str]) -> list[TopicDescription]:
    from confluent_kafka import KafkaException, TopicCollection

    names = list(dict.fromkeys(names))
    futures = admin.describe_topics(TopicCollection(names), request_timeout=cluster.timeout_s)
    found = []
    for name in names:
        try:
            found.append(futures[name].result())
        except KafkaException as error:
            if code_of(error) == "UNKNOWN_TOPIC_OR_PART":
                raise no_topic(name) from None
            raise Failure(f"cannot describe topic {name!r}: {reason(error)}") from None
    return found


def _described(cluster: Cluster, admin: AdminClient, topic: TopicDescription) -> dict[str, Any]:
    partitions = {TopicPartition(topic.name, partition.id): partition for partition in topic.partitions}
    bounds = bounds_of(cluster, admin, [name for name, partition in partitions.items() if partition.leader is not None])
    rows = []
    for name, partition in partitions.items():
        bound = bounds.get(name)
        rows.append(
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader is not None else None,
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
                "start": bound.start if bound else None,
                "end": bound.end if bound else None,
            }
        )
    configs = {entry.name: entry.value for entry in _configs(cluster, admin, topic.name) if _was_set(entry)}
    return {
        "topic": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "configs": configs,
        "partitions": rows,
    }


def _print_description(document: dict[str, Any]) -> None:
    configs = ", ".join(f"{name}={value}" for name, value in document["configs"].items())
    show.fields(
        {
            "topic": document["topic"] + (" (internal)" if document["internal"] else ""),
            "id": document["id"],
            "configs": configs or "all at their defaults",
        }
    )
    print()
    rows = [
        (
            row["partition"],
            row["leader"],
            ",".join(map(str, row["replicas"])),
            ",".join(map(str, row["isr"])),
            row["start"],
            row["end"],
            row["end"] - row["start"] if row["end"] is not None else None,
        )
        for row in document["partitions"]
    ]
    show.table(["partition", "leader", "replicas", "isr", "start", "end", "records"], rows)


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Delete topics and all their records.

    \b
    Examples:
      trunkline topic delete orders
      trunkline topic delete orders payments --yes
    """
    names = list(dict.fromkeys(names))
    admin = Cluster(bootstrap, timeout, properties).admin()
    if not yes:
        typer.confirm(f"Delete {', '.join(names)} with all records?", abort=True, err=True)
    futures = admin.delete_topics(names, operation_timeout=timeout, request_timeout=timeout)
    report_deleted(futures, "topic", as_json)


@app.command()
def config(
    name: Name,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set one. Repeats.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Back to default. Repeats.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    properties: Properties = None,
) -> None:
    """Show a topic's configs, or change some.

    \b
    Examples:
      trunkline topic config orders
      trunkline topic config orders --set retention.ms=86400000 --set durability=os
      trunkline topic config orders --unset retention.ms
    """
    changes = pairs(set_, "--set")
    both = set(changes) & set(unset or ())
    if both:
        raise typer.BadParameter(f"{min(both)} is in both --set and --unset", param_hint="--unset")
    cluster = Cluster(bootstrap, timeout, properties)
    admin = cluster.admin()
    if changes or unset:
        _change(cluster, admin, name, changes, unset or [])
    entries = _configs(cluster, admin, name)
    if as_json:
        show.document({entry.name: {"value": entry.value, "set": _was_set(entry)} for entry in entries})
    else:
        show.table(
            ["config", "value", ""], [(entry.name, entry.value, "set" if _was_set(entry) else "") for entry in entries]
        )


def _change(cluster: Cluster, admin: AdminClient, topic: str, changes: dict[str, str], unset: list[str]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
    ] + [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in dict.fromkeys(unset)]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    [future] = admin.incremental_alter_configs([resource], request_timeout=cluster.timeout_s).values()
    result_of(future, f"change configs of topic {topic!r}")


def _configs(cluster: Cluster, admin: AdminClient, topic: str) -> list[ConfigEntry]:
    from confluent_kafka.admin import ConfigResource, ResourceType

    [future] = admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=cluster.timeout_s
    ).values()
    entries: dict[str, ConfigEntry] = result_of(future, f"read configs of topic {topic!r}")
    return sorted(entries.values(), key=lambda entry: entry.name)


def _was_set(entry: ConfigEntry) -> bool:
    """Whether somebody set it on this topic (librdkafka leaves the source a bare number)."""
    from confluent_kafka.admin import ConfigSource

    return entry.source in (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
