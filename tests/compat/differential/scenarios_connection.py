"""What happens to a connection: versions nobody serves, requests nobody knows, bytes that make no sense."""

from __future__ import annotations

import struct

from tests.compat.differential.peer import Peer, request
from tests.compat.differential.registry import scenario

from trunkline.serve.kafka.apis import served
from trunkline.wire.kafka.apis import ApiKey
from trunkline.wire.kafka.frame import encode_request


def frame(api_key: int, version: int, body: bytes = b"", client_id: bytes | None = b"raw") -> bytes:
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    head = struct.pack(">hhi", api_key, version, 7) + name
    return struct.pack(">i", len(head) + len(body)) + head + body


@scenario(ApiKey.API_VERSIONS, until=0)
def versions_that_are_not_served(peer: Peer, version: int) -> None:
    for key, api in served().items():
        if key == ApiKey.API_VERSIONS:
            continue
        if key != ApiKey.INIT_PRODUCER_ID:
            peer.raw(f"{api.name} one too new", frame(key, api.max_version + 1, bytes(40)))
        peer.raw(f"{api.name} negative", frame(key, -1, bytes(40)))
        if api.min_version:
            peer.raw(f"{api.name} one too old", frame(key, api.min_version - 1, bytes(40)))
    for number in (-1, 5, 99, 32767):
        peer.raw(f"ApiVersions {number}", frame(ApiKey.API_VERSIONS, number, bytes(4)), shown=16)
    peer.raw("a key nobody has", frame(9999, 0))
    peer.raw("a negative key", frame(-1, 0))


@scenario(ApiKey.API_VERSIONS, until=0)
def frames(peer: Peer, version: int) -> None:
    peer.raw("no client id", frame(ApiKey.API_VERSIONS, 0, client_id=None))
    peer.raw("empty client id", frame(ApiKey.API_VERSIONS, 0, client_id=b""))
    peer.raw("client id that is no text", frame(ApiKey.API_VERSIONS, 0, client_id=b"\xff\xfe"))
    peer.raw("size 0", bytes(4))
    peer.raw("size -1", struct.pack(">i", -1))
    peer.raw("size of 2 GiB", struct.pack(">i", 2**31 - 1) + bytes(100))
    peer.raw("size of 101 MiB", struct.pack(">i", 101 << 20) + bytes(100))
    peer.raw("three bytes", struct.pack(">i", 3) + bytes(3))
    peer.raw("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    peer.raw("body cut short", frame(ApiKey.METADATA, 1, struct.pack(">i", 1)))
    peer.raw("bytes after the body", frame(ApiKey.METADATA, 1, struct.pack(">i", 0) + b"more"))
    peer.raw("string of length -2", frame(ApiKey.METADATA, 1, struct.pack(">ih", 1, -2)))
    peer.raw("null where none may be", frame(ApiKey.METADATA, 1, struct.pack(">ih", 1, -1)))
    peer.raw("array of length -2", frame(ApiKey.METADATA, 1, struct.pack(">i", -2)))
    peer.raw("huge array", frame(ApiKey.METADATA, 1, struct.pack(">i", 2**31 - 1)))
    peer.raw("null array where none may be", frame(ApiKey.DESCRIBE_GROUPS, 0, struct.pack(">i", -1)))


@scenario(ApiKey.API_VERSIONS, until=0)
def tags(peer: Peer, version: int) -> None:
    whole = b"".join(bytes(chunk) for chunk in encode_request(request("ListGroups"), 3, 7, "raw"))
    body = whole[4 + 10 + 3 + 1 :]
    tagged = b"\x01\x63\x02hi"
    peer.raw("unknown tag in the header", frame(ApiKey.LIST_GROUPS, 3, tagged + body))
    peer.raw("unknown tag in the body", frame(ApiKey.LIST_GROUPS, 3, b"\0" + body[:-1] + tagged))
