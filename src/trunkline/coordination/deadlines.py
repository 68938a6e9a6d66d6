"""When which group is to be looked at next: one queue for all timeouts of all groups.

A heartbeat only moves its member's deadline further out, which costs one dictionary write: the queue finds out when
the old time comes up, and waits on. So 10,000 groups that heartbeat cost the queue next to nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from trunkline.model.ids import GroupId, MemberId


class Timeout(Enum):
    SESSION = "a member, or one that has only got its id, was not heard of"
    JOIN = "the wait for members to join is over"
    SYNC = "the wait for members to fetch their assignment is over"
    REVOKE = "a member was to give up partitions"
    EXPIRY = "offsets may have expired"


class Key(NamedTuple):
    group_id: GroupId
    timeout: Timeout
    member_id: MemberId = MemberId("")


class Deadlines:
    """At most one deadline per key. `_queued` is where the heap has the key, at or before `_due`, where it belongs."""

    __slots__ = ("_due", "_heap", "_order", "_queued")

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._order = 0

    def set(self, key: Key, at_ms: int) -> None:
        self._due[key] = at_ms
        queued_ms = self._queued.get(key)
        if queued_ms is None or at_ms < queued_ms:
            self._push(key, at_ms)

    def bring_forward(self, key: Key, at_ms: int) -> None:
        """The deadline becomes this one, unless it is earlier already."""
        due_ms = self._due.get(key)
        if due_ms is None or at_ms < due_ms:
            self.set(key, at_ms)

    def cancel(self, key: Key) -> None:
        self._due.pop(key, None)

    def postpone(self, by_ms: int, timeouts: Container[Timeout]) -> None:
        for key, at_ms in self._due.items():
            if key.timeout in timeouts:
                self._due[key] = at_ms + by_ms

    def next_ms(self) -> int | None:
        self._settle_top()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> Iterator[Key]:
        """Keys whose time has come, earliest first, each taken out. More may be set meanwhile."""
        while (next_ms := self.next_ms()) is not None and next_ms <= now_ms:
            key = heapq.heappop(self._heap)[2]
            del self._queued[key]
            del self._due[key]
            yield key

    def _push(self, key: Key, at_ms: int) -> None:
        """`_due` has the key at this time already."""
        if len(self._heap) > 64 + 4 * len(self._due):
            self._rebuild()
            return
        self._order += 1
        self._queued[key] = at_ms
        heapq.heappush(self._heap, (at_ms, self._order, key))

    def _settle_top(self) -> None:
        """Until the top of the heap is a deadline that holds."""
        while self._heap:
            at_ms, _, key = self._heap[0]
            if self._queued.get(key) != at_ms:  # queued again, earlier
                heapq.heappop(self._heap)
                continue
            due_ms = self._due.get(key)
            if due_ms == at_ms:
                return
            heapq.heappop(self._heap)
            del self._queued[key]
            if due_ms is not None:
                self._push(key, due_ms)

    def _rebuild(self) -> None:
        """Forget what was cancelled, or keys of groups long gone would stay for days."""
        self._queued = dict(self._due)
        self._heap = [(at_ms, order, key) for order, (key, at_ms) in enumerate(self._due.items())]
        self._order = len(self._heap)
        heapq.heapify(self._heap)


class GroupTimers:
    """The deadlines of one group."""

    __slots__ = ("_deadlines", "_group_id")

    def __init__(self, deadlines: Deadlines, group_id: GroupId) -> None:
        self._deadlines = deadlines
        self._group_id = group_id

    def set(self, timeout: Timeout, at_ms: int) -> None:
        self._deadlines.set(Key(self._group_id, timeout), at_ms)

    def bring_forward(self, timeout: Timeout, at_ms: int) -> None:
        """The deadline becomes this one, unless it is earlier already."""
        self._deadlines.bring_forward(Key(self._group_id, timeout), at_ms)

    def cancel(self, timeout: Timeout) -> None:
        self._deadlines.cancel(Key(self._group_id, timeout))

    def set_session(self, member_id: MemberId, at_ms: int) -> None:
        self._deadlines.set(Key(self._group_id, Timeout.SESSION, member_id), at_ms)

    def cancel_session(self, member_id: MemberId) -> None:
        self._deadlines.cancel(Key(self._group_id, Timeout.SESSION, member_id))

    def set_member(self, timeout: Timeout, member_id: MemberId, at_ms: int) -> None:
        self._deadlines.set(Key(self._group_id, timeout, member_id), at_ms)

    def bring_forward_member(self, timeout: Timeout, member_id: MemberId, at_ms: int) -> None:
        self._deadlines.bring_forward(Key(self._group_id, timeout, member_id), at_ms)

    def cancel_member(self, timeout: Timeout, member_id: MemberId) -> None:
        self._deadlines.cancel(Key(self._group_id, timeout, member_id))

    def cancel_member_all(self, member_id: MemberId) -> None:
        for timeout in (Timeout.SESSION, Timeout.REVOKE, Timeout.JOIN, Timeout.SYNC):
            self.cancel_member(timeout, member_id)

    def cancel_all(self, member_ids: Iterable[MemberId]) -> None:
        for timeout in (Timeout.JOIN, Timeout.SYNC, Timeout.EXPIRY):
            self.cancel(timeout)
        for member_id in member_ids:
            self.cancel_member_all(member_id)
