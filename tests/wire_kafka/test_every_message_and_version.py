"""Every message in every version means the same to us and to an independent codec, and survives our own."""

from __future__ import annotations

from random import Random

import pytest
from tests.wire_kafka import oracle
from tests.wire_kafka.values import MODULES, message_class, random_struct, versions

from trunkline.wire.kafka.codec import decode, encode

EXAMPLES = 6


@pytest.mark.parametrize("module_name", MODULES)
def test_another_codec_reads_what_we_write_and_we_read_what_it_writes(module_name: str) -> None:
    cls = message_class(module_name)
    for version in versions(cls):
        kio_cls = oracle.kio_class(module_name, version)
        choices = oracle.choices(cls, kio_cls)
        for seed in range(EXAMPLES):
            message = random_struct(cls, version, Random(f"{version} {seed}"), choices)
            theirs = oracle.to_kio(message, kio_cls)
            assert oracle.kio_decode(kio_cls, b"".join(encode(message, version))) == theirs
            data = oracle.kio_encode(theirs)
            assert decode(cls, version, memoryview(data)) == (message, len(data))


@pytest.mark.parametrize("module_name", MODULES)
def test_what_is_written_is_read_back_in_every_version(module_name: str) -> None:
    cls = message_class(module_name)
    for version in versions(cls):
        for seed in range(EXAMPLES):
            message = random_struct(cls, version, Random(f"ours {version} {seed}"))
            data = b"".join(encode(message, version))
            assert decode(cls, version, memoryview(data)) == (message, len(data))


@pytest.mark.parametrize("module_name", MODULES)
def test_a_message_of_defaults_is_read_back_in_every_version(module_name: str) -> None:
    cls = message_class(module_name)
    for version in versions(cls):
        data = b"".join(encode(cls(), version))
        assert decode(cls, version, memoryview(data)) == (cls(), len(data))
