"""Partitions of keys, against values that Java's own tests and clients give."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from sluicegate.connectors.kafka import producer as module
from sluicegate.connectors.kafka.producer import KafkaProducer, open_producer
from sluicegate.streams.errors import SystemNotReady

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def murmur2(data: bytes) -> int:
    """org.apache.kafka.common.utils.Utils.murmur2, unsigned, written again."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


@pytest.fixture(scope="module")
def producer() -> KafkaProducer:
    return open_producer({"bootstrap.servers": "127.0.0.1:1"})


@pytest.mark.parametrize("key", JAVA)
@pytest.mark.parametrize("count", [1, 4, 7, 1000])
def test_keys_go_where_java_sends_them(producer: KafkaProducer, key: bytes, count: int) -> None:
    assert producer.partition_of(key, count) == (JAVA[key] & 0x7FFFFFFF) % count


def test_keys_of_every_length_go_where_the_written_again_hash_says(producer: KafkaProducer) -> None:
    random_ = random.Random(7)
    for length in range(64):
        key = random_.randbytes(length)
        assert producer.partition_of(key, 1 << 20) == (murmur2(key) & 0x7FFFFFFF) % (1 << 20)


def test_the_written_again_hash_is_javas() -> None:
    assert {key: murmur2(key) for key in JAVA} == {key: value & 0xFFFFFFFF for key, value in JAVA.items()}


def test_while_no_broker_answers_the_last_known_count_holds_and_is_not_asked_for_at_each_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    waits: list[float] = []
    now = [0.0]

    def described(_admin: object, names: list[str], seconds: float) -> dict[str, Any]:
        asked.append(names[0])
        waits.append(seconds)
        if len(asked) > 1:
            raise SystemNotReady("no broker")
        return {names[0]: SimpleNamespace(partitions=4)}

    monkeypatch.setattr(module, "described", described)
    producer = KafkaProducer({"bootstrap.servers": "127.0.0.1:1"}, lambda: now[0])
    assert producer.partitions("t") == 4
    now[0] = module.CACHED + 1
    assert [producer.partitions("t") for _ in range(3)] == [4, 4, 4]
    assert asked == ["t", "t"]
    assert waits == [5.0, 1.0]  # the loop waits less for what it knows
    with pytest.raises(SystemNotReady):
        producer.partitions("never known")
    producer.close()
