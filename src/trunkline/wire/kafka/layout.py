"""What one struct looks like on the wire in one version: the rows of its table that exist there, in order."""

from __future__ import annotations

from typing import Final, NamedTuple

from trunkline.wire.kafka.message import Field, Struct

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Kinds of one size, with their letters for the struct module."""
SIZES: Final = {"?": 1, "b": 1, "B": 1, "x": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8, "16s": 16}
_ZEROS: Final = {
    "bool": "False",
    "float64": "0.0",
    "string": "''",
    "bytes": "b''",
    "uuid": "ZERO_UUID",
    "records": "None",
}


class Item(NamedTuple):
    """One field as it stands in one version."""

    name: str
    kind: str
    """Of the element, for an array."""
    is_array: bool
    nullable: bool
    compact: bool
    """Lengths are unsigned varints of one more than the length, 0 for null; else fixed integers, -1 for null."""
    tag: int
    struct: type[Struct] | None
    default: str
    """A Python expression; it may use ZERO_UUID and the name of the struct."""

    @property
    def length_format(self) -> str:
        """The letter of a length that is not compact."""
        return "h" if self.kind == "string" and not self.is_array else "i"


class Layout(NamedTuple):
    items: list[Item]
    tagged: list[Item]
    absent: list[Item]


def layout(struct: type[Struct], version: int, flexible: bool) -> Layout:
    result = Layout([], [], [])
    for field in struct.FIELDS:
        item = _item(field, version, flexible)
        if not covers(field.versions, version):
            result.absent.append(item)
        elif field.tag is not None:
            result.tagged.append(item)
        else:
            result.items.append(item)
    result.tagged.sort(key=lambda item: item.tag)
    return result


def covers(versions: str, version: int) -> bool:
    """Whether a range such as "3+", "0-12", "4" or "none" holds `version`."""
    if versions == "none":
        return False
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    first, _, last = versions.partition("-")
    return int(first) <= version <= int(last or first)


def smallest(struct: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes that `struct` can take: what an array's count is checked against before it is believed."""
    total = 1 if flexible else 0
    for item in layout(struct, version, flexible).items:
        if item.is_array or item.kind in ("string", "bytes", "records"):
            total += 1 if item.compact else SIZES[item.length_format]
        elif item.struct is None:
            total += SIZES[FIXED[item.kind]]
        else:
            total += 1 if item.nullable else smallest(item.struct, version, flexible)
    return total


def _item(field: Field, version: int, flexible: bool) -> Item:
    kind = field.kind.removeprefix("[]")
    is_array = kind != field.kind
    if field.default != "":
        default = repr(field.default)
    elif is_array:
        default = "[]"
    elif field.struct is not None:
        default = f"{field.struct.__name__}()"
    else:
        default = _ZEROS.get(kind, "0")
    return Item(
        name=field.name,
        kind=kind,
        is_array=is_array,
        nullable=covers(field.nullable, version),
        compact=flexible and field.flexible,
        tag=-1 if field.tag is None else field.tag,
        struct=field.struct,
        default=default,
    )
