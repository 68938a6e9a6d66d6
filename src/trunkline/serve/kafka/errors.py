"""The one table from our errors to Kafka's codes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from trunkline.model import errors
from trunkline.model.errors import TrunklineError


class ErrorCode(IntEnum):
    """Kafka's error codes, as far as they are used here."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    SECURITY_DISABLED = 54
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    UNKNOWN_PRODUCER_ID = 59
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115


MOST_TEXT: Final = 1_000

CODES: Final[Mapping[type[TrunklineError], ErrorCode]] = {
    errors.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.UnknownPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.InconsistentTopicId: ErrorCode.INCONSISTENT_TOPIC_ID,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    errors.NotSupported: ErrorCode.INVALID_REQUEST,
    errors.ElectionNotNeeded: ErrorCode.ELECTION_NOT_NEEDED,
    errors.NoReassignment: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    errors.LogDirUnknown: ErrorCode.LOG_DIR_NOT_FOUND,
    errors.SecurityDisabled: ErrorCode.SECURITY_DISABLED,
    errors.UnknownResource: ErrorCode.RESOURCE_NOT_FOUND,
    errors.DuplicateResource: ErrorCode.DUPLICATE_RESOURCE,
    errors.UnacceptableCredential: ErrorCode.UNACCEPTABLE_CREDENTIAL,
    errors.UnsupportedMechanism: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    errors.UnsupportedKind: ErrorCode.UNSUPPORTED_VERSION,
    errors.InvalidUpdateVersion: ErrorCode.INVALID_UPDATE_VERSION,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.InvalidRecord: ErrorCode.INVALID_RECORD,
    errors.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.UnsupportedBatchFormat: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    errors.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    errors.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.DuplicateSequence: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    errors.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.UnknownProducer: ErrorCode.UNKNOWN_PRODUCER_ID,
    errors.StorageFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.StorageFull: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.CorruptLog: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.RequestTimedOut: ErrorCode.REQUEST_TIMED_OUT,
    errors.InvalidGroupId: ErrorCode.INVALID_GROUP_ID,
    errors.UnknownGroup: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.GroupNotEmpty: ErrorCode.NON_EMPTY_GROUP,
    errors.GroupSubscribed: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.NotCoordinator: ErrorCode.NOT_COORDINATOR,
    errors.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.MemberIdRequired: ErrorCode.MEMBER_ID_REQUIRED,
    errors.IllegalGeneration: ErrorCode.ILLEGAL_GENERATION,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.InconsistentProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    errors.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    errors.FencedInstance: ErrorCode.FENCED_INSTANCE_ID,
    errors.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.OffsetMetadataTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
}


def code_of(error: TrunklineError) -> ErrorCode:
    """Kafka's code for one of our errors."""
    return CODES.get(type(error), ErrorCode.UNKNOWN_SERVER_ERROR)


def text_of(error: TrunklineError) -> str:
    """What the client's user is told. Cut: it may quote the client, and older versions have room for 32 KiB only."""
    text = str(error)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
