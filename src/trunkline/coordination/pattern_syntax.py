"""The syntax of patterns, which is RE2's: turns one into the nodes of the machine that `pattern` runs.

    alternatives := sequence ("|" sequence)*        sequence := (atom repeats?)*

Repetitions are written out, so {1000} is a thousand nodes; how many there may be is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from trunkline.model.errors import InvalidPattern
from trunkline.model.limits import MAX_PATTERN_LENGTH, MAX_PATTERN_NODES

_ALL: Final = (1 << 128) - 1
_MOST_REPEATS: Final = 1000
_DEEPEST: Final = 100


def _mask(characters: Iterable[str]) -> int:
    bits = 0
    for character in characters:
        bits |= 1 << ord(character)
    return bits


def _span(first: str, last: str) -> int:
    return _mask(map(chr, range(ord(first), ord(last) + 1)))


_DIGIT: Final = _span("0", "9")
_UPPER: Final = _span("A", "Z")
_LOWER: Final = _span("a", "z")
WORD: Final = _DIGIT | _UPPER | _LOWER | _mask("_")
_SPACE: Final = _mask("\t\n\f\r ")
_PUNCT: Final = sum(1 << code for code in range(33, 127)) & ~(_DIGIT | _UPPER | _LOWER)
_CLASSES: Final = {"d": _DIGIT, "w": WORD, "s": _SPACE}
_NAMED: Final[dict[str, int]] = {
    "alnum": _DIGIT | _UPPER | _LOWER,
    "alpha": _UPPER | _LOWER,
    "ascii": _ALL,
    "blank": _mask("\t "),
    "cntrl": sum(1 << code for code in (*range(32), 127)),
    "digit": _DIGIT,
    "graph": _DIGIT | _UPPER | _LOWER | _PUNCT,
    "lower": _LOWER,
    "print": _DIGIT | _UPPER | _LOWER | _PUNCT | _mask(" "),
    "punct": _PUNCT,
    "space": _SPACE | _mask("\v"),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": _DIGIT | _span("A", "F") | _span("a", "f"),
}
_ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}

# Nodes. A fork goes on in all its places, an assertion goes on if it holds, characters take one.
FORK, TAKE, START, END, EDGE, NO_EDGE, MATCH = range(7)
Build = Callable[[int], int]
"""Makes the nodes of a piece of pattern that goes on at the given node; gives the node where it starts."""


class Nodes:
    """By number: the kind, the characters it takes (a bit each), and where it goes on."""

    __slots__ = ("kinds", "masks", "nexts")

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.masks: list[int] = []
        self.nexts: list[tuple[int, ...]] = []

    def add(self, kind: int, mask: int, nexts: tuple[int, ...]) -> int:
        if len(self.kinds) >= MAX_PATTERN_NODES:
            raise InvalidPattern("with its repetitions written out it is too large")
        self.kinds.append(kind)
        self.masks.append(mask)
        self.nexts.append(nexts)
        return len(self.kinds) - 1


def parse(text: str) -> tuple[Nodes, int]:
    """The nodes, and the one to start at. InvalidPattern, with a reason, for what cannot be used."""
    if len(text) > MAX_PATTERN_LENGTH:
        raise InvalidPattern(f"it has {len(text)} characters, at most {MAX_PATTERN_LENGTH} are taken")
    nodes = Nodes()
    return nodes, _Parser(text, nodes).parse()(nodes.add(MATCH, 0, ()))


class _Parser:
    def __init__(self, text: str, into: Nodes) -> None:
        self._text = text
        self._into = into
        self._at = 0
        self._depth = 0
        self._any_case = False

    def parse(self) -> Build:
        found = self._alternatives()
        if self._at < len(self._text):
            raise self._bad("an unexpected )")
        return found

    def _bad(self, why: str) -> InvalidPattern:
        return InvalidPattern(f"{why} at {self._at}")

    def _peek(self, ahead: str) -> bool:
        if self._text.startswith(ahead, self._at):
            self._at += len(ahead)
            return True
        return False

    def _next(self, missing: str) -> str:
        if self._at >= len(self._text):
            raise self._bad(f"a missing {missing}")
        self._at += 1
        return self._text[self._at - 1]

    # ── structure ───────────────────────────────────────────────────────────────────────────────

    def _alternatives(self) -> Build:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._bad("too many nested groups")
        any_case = self._any_case
        choices = [self._sequence()]
        while self._peek("|"):
            choices.append(self._sequence())
        self._any_case = any_case
        self._depth -= 1
        if len(choices) == 1:
            return choices[0]
        return lambda then: self._fork(tuple(choice(then) for choice in choices))

    def _sequence(self) -> Build:
        pieces: list[Build] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            pieces.append(self._repeated(self._atom()))

        def build(then: int) -> int:
            for piece in reversed(pieces):
                then = piece(then)
            return then

        return build

    def _repeated(self, atom: Build) -> Build:
        while True:
            start = self._at
            if self._peek("*"):
                repeated = self._times(atom, 0, None)
            elif self._peek("+"):
                repeated = self._times(atom, 1, None)
            elif self._peek("?"):
                repeated = self._times(atom, 0, 1)
            elif (bounds := self._bounds()) is not None:
                repeated = self._times(atom, *bounds)
            else:
                return atom
            self._peek("?")  # lazy or greedy makes no difference to whether it matches
            if self._text[self._at : self._at + 1] in ("*", "+", "?") and self._at < len(self._text):
                raise self._bad(f"a repetition of the repetition {self._text[start : self._at]}")
            atom = repeated

    def _bounds(self) -> tuple[int, int | None] | None:
        """{n}, {n,} or {n,m}; a brace that is none of these stands for itself."""
        end = self._text.find("}", self._at)
        if end < 0 or not self._text.startswith("{", self._at):
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not (least.isascii() and least.isdigit()) or (most and not (most.isascii() and most.isdigit())):
            return None
        if len(least) > 4 or len(most) > 4 or int(least) > _MOST_REPEATS or (most and int(most) > _MOST_REPEATS):
            raise self._bad(f"more than {_MOST_REPEATS} repetitions")
        if most and int(most) < int(least):
            raise self._bad("a repetition from more to less")
        self._at = end + 1
        return int(least), (int(most) if most else None if comma else int(least))

    def _times(self, atom: Build, least: int, most: int | None) -> Build:
        def build(then: int) -> int:
            if most is None:
                loop = self._fork(())
                self._into.nexts[loop] = (atom(loop), then)
                then = loop
            else:
                end = then
                for _ in range(most - least):
                    then = self._fork((atom(then), end))
            for _ in range(least):
                then = atom(then)
            return then

        return build

    def _fork(self, nexts: tuple[int, ...]) -> int:
        return self._into.add(FORK, 0, nexts)

    # ── atoms ───────────────────────────────────────────────────────────────────────────────────

    def _atom(self) -> Build:
        character = self._next("character")
        if character == "(":
            return self._group()
        if character == "[":
            return self._take(self._set())
        if character == ".":
            return self._take(_ALL)
        if character == "^":
            return self._assertion(START)
        if character == "$":
            return self._assertion(END)
        if character == "\\":
            return self._escaped()
        if character in "*+?":
            raise self._bad(f"a {character} with nothing to repeat")
        return self._take(self._bit(character))

    def _take(self, mask: int) -> Build:
        if self._any_case:
            mask |= (mask & _UPPER) << 32 | (mask & _LOWER) >> 32
        return lambda then: self._into.add(TAKE, mask, (then,))

    def _assertion(self, kind: int) -> Build:
        return lambda then: self._into.add(kind, 0, (then,))

    def _bit(self, character: str) -> int:
        return 1 << ord(character) if character.isascii() else 0

    def _group(self) -> Build:
        outside = self._any_case
        if self._peek("?"):
            if self._peek("P<") or (self._peek("<") and self._text[self._at : self._at + 1] not in ("=", "!")):
                name = self._until(">")
                if not name.replace("_", "a").isalnum():
                    raise self._bad(f"the group name {name!r}")
            elif not self._peek(":") and self._flags():
                return lambda then: then
        inner = self._alternatives()
        if not self._peek(")"):
            raise self._bad("a missing )")
        self._any_case = outside
        return inner

    def _flags(self) -> bool:
        """(?i) and its like: whether they stand alone, for what follows, or begin a group of their own."""
        switch, any_case = True, self._any_case
        while True:
            flag = self._next(")")
            if flag == "-" and switch:
                switch = False
            elif flag == "i":
                any_case = switch
            elif flag == ")":
                self._any_case = any_case
                return True
            elif flag == ":":
                self._any_case = any_case
                return False
            elif flag not in "msU":
                raise self._bad(f"(?{flag}, which is not supported,")

    def _until(self, end: str) -> str:
        stop = self._text.find(end, self._at)
        if stop < 0:
            raise self._bad(f"a missing {end}")
        found, self._at = self._text[self._at : stop], stop + len(end)
        return found

    def _escaped(self) -> Build:
        character = self._next("character after \\")
        if character == "A":
            return self._assertion(START)
        if character == "z":
            return self._assertion(END)
        if character == "b":
            return self._assertion(EDGE)
        if character == "B":
            return self._assertion(NO_EDGE)
        if character == "Q":
            stop = self._text.find("\\E", self._at)
            quoted = self._text[self._at :] if stop < 0 else self._text[self._at : stop]
            self._at = len(self._text) if stop < 0 else stop + 2
            pieces = [self._take(self._bit(one)) for one in quoted]

            def build(then: int) -> int:
                for piece in reversed(pieces):
                    then = piece(then)
                return then

            return build
        return self._take(self._escape(character))

    def _escape(self, character: str) -> int:
        """The characters that an escape stands for, in a set or outside."""
        if character.lower() in _CLASSES:
            found = _CLASSES[character.lower()]
            return found if character.islower() else _ALL & ~found
        if character in _ESCAPES:
            return self._bit(_ESCAPES[character])
        if character == "x":
            digits = self._until("}") if self._peek("{") else self._next("digit") + self._next("digit")
            try:
                return self._bit(chr(int(digits, 16)))
            except (ValueError, OverflowError):
                raise self._bad(f"the number {digits!r}") from None
        if character.isalnum():
            raise self._bad(f"\\{character}, which is not supported,")
        return self._bit(character)

    def _set(self) -> int:
        negated = self._peek("^")
        found, first = 0, True
        while True:
            character = self._next("]")
            if character == "]" and not first:
                break
            first = False
            if character == "[" and self._peek(":"):
                found |= self._named(self._until(":]"))
                continue
            low, single = self._member(character)
            ahead = self._text[self._at : self._at + 2]
            if single is not None and ahead[:1] == "-" and ahead[1:] not in ("]", ""):
                self._at += 1
                _, last = self._member(self._next("]"))
                if last is None or last < single:
                    raise self._bad("a range from more to less")
                low = _span(single, min(last, chr(127)))
            found |= low
        if self._any_case:
            found |= (found & _UPPER) << 32 | (found & _LOWER) >> 32
        return _ALL & ~found if negated else found

    def _named(self, name: str) -> int:
        negated = name.startswith("^")
        if name.lstrip("^") not in _NAMED:
            raise self._bad(f"the class [:{name}:]")
        found = _NAMED[name.lstrip("^")]
        return _ALL & ~found if negated else found

    def _member(self, character: str) -> tuple[int, str | None]:
        """What it stands for, and the character if it is one, which may begin or end a range."""
        if character != "\\":
            return self._bit(character), character
        escaped = self._next("character after \\")
        mask = self._escape(escaped)
        single = chr(mask.bit_length() - 1) if mask.bit_count() == 1 else None
        return mask, single
