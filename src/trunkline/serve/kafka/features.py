"""Features as ApiVersions lists them and UpdateFeatures would change them: only those that act here.

Each has one level, the one that is served; it can be asked for again and not be changed. A client that finds a feature
missing takes it for level 0: no transactions of version 2 without "transaction.version".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trunkline.model.errors import InvalidUpdateVersion

FEATURES: Final[Mapping[str, int]] = {}


def check_update(feature: str, level: int) -> None:
    """InvalidUpdateVersion unless the feature has this level already."""
    served = FEATURES.get(feature)
    if served is None:
        raise InvalidUpdateVersion(f"Feature {feature} is not known here and cannot be set to {level}.")
    if level != served:
        raise InvalidUpdateVersion(f"Feature {feature} has level {served} and no other, it cannot be set to {level}.")
