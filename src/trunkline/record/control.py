"""Control batches: the one record with which the broker ends a transaction in a partition. Consumers skip it.

batch     attributes transactional and control; the producer's id and epoch; no sequence
key       version i16 = 0 | type i16: 0 abort, 1 commit
value     version i16 = 0 | coordinator epoch i32
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from trunkline.record.compression import Buffer
from trunkline.record.records import Record, decode_records, encode_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1


class Marker(NamedTuple):
    """How a transaction ended, and under which coordinator."""

    commit: bool
    coordinator_epoch: int = 0


def encode_marker(producer_id: int, producer_epoch: int, marker: Marker, now_ms: int) -> bytearray:
    key = _KEY.pack(0, _COMMIT if marker.commit else _ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return encode_batch(
        [Record(0, now_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_marker(batch: Buffer) -> Marker | None:
    """None for control records of other kinds: they end no transaction."""
    [record] = decode_records(batch)
    if record.key is None or record.value is None or len(record.key) < _KEY.size or len(record.value) < _VALUE.size:
        return None
    kind = _KEY.unpack_from(record.key)[1]
    if kind not in (_ABORT, _COMMIT):
        return None
    return Marker(kind == _COMMIT, _VALUE.unpack_from(record.value)[1])
