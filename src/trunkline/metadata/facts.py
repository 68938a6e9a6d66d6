"""What can change in the metadata, one fact each. A store makes a fact durable first and shows it in its image then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trunkline.model.ids import TopicId
from trunkline.model.topic import Topic


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic: Topic


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    topic: Topic
    """With its new number of partitions."""


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    topic: Topic
    """With its new config."""


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """The topic is gone for clients; its files wait to be removed (a topic in memory has none)."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class DeletionFinished:
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """Producer ids below `next_id` have been given out, or are lost: none of them is ever given out again."""

    next_id: int


@dataclass(frozen=True, slots=True)
class ConfigsSet:
    """All dynamic configs of one broker, group or client; none at all forgets the resource."""

    resource_type: str
    resource_name: str
    values: Mapping[str, str]


Fact = (
    TopicCreated
    | PartitionsAdded
    | TopicConfigured
    | TopicDeleted
    | DeletionFinished
    | ProducerIdsAllocated
    | ConfigsSet
)
