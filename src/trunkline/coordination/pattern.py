"""Regular expressions over topic names, in RE2's syntax and with RE2's promise: time grows with the name, never more.

Python's own `re` searches by trying, so that a pattern like (a+)+b can keep it, and with it the whole broker, busy for
years; a thread would not help, since `re` does not let others run meanwhile. Here a pattern becomes a small machine
that reads a name once, all ways at a time: a set of places in the pattern, and per character the next set. Sets that
were met are remembered, so a usual pattern costs one look-up per character.

    "^topic-.*"   ──parse──▶  nodes: characters (a bit per ASCII character), forks, assertions, the end
                  ──match──▶  set of nodes ──character──▶ set of nodes ── … ──▶ holds the end?

A name matches as a whole. Topic names are ASCII, so other characters of a pattern match nothing. What RE2 refuses
(look-around, back references) is refused here, and so is what grows too large or takes too long over all topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trunkline.coordination.pattern_syntax import EDGE, END, FORK, MATCH, NO_EDGE, START, TAKE, WORD, parse
from trunkline.model.errors import InvalidPattern

_REMEMBERED_STATES: Final = 500
_FREE_STEPS: Final = 300_000
_STEPS_PER_CHARACTER: Final = 20
"""How long a pattern may take over all topics: usual ones take one step per character once they are warm."""


class TopicPattern:
    __slots__ = ("_first", "_nodes", "_start", "_states", "_steps")

    def __init__(self, text: str) -> None:
        """InvalidPattern, with a reason, for what cannot be used."""
        self._nodes, first = parse(text)
        self._first = frozenset((first,))
        self._steps = 0
        self._forget()

    def matches(self, name: str) -> bool:
        state = self._start
        for character in name:
            following = state.table.get(character)
            if following is None:
                following = self._move(state, character)
            state = following
            if not state.nodes:
                return False
        if state.is_match is None:
            reached = self._closure(state, at_end=True, at_edge=state.after_word)
            state.is_match = any(self._nodes.kinds[one] == MATCH for one in reached)
        return state.is_match

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those that match. InvalidPattern if it takes too long to find out."""
        self._steps, characters = 0, 0
        found = []
        for name in names:
            characters += len(name)
            if self.matches(name):
                found.append(name)
            if self._steps > _FREE_STEPS + _STEPS_PER_CHARACTER * characters:
                raise InvalidPattern("it takes too long to match against the topics")
        return frozenset(found)

    def _move(self, state: _State, character: str) -> _State:
        code = ord(character)
        is_word = bool(WORD >> code & 1)
        reached = self._closure(state, at_end=False, at_edge=state.after_word != is_word)
        kinds, masks, nexts = self._nodes.kinds, self._nodes.masks, self._nodes.nexts
        taken = frozenset(nexts[one][0] for one in reached if kinds[one] == TAKE and masks[one] >> code & 1)
        if len(self._states) >= _REMEMBERED_STATES:
            self._forget()
        key = (taken, is_word)
        following = self._states.get(key)
        if following is None:
            following = self._states[key] = _State(taken, after_word=is_word)
        state.table[character] = following
        return following

    def _closure(self, state: _State, *, at_end: bool, at_edge: bool) -> set[int]:
        """All nodes that can be reached from these without taking a character."""
        holds = {FORK: True, START: state.at_start, END: at_end, EDGE: at_edge, NO_EDGE: not at_edge}
        kinds, nexts = self._nodes.kinds, self._nodes.nexts
        reached, todo = set(state.nodes), list(state.nodes)
        while todo:
            one = todo.pop()
            if holds.get(kinds[one], False):
                for following in nexts[one]:
                    if following not in reached:
                        reached.add(following)
                        todo.append(following)
        self._steps += len(reached)
        return reached

    def _forget(self) -> None:
        """What is remembered must not outgrow the pattern: some have more states than there is memory."""
        self._states: dict[tuple[frozenset[int], bool], _State] = {}
        self._start = _State(self._first, at_start=True)


class _State:
    """Where a name has led to so far, and where each character led on from here."""

    __slots__ = ("after_word", "at_start", "is_match", "nodes", "table")

    def __init__(self, nodes: frozenset[int], *, at_start: bool = False, after_word: bool = False) -> None:
        self.nodes = nodes
        self.at_start = at_start
        self.after_word = after_word
        self.is_match: bool | None = None
        self.table: dict[str, _State] = {}
