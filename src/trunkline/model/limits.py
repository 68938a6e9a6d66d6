"""What one client may cost. Every length on the wire is checked against one of these before memory is taken for it."""

from __future__ import annotations

from typing import Final

MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024
FIRST_REQUEST_BYTES: Final = 64 * 1024
"""Memory that an announced frame gets before its bytes arrive, on a connection that sent no valid request yet."""
NEXT_REQUEST_BYTES: Final = 1024 * 1024
"""The same, on a connection that has."""
HANDSHAKE_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 600.0
MAX_IN_FLIGHT_REQUESTS: Final = 100
"""Requests of one connection that wait for their answer; past that it is not read from."""
OUTPUT_PAUSE_BYTES: Final = 8 * 1024 * 1024
"""Unsent bytes at which a connection is no longer read from."""
OUTPUT_STALL_SECONDS: Final = 30.0
"""How long a reader may take none of its paused output before it is dropped."""
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
MAX_GROUP_MEMBERS: Final = 10_000
MAX_MESSAGE_ELEMENTS: Final = 100_000
"""Array elements and tagged fields of one message, all together: up to 200 bytes and 2 µs each to read."""
RECOMPRESSED_BYTES: Final = 4 * 1024 * 1024
"""Batches whose records are larger than this are stored as they came, whatever `compression.type` says."""
MAX_FETCH_SESSIONS: Final = 1000
MAX_FETCH_SESSION_PARTITIONS: Final = 500_000
"""Of all fetch sessions together: one that would go past it is not made, and its client sends whole requests."""
