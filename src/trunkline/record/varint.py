"""Variable-length integers as records use them: zigzag, then seven bits a byte, the lowest first.

value 0 → 00    -1 → 01    1 → 02    63 → 7e    64 → 80 01
"""

from __future__ import annotations

from trunkline.model.errors import InvalidRecord

_MAX_BYTES = 10


def read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """The value at `position` and the position after it. InvalidRecord where it does not end."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
        raw = byte & 0x7F
        for count in range(1, _MAX_BYTES):
            byte = buffer[position + count]
            raw |= (byte & 0x7F) << (7 * count)
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1), position + count + 1
    except IndexError:
        raise InvalidRecord("A record ends in the middle of a number.") from None
    raise InvalidRecord("A number in a record is longer than ten bytes.")


def write_varint(out: bytearray, value: int) -> None:
    raw = (value << 1) ^ (value >> 63)
    while raw >= 0x80:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)
