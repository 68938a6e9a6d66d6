"""What stands around a message: a size, and a header.

    request    size:i32 | key:i16 version:i16 correlation:i32 client_id:nullable string | [tags] | body
    response   size:i32 | correlation:i32 | [tags] | body

The tags are there when the version of the request is flexible, with one exception: the answer to ApiVersions never has
them, because its reader does not know yet which versions the other side speaks.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from trunkline.model.limits import MAX_MESSAGE_ELEMENTS
from trunkline.wire.kafka.api_keys import API_ROWS, ApiKey
from trunkline.wire.kafka.apis import request_class, response_class
from trunkline.wire.kafka.codec import Chunks, decode, encode_frame
from trunkline.wire.kafka.errors import MalformedMessage
from trunkline.wire.kafka.message import Message
from trunkline.wire.kafka.reader import skip_tags

_REQUEST: Final = struct.Struct(">hhih")
_CORRELATION: Final = struct.Struct(">i")
_FLEXIBLE: Final = {key: row[-1] for key, row in API_ROWS.items()}
_MAX_VERSION: Final = {key: row[3] for key, row in API_ROWS.items()}
_NEVER: Final = 32767


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    position: int
    """Where the body starts."""


def parse_header(buffer: memoryview) -> RequestHeader:
    """The header of a request, `buffer` being all that its size announced. MalformedMessage when it is none.

    A key or a version that nobody knows is no error here, because the answer needs the correlation id: of such a
    header the tags are not read, and the body cannot be.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(buffer)
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(buffer):
                raise MalformedMessage(f"request header: client id of {length} bytes, {len(buffer) - 10} remain")
            client_id = buffer[10:position].tobytes().decode(errors="replace")
        elif length != -1:
            raise MalformedMessage(f"request header: client id of {length} bytes")
        if _FLEXIBLE.get(api_key, _NEVER) <= api_version <= _MAX_VERSION[api_key]:
            position = _skip_header_tags(buffer, position)
    except (struct.error, IndexError):
        raise MalformedMessage(f"request header ends too early: {len(buffer)} bytes") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> Chunks:
    """An answer, its size included."""
    header = _CORRELATION.pack(correlation_id)
    if version >= _FLEXIBLE[api_key] and api_key != ApiKey.API_VERSIONS:
        header += b"\0"
    return encode_frame(header, message, version)


# ── the client's side ───────────────────────────────────────────────────────────────────────────


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None = None) -> Chunks:
    """A request, its size included."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    header = _REQUEST.pack(message.API_KEY, version, correlation_id, length) + name
    if version >= message.FLEXIBLE:
        header += b"\0"
    return encode_frame(header, message, version)


def decode_request(buffer: memoryview) -> tuple[RequestHeader, Message]:
    """A request without its size."""
    header = parse_header(buffer)
    message, _ = decode(request_class(header.api_key), header.api_version, buffer, header.position)
    return header, message


def decode_response(
    api_key: int, version: int, buffer: memoryview, *, elements: int = 10 * MAX_MESSAGE_ELEMENTS
) -> tuple[int, Message]:
    """The correlation id and the message of an answer without its size. An answer may be longer than a request."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(buffer)
        position = 4
        if version >= _FLEXIBLE[api_key] and api_key != ApiKey.API_VERSIONS:
            position = _skip_header_tags(buffer, position)
    except (struct.error, IndexError):
        raise MalformedMessage(f"response header ends too early: {len(buffer)} bytes") from None
    message, _ = decode(response_class(api_key), version, buffer, position, elements=elements)
    return correlation_id, message


def _skip_header_tags(buffer: memoryview, position: int) -> int:
    count = buffer[position]
    position += 1
    if count:
        position, _ = skip_tags(buffer, position, len(buffer), MAX_MESSAGE_ELEMENTS, count)
    return position
