"""The one error vocabulary. Each protocol has one table from these to its own codes.

A message says what happened, to what, and what to do. `retriable` means that the same request may succeed later.
"""

from __future__ import annotations

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


class InconsistentTopicId(TrunklineError):
    """The topic was deleted and made again under its name since the client learned its id."""

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


# ── the cluster, and who may use it ─────────────────────────────────────────────────────────────


class ElectionNotNeeded(TrunklineError):
    pass


class NoReassignment(TrunklineError):
    """Nothing is on its way that could be cancelled."""


class LogDirUnknown(TrunklineError):
    pass


class SecurityDisabled(TrunklineError):
    pass


class UnknownResource(TrunklineError):
    pass


class DuplicateResource(TrunklineError):
    pass


class UnacceptableCredential(TrunklineError):
    pass


class UnsupportedMechanism(TrunklineError):
    pass


class UnsupportedKind(TrunklineError):
    """A kind of resource or entity that is not known here."""


class InvalidUpdateVersion(TrunklineError):
    """A feature cannot be set to that level."""


# ── records ─────────────────────────────────────────────────────────────────────────────────────


class OffsetOutOfRange(TrunklineError):
    pass


class CorruptBatch(TrunklineError):
    """Bytes that are no valid record batch: a wrong checksum, length, count or delta."""

    retriable = True


class InvalidRecord(TrunklineError):
    """A well-formed batch that this topic does not take (no key on a compacted topic, for one)."""


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


class NotCoordinator(TrunklineError):
    """Ask again who coordinates the group. Also the answer to a waiting request whose member has sent a newer one."""

    retriable = True
