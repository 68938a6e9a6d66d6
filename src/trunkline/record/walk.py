"""Walking the records of an opened batch without building them: is it as long, and as many, as it says?

record: length | attributes i8 | timestamp delta | offset delta | key length | key | value length | value
        | header count | (name length | name | value length | value)*        numbers are varints, -1 is null
"""

from __future__ import annotations

from trunkline.model.errors import InvalidRecord
from trunkline.record.varint import read_varint


def walk_records(body: memoryview, count: int) -> bool:
    """InvalidRecord unless `body` is exactly `count` records with offset deltas 0, 1, 2 …

    Answers whether a record has no key. Numbers of one and two bytes are taken apart in place: this loop is the only
    cost per record that the broker has.
    """
    data = bytes(body)
    position, size = 0, len(data)
    unkeyed = False
    try:
        for index in range(count):
            low = data[position]
            if low < 0x80:
                length, position = (low >> 1) ^ -(low & 1), position + 1
            elif (high := data[position + 1]) < 0x80 and not low & 1:
                length, position = (low & 0x7F | high << 7) >> 1, position + 2
            else:
                length, position = read_varint(body, position)
            end = position + length
            if length < 0 or end > size:
                raise InvalidRecord(f"Record {index} claims {length} bytes where {size - position} remain.")
            position += 1
            while data[position] >= 0x80:  # timestamp delta: any value will do
                position += 1
            low, high = data[position + 1], data[position + 2]
            if low < 0x80:
                delta, position = low >> 1, position + 2
            elif high < 0x80:
                delta, position = (low & 0x7F | high << 7) >> 1, position + 3
            else:
                delta, position = read_varint(body, position + 1)
            if delta != index:
                raise InvalidRecord(f"Record {index} has offset delta {delta}.")
            low = data[position]
            if low == 1:
                unkeyed = True
                position += 1
            elif low < 0x80 and not low & 1:
                position += (low >> 1) + 1
            else:
                position = _skip_bytes(body, position, end)
            low = data[position]
            if low < 0x80 and not low & 1:
                position += (low >> 1) + 1
            elif (high := data[position + 1]) < 0x80 and low >= 0x80 and not low & 1:
                position += ((low & 0x7F | high << 7) >> 1) + 2
            else:
                position = _skip_bytes(body, position, end)
            position = position + 1 if data[position] == 0 else _walk_headers(body, position, end)
            if position != end:
                raise InvalidRecord(f"Record {index} says {length} bytes but ends {end - position} bytes off.")
    except IndexError:
        raise InvalidRecord(f"The batch ends before its {count} records do.") from None
    if position != size:
        raise InvalidRecord(f"{size - position} bytes follow the {count} records that the batch claims.")
    return unkeyed


def _skip_bytes(body: memoryview, position: int, end: int) -> int:
    length, position = read_varint(body, position)
    if not -1 <= length <= end - position:
        raise InvalidRecord(f"A field of {length} bytes does not fit into its record.")
    return position + max(length, 0)


def _walk_headers(body: memoryview, position: int, end: int) -> int:
    count, position = read_varint(body, position)
    if not 0 <= count <= end - position:
        raise InvalidRecord(f"A record claims {count} headers.")
    for _ in range(count):
        name, position = read_varint(body, position)
        if not 0 <= name <= end - position:
            raise InvalidRecord(f"A header name of {name} bytes does not fit into its record.")
        value, position = read_varint(body, position + name)
        if not -1 <= value <= end - position:
            raise InvalidRecord(f"A header value of {value} bytes does not fit into its record.")
        position += max(value, 0)
    return position
