"""InitProducerId (key 22), versions 0-5: an id for an idempotent producer.

Ids are never given out twice, restarts included. Without a transactional id, the old id and epoch of a producer are not
looked at: it always gets a new id, as in Kafka; one without the other is INVALID_REQUEST. Version 6 (two-phase commit)
is not stable in Kafka 4.3 and not listed.
Not served: transactional ids (INVALID_REQUEST) until transactions come.
"""

from __future__ import annotations

from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.wire.kafka.messages.init_producer_id_request import InitProducerIdRequest
from trunkline.wire.kafka.messages.init_producer_id_response import InitProducerIdResponse


def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=call.broker.producer_ids.next(), producer_epoch=0)
