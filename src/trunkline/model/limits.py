"""What one client may cost. Every length on the wire is checked against one of these before memory is taken for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024
FIRST_REQUEST_BYTES: Final = 64 * 1024
"""Memory that an announced frame gets before its bytes arrive, on a connection that sent no valid request yet."""
NEXT_REQUEST_BYTES: Final = 1024 * 1024
"""The same, on a connection that has."""
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""How large the records of one batch may become when they are decompressed."""
OPENED_BATCH_BYTES: Final = 16 * 1024
"""Batches up to this size are opened and walked when they arrive; larger ones are checked by header and checksum."""
OPENED_BATCH_RECORDS: Final = 128
OPENED_DECOMPRESSED_BYTES: Final = 1024 * 1024
"""A batch with more records, or with larger ones, is not walked either: opening must stay cheap whatever is sent."""
MAX_PARTITIONS_PER_TOPIC: Final = 10_000
MAX_TOPIC_NAME: Final = 249
MAX_CONFIG_VALUE_BYTES: Final = 32_767
"""The longest value of a topic's, group's or broker's config, as in Kafka."""
MAX_OFFSET_METADATA_BYTES: Final = 4096
MAX_FETCH_BYTES: Final = 55 * 1024 * 1024
"""The most records bytes that one fetch answers with, whatever it asks for (Kafka's fetch.max.bytes)."""
MAX_COLD_FETCH_BYTES: Final = 16 * 1024 * 1024
"""The same for bytes that must be read from the disk: unlike those in the hot tail, each answer has its own copy."""
MAX_GROUP_MEMBERS: Final = 10_000
MAX_PATTERN_LENGTH: Final = 1_000
"""Characters of a regular expression over topic names."""
MAX_PATTERN_NODES: Final = 2_000
"""How large it may become with its repetitions written out."""
MAX_MESSAGE_ELEMENTS: Final = 100_000
"""Array elements and tagged fields of one message, all together: up to 200 bytes and 2 µs each to read."""


@dataclass(frozen=True)
class ClientLimits:
    """What the connections of a node may cost in time and memory. A node is given its own; tests give smaller ones."""

    handshake_seconds: float = 10.0
    """For a first request, and for the rest of any request that was begun."""
    least_request_bytes_per_second: int = 4096
    """A large request may take longer than that, if it comes at least so fast."""
    idle_seconds: float = 600.0
    in_flight_requests: int = 100
    """Requests of one connection that wait for their answer; past that it is not read from."""
    in_flight_fetches: int = 4
    """The same for fetches, whose answers are large."""
    output_pause_bytes: int = 8 * 1024 * 1024
    """Unsent bytes at which a connection is no longer read from."""
    output_stall_seconds: float = 30.0
    """How long a reader may take none of its paused output before it is dropped."""
    held_output_bytes: int = 512 * 1024 * 1024
    """Unsent bytes of all connections; past that, those that have taken nothing for longest are dropped early."""
    unsynced_bytes: int = 64 * 1024 * 1024
    """Records written and not yet synced; past that, producers are not read from until the disk has caught up."""
    connections: int = 100_000
    """Open at once; the system's limit of open files may allow fewer."""
