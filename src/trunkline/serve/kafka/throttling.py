"""What a request costs its client's quotas, and how long the client must wait for it.

As in Kafka the answer leaves at once and says how long (`throttle_time_ms`); then the connection is not read from for
as long, whether or not the client obeys. Produce counts the bytes of the request, Fetch those of the records given;
every request counts the time that its handler took on the loop, as far as it did not wait.
"""

from __future__ import annotations

import math
from typing import Any, Final

from trunkline.broker.quotas import QuotaKey, Quotas
from trunkline.wire.kafka.messages.fetch_response import FetchResponse

_PRODUCE: Final = 0


def charge(
    quotas: Quotas, api_key: int, client_id: str, request_bytes: int, seconds: float, response: Any, now: float
) -> float:
    """The seconds to wait; the response, if there is one, says so too."""
    wait = quotas.take(QuotaKey.REQUESTS, client_id, seconds, now)
    if api_key == _PRODUCE:
        wait = max(wait, quotas.take(QuotaKey.PRODUCE, client_id, request_bytes, now))
    elif isinstance(response, FetchResponse):
        wait = max(wait, quotas.take(QuotaKey.FETCH, client_id, _records_bytes(response), now))
    if wait > 0 and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = math.ceil(wait * 1000)
    return wait


def _records_bytes(response: FetchResponse) -> int:
    return sum(
        sum(map(len, partition.records))
        if isinstance(partition.records, (list, tuple))
        else len(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )
