"""Consumer groups in the world: gives the pure coordinator its clock, its log and its waiting clients.

An answer leaves only after its facts are written. Where they cannot be, the client is told to try again, and the facts
go out with the next write that works.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Final, cast

from trunkline.broker.durability import Durability
from trunkline.broker.fact_log import FactLog, KeyValue
from trunkline.broker.topics import Topics
from trunkline.coordination.commands import (
    ApplyOffsets,
    Command,
    FetchOffsets,
    FetchReply,
    GroupList,
    GroupSettings,
    GroupState,
    ListGroups,
    Outcome,
    Reply,
    Ticket,
)
from trunkline.coordination.coordinator import Coordinator
from trunkline.coordination.facts import decode, encode
from trunkline.coordination.transaction_facts import PendingOffset
from trunkline.model.errors import TrunklineError
from trunkline.model.ids import GroupId, Offset

log = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"


class Groups:
    def __init__(
        self,
        settings: GroupSettings,
        new_member_suffix: Callable[[], str],
        topics: Topics,
        now_ms: Callable[[], int],
        durability: Durability,
    ) -> None:
        self.settings = settings
        self._coordinator = Coordinator(settings, new_member_suffix, topics)
        self._now_ms = now_ms
        self._tickets = count(1)
        self._waiting: dict[Ticket, asyncio.Future[Reply]] = {}
        self._alarm: asyncio.Handle | None = None
        self._alarm_due = 0.0
        """Kept here: for what is due at once uvloop gives handles that do not know their time."""
        self._facts = FactLog(topics, OFFSETS_TOPIC, self._snapshot, now_ms, durability)

    def load(self) -> None:
        """Rebuild everything from the log. Blocks; before the first client."""
        for key, value in self._facts.read():
            self._coordinator.replay(decode(key, value))
        self._coordinator.loaded(self._now_ms())
        self._arm()

    def ask(self, command: Callable[[Ticket], Command]) -> Reply | asyncio.Future[Reply]:
        """The reply, or a future where it has to wait for others. Raises what the group refuses."""
        ticket = Ticket(next(self._tickets))
        outcome = self._coordinator.handle(command(ticket), self._now_ms())
        mine = self._settle(outcome, ticket)
        if mine is None:
            future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            self._waiting[ticket] = future
            future.add_done_callback(lambda _: self._waiting.pop(ticket, None))
            return future
        if isinstance(mine, TrunklineError):
            raise mine
        return mine

    def commit_pending(self, offsets: tuple[PendingOffset, ...]) -> None:
        """A transaction's offsets, in the journal when this returns. StorageFailed: not all of them are."""
        outcome = self._coordinator.handle(ApplyOffsets(Ticket(next(self._tickets)), offsets), self._now_ms())
        if outcome.facts or self._facts.behind:
            self._facts.write([encode(fact) for fact in outcome.facts], synced=True)
        self._arm()

    def forget_topic(self, topic: str) -> None:
        """A deleted topic's committed offsets go with it."""
        self._settle(self._coordinator.forget_topic(topic, self._now_ms()), None)

    def states(self) -> Iterator[tuple[GroupId, GroupState]]:
        """Every group and the state it is in."""
        for group in cast(GroupList, self.ask(ListGroups)).groups:
            yield group.group_id, group.state

    def committed(self) -> Iterator[tuple[GroupId, str, int, Offset]]:
        """Every committed offset: group, topic, partition, offset."""
        for group_id, _ in self.states():
            fetch = partial(FetchOffsets, group_id=group_id)
            for topic, partitions in cast(FetchReply, self.ask(fetch)).topics:
                for partition, committed in partitions:
                    if committed is not None:
                        yield group_id, topic, partition, committed.offset

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        for future in tuple(self._waiting.values()):
            future.cancel()

    def _settle(self, outcome: Outcome, asked: Ticket | None) -> Reply | TrunklineError | None:
        """Write the facts, then let the replies go; gives the one for `asked`."""
        failure: TrunklineError | None = None
        if outcome.facts or self._facts.behind:
            try:
                self._facts.write([encode(fact) for fact in outcome.facts])
            except TrunklineError as error:
                failure = error
                log.warning("Group facts could not be written, clients are told to try again: %s", error)
        mine: Reply | TrunklineError | None = None
        for ticket, reply in outcome.replies:
            answer = failure or reply
            if ticket == asked:
                mine = answer
            else:
                self._answer(ticket, answer)
        self._arm()
        return mine

    def _answer(self, ticket: Ticket, reply: Reply | TrunklineError) -> None:
        future = self._waiting.pop(ticket, None)
        if future is None or future.done():
            return
        if isinstance(reply, TrunklineError):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    def _arm(self) -> None:
        deadline_ms = self._coordinator.next_deadline_ms()
        if deadline_ms is None:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(deadline_ms - self._now_ms(), 0) / 1000
        if self._alarm is not None:
            if self._alarm_due <= due:
                return
            self._alarm.cancel()
        self._alarm_due = due
        self._alarm = loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._alarm = None
        self._settle(self._coordinator.tick(self._now_ms()), None)

    def _snapshot(self) -> Iterator[KeyValue]:
        return map(encode, self._coordinator.snapshot())
