"""What the codec says of bytes that are no Kafka message, and of values that no Kafka message can carry."""

from __future__ import annotations


class MalformedMessage(ValueError):
    """Framing can no longer be trusted: whoever sent these bytes is to be disconnected."""
