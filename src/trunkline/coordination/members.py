"""The members of one group: who they are, who waits for what, who leads, and which protocols all of them can follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from sys import intern
from typing import Final

from trunkline.coordination.commands import Join, JoinedMember, Protocols, Ticket
from trunkline.coordination.facts import StoredMember
from trunkline.model.errors import FencedInstance, UnknownMember
from trunkline.model.ids import MemberId

_SHORTEST_WAIT_MS: Final = 1_000
"""A rebalance timeout of 0 would remove members before they can answer, and wait for absent ones without a pause."""


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "id",
        "instance_id",
        "is_new",
        "join_ticket",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(self, member_id: MemberId, instance_id: str | None, client_id: str, client_host: str) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client_id = intern(client_id)
        self.client_host = intern(client_host)
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.protocols: Protocols = ()
        self.assignment = b""
        self.is_new = False
        """Waits in its first join: it may be gone already, since it cannot heartbeat yet."""
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None

    @classmethod
    def joining(cls, join: Join, member_id: MemberId) -> Member:
        member = cls(member_id, join.instance_id, join.client_id, join.client_host)
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        return member

    @property
    def waits(self) -> bool:
        """For the coordinator: so it need not heartbeat."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def subscription(self, protocol: str | None) -> bytes:
        return next((subscription for name, subscription in self.protocols if name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.subscription(protocol),
            assignment,
        )

    def become(self, stored: StoredMember, protocol: str | None) -> None:
        """A live member knows more protocols than the chosen one, and keeps them."""
        self.session_timeout_ms = stored.session_timeout_ms
        self.rebalance_timeout_ms = stored.rebalance_timeout_ms
        self.assignment = stored.assignment
        if protocol is not None and (protocol, stored.subscription) not in self.protocols:
            self.protocols = ((protocol, stored.subscription),)


class Roster:
    __slots__ = ("_by_instance", "_members", "_supporters", "leader_id", "pending", "unsynced", "waiting_joins")

    def __init__(self) -> None:
        self._members: dict[MemberId, Member] = {}
        self._by_instance: dict[str, MemberId] = {}
        self._supporters: Counter[str] = Counter()
        """How many members can follow each protocol."""
        self.leader_id: MemberId | None = None
        self.pending: set[MemberId] = set()
        """Ids given out to new members that are to come back with them."""
        self.unsynced: set[MemberId] = set()
        """Members of this generation that have not asked for their assignment yet."""
        self.waiting_joins = 0

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def get(self, member_id: MemberId) -> Member | None:
        return self._members.get(member_id)

    def of_instance(self, instance_id: str | None) -> Member | None:
        member_id = self._by_instance.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self._members[member_id]

    def known(self, member_id: MemberId, instance_id: str | None) -> Member:
        """The member who says that it is this one. FencedInstance when another has its instance id by now."""
        if instance_id is not None:
            current = self.of_instance(instance_id)
            if current is not None and current.id != member_id:
                raise FencedInstance(f"{current.id} is the member of instance {instance_id} now, not {member_id}")
            if current is None:
                raise UnknownMember(f"no member of instance {instance_id}: join again without a member id")
        member = self._members.get(member_id)
        if member is None:
            raise UnknownMember(f"no member {member_id!r} in the group: join again without a member id")
        return member

    # ── coming and going ────────────────────────────────────────────────────────────────────────

    def add(self, member: Member) -> None:
        self._members[member.id] = member
        self.pending.discard(member.id)
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member.id
        if self.leader_id is None:
            self.leader_id = member.id
        self._supporters.update(name for name, _ in member.protocols)

    def remove(self, member: Member) -> tuple[Ticket | None, Ticket | None]:
        """The tickets of the join and the sync in which it waited."""
        tickets = self.take_join(member), self.take_sync(member)
        del self._members[member.id]
        self.unsynced.discard(member.id)
        self._count_out(member)
        if member.instance_id is not None:
            del self._by_instance[member.instance_id]
        if self.leader_id == member.id:
            self.leader_id = next(iter(self._members), None)
        return tickets

    def replace(self, old: Member, new: Member) -> tuple[Ticket | None, Ticket | None]:
        """The new one takes the old one's place: instance, assignment, lead, and what is still expected of it."""
        led, was_unsynced = self.leader_id == old.id, old.id in self.unsynced
        tickets = self.remove(old)
        new.assignment = old.assignment
        self.add(new)
        if led:
            self.leader_id = new.id
        if was_unsynced:
            self.unsynced.add(new.id)
        return tickets

    def update(self, member: Member, join: Join) -> None:
        self._count_out(member)
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        self._supporters.update(name for name, _ in member.protocols)

    def become(self, stored: Iterable[StoredMember], protocol: str | None, leader_id: MemberId | None) -> None:
        """Exactly these, and those among them that are here already keep what they wait for."""
        before = self._members
        self._members, self._by_instance, self._supporters = {}, {}, Counter()
        self.leader_id = leader_id
        for one in stored:
            member = before.get(one.member_id)
            if member is None:
                member = Member(one.member_id, one.instance_id, one.client_id, one.client_host)
            member.become(one, protocol)
            self.add(member)
        self.unsynced.intersection_update(self._members)
        self.waiting_joins = sum(member.join_ticket is not None for member in self)

    def _count_out(self, member: Member) -> None:
        self._supporters.subtract(name for name, _ in member.protocols)
        for name, _ in member.protocols:
            if self._supporters[name] <= 0:
                del self._supporters[name]

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────

    def park_join(self, member: Member, ticket: Ticket) -> Ticket | None:
        """The ticket that waited in this place before, if one did: it is to be answered."""
        replaced = self.take_join(member)
        member.join_ticket = ticket
        self.waiting_joins += 1
        return replaced

    def take_join(self, member: Member) -> Ticket | None:
        ticket, member.join_ticket = member.join_ticket, None
        self.waiting_joins -= ticket is not None
        return ticket

    def park_sync(self, member: Member, ticket: Ticket) -> Ticket | None:
        replaced, member.sync_ticket = member.sync_ticket, ticket
        return replaced

    def take_sync(self, member: Member) -> Ticket | None:
        ticket, member.sync_ticket = member.sync_ticket, None
        return ticket

    # ── what they agree on ──────────────────────────────────────────────────────────────────────

    @property
    def all_joined(self) -> bool:
        return self.waiting_joins == len(self._members) and not self.pending

    @property
    def patience_ms(self) -> int:
        """How long to wait for members to join or to sync: as long as the most patient one asks for."""
        return max(_SHORTEST_WAIT_MS, max((member.rebalance_timeout_ms for member in self), default=0))

    def shares_a_protocol(self, protocols: Protocols) -> bool:
        return any(self._supporters[name] == len(self._members) for name, _ in protocols)

    def choose_protocol(self) -> str:
        """The one with most votes among those that all can follow: each votes for what it likes best."""
        candidates = {name for name, supporters in self._supporters.items() if supporters == len(self._members)}
        return Counter(member.vote(candidates) for member in self).most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """A leader that has not joined loses its place to one that has. False when nobody has."""
        leader = None if self.leader_id is None else self._members.get(self.leader_id)
        if leader is None or leader.join_ticket is None:
            leader = next((member for member in self if member.join_ticket is not None), None)
            if leader is not None:
                self.leader_id = leader.id
        return leader is not None

    def subscriptions(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        return tuple(JoinedMember(member.id, member.instance_id, member.subscription(protocol)) for member in self)
