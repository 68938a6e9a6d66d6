"""Topics as the broker holds them: the metadata store's image joined with the partitions of this node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from trunkline.broker.partition import Partition
from trunkline.log.store import LogStore
from trunkline.metadata.store import MetadataStore
from trunkline.model.errors import InvalidPartitions, TopicExists, UnknownPartition, UnknownTopic, UnknownTopicId
from trunkline.model.ids import TopicId
from trunkline.model.limits import MAX_PARTITIONS_PER_TOPIC
from trunkline.model.topic import Topic, TopicConfig, check_topic_name

log = logging.getLogger(__name__)


class Topics:
    """Create, change, delete and find. Metadata is written first: files without metadata are swept at the next start."""

    def __init__(self, store: MetadataStore, logs: LogStore, default_partitions: int) -> None:
        self._store = store
        self._logs = logs
        self.default_partitions = default_partitions
        self._partitions: dict[TopicId, list[Partition]] = {}
        self.on_deleted: Callable[[str], None] = lambda topic: None
        for topic in store.topics.values():
            self._partitions[topic.id] = [self._open(topic, index) for index in range(topic.partitions)]

    # ── finding ─────────────────────────────────────────────────────────────────────────────────

    @property
    def image(self) -> Mapping[str, Topic]:
        return self._store.topics

    def named(self, name: str) -> Topic:
        topic = self._store.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"There is no topic {name!r}.")
        return topic

    def with_id(self, topic_id: TopicId) -> Topic:
        topic = self._store.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId(f"There is no topic with id {topic_id.hex()}.")
        return topic

    def partition(self, name: str, index: int) -> Partition:
        return self._partition(self.named(name), index)

    def partition_by_id(self, topic_id: TopicId, index: int) -> Partition:
        return self._partition(self.with_id(topic_id), index)

    def partitions_of(self, topic: Topic) -> list[Partition]:
        return self._partitions[topic.id]

    def all_partitions(self) -> Iterator[Partition]:
        for partitions in self._partitions.values():
            yield from partitions

    def _partition(self, topic: Topic, index: int) -> Partition:
        partitions = self._partitions[topic.id]
        if not 0 <= index < len(partitions):
            raise UnknownPartition(f"Topic {topic.name!r} has {len(partitions)} partitions, there is no {index}.")
        return partitions[index]

    # ── changing ────────────────────────────────────────────────────────────────────────────────

    def check_new(self, name: str, partitions: int, overrides: Mapping[str, str]) -> int:
        """Whatever creating would refuse; gives the number of partitions that it would get."""
        check_topic_name(name)
        if name in self._store.topics:
            raise TopicExists(f"Topic '{name}' already exists.")
        TopicConfig.parse(overrides)
        return self._checked_count(self.default_partitions if partitions == -1 else partitions)

    def create(
        self, name: str, partitions: int = -1, overrides: Mapping[str, str] | None = None, *, internal: bool = False
    ) -> Topic:
        count = self.check_new(name, partitions, overrides or {})
        topic = self._store.create_topic(name, count, overrides or {}, internal=internal)
        self._partitions[topic.id] = [self._create(topic, index) for index in range(count)]
        return topic

    def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        topic = self.named(name)
        self._checked_count(total)
        if total <= topic.partitions:
            raise InvalidPartitions(
                f"Topic {name!r} currently has {topic.partitions} partition(s), which is not less than {total}: "
                "partitions can only be added."
            )
        if not validate_only:
            grown = self._store.add_partitions(name, total)
            partitions = self._partitions[topic.id]
            self._adopt(grown)
            partitions.extend(self._create(grown, index) for index in range(len(partitions), total))

    def set_config(self, name: str, overrides: Mapping[str, str]) -> None:
        self._adopt(self._store.set_config(self.named(name).name, overrides))

    def delete(self, name: str) -> Topic:
        topic = self._store.delete_topic(self.named(name).name)
        for partition in self._partitions.pop(topic.id):
            partition.close()
        self._logs.delete_topic(topic.id)
        self._store.forget_deleted(topic.id)
        self.on_deleted(name)
        return topic

    def _adopt(self, topic: Topic) -> None:
        for partition in self._partitions[topic.id]:
            partition.topic = topic
            partition.log.update_config(topic.config)

    @staticmethod
    def _checked_count(partitions: int) -> int:
        if partitions < 1:
            raise InvalidPartitions("Number of partitions must be larger than 0.")
        if partitions > MAX_PARTITIONS_PER_TOPIC:
            raise InvalidPartitions(f"A topic has at most {MAX_PARTITIONS_PER_TOPIC} partitions, not {partitions}.")
        return partitions

    def _create(self, topic: Topic, index: int) -> Partition:
        return Partition(topic, index, self._logs.create_partition(topic, index))

    def _open(self, topic: Topic, index: int) -> Partition:
        return Partition(topic, index, self._logs.partition(topic.id, index))
