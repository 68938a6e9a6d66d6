"""InitProducerId (key 22), versions 0-5: an id for an idempotent producer, an id and an epoch for a transactional one.

Ids are never given out twice, restarts included. Without a transactional id, the old id and epoch of a producer are not
looked at: it always gets a new id, as in Kafka; one without the other is INVALID_REQUEST. With one, the answer waits
until it is synced: nobody gets that epoch again. Version 6 (two-phase commit) is not stable in Kafka 4.3, so not listed.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, cast

from trunkline.coordination.transaction_commands import InitProducer, Producer
from trunkline.model.errors import TrunklineError
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.serve.kafka.transactions import transaction_code_of
from trunkline.wire.kafka.messages.init_producer_id_request import InitProducerIdRequest
from trunkline.wire.kafka.messages.init_producer_id_response import InitProducerIdResponse

_KNOWS_FENCED: Final = 4


def init_producer_id(
    call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=call.broker.producer_ids.next(), producer_epoch=0)
    return _init(call, request, request.transactional_id)


async def _init(call: Call, request: InitProducerIdRequest, transactional_id: str) -> InitProducerIdResponse:
    knows_itself = (request.producer_id >= 0, request.producer_epoch >= 0)
    if any(knows_itself) and not all(knows_itself):
        return _refused(ErrorCode.INVALID_REQUEST)
    expected = (request.producer_id, request.producer_epoch) if all(knows_itself) else None
    transactions = call.broker.transactions
    try:
        reply, ticket = transactions.ask(InitProducer(transactional_id, request.transaction_timeout_ms, expected))
        await transactions.safe(ticket)
    except TrunklineError as error:
        return _refused(transaction_code_of(error, knows_fenced=call.version >= _KNOWS_FENCED))
    producer = cast(Producer, reply)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
