"""The store port: what a node asks of its metadata, whether SQLite keeps it (one node) or, later, etcd (many).

Everything is read from memory. A write is durable when it returns; when it raises, nothing has changed. Writes follow
one another and may be called from a thread, so that many at once (a request that creates 1,000 topics) need not hold
up the loop: what a reader got before (`topics`, a `Topic`) never changes under it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from trunkline.metadata.image import DeletedTopic
from trunkline.model.ids import TopicId
from trunkline.model.topic import Topic


class MetadataStore(Protocol):
    @property
    def cluster_id(self) -> str:
        """16 random bytes as 22 characters, as Kafka's: the same for the life of the data."""

    @property
    def version(self) -> int:
        """Grows with each change while the process lives: what was derived at the same version still holds."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def topic_by_id(self, topic_id: TopicId) -> Topic | None: ...

    def create_topic(
        self,
        name: str,
        partitions: int,
        overrides: Mapping[str, str],
        *,
        internal: bool = False,
        memory: bool = False,
        validate_only: bool = False,
    ) -> Topic:
        """InvalidTopicName, TopicExists, InvalidPartitions or InvalidConfig. A memory topic is not stored.

        With `validate_only` here and below nothing changes: the answer is the topic as it would be.
        """

    def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> Topic:
        """UnknownTopic, or InvalidPartitions when `total` is no increase or too many."""

    def set_config(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> Topic:
        """These overrides and no others. UnknownTopic or InvalidConfig."""

    def delete_topic(self, name: str) -> Topic:
        """UnknownTopic. From now on the name is free, while the old files are still there: see `pending_deletions`."""

    def pending_deletions(self) -> Sequence[DeletedTopic]:
        """Deleted topics whose files may be left, to be removed at start-up.

        A new topic may have taken the name since. So whoever deletes must move the old directories out of the way
        before another topic can be created, and at start-up must leave directories alone whose name is taken again.
        """

    def forget_deleted(self, topic_id: TopicId) -> None:
        """The files are gone. Said twice, it does no harm."""

    def allocate_producer_ids(self, count: int) -> range:
        """Ids that were never given out before and never will be again, whatever happens to the process."""

    def configs(self, resource_type: str, resource_name: str) -> Mapping[str, str]:
        """The dynamic configs of a broker, group or client; empty where none are set."""

    def configured(self, resource_type: str) -> Mapping[str, Mapping[str, str]]:
        """All resources of a type that have dynamic configs, by name."""

    def set_configs(self, resource_type: str, resource_name: str, values: Mapping[str, str]) -> None:
        """These values and no others. InvalidConfig for what cannot be kept; what it means is the caller's to check."""
