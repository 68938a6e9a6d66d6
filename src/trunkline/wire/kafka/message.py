"""What every generated message class is made of: slots for its values and a table of its fields.

A table row is what the protocol says of one field. `versions` and `nullable` are ranges as the protocol guide writes
them: "3+", "0-12", "none". An array's kind starts with "[]"; a struct's is "struct", and its class is in `struct`.
A field with a tag exists only in flexible versions, and is written only when it differs from its default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

Records: TypeAlias = bytes | bytearray | memoryview
"""Record batches as they stand on the wire. Decoded, they are a view of the buffer they came in."""
RecordSlices: TypeAlias = Sequence[bytes | bytearray | memoryview]
"""Batches from several places, to be sent one after another as if they were one."""

DEFAULT: Final[Any] = ...
"""Stands in a signature for "a new empty list" or "a new struct of defaults"."""
ZERO_UUID: Final = bytes(16)
NEVER_FLEXIBLE: Final = 32767
NO_API: Final = -1


class Field(NamedTuple):
    name: str
    kind: str
    versions: str
    nullable: str = "none"
    tag: int | None = None
    default: int | str | None = ""
    """None, or a value other than the type's own zero; "" means that zero."""
    struct: type[Struct] | None = None
    flexible: bool = True
    """False for the one string that never takes the compact form: the client id of a request header."""


class Struct:
    """Plain values under the protocol's names. Equal when all of them are equal; not hashable, because they change."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A struct that travels on its own: the body of a request or an answer, or a header."""

    __slots__ = ()
    API_KEY: ClassVar[int] = NO_API
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int] = NEVER_FLEXIBLE
    """The first flexible version (KIP-482): compact lengths, and tagged fields at the end of every struct."""
