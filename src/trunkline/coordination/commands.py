"""What a group can be asked, and what it answers. Plain values: a protocol translates its requests to these and back.

Every command carries a ticket; exactly one answer (a reply, or an error) comes for it, at once or later: a join waits
for the rebalance, a sync for the leader. Partitions are grouped by topic, as every protocol sends them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NewType

from trunkline.coordination.consumer_facts import ConsumerMember
from trunkline.coordination.facts import Committed, Fact
from trunkline.coordination.partitions import Partitions
from trunkline.coordination.transaction_facts import PendingOffset
from trunkline.model import limits
from trunkline.model.errors import TrunklineError
from trunkline.model.ids import Epoch, GroupId, MemberId, Offset

Ticket = NewType("Ticket", int)
"""Names the request that waits for an answer. Whoever sends commands chooses it, and never the same one twice."""

NEW_MEMBER: Final = MemberId("")
"""The member id of one that has none yet."""

LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""Epochs of the last heartbeat of a member; with the second one a static member says that it comes back."""

Protocols = tuple[tuple[str, bytes], ...]
"""Ways to assign that a member can follow, the one it likes best first, each with its subscription for it."""


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    initial_rebalance_delay_ms: int = 100
    """How long the first members of an empty group wait for others, again for each that comes meanwhile."""
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    new_member_join_timeout_ms: int = 300_000
    """A member that never had an answer may be gone without a trace: so long its first join may wait."""
    max_members: int = limits.MAX_GROUP_MEMBERS
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    expiry_check_ms: int = 600_000
    """At most so often is a group searched for expired offsets; so long an empty group without offsets is kept."""
    max_offset_metadata_bytes: int = limits.MAX_OFFSET_METADATA_BYTES
    consumer_heartbeat_interval_ms: int = 5_000
    """What members of groups of type "consumer" are told."""
    consumer_waiting_interval_ms: int = 500
    """What they are told while they wait for partitions that others are giving up."""
    consumer_session_timeout_ms: int = 45_000
    consumer_large_group: int = 100
    """From so many members on, those that come at once are assigned together, as sharing out takes longer then."""
    consumer_assignment_interval_ms: int = 1_000
    """How often a large group is shared out anew, at most."""


# ── membership ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Join:
    ticket: Ticket
    group_id: GroupId
    member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str = ""
    needs_member_id: bool = True
    """The client understands MemberIdRequired, so a new member is made to prove that it got its id."""
    can_skip_assignment: bool = False
    """The client understands a leader that has nothing to assign."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: MemberId
    instance_id: str | None
    subscription: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    member_id: MemberId
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: MemberId
    members: tuple[JoinedMember, ...]
    """Everybody, for the leader; nobody, for the others."""
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    ticket: Ticket
    group_id: GroupId
    member_id: MemberId
    instance_id: str | None
    generation: int
    assignments: tuple[tuple[MemberId, bytes], ...] = ()
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class SyncReply:
    protocol_type: str | None
    protocol: str | None
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Heartbeat:
    ticket: Ticket
    group_id: GroupId
    member_id: MemberId
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    pass


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """By instance id alone (member id empty) somebody else removes a static member."""

    member_id: MemberId
    instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Leave:
    ticket: Ticket
    group_id: GroupId
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeaveResult:
    member_id: MemberId
    instance_id: str | None
    error: TrunklineError | None


@dataclass(frozen=True, slots=True)
class LeaveReply:
    """One result per member, in order. Where a request can name one member only, the first result is all of it."""

    results: tuple[LeaveResult, ...]


# ── groups of type "consumer" ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """What is None has not changed since the last one. Epoch 0 joins, -1 and -2 leave."""

    ticket: Ticket
    group_id: GroupId
    member_id: MemberId
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    must_have_id: bool = True
    """The member makes its id itself; older clients are given one."""

    @property
    def says_nothing_new(self) -> bool:
        return (
            self.topics is None
            and self.pattern is None
            and self.rebalance_timeout_ms is None
            and self.assignor is None
            and self.rack_id is None
            and self.epoch != 0
        )

    @property
    def is_full(self) -> bool:
        """It says all, as after an error: it is not sure of what it was told."""
        return (
            self.rebalance_timeout_ms is not None
            and (self.topics is not None or self.pattern is not None)
            and self.owned is not None
        )


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatReply:
    member_id: MemberId
    epoch: int
    interval_ms: int
    assignment: Partitions | None = None
    """None: as before."""


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroup:
    ticket: Ticket
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    group_id: GroupId
    state: GroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMember, ...]


# ── committed offsets ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    partition: int
    offset: Offset
    leader_epoch: Epoch
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Generation -1 is a consumer that chose its partitions itself: welcome while the group has no members."""

    ticket: Ticket
    group_id: GroupId
    member_id: MemberId
    instance_id: str | None
    generation: int
    topics: tuple[tuple[str, tuple[OffsetToCommit, ...]], ...]
    retention_ms: int | None = None
    """How long to keep these, instead of the retention of the settings."""


PartitionResults = tuple[tuple[str, tuple[tuple[int, TrunklineError | None], ...]], ...]
"""Topic by topic as asked: each partition with what went wrong there, if anything did."""


@dataclass(frozen=True, slots=True)
class CommitReply:
    topics: PartitionResults


@dataclass(frozen=True, slots=True)
class CheckOffsets:
    """What a transaction would commit: may this member (KIP-447), and what of it? Nothing changes yet."""

    ticket: Ticket
    group_id: GroupId
    member_id: MemberId
    instance_id: str | None
    generation: int
    topics: tuple[tuple[str, tuple[OffsetToCommit, ...]], ...]


@dataclass(frozen=True, slots=True)
class CheckedOffsets:
    topics: PartitionResults
    accepted: tuple[PendingOffset, ...]


@dataclass(frozen=True, slots=True)
class ApplyOffsets:
    """A transaction is committed, and so are these. Commits that were made after them win. Twice does no harm."""

    ticket: Ticket
    offsets: tuple[PendingOffset, ...]


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    ticket: Ticket
    group_id: GroupId
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    """None asks for all that the group has."""
    member_id: MemberId | None = None
    epoch: int = -1
    """Who asks, where it says so: a member in the wrong epoch may not read on from what it finds."""


@dataclass(frozen=True, slots=True)
class FetchReply:
    """None where nothing is committed. A group that does not exist has committed nothing."""

    topics: tuple[tuple[str, tuple[tuple[int, Committed | None], ...]], ...]


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    ticket: Ticket
    group_id: GroupId
    topics: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class DeleteOffsetsReply:
    topics: PartitionResults


# ── groups as a whole ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    ticket: Ticket
    group_ids: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroupsReply:
    results: tuple[tuple[GroupId, TrunklineError | None], ...]


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    ticket: Ticket
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    subscription: bytes
    """Empty unless the group is Stable: before that, which protocol's subscription counts is not decided."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """State Dead: there is no such group."""

    group_id: GroupId
    state: GroupState
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
    reason: str = ""
    """Why it is said to be Dead, where it is not simply missing."""


@dataclass(frozen=True, slots=True)
class ListGroups:
    """Empty filters let everything through; case does not matter."""

    ticket: Ticket
    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: GroupId
    protocol_type: str
    state: GroupState
    type: str = "classic"


@dataclass(frozen=True, slots=True)
class GroupList:
    groups: tuple[ListedGroup, ...]


Command = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | CommitOffsets
    | CheckOffsets
    | ApplyOffsets
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroups
    | DescribeGroup
    | ListGroups
    | ConsumerHeartbeat
    | DescribeConsumerGroup
)
Reply = (
    JoinReply
    | SyncReply
    | HeartbeatReply
    | LeaveReply
    | CommitReply
    | CheckedOffsets
    | FetchReply
    | DeleteOffsetsReply
    | DeleteGroupsReply
    | GroupDescription
    | GroupList
    | ConsumerHeartbeatReply
    | ConsumerGroupDescription
)


@dataclass(slots=True)
class Outcome:
    """What a command or the passing of time led to. The replies may leave once the facts are written."""

    facts: list[Fact] = field(default_factory=list)
    replies: list[tuple[Ticket, Reply | TrunklineError]] = field(default_factory=list)

    def answer(self, ticket: Ticket | None, reply: Reply | TrunklineError) -> None:
        """For a ticket that may not be there: nobody waits, nobody is answered."""
        if ticket is not None:
            self.replies.append((ticket, reply))
