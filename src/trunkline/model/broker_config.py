"""Configs of a node that can be changed while it runs, by Kafka's names. Those that its settings fix are not here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trunkline.model.topic import ConfigDefinition, ConfigType

_INT_MAX: Final = 2**31 - 1

DYNAMIC_CONFIGS: Final[Mapping[str, ConfigDefinition]] = {
    definition.name: definition
    for definition in (
        ConfigDefinition(
            "max.connections",
            ConfigType.INT,
            str(_INT_MAX),
            minimum=0,
            documentation="Connections that may be open at once; more are closed as they come.",
        ),
        ConfigDefinition(
            "max.connections.per.ip",
            ConfigType.INT,
            str(_INT_MAX),
            minimum=0,
            documentation="The same for each address that clients connect from.",
        ),
    )
}
