"""Unsigned varints: seven bits a byte, lowest first, the high bit set on all bytes but the last; at most five bytes."""

from __future__ import annotations

from trunkline.wire.kafka.errors import MalformedMessage


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """The value and the position after it. IndexError where the buffer ends too early."""
    first = buffer[position]
    return (first, position + 1) if first < 128 else continue_uvarint(buffer, position + 1, first)


def continue_uvarint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """The same, when `first`, the byte before `position`, was read already and has its high bit set."""
    byte = buffer[position]
    if byte < 128:
        return first & 127 | byte << 7, position + 1
    value = first & 127 | (byte & 127) << 7
    byte = buffer[position + 1]
    if byte < 128:
        return value | byte << 14, position + 2
    value |= (byte & 127) << 14
    byte = buffer[position + 2]
    if byte < 128:
        return value | byte << 21, position + 3
    value |= (byte & 127) << 21
    byte = buffer[position + 3]
    if byte > 15:
        raise MalformedMessage(f"the varint that ends at byte {position + 3} takes more than 32 bits")
    return value | byte << 28, position + 4


def write_uvarint(value: int) -> bytes:
    if value < 128:
        return _ONE_BYTE[value]
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)


_ONE_BYTE = [bytes((value,)) for value in range(128)]
