"""Where Trunkline means to answer differently; docs/compatibility.md tells it to people.

A pattern covers "Request.scenario/step/field…", * standing for anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Known:
    pattern: str
    reason: str

    def covers(self, where: str) -> bool:
        return fnmatchcase(where, self.pattern)


_CREATED = "a topic that is created on first use is in the first answer already"
_LATER = "not served yet: not listed, or INVALID_REQUEST"
_DONE = "changes are made before they are answered, whatever the timeout"
_ONCE = "what stands in a request twice is answered twice (and done twice)"
_EMPTY = "a topic without partitions is answered without partitions; Kafka leaves it out"
_ODD = "Kafka answers UNKNOWN_SERVER_ERROR where a number has no meaning; here it has the nearest one, or is refused"
_WHOLE = "only whole batches are sent; Kafka cuts the last one"
_OURS = "a config of ours"
_ELR = "Kafka sets min.insync.replicas for the cluster when eligible leader replicas are on"
_BATCHES = "Kafka takes exactly one batch that starts at offset 0; here several may come, with any base offset"
_STRICT = "a batch that was cut, or whose records are misnumbered, is refused; Kafka takes what it can"
_TIME = "the times in a batch header are believed; Kafka looks at each record"
_CODEC = "what cannot be decompressed is INVALID_RECORD or UNSUPPORTED_COMPRESSION_TYPE; Kafka: UNKNOWN_SERVER_ERROR"
_BROKER = "this node's settings come from flags, environment or file, and are read-only"

KNOWN: tuple[Known, ...] = (
    Known("Metadata.topics/unknown/*", f"{_CREATED} (versions before 4 cannot ask for none)"),
    Known("Metadata.topics/long name/*", f"{_CREATED} (versions before 4 cannot ask for none)"),
    Known("Metadata.creation_on_first_use/new/*", _CREATED),
    Known("Metadata.creation_on_first_use/collides/*", "INVALID_TOPIC at once; Kafka says UNKNOWN_TOPIC for ever"),
    Known("Metadata.by_id/neither/*", _ODD),
    Known("FindCoordinator.coordinators/*/error_message", "Kafka writes NONE where there is no error"),
    Known("FindCoordinator.coordinators/transaction/*", _LATER),
    Known("FindCoordinator.coordinators/share group/*", _LATER),
    Known("ApiVersions.ranges/api *", _LATER),
    Known("ApiVersions.ranges/features", _LATER),
    Known("ApiVersions.ranges/finalized", _LATER),
    Known("ApiVersions.frames/array of length -2", "a length below -1 is no Kafka request; Kafka takes it for null"),
    Known("InitProducerId.producer_ids/transactional/*", _LATER),
    Known("DescribeConfigs.of_topics/*/durability", _OURS),
    Known("DescribeConfigs.of_topics/*/min.insync.replicas/*", _ELR),
    Known("DescribeConfigs.of_others/broker 1/*", _BROKER),
    Known("DescribeConfigs.of_others/type 8/*", _LATER),
    Known("DescribeConfigs.of_others/type 16/*", _LATER),
    Known("DescribeConfigs.of_others/type 32/*", _LATER),
    Known("IncrementalAlterConfigs.alter/operation *", _ODD),
    Known("IncrementalAlterConfigs.alter/type 32/*", _LATER),
    Known("Fetch.read/twice/*", _ONCE),
    Known("Fetch.read/no partitions/*", _EMPTY),
    Known("Fetch.read/isolation level 2/*", _ODD),
    Known("Fetch.limits/*limit 178*/records", _WHOLE),
    Known("Fetch.limits/*limit 366*/records", _WHOLE),
    Known("Fetch.limits/*limit -1*", _ODD),
    Known("Fetch.epochs/last fetched *", "truncation of followers: there are none"),
    Known("Fetch.sessions/*/session_id", _LATER),
    Known("ListOffsets.find/no partitions/*", _EMPTY),
    Known("ListOffsets.find/isolation 2/*", _ODD),
    Known("ListOffsets.after_deletion/cut 6: -3/*", "Kafka names a record that was deleted"),
    Known("OffsetForLeaderEpoch.leader_epochs/epoch -2*", _ODD),
    Known("OffsetCommit.simple_commits/no partitions/*", _EMPTY),
    Known("OffsetDelete.forget/no partitions/*", _EMPTY),
    Known("DeleteRecords.cut/no partitions/*", _EMPTY),
    Known("DeleteRecords.cut/twice/*", _ONCE),
    Known("DeleteTopics.delete/timeout 0/*", _DONE),
    Known("DeleteTopics.delete_by_id/id and name twice/*/topic_id", "the refusal repeats what was asked"),
    Known("CreateTopics.*/durability", _OURS),
    Known("CreateTopics.*/min.insync.replicas/*", _ELR),
    Known("CreateTopics.create/collide with each other/*", "the second of two names that collide is refused"),
    Known(
        "CreateTopics.create/2147483647 partitions/*",
        "INVALID_PARTITIONS for more than 10,000; Kafka: POLICY_VIOLATION",
    ),
    Known("CreateTopics.create/validate only/*/topic_id", "no id is made up for a topic that is not made"),
    Known("CreateTopics.create/* timeouts/*", _DONE),
    Known("CreateTopics.create/timeout */*", _DONE),
    Known("Produce.good/no partitions/*", _EMPTY),
    Known("Produce.bad_batches/one and * zeros/*", _STRICT),
    Known("Produce.bad_batches/good and wrong checksum/*", _BATCHES),
    Known("Produce.bad_batches/small and too large/*", _BATCHES),
    Known("Produce.bad_batches/length 2147483647/*", _ODD),
    Known("Produce.bad_batches/codec */error_code", _CODEC),
    Known("Produce.bad_batches/claims */error_code", _CODEC),
    Known("Produce.times/look up -3/*", _TIME),
    Known("Produce.times/*/record_errors", "the message of the batch says which time is wrong, not each record's"),
    Known("Produce.idempotence/*/log_append_time_ms", "Kafka gives a duplicate's create time for its append time"),
    Known("Produce.transactional/*", _LATER),
    Known("Produce.unusual/several batches/*", _BATCHES),
    Known("Produce.unusual/* base offset/*", _BATCHES),
    Known("Produce.unusual/base offset of its own/*", _BATCHES),
    Known("Produce.unusual/a * twice/*", _ONCE),
    Known("Produce.unusual/one and a half/*", _STRICT),
    Known("Produce.unusual/first delta 1/*", _STRICT),
    Known("Produce.unusual/base time is in the future/*", _TIME),
    Known("Produce.unusual/null", "Kafka never answers this one"),
)
