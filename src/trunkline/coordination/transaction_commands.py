"""What the coordinator of transactions can be asked, and what it answers. Plain values, as for groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from trunkline.coordination.transaction_facts import PendingOffset, Transaction, TransactionFact
from trunkline.model.errors import TrunklineError
from trunkline.model.ids import ProducerId, TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int = 15 * 60 * 1000
    id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    """A transactional id that nobody used for so long, and that has no open transaction, is forgotten."""


@dataclass(frozen=True, slots=True)
class InitProducer:
    """`expected`: the id and epoch that the producer has, where it wants to go on after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Producer:
    """The reply to the above, and to an end."""

    producer_id: ProducerId
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class AddPartitions:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """Whether they are part of the transaction; nothing is added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class PartitionsNotIn:
    """The reply to the above: those that are not part of it."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """Offsets that become committed with the transaction. Their topic must have been added, or is (`implicit`)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    place: TopicPartition
    offsets: tuple[PendingOffset, ...]
    implicit: bool


@dataclass(frozen=True, slots=True)
class EndTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    v2: bool = False
    """The client takes a raised epoch with the answer."""


@dataclass(frozen=True, slots=True)
class Finished:
    """From the broker itself: all markers are written, offsets are committed or dropped."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    transactional_id: str


@dataclass(frozen=True, slots=True)
class ListTransactions:
    pass


@dataclass(frozen=True, slots=True)
class TransactionList:
    transactions: tuple[tuple[str, Transaction], ...]


@dataclass(frozen=True, slots=True)
class Done:
    pass


TransactionCommand = (
    InitProducer
    | AddPartitions
    | VerifyPartitions
    | AddOffsets
    | EndTransaction
    | Finished
    | DescribeTransaction
    | ListTransactions
)
TransactionReply = Producer | PartitionsNotIn | Transaction | TransactionList | Done


@dataclass(slots=True)
class TransactionOutcome:
    """`finish`: ids whose transaction is decided by these facts. Once they are synced, write markers, then Finished."""

    facts: list[TransactionFact] = field(default_factory=list)
    finish: list[str] = field(default_factory=list)
    reply: TransactionReply | TrunklineError | None = None
