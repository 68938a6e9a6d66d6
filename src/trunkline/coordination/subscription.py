"""Which topics a member of a group of type "consumer" reads, out of the bytes that it sent for its fellow members.

    version int16 | topics int32 count × (int16 length, UTF-8) | what newer versions add

The broker needs the topics only: to keep the offsets of a topic that is read from being deleted or expired. All
versions start alike, so any version is read; what follows the topics is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trunkline.coordination.packing import Malformed, Reader, decode_text

CONSUMER: Final = "consumer"
"""The protocol type of groups whose subscriptions have this form."""


def topics_of(subscription: bytes) -> list[str]:
    """Malformed if these are not the bytes of a subscription."""
    reader = Reader(subscription)
    if reader.int16() < 0:
        raise Malformed("a version below zero")
    return [decode_text(reader.take(reader.int16())) for _ in range(reader.count(2))]


def topics_of_all(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """None when one of them cannot be read: then nobody knows what the group reads."""
    try:
        return frozenset(topic for subscription in subscriptions for topic in topics_of(subscription))
    except Malformed:
        return None
