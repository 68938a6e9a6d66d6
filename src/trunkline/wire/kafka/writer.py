"""From a message's table to a function that writes it, one for each version, written as Python source on first use.

The function appends pieces to a list. Runs of fields of fixed size, with the length of what comes next, are one `pack`:

    w(pack_hiB(o.acks, o.timeout_ms, n2))

Records are never copied: what was written before them is joined to one chunk, then they are chunks of their own.
Names in it: o… structs, w appends to the parts, n… lengths, v… values. A field that the version does not have is
left out, whatever its value.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from trunkline.wire.kafka.layout import FIXED, Item, layout
from trunkline.wire.kafka.message import ZERO_UUID, Message, Struct
from trunkline.wire.kafka.source import Body, Source
from trunkline.wire.kafka.varint import write_uvarint


class WriterSource:
    def __init__(self, message: type[Message], version: int) -> None:
        self._message = message
        self._version = version
        self._flexible = version >= message.FLEXIBLE
        self._source = Source(
            {
                "ZERO_UUID": ZERO_UUID,
                "pack": struct.pack,
                "uvarint": write_uvarint,
                "spliced": _spliced,
                "tag_section": _tag_section,
            }
        )

    def build(self) -> object:
        body = _Run(self._source)
        body.line("w = parts.append")
        self._struct(body, self._message, "o")
        body.flush()
        self._source.add_function("def write(o, parts, chunks):", body)
        self._source.run(f"writer of {self._message.__name__} v{self._version}")
        return self._source.names["write"]

    def _struct(self, body: _Run, cls: type[Struct], value: str) -> None:
        shape = layout(cls, self._version, self._flexible)
        for item in shape.items:
            self._field(body, item, f"{value}.{item.name}")
        if not self._flexible:
            return
        if not shape.tagged:
            body.put("x")
            return
        all_default = " and ".join(_is_default(item, f"{value}.{item.name}") for item in shape.tagged)
        tail = body.pending()
        with body.block(f"if {all_default}:"):
            body.put("x")
            body.flush()
        with body.block("else:"):
            body.resume(tail)
            body.flush()
            body.line(f"w({self._tags(cls, shape.tagged)}({value}))")

    def _field(self, body: _Run, item: Item, value: str) -> None:
        if item.is_array:
            self._array(body, item, value)
        elif item.kind in FIXED:
            body.put(FIXED[item.kind], value)
        elif item.kind == "records":
            self._records(body, item, value)
        elif item.struct is None:
            self._text(body, item, value)
        elif item.nullable:
            inner = body.name(value, self._source.fresh("v"))
            body.flush()
            with body.block(f"if {inner} is None:"):
                body.put("b", "-1")
                body.flush()
            with body.block("else:"):
                body.put("b", "1")
                self._struct(body, item.struct, inner)
                body.flush()
        else:
            self._struct(body, item.struct, body.name(value, self._source.fresh("v")))

    def _text(self, body: _Run, item: Item, value: str) -> None:
        data, length = self._source.fresh("v"), self._source.fresh("n")
        encoded = f"{value}.encode()" if item.kind == "string" else value
        if item.nullable:
            with body.block(f"if {value} is None:"):
                body.line(f"{data} = b''", f"{length} = {0 if item.compact else -1}")
            with body.block("else:"):
                body.line(f"{data} = {encoded}", f"{length} = len({data}){' + 1' if item.compact else ''}")
        else:
            body.line(f"{data} = {encoded}", f"{length} = len({data}){' + 1' if item.compact else ''}")
        self._put_length(body, item, length)
        body.line(f"w({data})")

    def _records(self, body: _Run, item: Item, value: str) -> None:
        slices, length = self._source.fresh("v"), self._source.fresh("n")
        body.line(f"{slices}, {length} = spliced({value})")
        if item.compact:
            body.line(f"{length} += 1")
        self._put_length(body, item, length)
        with body.block(f"if {slices}:"):
            body.line("chunks.append(b''.join(parts))", "parts.clear()", f"chunks += {slices}")

    def _array(self, body: _Run, item: Item, value: str) -> None:
        values, length = body.name(value, self._source.fresh("v")), self._source.fresh("n")
        count = f"{length} = len({values}){' + 1' if item.compact else ''}"
        if item.nullable:
            with body.block(f"if {values} is None:"):
                body.line(f"{values} = ()", f"{length} = {0 if item.compact else -1}")
            with body.block("else:"):
                body.line(count)
        else:
            body.line(count)
        self._put_length(body, item, length)
        if item.kind in FIXED and item.kind != "uuid":
            body.line(f"w(pack(f'>{{len({values})}}{FIXED[item.kind]}', *{values}))")
            return
        element = self._source.fresh("o")
        with body.block(f"for {element} in {values}:"):
            if item.struct is not None:
                self._struct(body, item.struct, element)
            else:
                self._field(body, item._replace(is_array=False, nullable=False), element)
            body.flush()

    def _put_length(self, body: _Run, item: Item, length: str) -> None:
        """Write a length (of a compact one already plus 1) and everything that waits before it."""
        if not item.compact:
            body.put(item.length_format, length)
            body.flush()
            return
        tail = body.pending()
        if not tail[0]:
            body.line(f"w(uvarint({length}))")
            return
        with body.block(f"if {length} < 128:"):
            body.put("B", length)
            body.flush()
        with body.block("else:"):
            body.resume(tail)
            body.flush()
            body.line(f"w(uvarint({length}))")

    def _tags(self, cls: type[Struct], tagged: list[Item]) -> str:
        """The name of the function that gives the tagged fields of a struct, those that differ from their default."""
        name = f"tags_{cls.__name__}"
        if name in self._source.names:
            return name
        self._source.names[name] = None
        body = _Run(self._source)
        body.line("fields = []")
        for item in tagged:
            with body.block(f"if not ({_is_default(item, f'o.{item.name}')}):"):
                body.line("parts = []", "w = parts.append")
                self._field(body, item, f"o.{item.name}")
                body.flush()
                body.line(f"fields.append(({item.tag}, b''.join(parts)))")
        body.line("return tag_section(fields)")
        self._source.add_function(f"def {name}(o):", body)
        return name


class _Run(Body):
    """A body that gathers neighbours of fixed size, to write them at once."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._letters: list[str] = []
        self._values: list[str] = []

    def put(self, letter: str, value: str = "") -> None:
        """`x` is a zero byte and has no value."""
        self._letters.append(letter)
        if value:
            self._values.append(value)

    def pending(self) -> tuple[list[str], list[str]]:
        return self._letters[:], self._values[:]

    def resume(self, pending: tuple[list[str], list[str]]) -> None:
        """Back to what waited when `pending` was asked: the other branch writes it too."""
        self._letters, self._values = pending[0][:], pending[1][:]

    def name(self, value: str, name: str) -> str:
        """A local variable for an attribute that is used more than once."""
        self.line(f"{name} = {value}")
        return name

    def flush(self) -> None:
        if not self._letters:
            return
        if self._values:
            pack = self._source.packer("pack", "".join(self._letters))
            self.line(f"w({pack}({', '.join(self._values)}))")
        else:
            self.line(f"w({bytes(len(self._letters))!r})")
        self._letters, self._values = [], []


def _is_default(item: Item, value: str) -> str:
    if item.default == "None":
        return f"{value} is None"
    if item.is_array:
        return f"({value} is not None and not {value})" if item.nullable else f"not {value}"
    return f"{value} == {item.default}"


_BUFFERS: Final = (memoryview, bytes, bytearray)


def _spliced(records: Any) -> tuple[Sequence[Any], int]:
    """Record batches as the buffers to send, none of them empty, and their length in bytes; -1 for null."""
    if records is None:
        return (), -1
    if type(records) in _BUFFERS:
        length = len(records)
        return ((records,) if length else ()), length
    slices = [piece for piece in records if len(piece)]
    return slices, sum(map(len, slices))


def _tag_section(fields: list[tuple[int, bytes]]) -> bytes:
    """Count, then tag, size and value of each, by rising tag."""
    section = [write_uvarint(len(fields))]
    for tag, value in fields:
        section += write_uvarint(tag), write_uvarint(len(value)), value
    return b"".join(section)
