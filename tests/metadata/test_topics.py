"""Creating, growing, configuring and deleting topics. All in memory: durability has its own file."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from trunkline.metadata.rules import id_text, new_topic_id
from trunkline.metadata.sqlite import SqliteMetadata
from trunkline.metadata.store import MetadataStore
from trunkline.model.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopicName,
    TopicExists,
    UnknownTopic,
)
from trunkline.model.ids import TopicId


@pytest.fixture
def store() -> Iterator[MetadataStore]:
    metadata = SqliteMetadata.open(None)
    yield metadata
    metadata.close()


def test_a_created_topic_is_found_by_name_and_by_id(store: MetadataStore) -> None:
    topic = store.create_topic("orders", 3, {"retention.ms": "1000"})
    assert store.topics["orders"] == topic
    assert store.topic_by_id(topic.id) == topic
    assert (topic.partitions, topic.config.retention_ms, len(topic.id)) == (3, 1000, 16)
    assert store.topic_by_id(TopicId(bytes(16))) is None


def test_a_name_can_be_taken_once(store: MetadataStore) -> None:
    store.create_topic("orders", 1, {})
    with pytest.raises(TopicExists, match="'orders' already exists"):
        store.create_topic("orders", 1, {})


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("__x", "_.x")])
def test_names_that_differ_only_in_dots_and_underscores_collide(store: MetadataStore, first: str, second: str) -> None:
    store.create_topic(first, 1, {})
    with pytest.raises(InvalidTopicName, match=f"collides with existing topic: {first}"):
        store.create_topic(second, 1, {})
    store.delete_topic(first)
    assert store.create_topic(second, 1, {}).name == second


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a" * 250, "a/b", "a\0b"])
def test_an_illegal_name_is_refused(store: MetadataStore, name: str) -> None:
    with pytest.raises(InvalidTopicName):
        store.create_topic(name, 1, {})
    assert not store.topics


@pytest.mark.parametrize("partitions", [0, -1, 10_001, 2**31])
def test_a_topic_cannot_have_no_partitions_nor_too_many(store: MetadataStore, partitions: int) -> None:
    with pytest.raises(InvalidPartitions, match=f"not {partitions}"):
        store.create_topic("orders", partitions, {})


@pytest.mark.parametrize(
    "overrides",
    [{"no.such": "1"}, {"retention.ms": "soon"}, {"leader.replication.throttled.replicas": "x" * 32_768}],
)
def test_a_bad_config_is_refused_at_creation_and_later(store: MetadataStore, overrides: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        store.create_topic("orders", 1, overrides)
    store.create_topic("orders", 1, {"retention.ms": "5"})
    with pytest.raises(InvalidConfig):
        store.set_config("orders", overrides)
    assert store.topics["orders"].config.overrides == {"retention.ms": "5"}


def test_partitions_are_added_and_never_taken_away(store: MetadataStore) -> None:
    topic = store.create_topic("orders", 2, {})
    grown = store.add_partitions("orders", 4)
    assert (grown.partitions, grown.id) == (4, topic.id)
    assert store.topic_by_id(topic.id) == grown
    with pytest.raises(InvalidPartitions, match=r"already has 4 partition\(s\)"):
        store.add_partitions("orders", 4)
    with pytest.raises(InvalidPartitions, match=r"currently has 4 partition\(s\); 3 would not be an increase"):
        store.add_partitions("orders", 3)
    with pytest.raises(InvalidPartitions, match="at most 10000"):
        store.add_partitions("orders", 10_001)


def test_setting_configs_replaces_all_of_them(store: MetadataStore) -> None:
    store.create_topic("orders", 1, {"retention.ms": "5", "retention.bytes": "7"})
    assert store.set_config("orders", {"retention.bytes": "8"}).config.retention_bytes == 8
    assert store.topics["orders"].config.overrides == {"retention.bytes": "8"}
    assert store.topics["orders"].config.retention_ms == 604_800_000


def test_a_topic_that_is_not_there_cannot_be_changed(store: MetadataStore) -> None:
    with pytest.raises(UnknownTopic, match="'ghost'"):
        store.add_partitions("ghost", 2)
    with pytest.raises(UnknownTopic):
        store.set_config("ghost", {})
    with pytest.raises(UnknownTopic):
        store.delete_topic("ghost")


def test_validating_says_what_would_be_and_changes_nothing(store: MetadataStore) -> None:
    assert store.create_topic("orders", 3, {}, validate_only=True).partitions == 3
    assert not store.topics
    store.create_topic("orders", 3, {})
    before = store.version
    assert store.add_partitions("orders", 5, validate_only=True).partitions == 5
    assert store.set_config("orders", {"retention.ms": "1"}, validate_only=True).config.retention_ms == 1
    with pytest.raises(TopicExists):
        store.create_topic("orders", 3, {}, validate_only=True)
    assert store.topics["orders"].partitions == 3
    assert store.version == before


def test_a_topic_made_again_under_its_name_is_another_one(store: MetadataStore) -> None:
    first = store.create_topic("orders", 1, {})
    store.delete_topic("orders")
    second = store.create_topic("orders", 1, {})
    assert first.id != second.id
    assert store.topic_by_id(first.id) is None
    assert [(deleted.name, deleted.id) for deleted in store.pending_deletions()] == [("orders", first.id)]
    store.forget_deleted(first.id)
    store.forget_deleted(first.id)
    assert not store.pending_deletions()
    assert store.topics["orders"] == second


def test_a_deleted_memory_topic_leaves_no_files_to_remove(store: MetadataStore) -> None:
    store.create_topic("scratch", 1, {}, memory=True)
    store.delete_topic("scratch")
    assert not store.pending_deletions()


def test_what_a_reader_holds_does_not_change_under_it(store: MetadataStore) -> None:
    store.create_topic("orders", 1, {})
    held, version = store.topics, store.version
    store.create_topic("bills", 1, {})
    store.delete_topic("orders")
    assert list(held) == ["orders"]
    assert list(store.topics) == ["bills"]
    assert store.version == version + 2


def test_ids_look_like_those_of_kafka(store: MetadataStore) -> None:
    texts = [id_text(new_topic_id()) for _ in range(2000)]
    assert all(len(text) == 22 and not text.startswith("-") for text in texts)
    assert len(set(texts)) == len(texts)
    assert len(base64.urlsafe_b64decode(store.cluster_id + "==")) == 16


def test_producer_ids_come_in_blocks_that_never_meet(store: MetadataStore) -> None:
    assert store.allocate_producer_ids(1000) == range(1000)
    assert store.allocate_producer_ids(1) == range(1000, 1001)
    for count in (0, -1, 2**63):
        with pytest.raises(InvalidRequest):
            store.allocate_producer_ids(count)
    assert store.allocate_producer_ids(1) == range(1001, 1002)


def test_dynamic_configs_are_kept_per_resource(store: MetadataStore) -> None:
    assert store.configs("broker", "") == {}
    store.set_configs("broker", "", {"log.retention.ms": "5"})
    store.set_configs("group", "g", {"consumer.session.timeout.ms": "6"})
    assert store.configs("broker", "") == {"log.retention.ms": "5"}
    assert store.configs("group", "g") == {"consumer.session.timeout.ms": "6"}
    store.set_configs("group", "g", {})
    assert store.configs("group", "g") == {}


def test_text_that_no_database_can_hold_is_refused(store: MetadataStore) -> None:
    for name, values in (("\ud800", {"a": "b"}), ("g", {"\ud800": "b"}), ("g", {"a": "\ud800"})):
        with pytest.raises(InvalidConfig, match="no valid Unicode"):
            store.set_configs("group", name, values)
    with pytest.raises(InvalidConfig, match="32768 bytes"):
        store.set_configs("group", "g", {"a": "b" * 32_768})
