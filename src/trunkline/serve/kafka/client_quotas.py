"""DescribeClientQuotas (key 48) and AlterClientQuotas (key 49), versions 0-1: who may take how much.

producer_byte_rate, consumer_byte_rate and request_percentage of users and client ids act (broker/quotas.py).
controller_mutation_rate, and connection_creation_rate of addresses, are kept and shown without effect.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trunkline.broker.quotas import CLIENT_ID, DEFAULT, IP, USER, Entity
from trunkline.model.errors import InvalidRequest, TrunklineError, UnsupportedKind
from trunkline.serve.kafka.call import Call
from trunkline.serve.kafka.errors import code_of, text_of
from trunkline.wire.kafka.messages import alter_client_quotas_request as asked
from trunkline.wire.kafka.messages import alter_client_quotas_response as altered
from trunkline.wire.kafka.messages import describe_client_quotas_response as described
from trunkline.wire.kafka.messages.alter_client_quotas_request import AlterClientQuotasRequest
from trunkline.wire.kafka.messages.alter_client_quotas_response import AlterClientQuotasResponse
from trunkline.wire.kafka.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from trunkline.wire.kafka.messages.describe_client_quotas_response import DescribeClientQuotasResponse

_EXACT, _DEFAULT, _ANY = range(3)
_TYPES: Final = (USER, CLIENT_ID, IP)
_WHOLE: Final = {
    USER: {
        "producer_byte_rate": True,
        "consumer_byte_rate": True,
        "request_percentage": False,
        "controller_mutation_rate": False,
    },
    IP: {"connection_creation_rate": True},
}
"""The keys of an entity, and whether they take whole numbers only."""
_MOST: Final = {"connection_creation_rate": 2**31 - 1}


# ── showing ─────────────────────────────────────────────────────────────────────────────────────


def describe_client_quotas(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    try:
        _check_filter(request.components)
    except TrunklineError as error:
        return DescribeClientQuotasResponse(error_code=code_of(error), error_message=text_of(error), entries=None)
    entries = [
        described.EntryData(
            entity=[
                described.EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity.parts.items())
            ],
            values=[described.ValueData(key=key, value=value) for key, value in sorted(values.items())],
        )
        for entity, values in call.broker.quotas.entities.items()
        if _fits(entity.parts, request)
    ]
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def _check_filter(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        if component.entity_type not in _TYPES:
            raise UnsupportedKind(f"Unsupported entity type {component.entity_type}")
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise InvalidRequest(f"Unknown match type {component.match_type}")
        if (component.match is None) == (component.match_type == _EXACT):
            raise InvalidRequest("An exact match has a name to match, and the other kinds of match have none.")
        if component.entity_type in seen:
            raise InvalidRequest(f"Entity type {component.entity_type} stands in the filter more than once.")
        seen.add(component.entity_type)
    if IP in seen and len(seen) > 1:
        raise InvalidRequest("The quotas of an address belong to no user or client id.")


def _fits(parts: Mapping[str, str | None], request: DescribeClientQuotasRequest) -> bool:
    for component in request.components:
        if component.entity_type not in parts:
            return False
        name = parts[component.entity_type]
        if component.match_type == _EXACT and name != component.match:
            return False
        if component.match_type == _DEFAULT and name is not None:
            return False
    return not request.strict or len(parts) == len(request.components)


# ── changing ────────────────────────────────────────────────────────────────────────────────────


def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=list(_altered(call, request)))


def _altered(call: Call, request: AlterClientQuotasRequest) -> Iterator[altered.EntryData]:
    for entry in request.entries:
        answer = altered.EntryData(
            error_message=None,
            entity=[
                altered.EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
            ],
        )
        try:
            entity = _entity(entry.entity)
            values = _changed(entity, call.broker.quotas.entities.get(entity, {}), entry.ops)
            if not request.validate_only:
                call.broker.quotas.set(entity, values)
        except TrunklineError as error:
            answer.error_code, answer.error_message = code_of(error), text_of(error)
        yield answer


def _entity(parts: Sequence[asked.EntityData]) -> Entity:
    if not parts:
        raise InvalidRequest("A quota belongs to somebody: name a user, a client id or an address.")
    names: dict[str, str] = {}
    for part in parts:
        if part.entity_type not in _TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise InvalidRequest(f"Empty {part.entity_type} not supported")
        if part.entity_type in names:
            raise InvalidRequest(f"Entity type {part.entity_type} stands in the entity more than once.")
        names[part.entity_type] = DEFAULT if part.entity_name is None else part.entity_name
    if IP in names:
        if len(names) > 1:
            raise InvalidRequest("The quotas of an address belong to no user or client id.")
        _check_address(names[IP])
    return Entity(names.get(USER), names.get(CLIENT_ID), names.get(IP))


def _check_address(name: str) -> None:
    try:
        if name != DEFAULT:
            ipaddress.ip_address(name)
    except ValueError:
        raise InvalidRequest(f"{name} is not a valid IP address.") from None


def _changed(entity: Entity, current: Mapping[str, float], ops: Sequence[asked.OpData]) -> Mapping[str, float]:
    known = _WHOLE[IP if entity.ip is not None else USER]
    values = dict(current)
    if len({op.key for op in ops}) < len(ops):
        raise InvalidRequest("A key stands in the changes of an entity more than once.")
    for op in ops:
        if op.key not in known:
            raise InvalidRequest(f"Invalid configuration key {op.key}")
        if op.remove:
            values.pop(op.key, None)
            continue
        if not math.isfinite(op.value) or op.value <= 0:
            raise InvalidRequest(f"Quota {op.key} must be greater than 0")
        if op.value > _MOST.get(op.key, 2**63 - 1):
            raise InvalidRequest(f"Quota {op.key} is larger than can be.")
        if known[op.key] and abs(op.value - round(op.value)) > 1e-6:
            raise InvalidRequest(f"{op.key} must be a whole number, not {op.value}")
        values[op.key] = float(round(op.value)) if known[op.key] else op.value
    return values
