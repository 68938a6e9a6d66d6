"""Topics as the broker holds them: the metadata store's image joined with the partitions of this node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trunkline.broker.partition import Partition
from trunkline.log.store import LogStore
from trunkline.metadata.store import MetadataStore
from trunkline.model.errors import UnknownPartition, UnknownTopic, UnknownTopicId
from trunkline.model.ids import TopicId
from trunkline.model.topic import Durability, Topic


class Topics:
    """Create, change, delete and find. Metadata is written first: files without it are swept at the next start."""

    def __init__(
        self, store: MetadataStore, logs: LogStore, *, default_partitions: int, default_durability: Durability
    ) -> None:
        self._store = store
        self._logs = logs
        self.default_partitions = default_partitions
        self._default_durability = default_durability
        self._partitions: dict[TopicId, list[Partition]] = {}
        self.on_deleted: Callable[[str], None] = lambda topic: None
        for topic in store.topics.values():
            self._partitions[topic.id] = [self._open(topic, index) for index in range(topic.partitions)]

    # ── finding ─────────────────────────────────────────────────────────────────────────────────

    @property
    def image(self) -> Mapping[str, Topic]:
        return self._store.topics

    @property
    def version(self) -> int:
        """Grows with each change of the metadata while the process lives."""
        return self._store.version

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

    def create(
        self,
        name: str,
        partitions: int = -1,
        overrides: Mapping[str, str] | None = None,
        *,
        internal: bool = False,
        validate_only: bool = False,
    ) -> Topic:
        """-1 partitions are the default number. With `validate_only` nothing changes: the topic as it would be."""
        configs = dict(overrides or {})
        if self._default_durability is not Durability.FSYNC:
            configs.setdefault("durability", self._default_durability.value)
        count = self.default_partitions if partitions == -1 else partitions
        topic = self._store.create_topic(name, count, configs, internal=internal, validate_only=validate_only)
        if not validate_only:
            self._partitions[topic.id] = [self._create(topic, index) for index in range(count)]
        return topic

    def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        topic = self._store.add_partitions(name, total, validate_only=validate_only)
        if not validate_only:
            self._adopt(topic)
            partitions = self._partitions[topic.id]
            partitions.extend(self._create(topic, index) for index in range(len(partitions), total))

    def set_config(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> None:
        topic = self._store.set_config(name, overrides, validate_only=validate_only)
        if not validate_only:
            self._adopt(topic)

    def delete(self, name: str) -> None:
        topic = self._store.delete_topic(name)
        partitions = self._partitions.pop(topic.id)
        self._logs.delete_topic(topic.id)
        self._store.forget_deleted(topic.id)
        for partition in partitions:
            partition.close()
        self.on_deleted(name)

    def _adopt(self, topic: Topic) -> None:
        self._logs.update_config(topic)
        for partition in self._partitions[topic.id]:
            partition.topic = topic

    def _create(self, topic: Topic, index: int) -> Partition:
        return Partition(topic, index, self._logs.create_partition(topic, index))

    def _open(self, topic: Topic, index: int) -> Partition:
        return Partition(topic, index, self._logs.partition(topic.id, index))
