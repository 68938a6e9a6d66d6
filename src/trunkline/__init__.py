"""Trunkline: one durable log for Kafka, AMQP 0-9-1 and Redis Streams clients."""

__version__ = "0.1.0"
