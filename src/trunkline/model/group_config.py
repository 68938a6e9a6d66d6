"""Configs of groups and of client metrics, kept and shown as Kafka does; `consumer.*` is for groups of KIP-848.

What belongs to share and streams groups is kept for the day they come; so are client metrics, which nobody asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trunkline.model.topic import ConfigDefinition, ConfigType

_B, _S, _I, _L, _D, _LIST = ConfigType


def _define(*definitions: ConfigDefinition) -> Mapping[str, ConfigDefinition]:
    return {definition.name: definition for definition in definitions}


GROUP_CONFIGS: Final = _define(
    ConfigDefinition("consumer.session.timeout.ms", _I, "45000", minimum=45_000, maximum=60_000),
    ConfigDefinition("consumer.heartbeat.interval.ms", _I, "5000", minimum=5000, maximum=15_000),
    ConfigDefinition("consumer.assignment.interval.ms", _I, "1000", minimum=0, maximum=15_000),
    ConfigDefinition("share.session.timeout.ms", _I, "45000", minimum=45_000, maximum=60_000),
    ConfigDefinition("share.heartbeat.interval.ms", _I, "5000", minimum=5000, maximum=15_000),
    ConfigDefinition("share.assignment.interval.ms", _I, "1000", minimum=0, maximum=15_000),
    ConfigDefinition("share.record.lock.duration.ms", _I, "30000", minimum=15_000, maximum=60_000),
    ConfigDefinition("share.delivery.count.limit", _I, "5", minimum=2, maximum=10),
    ConfigDefinition("share.partition.max.record.locks", _I, "2000", minimum=100, maximum=10_000),
    ConfigDefinition("share.auto.offset.reset", _S, "latest"),
    ConfigDefinition("share.isolation.level", _S, "read_uncommitted", choices=("read_committed", "read_uncommitted")),
    ConfigDefinition("share.renew.acknowledge.enable", _B, "true"),
    ConfigDefinition("streams.session.timeout.ms", _I, "45000", minimum=45_000, maximum=60_000),
    ConfigDefinition("streams.heartbeat.interval.ms", _I, "5000", minimum=5000, maximum=15_000),
    ConfigDefinition("streams.assignment.interval.ms", _I, "1000", minimum=0, maximum=15_000),
    ConfigDefinition("streams.initial.rebalance.delay.ms", _I, "3000", minimum=0),
    ConfigDefinition("streams.num.standby.replicas", _I, "0", minimum=0, maximum=2),
)

NO_BROKER_DEFAULT: Final = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)
"""The others take their default from a config of the broker, named like them with "group." before."""

CLIENT_METRICS_CONFIGS: Final = _define(
    ConfigDefinition("interval.ms", _I, "300000", minimum=100, maximum=3_600_000),
    ConfigDefinition("match", _LIST, ""),
    ConfigDefinition("metrics", _LIST, ""),
)
