"""What may change: a command on an image is answered with the fact that makes it so, or an error that says why not."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from trunkline.metadata.facts import (
    ConfigsSet,
    DeletionFinished,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from trunkline.metadata.image import Image, metric_name
from trunkline.model.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopicName,
    TopicExists,
    UnknownTopic,
)
from trunkline.model.ids import TopicId
from trunkline.model.limits import MAX_CONFIG_VALUE_BYTES, MAX_PARTITIONS_PER_TOPIC
from trunkline.model.topic import Topic, TopicConfig, check_topic_name

_LAST_PRODUCER_ID: Final = 2**63 - 1


def create_topic(
    image: Image, name: str, partitions: int, overrides: Mapping[str, str], *, internal: bool, memory: bool
) -> TopicCreated:
    check_topic_name(name)
    if name in image.topics:
        raise TopicExists(f"Topic '{name}' already exists.")
    other = image.names_by_metric.get(metric_name(name))
    if other is not None:
        raise InvalidTopicName(
            f"Topic '{name}' collides with existing topic: {other} ('.' and '_' are the same in a topic's name)."
        )
    if partitions < 1:
        raise InvalidPartitions(f"Topic '{name}' needs at least 1 partition, not {partitions}.")
    _check_partition_limit(name, partitions)
    config = _parse(overrides)
    return TopicCreated(Topic(name, new_topic_id(), partitions, config, internal=internal, memory=memory))


def add_partitions(image: Image, name: str, total: int) -> PartitionsAdded:
    topic = _topic(image, name)
    if total == topic.partitions:
        raise InvalidPartitions(f"Topic '{name}' already has {total} partition(s).")
    if total < topic.partitions:
        raise InvalidPartitions(
            f"The topic {name} currently has {topic.partitions} partition(s); {total} would not be an increase."
        )
    _check_partition_limit(name, total)
    return PartitionsAdded(replace(topic, partitions=total))


def set_config(image: Image, name: str, overrides: Mapping[str, str]) -> TopicConfigured:
    return TopicConfigured(replace(_topic(image, name), config=_parse(overrides)))


def delete_topic(image: Image, name: str) -> TopicDeleted:
    return TopicDeleted(_topic(image, name))


def forget_deleted(image: Image, topic_id: TopicId) -> DeletionFinished | None:
    """None when it is forgotten already: start-up may finish what a killed process had nearly finished."""
    return DeletionFinished(topic_id) if topic_id in image.deleted else None


def allocate_producer_ids(image: Image, count: int) -> ProducerIdsAllocated:
    if count < 1:
        raise InvalidRequest(f"At least 1 producer id must be asked for, not {count}.")
    next_id = image.next_producer_id + count
    if next_id > _LAST_PRODUCER_ID:
        raise InvalidRequest(f"There are no {count} producer ids left.")
    return ProducerIdsAllocated(next_id)


def set_configs(resource_type: str, resource_name: str, values: Mapping[str, str]) -> ConfigsSet:
    _check_text(resource_name, "The name of the resource")
    _check_values(values)
    return ConfigsSet(resource_type, resource_name, dict(values))


def new_topic_id() -> TopicId:
    """A random id whose text never starts with '-', which command lines would take for an option."""
    while True:
        topic_id = uuid.uuid4().bytes
        if not id_text(topic_id).startswith("-"):
            return TopicId(topic_id)


def new_cluster_id() -> str:
    return id_text(new_topic_id())


def id_text(id_bytes: bytes) -> str:
    """An id as Kafka's tools print it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(id_bytes).decode().rstrip("=")


def _topic(image: Image, name: str) -> Topic:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopic(f"There is no topic '{name}'.")
    return topic


def _parse(overrides: Mapping[str, str]) -> TopicConfig:
    _check_values(overrides)
    return TopicConfig.parse(overrides)


def _check_partition_limit(name: str, partitions: int) -> None:
    if partitions > MAX_PARTITIONS_PER_TOPIC:
        raise InvalidPartitions(
            f"Topic '{name}' may have at most {MAX_PARTITIONS_PER_TOPIC} partitions, not {partitions}."
        )


def _check_values(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        _check_text(name, "The name of a config")
        _check_text(value, f"The value of {name}")


def _check_text(text: str, what: str) -> None:
    """InvalidConfig for half a surrogate pair, which no database can hold, and for what is too long."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidConfig(f"{what} is no valid Unicode text.") from None
    if size > MAX_CONFIG_VALUE_BYTES:
        raise InvalidConfig(f"{what} has {size} bytes, the most is {MAX_CONFIG_VALUE_BYTES}.")
