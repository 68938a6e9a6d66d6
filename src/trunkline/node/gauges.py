"""What a scrape asks the node at that moment: the sizes of logs, the states of groups, the lag of consumers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from trunkline.admin.metrics import ConsumerLag, Gauges, PartitionGauges
from trunkline.broker.broker import Broker


def gauges(broker: Broker, journal: Path | None) -> Gauges:
    def partitions() -> Iterator[PartitionGauges]:
        for partition in broker.topics.all_partitions():
            log = partition.log
            yield PartitionGauges(
                partition.topic.name, partition.index, log.size_bytes, log.log_start, partition.high_watermark
            )

    def groups_by_state() -> Mapping[str, int]:
        return Counter(state.value for _, state in broker.groups.states())

    def consumer_lag() -> Iterator[ConsumerLag]:
        image = broker.topics.image
        for group, topic, index, offset in broker.groups.committed():
            if topic in image and index < image[topic].partitions:
                end = broker.topics.partition(topic, index).high_watermark
                yield ConsumerLag(group, topic, index, max(end - offset, 0))

    return Gauges(
        partitions=partitions,
        journal_bytes=(lambda: sum(file.stat().st_size for file in journal.iterdir())) if journal else None,
        groups_by_state=groups_by_state,
        consumer_lag=consumer_lag,
    )
