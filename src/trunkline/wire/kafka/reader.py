"""From a message's table to a function that reads it, one for each version, written as Python source on first use.

The function is the whole message unrolled. Runs of fields of fixed size, with the length of what comes next, are one
`unpack_from`:

    o1.acks, o1.timeout_ms, n2 = unpack_from_hiB(b, p); p += 7

Names in it: b buffer, p position, z the end of what may be read, e elements that may still be made, o… structs,
n… lengths, q… ends. Running over the end is an IndexError or a struct.error, which `codec.decode` translates.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from trunkline.wire.kafka.errors import MalformedMessage
from trunkline.wire.kafka.layout import FIXED, SIZES, Item, layout, smallest
from trunkline.wire.kafka.message import ZERO_UUID, Message, Struct
from trunkline.wire.kafka.source import Body, Source
from trunkline.wire.kafka.varint import continue_uvarint, read_uvarint


class ReaderSource:
    def __init__(self, message: type[Message], version: int) -> None:
        self._message = message
        self._version = version
        self._flexible = version >= message.FLEXIBLE
        self._source = Source(
            {
                "ZERO_UUID": ZERO_UUID,
                "new": object.__new__,
                "unpack_from": struct.unpack_from,
                "longer": continue_uvarint,
                "uvarint": read_uvarint,
                "bad_length": _bad_length,
                "too_many": _too_many,
                "bad_tag": _bad_tag,
                "skip_tags": skip_tags,
            }
        )

    def build(self) -> object:
        body = _Run(self._source)
        self._struct(body, self._message, "o")
        body.flush()
        body.line("return o, p")
        self._source.add_function("def read(b, p, z, e):", body)
        self._source.run(f"reader of {self._message.__name__} v{self._version}")
        return self._source.names["read"]

    def _struct(self, body: _Run, cls: type[Struct], target: str) -> None:
        self._source.names[cls.__name__] = cls
        shape = layout(cls, self._version, self._flexible)
        body.line(f"{target} = new({cls.__name__})")
        for item in (*shape.absent, *shape.tagged):
            if item.struct is not None:
                self._source.names[item.struct.__name__] = item.struct
            body.line(f"{target}.{item.name} = {item.default}")
        for item in shape.items:
            self._field(body, item, f"{target}.{item.name}")
        if self._flexible:
            count = self._source.fresh("n")
            body.take("B", count)
            body.flush()
            with body.block(f"if {count}:"):
                body.line(f"p, e = {self._tags(cls, shape.tagged)}(b, p, {body.end}, e, {count}, {target})")

    def _field(self, body: _Run, item: Item, target: str) -> None:
        if item.is_array:
            self._array(body, item, target)
        elif item.kind in FIXED:
            body.take(FIXED[item.kind], target)
        elif item.struct is None:
            self._text(body, item, target)
        elif item.nullable:
            mark = self._source.fresh("n")
            body.take("b", mark)
            body.flush()
            with body.block(f"if {mark} < 0:"):
                body.line(f"{target} = None")
            with body.block("else:"):
                self._nested(body, item.struct, target)
        else:
            self._nested(body, item.struct, target)

    def _nested(self, body: _Run, cls: type[Struct], target: str) -> None:
        inner = self._source.fresh("o")
        self._struct(body, cls, inner)
        body.flush()
        body.line(f"{target} = {inner}")

    def _text(self, body: _Run, item: Item, target: str) -> None:
        end = self._source.fresh("q")
        length = self._length(body, item)
        value = {"string": f"b[p:{end}].tobytes().decode()", "bytes": f"b[p:{end}].tobytes()", "records": f"b[p:{end}]"}
        with body.block(f"if {length} >= 0:"):
            body.line(f"{end} = p + {length}")
            with body.block(f"if {end} > {body.end}:"):
                body.line(f"bad_length({item.name!r}, {length}, {body.end} - p)")
            body.line(f"{target} = {value[item.kind]}", f"p = {end}")
        self._null(body, item, length, target)

    def _array(self, body: _Run, item: Item, target: str) -> None:
        length = self._length(body, item)
        with body.block(f"if {length} >= 0:"):
            body.line(f"e -= {length}")
            with body.block(f"if e < 0 or {length} * {self._element_bytes(item)} > {body.end} - p:"):
                body.line(f"too_many({item.name!r}, {length}, {body.end} - p, e)")
            if item.kind in FIXED and item.kind != "uuid":
                letter = FIXED[item.kind]
                body.line(f"{target} = list(unpack_from(f'>{{{length}}}{letter}', b, p))")
                body.line(f"p += {length} * {SIZES[letter]}")
            else:
                self._elements(body, item, length, target)
        self._null(body, item, length, target)

    def _elements(self, body: _Run, item: Item, length: str, target: str) -> None:
        values, value = self._source.fresh("a"), self._source.fresh("o")
        body.line(f"{target} = {values} = []")
        with body.block(f"for _ in range({length}):"):
            if item.struct is not None:
                self._struct(body, item.struct, value)
            else:
                self._field(body, item._replace(is_array=False, nullable=False), value)
            body.flush()
            body.line(f"{values}.append({value})")

    def _length(self, body: _Run, item: Item) -> str:
        """Emit the reading of a length or count; -1 stands for null. Returns the variable."""
        length = self._source.fresh("n")
        body.take("B" if item.compact else item.length_format, length)
        body.flush()
        if item.compact:
            with body.block(f"if {length} > 127:"):
                body.line(f"{length}, p = longer(b, p, {length})")
            body.line(f"{length} -= 1")
        return length

    def _null(self, body: _Run, item: Item, length: str, target: str) -> None:
        """The other branch of "is the length positive"."""
        if item.nullable:
            with body.block(f"elif {length} == -1:"):
                body.line(f"{target} = None")
        with body.block("else:"):
            body.line(f"bad_length({item.name!r}, {length}, {body.end} - p)")

    def _element_bytes(self, item: Item) -> int:
        if item.struct is not None:
            return max(1, smallest(item.struct, self._version, self._flexible))
        if item.kind in FIXED:
            return SIZES[FIXED[item.kind]]
        return 1 if item.compact else 2

    def _tags(self, cls: type[Struct], tagged: list[Item]) -> str:
        """The name of the function that reads the tagged fields at the end of a struct."""
        if not tagged:
            return "skip_tags"
        name = f"tags_{cls.__name__}"
        if name in self._source.names:
            return name
        self._source.names[name] = None
        body = _Run(self._source, end="q")
        with body.block("if n > 127:"):
            body.line("n, p = longer(b, p, n)")
        body.line("e -= n")
        with body.block("if e < 0 or n * 2 > z - p:"):
            body.line("too_many('tagged fields', n, z - p, e)")
        with body.block("for _ in range(n):"):
            body.line("tag, p = uvarint(b, p)", "size, p = uvarint(b, p)", "q = p + size")
            with body.block("if q > z:"):
                body.line("bad_length('tagged field', size, z - p)")
            for item in tagged:
                with body.block(f"{'if' if item is tagged[0] else 'elif'} tag == {item.tag}:"):
                    self._field(body, item, f"o.{item.name}")
                    body.flush()
                    with body.block("if p != q:"):
                        body.line(f"bad_tag({item.name!r}, size, p - q)")
            body.line("p = q")
        body.line("return p, e")
        self._source.add_function(f"def {name}(b, p, z, e, n, o):", body)
        return name


class _Run(Body):
    """A body that gathers neighbours of fixed size, to read them at once."""

    def __init__(self, source: Source, end: str = "z") -> None:
        super().__init__()
        self._source = source
        self.end = end
        self._letters: list[str] = []
        self._targets: list[str] = []

    def take(self, letter: str, target: str) -> None:
        self._letters.append(letter)
        self._targets.append(target)

    def flush(self) -> None:
        """Emit the reads so far: afterwards p stands behind them."""
        if not self._letters:
            return
        if self._letters == ["B"]:
            self.line(f"{self._targets[0]} = b[p]", "p += 1")
        else:
            unpack = self._source.packer("unpack_from", "".join(self._letters))
            size = sum(SIZES[letter] for letter in self._letters)
            self.line(f"{', '.join(self._targets)}, = {unpack}(b, p)", f"p += {size}")
        self._letters, self._targets = [], []


def skip_tags(
    buffer: memoryview, position: int, end: int, elements: int, count: int, _struct: object = None
) -> tuple[int, int]:
    """Pass over the tagged fields of a struct that has none we know. `count` is the first byte of their number."""
    if count > 127:
        count, position = continue_uvarint(buffer, position, count)
    elements -= count
    if elements < 0 or count * 2 > end - position:
        _too_many("tagged fields", count, end - position, elements)
    for _ in range(count):
        _tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            _bad_length("tagged field", size, end - position + size)
    return position, elements


def _bad_length(what: str, length: int, remaining: int) -> NoReturn:
    if length == -1:
        raise MalformedMessage(f"{what} is null, which it must not be")
    raise MalformedMessage(f"{what} has the length {length}, and {remaining} bytes remain")


def _too_many(what: str, count: int, remaining: int, elements: int) -> NoReturn:
    if elements < 0:
        raise MalformedMessage(f"more elements than one message may have, {-elements} too many at {what}")
    raise MalformedMessage(f"{count} {what} announced, and {remaining} bytes remain")


def _bad_tag(what: str, size: int, excess: int) -> NoReturn:
    raise MalformedMessage(f"tagged field {what} was announced with {size} bytes and takes {size + excess}")
