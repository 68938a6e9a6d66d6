"""Fetch sessions (KIP-227): the broker remembers what a reader asks for, requests and answers carry changes only.

    (0, 0) full ──▶ session n made ──▶ (n, 1) changes only ──▶ (n, 2) … (n, 2^31-1) ──▶ (n, 1) …
    (n, 0) full: n is closed, another one made        (n, -1) full: n is closed, none made        numbers: (id, epoch)

A session lives as long as the process, belongs to no connection, and may be dropped for another one when there are too
many; its reader then starts over with a full request. A partition of a session is quiet while it has nothing to tell:
it waits among the partition's watchers and costs no fetch anything. It is stirred by new records, by its end and by its
reader; an incremental fetch looks at the stirred ones only. No clock, no socket: all is told from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import randint
from typing import Final

from trunkline.broker.fetching import Got, Want
from trunkline.broker.partition import Partition
from trunkline.broker.waiting import LongPoll
from trunkline.model.errors import TrunklineError
from trunkline.model.ids import Offset
from trunkline.model.limits import MAX_FETCH_SESSION_PARTITIONS, MAX_FETCH_SESSIONS
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
FULL: Final = 0
"""The epoch of a request that asks for a new session."""
FINAL: Final = -1
"""The epoch of a request that wants none."""

_NEVER_TOLD: Final = -1
_MAX_INT: Final = 2**31 - 1
_EVICTABLE_MS: Final = 120_000
_SWEEP_MS: Final = 1000


class Entry:
    """One partition of a session: what its reader asks for, and what it was told last. Watches while it is quiet."""

    __slots__ = (
        "_session",
        "high_watermark",
        "index",
        "leader_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(self, session: FetchSession, topic: FetchTopic, asked: FetchPartition) -> None:
        self._session = session
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.index = asked.partition
        self.partition: Partition | None = None
        """None until it is found; a closed one until it is found again."""
        self.high_watermark = _NEVER_TOLD
        self.log_start = _NEVER_TOLD
        self.ask(asked)

    def ask(self, asked: FetchPartition) -> None:
        self.offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.leader_epoch = asked.current_leader_epoch

    def more(self, size_bytes: int) -> None:
        self._session.stir(self, size_bytes)

    def wake(self) -> None:
        self._session.stir(self, _MAX_INT)


class FetchSession:
    def __init__(self, session_id: int, by_id: bool, now_ms: int) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = 1
        """Of the next request."""
        self.created_ms = self.used_ms = self._swept_ms = now_ms
        self._entries: dict[tuple[str | bytes, int], Entry] = {}
        self._stirred: dict[Entry, None] = {}
        self._poll: LongPoll | None = None

    def __len__(self) -> int:
        return len(self._entries)

    # ── what is asked for ───────────────────────────────────────────────────────────────────────

    def ask(self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic] = ()) -> None:
        for topic in topics:
            of = topic.topic_id if self.by_id else topic.topic
            for asked in topic.partitions:
                entry = self._entries.get((of, asked.partition))
                if entry is None:
                    entry = self._entries[of, asked.partition] = Entry(self, topic, asked)
                else:
                    entry.ask(asked)
                self._stir(entry)
        for gone in forgotten:
            for index in gone.partitions:
                entry = self._entries.pop((gone.topic_id if self.by_id else gone.topic, index), None)
                if entry is not None:
                    self._leave(entry)

    def begin(self, topics: Sequence[FetchTopic], partitions: Iterable[Partition | None], told: Iterable[Got]) -> None:
        """The first round was answered as a whole: remember what was told."""
        self.ask(topics)
        asked = (entry for topic in topics for entry in topic.partitions)
        of = (topic.topic_id if self.by_id else topic.topic for topic in topics for _ in topic.partitions)
        for name, want, partition, got in zip(of, asked, partitions, told, strict=True):
            entry = self._entries[name, want.partition]
            entry.partition = partition
            self.told(entry, got)

    def next_round(self, now_ms: int) -> None:
        """An incremental request is being served; one that still waits in this session is over."""
        self.used_ms = now_ms
        self.epoch = 1 if self.epoch == _MAX_INT else self.epoch + 1
        if self._poll is not None:
            self._poll.wake()

    def close(self) -> None:
        for entry in self._entries.values():
            self._leave(entry)
        self._entries.clear()
        if self._poll is not None:
            self._poll.wake()

    # ── what there is to tell ───────────────────────────────────────────────────────────────────

    def pending(
        self, find: Callable[[Entry], Partition], now_ms: int
    ) -> tuple[list[Entry], list[Want], dict[int, TrunklineError]]:
        """The entries to look at, what to read for them, and by position those for which nothing can be read."""
        if now_ms - self._swept_ms >= _SWEEP_MS:
            self._sweep(now_ms)
        entries = list(self._stirred)
        wants: list[Want] = []
        refused: dict[int, TrunklineError] = {}
        for position, entry in enumerate(entries):
            try:
                partition = entry.partition = find(entry)
            except TrunklineError as error:
                refused[position] = error
            else:
                wants.append(Want(partition, Offset(entry.offset), entry.max_bytes))
        return entries, wants, refused

    def told(self, entry: Entry, got: Got) -> bool:
        """Whether an answer must name the partition: it has records or an error, or its ends have moved."""
        if got.error is not None:
            entry.high_watermark = _NEVER_TOLD  # once the error is over, the partition is told again
            return True
        moved = entry.high_watermark != got.high_watermark or entry.log_start != got.log_start
        entry.high_watermark, entry.log_start = got.high_watermark, got.log_start
        if got.buffers:
            # Behind the others: where an answer has no room for all, everybody's turn comes.
            if entry in self._stirred:
                del self._stirred[entry]
                self._stirred[entry] = None
            return True
        partition = entry.partition
        if (
            partition is not None
            and not partition.closed
            and entry.offset >= partition.high_watermark
            and entry in self._stirred
        ):
            del self._stirred[entry]
            partition.polls.add(entry)
        return moved

    def poll(self, wants: Sequence[Want], missing_bytes: int, seconds: float) -> LongPoll:
        """A sleep until there is more in what was looked at, or in what was quiet."""
        self._poll = LongPoll((want.partition for want in wants), missing_bytes, seconds)
        return self._poll

    def poll_ended(self, poll: LongPoll) -> None:
        if self._poll is poll:
            self._poll = None

    def stir(self, entry: Entry, size_bytes: int) -> None:
        """A quiet partition has something to tell. Said once: from then on it is looked at until it is quiet again."""
        self._stir(entry)
        if self._poll is not None:
            if entry.partition is not None:
                self._poll.watch(entry.partition)
            self._poll.more(size_bytes)

    def _stir(self, entry: Entry) -> None:
        if entry.partition is not None:
            entry.partition.polls.discard(entry)
        self._stirred[entry] = None

    def _leave(self, entry: Entry) -> None:
        if entry.partition is not None:
            entry.partition.polls.discard(entry)
        self._stirred.pop(entry, None)

    def _sweep(self, now_ms: int) -> None:
        """Retention moves the start of logs and tells nobody."""
        self._swept_ms = now_ms
        for entry in self._entries.values():
            partition = entry.partition
            if partition is not None and partition.log.log_start != entry.log_start:
                self._stir(entry)


class FetchSessions:
    """All sessions of a node, the one that was used longest ago first."""

    def __init__(
        self, max_sessions: int = MAX_FETCH_SESSIONS, max_partitions: int = MAX_FETCH_SESSION_PARTITIONS
    ) -> None:
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, size: int, by_id: bool, now_ms: int) -> FetchSession | None:
        """A new session for `size` partitions, or None where there is no room for it."""
        if len(self._sessions) >= self._max_sessions or self._partitions + size > self._max_partitions:
            self._make_room(size, now_ms)
            if len(self._sessions) >= self._max_sessions or self._partitions + size > self._max_partitions:
                return None
        session_id = randint(1, _MAX_INT)
        while session_id in self._sessions:
            session_id = randint(1, _MAX_INT)
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now_ms)
        return session

    def resume(self, session_id: int, epoch: int, by_id: bool) -> FetchSession | ErrorCode:
        """The session that an incremental request goes on with, or why it cannot."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def ask(
        self, session: FetchSession, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic], now_ms: int
    ) -> bool:
        """Take in the changes of an incremental request. False: nothing is left of the session, and it is closed."""
        before = len(session)
        session.ask(topics, forgotten)
        self._partitions += len(session) - before
        if not session:
            self.close(session.id)
            return False
        session.next_round(now_ms)
        self._sessions[session.id] = self._sessions.pop(session.id)
        return True

    def begin(
        self,
        session: FetchSession,
        topics: Sequence[FetchTopic],
        partitions: Iterable[Partition | None],
        told: Iterable[Got],
    ) -> None:
        session.begin(topics, partitions, told)
        self._partitions += len(session)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session)
            session.close()

    def _make_room(self, size: int, now_ms: int) -> None:
        """Drop what was not used for long; else the smallest that is smaller and had its time. Kafka's rule."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return
        if now_ms - oldest.used_ms > _EVICTABLE_MS:
            self.close(oldest.id)
            return
        grown = [session for session in self._sessions.values() if now_ms - session.created_ms > _EVICTABLE_MS]
        smallest = min(grown, key=len, default=None)
        if smallest is not None and len(smallest) < size:
            self.close(smallest.id)
