"""The one error vocabulary. Each protocol has one table from these to its own codes.

A message says what happened, to what, and what to do. `retriable` means that the same request may succeed later.
"""

from __future__ import annotations

import os
from typing import ClassVar

from trunkline.model.ids import MemberId


class TrunklineError(Exception):
    """Whatever a client did or met that it should be told about."""

    retriable: ClassVar[bool] = False


# ── topics and partitions ───────────────────────────────────────────────────────────────────────


class UnknownTopic(TrunklineError):
    retriable = True


class UnknownTopicId(TrunklineError):
    retriable = True


class UnknownPartition(TrunklineError):
    retriable = True


class TopicExists(TrunklineError):
    pass


class InvalidTopicName(TrunklineError):
    pass


class InvalidPartitions(TrunklineError):
    pass


class InvalidReplicationFactor(TrunklineError):
    pass


class InvalidReplicaAssignment(TrunklineError):
    pass


class InvalidConfig(TrunklineError):
    pass


class InvalidRequest(TrunklineError):
    pass


class PolicyViolation(TrunklineError):
    pass


class NotSupported(TrunklineError):
    """Part of the protocol, but not served here (yet)."""


# ── records ─────────────────────────────────────────────────────────────────────────────────────


class OffsetOutOfRange(TrunklineError):
    pass


class CorruptBatch(TrunklineError):
    """Bytes that are no valid record batch: a wrong checksum, length, count or delta."""

    retriable = True


class InvalidRecord(TrunklineError):
    """A batch that would be refused again: its records are not what they claim to be."""


class RecordWithoutKey(InvalidRecord):
    """A compacted topic keeps the last record of each key, so it takes none without."""


class BatchTooLarge(TrunklineError):
    pass


class UnsupportedBatchFormat(TrunklineError):
    """Record batches older than version 2."""


class UnsupportedCompression(TrunklineError):
    pass


class InvalidTimestamp(TrunklineError):
    pass


class FencedLeaderEpoch(TrunklineError):
    retriable = True


class UnknownLeaderEpoch(TrunklineError):
    retriable = True


# ── producers ───────────────────────────────────────────────────────────────────────────────────


class OutOfOrderSequence(TrunklineError):
    pass


class DuplicateSequence(TrunklineError):
    """An old batch of an idempotent producer, older than what is remembered for it."""


class InvalidProducerEpoch(TrunklineError):
    pass


class UnknownProducer(TrunklineError):
    pass


# ── transactions ────────────────────────────────────────────────────────────────────────────────


class TransactionalIdMissing(TrunklineError):
    pass


class InvalidTransactionState(TrunklineError):
    """What was asked does not fit to where the transaction is."""


class TransactionAbortable(TrunklineError):
    """The transaction cannot go on, but the producer can: abort it and start the next one."""


class ConcurrentTransactions(TrunklineError):
    """The transaction before is still being ended."""

    retriable = True


class ProducerFenced(TrunklineError):
    """Another producer with this transactional id came after this one."""


class UnknownProducerMapping(TrunklineError):
    """The transactional id does not exist, or belongs to another producer id."""


class UnknownTransactionalId(TrunklineError):
    pass


class InvalidTransactionTimeout(TrunklineError):
    pass


class UnstableOffset(TrunklineError):
    """A transaction that is still open may yet change the committed offset."""

    retriable = True


# ── storage ─────────────────────────────────────────────────────────────────────────────────────


class StorageFailed(TrunklineError):
    """The disk refused a read or a write."""

    retriable = True


class StorageFull(StorageFailed):
    """No room: writes are refused until there is some, reads go on."""


class CorruptLog(TrunklineError):
    """A segment or journal file that does not hold what was acknowledged. Names the file and the position."""


class CorruptMetadata(TrunklineError):
    """The metadata database cannot be trusted. Names the file and what to do."""


class NewerFormat(TrunklineError):
    """The data was written by a newer Trunkline than this one."""


class RequestTimedOut(TrunklineError):
    retriable = True


# ── groups ──────────────────────────────────────────────────────────────────────────────────────


class InvalidGroupId(TrunklineError):
    pass


class UnknownGroup(TrunklineError):
    pass


class GroupNotEmpty(TrunklineError):
    pass


class GroupSubscribed(TrunklineError):
    """A member of the group still reads the topic whose offsets are to be deleted."""


class UnknownMember(TrunklineError):
    pass


class MemberIdRequired(TrunklineError):
    """A new member is to join again with the id it was just given."""

    def __init__(self, member_id: MemberId) -> None:
        super().__init__(f"join again as member {member_id}")
        self.member_id = member_id


class IllegalGeneration(TrunklineError):
    pass


class RebalanceInProgress(TrunklineError):
    retriable = True


class InconsistentProtocol(TrunklineError):
    pass


class InvalidSessionTimeout(TrunklineError):
    pass


class FencedInstance(TrunklineError):
    """Another member took over this group.instance.id."""


class GroupFull(TrunklineError):
    pass


class OffsetMetadataTooLarge(TrunklineError):
    pass


class FencedMemberEpoch(TrunklineError):
    """A member that is not in the epoch it says: it must give up its partitions and join again."""


class StaleMemberEpoch(TrunklineError):
    """A commit or fetch of offsets in an epoch that the member has left: it is to try again in its new one."""


class UnreleasedInstance(TrunklineError):
    """Another member has this group.instance.id and has not left."""


class UnsupportedAssignor(TrunklineError):
    pass


class InvalidPattern(TrunklineError):
    """A regular expression over topic names that cannot be used."""


class NotCoordinator(TrunklineError):
    """Ask again who coordinates the group. Also the answer to a waiting request whose member has sent a newer one."""

    retriable = True


def in_one_line(error: BaseException) -> str:
    """An error that is nobody's fault but ours, for a log line: what it says, and where in the code it came from."""
    place, at = "", error.__traceback__
    while at is not None:
        place = f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})"
        at = at.tb_next
    return f"{type(error).__name__}: {error}".replace("\n", " ") + place
