"""All partitions of a node: opened, recovered, checkpointed and deleted together.

    <data>/checkpoint                         what is safe in the segments, and where the journal goes on
    <data>/journal/00000000000000000001.journal, spare-1
    <data>/topics/<topic>-<partition>/        00000000000000000000.log .index .timeindex
    <data>/topics/….deleted                   about to be removed        ….unknown   of no known topic, set aside

After a clean stop nothing but the checkpoint is read: a partition's directory is looked at when it is first used.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from trunkline.log.checkpoint import (
    Capture,
    PartitionKey,
    PartitionState,
    decode_state,
    read_checkpoint,
    write_checkpoint,
)
from trunkline.log.disk import Disk, storage_error
from trunkline.log.files import Directory, FileCache
from trunkline.log.hot_tail import HotTail
from trunkline.log.index import IndexCache
from trunkline.log.journal import DIRECTORY as JOURNAL
from trunkline.log.journal import Journal, JournalPosition, file_name
from trunkline.log.journal_format import read_entries
from trunkline.log.journal_reader import JournalReader
from trunkline.log.memory_disk import MemoryDisk
from trunkline.log.names import LOG
from trunkline.log.partition_log import PartitionLog, Shared
from trunkline.log.recovery import TailRecovery
from trunkline.log.room import Room
from trunkline.model.errors import CorruptLog, StorageFull, UnknownPartition, UnknownTopicId
from trunkline.model.ids import TopicId
from trunkline.model.topic import Durability, Topic

_log = logging.getLogger(__name__)
TOPICS: Final = "topics"
DELETED: Final = ".deleted"
UNKNOWN: Final = ".unknown"


def _salt() -> int:
    return secrets.randbits(32)


@dataclass(frozen=True, slots=True)
class LogSettings:
    journal_file_bytes: int = 64 * 1024 * 1024
    hot_tail_bytes: int = 64 * 1024 * 1024
    open_files: int = 512
    cached_indexes: int = 64
    reserve_bytes: int = 0
    """Kept free on the disk, so that room can still be made when clients have filled the rest."""
    accept_journal_cut: bool = False
    """Start although the journal is damaged below what was acknowledged, and lose what follows the damage."""
    salt: Callable[[], int] = _salt
    monotonic: Callable[[], float] = time.perf_counter


@dataclass(slots=True)
class CheckpointPlan:
    """A checkpoint between its first and its last step. `write` is for any thread."""

    disk: Disk
    journal: Journal
    clean: bool
    position: JournalPosition
    captures: list[Capture]
    encoded: dict[PartitionKey, bytes]
    deleted: list[str]
    states: dict[PartitionKey, PartitionState] = field(default_factory=dict)

    def write(self) -> None:
        """Sync the segments, replace the checkpoint, then remove and recycle what it made unnecessary. Blocks.

        StorageFull: abandon the plan, try again later. StorageFailed: a sync failed, the node must stop.
        """
        try:
            for capture in self.captures:
                state = capture.write()
                self.states[capture.key] = state
                self.encoded[capture.key] = state.encode(capture.key)
            for path in self.deleted:  # no recovery needs them, and they may be the room for the rest
                self.disk.remove_tree(path)
            if any(capture.new_files for capture in self.captures):
                self.disk.sync_directory(TOPICS)
            write_checkpoint(self.disk, self.clean, self.position, self.encoded.values())
            for capture in self.captures:
                capture.remove_doomed()
            self.journal.recycle_below(self.position.number)
        except OSError as error:
            raise storage_error("Cannot write a checkpoint", error) from error


class LogStore:
    def __init__(self, disk: Disk | None, settings: LogSettings, known: Mapping[TopicId, Topic]) -> None:
        """Use `open` or `in_memory`."""
        self._disk = disk
        self._settings = settings
        self._topics = dict(known)
        self._logs: dict[PartitionKey, PartitionLog] = {}
        self._encoded: dict[PartitionKey, bytes] = {}
        self._deleted: list[str] = []
        self.hot_tail = HotTail(settings.hot_tail_bytes)
        self.files = FileCache(settings.open_files)
        indexes = IndexCache(settings.cached_indexes)
        self._memory_disk = MemoryDisk()
        self._durable = Shared(self.hot_tail, indexes, None, set(), volatile=False)
        self._volatile = Shared(self.hot_tail, indexes, None, set(), volatile=True)
        if disk is not None and settings.reserve_bytes:
            self._durable.room = Room(disk, settings.reserve_bytes)

    # ── opening and closing ─────────────────────────────────────────────────────────────────────

    @classmethod
    def open(
        cls,
        disk: Disk,
        settings: LogSettings,
        known: Mapping[TopicId, Topic],
        now_ms: Callable[[], int],
        deleted: Iterable[tuple[str, TopicId, int]] = (),
    ) -> LogStore:
        """Recover what is on the disk. CorruptLog, StorageFull, StorageFailed.

        `deleted`: name, id and partitions of topics whose deletion was decided, and perhaps not carried out.
        """
        store = cls(disk, settings, known)
        try:
            for name, topic_id, partitions in deleted:
                store.finish_deletion(name, topic_id, partitions)
            store._open(disk, now_ms())
        except OSError as error:
            raise storage_error("Cannot open the data directory", error) from error
        return store

    @classmethod
    def in_memory(cls, settings: LogSettings, known: Mapping[TopicId, Topic]) -> LogStore:
        """Every topic lives in memory; there is no journal and nothing to checkpoint."""
        return cls(None, settings, known)

    @property
    def journal(self) -> Journal | None:
        return self._durable.journal

    def close(self) -> None:
        """Flush, and leave a checkpoint that makes the next start quick. Blocks. StorageFull, StorageFailed."""
        journal = self.journal
        if journal is None:
            return
        journal.flush()
        plan = self.begin_checkpoint(clean=not journal.pending)
        if plan is not None:
            plan.write()
            self.finish_checkpoint(plan)
        for log in self._logs.values():
            log.close()
        journal.close()

    def _open(self, disk: Disk, now_ms: int) -> None:
        disk.make_dirs(TOPICS)
        checkpoint = read_checkpoint(disk)
        reader = JournalReader(
            disk, checkpoint.journal if checkpoint else None, accept_cut=self._settings.accept_journal_cut
        )
        if checkpoint is not None:
            self._encoded = {key: data for key, data in checkpoint.partitions.items() if self._is_durable(key)}
        directories = self._sort_directories(disk)
        clean = checkpoint is not None and checkpoint.clean and reader.last_number == checkpoint.journal.number
        self._check_strangers(disk, directories, clean)
        if checkpoint is not None and checkpoint.journal.number not in (0, *reader.numbers):
            # After a clean stop, too: what came after that stop was in the files that are gone.
            raise CorruptLog(
                f"{JOURNAL}/{file_name(checkpoint.journal.number)}, which the checkpoint names, is missing. "
                "Restore the data directory from a backup."
            )
        if not clean:
            self._recover(reader, directories, now_ms)
        journal = Journal(
            disk,
            file_bytes=self._settings.journal_file_bytes,
            start=JournalPosition(reader.last_number, 0, reader.position.sequence),
            salt=self._settings.salt,
            monotonic=self._settings.monotonic,
            spares=reader.spares,
            reserve_bytes=self._settings.reserve_bytes,
        )
        journal.start_file()
        self._durable.journal = journal
        if not clean:
            plan = self.begin_checkpoint()
            assert plan is not None
            try:
                plan.write()
            except StorageFull:  # then the next start recovers once more; until there is room, reads are served
                self.abandon_checkpoint(plan)
            else:
                self.finish_checkpoint(plan)

    def _recover(self, reader: JournalReader, directories: set[str], now_ms: int) -> None:
        tails: dict[PartitionKey, TailRecovery] = {}
        for group in reader.groups():
            for entry in read_entries(group):
                key = (entry.topic_id, entry.partition)
                if not self._is_durable(key):
                    continue  # its topic was deleted
                if key not in tails:
                    tails[key] = self._tail(key, now_ms)
                tails[key].apply(entry)
        for topic in self._topics.values():
            for index in range(0 if topic.memory else topic.partitions):
                key = (topic.id, index)
                if key not in tails and (key in self._encoded or f"{topic.name}-{index}" in directories):
                    self._tail(key, now_ms).finish()
        for tail in tails.values():
            tail.finish()

    def _check_strangers(self, disk: Disk, directories: set[str], clean: bool) -> None:
        """A partition that the checkpoint does not know would start anew, over whatever stands in its directory.

        Only one that was first written after the checkpoint may have files: then it starts at offset 0, and the stop
        was not clean. Otherwise the metadata gives the name to another topic id than before. CorruptLog.
        """
        for topic in self._topics.values():
            for index in range(0 if topic.memory else topic.partitions):
                name = f"{topic.name}-{index}"
                if (topic.id, index) in self._encoded or name not in directories:
                    continue
                segments = sorted(file for file in disk.list(f"{TOPICS}/{name}") if file.endswith(LOG))
                if segments and (clean or not segments[0].startswith(f"{0:020d}")):
                    raise CorruptLog(
                        f"{TOPICS}/{name}/{segments[0]} is there from position 0 on, but the checkpoint knows nothing "
                        f"of topic {topic.name} with id {topic.id.hex()}: the metadata or the checkpoint is damaged. "
                        "Restore the data directory from a backup, or move that directory away."
                    )

    def _tail(self, key: PartitionKey, now_ms: int) -> TailRecovery:
        topic = self._topics[key[0]]
        strict = topic.internal and topic.config.durability is Durability.FSYNC
        return TailRecovery(self.partition(*key), now_ms, strict=strict)

    def _sort_directories(self, disk: Disk) -> set[str]:
        """The directories of known partitions. Others are set aside; those of deleted topics will be removed."""
        known = {
            f"{topic.name}-{index}"
            for topic in self._topics.values()
            if not topic.memory
            for index in range(topic.partitions)
        }
        found = set(disk.list(TOPICS))
        for name in sorted(found - known):
            if name.endswith(DELETED):
                if f"{TOPICS}/{name}" not in self._deleted:
                    self._deleted.append(f"{TOPICS}/{name}")
            elif not name.endswith(UNKNOWN):
                aside = next(new for n in range(len(found) + 1) if (new := f"{name}.{n}{UNKNOWN}") not in found)
                disk.rename(f"{TOPICS}/{name}", f"{TOPICS}/{aside}")
                _log.warning("%s/%s belongs to no known topic: it is now %s", TOPICS, name, aside)
        return found & known

    def _is_durable(self, key: PartitionKey) -> bool:
        topic = self._topics.get(key[0])
        return topic is not None and not topic.memory and key[1] < topic.partitions

    # ── partitions ──────────────────────────────────────────────────────────────────────────────

    def partition(self, topic_id: TopicId, index: int) -> PartitionLog:
        """UnknownTopicId, UnknownPartition."""
        log = self._logs.get((topic_id, index))
        if log is not None:
            return log
        topic = self._topics.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"There is no topic with id {topic_id.hex()}.")
        if not 0 <= index < topic.partitions:
            raise UnknownPartition(f"Topic {topic.name} has {topic.partitions} partitions, there is no {index}.")
        return self._make(topic, index)

    def create_partition(self, topic: Topic, index: int) -> PartitionLog:
        """Make the partition known. Costs no disk access before its first record."""
        known = self._topics.get(topic.id)
        if known is None or known.partitions < topic.partitions:
            self._topics[topic.id] = topic
        return self.partition(topic.id, index)

    def update_config(self, topic: Topic) -> None:
        """Configs and partition count as they are from now on."""
        self._topics[topic.id] = topic
        for index in range(topic.partitions):
            log = self._logs.get((topic.id, index))
            if log is not None:
                log.update_config(topic.config)

    def delete_topic(self, topic_id: TopicId) -> None:
        """Forget the topic. Its directories are renamed and that is synced; the next checkpoint removes them.

        UnknownTopicId, StorageFailed. Blocks.
        """
        topic = self._topics.pop(topic_id, None)
        if topic is None:
            raise UnknownTopicId(f"There is no topic with id {topic_id.hex()}.")
        for index in range(topic.partitions):
            self._encoded.pop((topic_id, index), None)
            log = self._logs.pop((topic_id, index), None)
            if log is not None:
                log.delete()
        if topic.memory or self._disk is None:
            for index in range(topic.partitions):
                self._memory_disk.remove_tree(f"{TOPICS}/{topic.name}-{index}")
            return
        self.finish_deletion(topic.name, topic.id, topic.partitions)

    def finish_deletion(self, name: str, topic_id: TopicId, partitions: int) -> None:
        """Rename what is left of a topic that nobody knows any more. StorageFailed. Blocks."""
        if self._disk is None:
            return
        try:
            self._rename_deleted(self._disk, name, topic_id, partitions)
        except OSError as error:
            raise storage_error(f"Cannot delete topic {name}", error) from error

    def _rename_deleted(self, disk: Disk, name: str, topic_id: TopicId, partitions: int) -> None:
        renamed = False
        for index in range(partitions):
            path = f"{TOPICS}/{name}-{index}"
            try:
                disk.rename(path, f"{path}.{topic_id.hex()}{DELETED}")
            except FileNotFoundError:
                continue  # nothing was ever written to it
            self._deleted.append(f"{path}.{topic_id.hex()}{DELETED}")
            renamed = True
        if not renamed:
            return
        # Without this a power loss could bring the directory back, for another topic of that name to find.
        disk.sync_directory(TOPICS)

    def _make(self, topic: Topic, index: int) -> PartitionLog:
        key = (topic.id, index)
        volatile = topic.memory or self._disk is None
        disk = self._memory_disk if volatile or self._disk is None else self._disk
        encoded = self._encoded.get(key)
        log = PartitionLog(
            topic.id,
            index,
            topic.config,
            Directory(disk, f"{TOPICS}/{topic.name}-{index}", self.files),
            self._volatile if volatile else self._durable,
            decode_state(encoded) if encoded is not None else PartitionState(),
            vital=topic.internal,
        )
        self._logs[key] = log
        return log

    # ── checkpoints ─────────────────────────────────────────────────────────────────────────────

    def begin_checkpoint(self, clean: bool = False) -> CheckpointPlan | None:
        """The first step, on the owner's thread; None where nothing is durable. Then `write`, then one of the below."""
        journal = self.journal
        if journal is None or self._disk is None:
            return None
        # Read before the logs are captured: what is journaled after it, and captured too, is skipped by a recovery.
        position = journal.position
        captures = [log.capture() for log in self._durable.dirty]
        self._durable.dirty.clear()
        deleted, self._deleted = self._deleted, []
        return CheckpointPlan(self._disk, journal, clean, position, captures, self._encoded.copy(), deleted)

    def finish_checkpoint(self, plan: CheckpointPlan) -> None:
        """The last step, on the owner's thread, after `write` returned."""
        for capture in plan.captures:
            log = self._logs.get(capture.key)
            if log is not None and log.directory is capture.directory:
                self._encoded[capture.key] = plan.encoded[capture.key]
                log.captured(capture, plan.states[capture.key])

    def abandon_checkpoint(self, plan: CheckpointPlan) -> None:
        """Instead of the last step, where `write` raised StorageFull: the next checkpoint does its work."""
        self._deleted = [*plan.deleted, *self._deleted]
        for capture in plan.captures:
            log = self._logs.get(capture.key)
            if log is not None and log.directory is capture.directory:
                log.not_captured(capture)

    # ── figures ─────────────────────────────────────────────────────────────────────────────────

    def sizes(self) -> Iterator[tuple[str, int, int, int, int]]:
        """Topic, partition, log start, end and bytes of every partition that has ever been written to or used."""
        for key in {**self._encoded, **self._logs}:
            topic = self._topics.get(key[0])
            if topic is None:
                continue
            log = self._logs.get(key)
            if log is not None:
                yield topic.name, key[1], log.log_start, log.end, log.size_bytes
            else:
                state = decode_state(self._encoded[key])
                yield topic.name, key[1], state.log_start, state.end, state.size_bytes

    def check_room(self) -> None:
        """Whether a write would be taken now. StorageFull, StorageFailed."""
        if self.journal is not None:
            self.journal.check_writable()
        if self._durable.room is not None:
            self._durable.room.check()

    @property
    def wants_room(self) -> bool:
        """Writes are refused for want of room, or files of deleted topics stand about: a checkpoint may free some."""
        room, journal = self._durable.room, self.journal
        return bool(self._deleted) or bool((journal and journal.full) or (room and room.trouble))

    @property
    def dirty_partitions(self) -> int:
        """How many partitions were written to since the last checkpoint."""
        return len(self._durable.dirty)
