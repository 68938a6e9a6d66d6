"""Fetch sessions: readers that say once what they want are told of changes only, and of every change."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.raw_kafka import RawKafka, batch, records_of
from tests.support.waiting import eventually

from trunkline.broker.fetching import Got
from trunkline.model.ids import Offset
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.serve.kafka.fetch_sessions import FetchSessions
from trunkline.testing import Broker
from trunkline.wire.kafka.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from trunkline.wire.kafka.messages.fetch_response import FetchResponse, PartitionData

PARTITIONS = 4


class Reader:
    """A client with a session over one topic, by name (version 12) or by id (18)."""

    def __init__(self, broker: Broker, topic: str, *, version: int = 12) -> None:
        self.broker = broker
        self.topic = topic
        self.version = version
        self.socket = RawKafka(broker.kafka)
        self.topic_id = self._make()
        self.session_id, self.epoch = 0, 0

    def _make(self) -> bytes:
        async def make() -> bytes:
            return self.broker.node.broker.topics.create(self.topic, PARTITIONS).id

        return self.broker.run(make())

    def write(self, partition: int, values: Sequence[bytes] = (b"x",)) -> None:
        async def publish() -> None:
            topics = self.broker.node.broker.topics
            self.broker.node.broker.publish(
                topics.partition(self.topic, partition), memoryview(bytearray(batch(values)))
            )

        self.broker.run(publish())

    def forget_records(self, partition: int) -> None:
        async def delete() -> None:
            topics = self.broker.node.broker.topics
            self.broker.node.broker.delete_records(topics.partition(self.topic, partition), Offset(-1))

        self.broker.run(delete())

    def delete_topic(self) -> None:
        async def delete() -> None:
            self.broker.node.broker.topics.delete(self.topic)

        self.broker.run(delete())

    def request(self, offsets: dict[int, int], forget: Sequence[int] = (), **how: int) -> FetchRequest:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in offsets.items()
        ]
        topics = [FetchTopic(topic=self.topic, topic_id=self.topic_id, partitions=partitions)] if offsets else []
        gone = [ForgottenTopic(topic=self.topic, topic_id=self.topic_id, partitions=list(forget))] if forget else []
        return FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            min_bytes=how.get("min_bytes", 0),
            max_bytes=how.get("max_bytes", 1 << 30),
            max_wait_ms=how.get("max_wait_ms", 0),
            topics=topics,
            forgotten_topics_data=gone,
        )

    def fetch(self, offsets: dict[int, int] | None = None, forget: Sequence[int] = (), **how: int) -> FetchResponse:
        answer = self.socket.ask(self.request(offsets or {}, forget, **how), self.version, FetchResponse)
        self.took(answer)
        return answer

    def took(self, answer: FetchResponse) -> None:
        if answer.error_code == ErrorCode.NONE:
            self.session_id, self.epoch = answer.session_id, self.epoch + 1


def told(answer: FetchResponse) -> dict[int, PartitionData]:
    return {partition.partition_index: partition for topic in answer.responses for partition in topic.partitions}


def with_records(answer: FetchResponse) -> list[int]:
    return [index for index, partition in told(answer).items() if records_of(partition)]


@pytest.fixture(params=[12, 18], ids=["by name", "by id"])
def reader(request: pytest.FixtureRequest, broker: Broker, topic: str) -> Iterator[Reader]:
    made = Reader(broker, topic, version=request.param)
    yield made
    made.socket.close()


def test_the_first_answer_is_full_and_later_ones_tell_changes_only(reader: Reader) -> None:
    first = reader.fetch(dict.fromkeys(range(PARTITIONS), 0))
    assert first.session_id > 0
    assert sorted(told(first)) == [0, 1, 2, 3]
    assert told(reader.fetch()) == {}
    reader.write(2)
    assert with_records(reader.fetch()) == [2]
    assert with_records(reader.fetch()) == [2], "an offset that the reader did not move is read again"
    assert told(reader.fetch({2: 1})) == {}
    assert told(reader.fetch()) == {}


def test_a_moved_start_is_told_once(reader: Reader) -> None:
    reader.fetch({0: 0})
    reader.write(0)
    reader.fetch({0: 1})
    reader.forget_records(0)
    answers = [told(reader.fetch(max_wait_ms=1100, min_bytes=1)) for _ in range(2)]
    assert [row.log_start_offset for answer in answers for row in answer.values()] == [1]


def test_a_quiet_session_wakes_when_one_of_its_partitions_has_more(reader: Reader) -> None:
    reader.fetch(dict.fromkeys(range(PARTITIONS), 0))
    assert told(reader.fetch(max_wait_ms=50, min_bytes=1)) == {}
    late = threading.Timer(0.2, lambda: reader.write(3))
    late.start()
    assert with_records(reader.fetch(max_wait_ms=20_000, min_bytes=1)) == [3]
    late.join()


def test_a_poll_waits_for_min_bytes_over_several_partitions(reader: Reader) -> None:
    reader.fetch(dict.fromkeys(range(PARTITIONS), 0))
    reader.socket.send(reader.request({}, min_bytes=3000, max_wait_ms=20_000), reader.version)
    for index in (0, 1, 1, 2):
        reader.write(index, [b"x" * 1000])
    answer = reader.socket.receive(FetchResponse)
    assert sum(len(records_of(partition)) for partition in told(answer).values()) >= 3000


def test_forgotten_partitions_are_told_no_more_and_an_empty_session_is_closed(reader: Reader) -> None:
    reader.fetch({0: 0, 1: 0})
    reader.write(0)
    reader.write(1)
    assert with_records(reader.fetch(forget=[0])) == [1]
    last = reader.fetch(forget=[1])
    assert (last.session_id, told(last)) == (0, {})


def test_partitions_are_added_on_the_way(reader: Reader) -> None:
    reader.fetch({0: 0})
    reader.write(1)
    assert with_records(reader.fetch({1: 0})) == [1]
    assert sorted(told(reader.fetch({2: 0}))) == [1, 2]


def test_everybody_has_a_turn_where_an_answer_has_no_room_for_all(reader: Reader) -> None:
    for index in range(PARTITIONS):
        reader.write(index, [b"x" * 5000])
    reader.fetch(dict.fromkeys(range(PARTITIONS), 0), max_bytes=1)
    turns = [with_records(reader.fetch(max_bytes=1)) for _ in range(PARTITIONS)]
    assert sorted(turns) == [[0], [1], [2], [3]]


def test_a_wrong_epoch_an_unknown_session_and_the_other_naming_are_refused(reader: Reader) -> None:
    reader.fetch({0: 0})
    wrong = reader.request({})
    wrong.session_epoch = 7
    answer = reader.socket.ask(wrong, reader.version, FetchResponse)
    assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    unknown = reader.request({})
    unknown.session_id ^= 1
    assert reader.socket.ask(unknown, reader.version, FetchResponse).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    other = reader.socket.ask(reader.request({}), 30 - reader.version, FetchResponse)
    assert other.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert reader.fetch().error_code == ErrorCode.NONE, "the session itself is unharmed"


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_closes_the_session_it_names(reader: Reader, epoch: int) -> None:
    old = reader.fetch({0: 0, 1: 0}).session_id
    reader.epoch = epoch
    answer = reader.fetch({0: 0})
    assert sorted(told(answer)) == [0]
    assert (answer.session_id == 0) == (epoch == -1)
    reader.session_id, reader.epoch = old, 1
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_goes_on_over_another_connection(reader: Reader) -> None:
    reader.fetch({0: 0})
    reader.socket.close()
    reader.socket = RawKafka(reader.broker.kafka)
    reader.write(0)
    assert with_records(reader.fetch()) == [0]


def test_a_later_request_of_the_session_makes_one_that_waits_void(reader: Reader) -> None:
    reader.fetch({0: 0})
    other = RawKafka(reader.broker.kafka)
    reader.socket.send(reader.request({}, min_bytes=1, max_wait_ms=60_000), reader.version)
    late = reader.request({})
    late.session_epoch = 2

    def taken() -> bool:
        """Once the first one waits, the session expects epoch 2."""
        return other.ask(late, reader.version, FetchResponse).error_code == ErrorCode.NONE

    eventually(taken, "the later request is answered")
    void = reader.socket.receive(FetchResponse)
    assert void.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_topic_that_is_deleted_and_made_again_is_told(reader: Reader) -> None:
    reader.fetch({0: 0})
    reader.write(0)
    reader.fetch({0: 1})
    reader.delete_topic()
    gone = reader.fetch(max_wait_ms=20_000, min_bytes=1)
    assert [row.error_code for row in told(gone).values()] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    reader._make()
    again = told(reader.fetch({0: 0}))[0]
    if reader.version >= 13:
        assert again.error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    else:
        assert (again.error_code, again.high_watermark) == (ErrorCode.NONE, 0)


def test_a_partition_that_is_not_there_yet_is_found_once_it_is(broker: Broker, topic: str) -> None:
    early = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    with RawKafka(broker.kafka) as client:
        asked = FetchRequest(session_epoch=0, topics=[FetchTopic(topic=topic, partitions=[early])])
        first = client.ask(asked, 12, FetchResponse)
        assert told(first)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        reader = Reader(broker, topic)
        reader.write(0)
        later = client.ask(FetchRequest(session_id=first.session_id, session_epoch=1), 12, FetchResponse)
        assert with_records(later) == [0]


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "read", "move", "delete", "forget", "add"]), st.integers(0, PARTITIONS - 1)),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_what_a_reader_was_told_is_always_the_whole_truth(broker: Broker, steps: list[Step]) -> None:
    reader = Reader(broker, f"truth-{uuid.uuid4().hex[:12]}")
    topics = broker.node.broker.topics
    known: dict[int, tuple[int, int]] = {}
    positions = dict.fromkeys(range(PARTITIONS), 0)

    def read(answer: FetchResponse) -> None:
        for index, row in told(answer).items():
            assert row.error_code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
            known.pop(index, None)
            if row.error_code == ErrorCode.NONE:
                known[index] = (row.high_watermark, row.log_start_offset)
        for index, position in positions.items():
            partition = topics.partition(reader.topic, index)
            if partition.log.log_start <= position < partition.high_watermark:
                assert index in with_records(answer)
            elif position >= partition.log.log_start and index in told(answer):
                assert not records_of(told(answer)[index])

    read(reader.fetch(positions))
    for what, index in [*steps, ("read", 0)]:
        if what == "write":
            reader.write(index)
        elif what == "delete":
            reader.forget_records(index)
        elif what == "forget" and index in positions and len(positions) > 1:
            del positions[index]
            known.pop(index, None)
            read(reader.fetch(forget=[index]))
        elif what in ("move", "add") and (what == "add" or index in positions):
            positions[index] = topics.partition(reader.topic, index).high_watermark
            read(reader.fetch({index: positions[index]}))
        else:
            read(reader.fetch())
        for told_index, (high_watermark, _) in known.items():
            if what == "read":
                assert high_watermark == topics.partition(reader.topic, told_index).high_watermark
    reader.socket.close()


# ── the cache, without a broker ─────────────────────────────────────────────────────────────────


def topic_of(size: int) -> list[FetchTopic]:
    return [FetchTopic(topic="t", partitions=[FetchPartition(partition=index) for index in range(size)])]


def filled(sessions: FetchSessions, size: int, now_ms: int) -> int:
    session = sessions.open(size, by_id=False, now_ms=now_ms)
    if session is None:
        return 0
    sessions.begin(session, topic_of(size), [None] * size, [Got(Offset(0), Offset(0))] * size)
    return session.id


def test_a_full_cache_makes_no_session_while_all_are_young_or_in_use() -> None:
    sessions = FetchSessions(max_sessions=2)
    first = filled(sessions, 5, 0)
    second = filled(sessions, 5, 0)
    assert first
    assert second
    assert filled(sessions, 50, 60_000) == 0


def test_a_session_not_used_for_two_minutes_makes_room_for_any() -> None:
    sessions = FetchSessions(max_sessions=2)
    first, second = filled(sessions, 5, 0), filled(sessions, 5, 0)
    used = sessions.resume(first, 1, by_id=False)
    assert not isinstance(used, ErrorCode)
    sessions.ask(used, [], [], 100_000)
    assert filled(sessions, 1, 130_000)
    assert sessions.resume(second, 1, by_id=False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not isinstance(sessions.resume(first, 2, by_id=False), ErrorCode)


def test_a_larger_session_pushes_out_the_smallest_that_had_its_time() -> None:
    sessions = FetchSessions(max_sessions=2)
    large, small = filled(sessions, 9, 0), filled(sessions, 3, 0)
    for session_id in (large, small):
        session = sessions.resume(session_id, 1, by_id=False)
        assert not isinstance(session, ErrorCode)
        sessions.ask(session, [], [], 120_000)
    assert filled(sessions, 3, 130_000) == 0
    assert filled(sessions, 4, 130_000)
    assert sessions.resume(small, 2, by_id=False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_all_sessions_together_remember_a_bounded_number_of_partitions() -> None:
    sessions = FetchSessions(max_partitions=10)
    first = filled(sessions, 8, 0)
    assert filled(sessions, 3, 0) == 0
    sessions.close(first)
    assert filled(sessions, 3, 0)
    assert len(sessions) == 1


def test_epochs_count_on_from_1_after_the_largest() -> None:
    sessions = FetchSessions()
    session = sessions.resume(filled(sessions, 1, 0), 1, by_id=False)
    assert not isinstance(session, ErrorCode)
    session.epoch = 2**31 - 1
    session.next_round(0)
    assert session.epoch == 1
