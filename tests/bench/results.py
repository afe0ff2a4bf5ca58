"""Results as they come out of Kafka, and whether they are right: every key once, nothing else, every number and
byte."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.bench.load import PARTITIONS, Expected
from tests.bench.processes import Mark, Measured
from tests.waiting import wait_until

SHOWN = 5  # of the problems found


class Numbers(msgspec.Struct):
    key: str
    n: int
    sum: int
    max: int


class Rows(msgspec.Struct):
    key: str
    n: int
    rows: list[msgspec.Raw]


def reader(bootstrap: str, topic: str) -> Consumer:
    """A consumer of all committed results of the topic, from its beginning."""
    return _reader(bootstrap, topic)


def _reader(bootstrap: str, topic: str, **more: object) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"watch-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 5,
            **more,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    return consumer


def await_results(consumer: Consumer, many: int, process: Measured, timeout: float) -> tuple[Mark, list[bytes]]:
    """Read until so many results are there; the moment of the last one, and all of them. Raises RuntimeError when the
    system ends before, or when they do not come."""
    values: list[bytes] = []
    deadline = time.monotonic() + timeout
    while len(values) < many:
        message = consumer.poll(0.05)
        for fetched_message in [] if message is None else [message, *consumer.consume(1000, 0)]:
            if fetched_message.error() is None:
                values.append(fetched_message.value())
        if message is None:
            process.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(values)} of {many} results after {timeout:g} s:\n{process.tail()}")
    return process.mark(), values


def written(consumer: Consumer, topic: str) -> int:
    """How many records the topic has."""

    def ends() -> list[int]:
        with suppress(KafkaException):  # a new topic's leader may still be on its way
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
                for number in range(PARTITIONS)
            ]
        return []

    return sum(wait_until(ends, 20, f"the ends of {topic}"))


def committed(bootstrap: str, topic: str) -> int:
    """How many committed records the topic has: its offsets also count the markers of transactions."""
    consumer = _reader(bootstrap, topic, **{"enable.partition.eof": True})
    count, ends, deadline = 0, set[int](), time.monotonic() + 60
    while len(ends) < PARTITIONS:
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.add(message.partition())
        if time.monotonic() > deadline:
            raise TimeoutError(f"the end of {topic} was not reached in 60 s")
    consumer.close()
    return count


def judge(values: Sequence[bytes], expected: Mapping[str, Expected], rows: bool) -> list[str]:
    """What is wrong, a line each; empty: all is right."""
    shape: Callable[[bytes], Any] = msgspec.json.Decoder(Rows if rows else Numbers).decode
    problems: list[str] = []
    seen: set[str] = set()
    for value in values:
        result = shape(value)
        if result.key in seen:
            problems.append(f"{result.key} came twice")
        elif result.key not in expected:
            problems.append(f"{result.key} is nobody's key")
        elif difference := _difference(result, expected[result.key]):
            problems.append(f"{result.key}: {difference}")
        seen.add(result.key)
    problems += [f"{key} is missing" for key in expected.keys() - seen]
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    return problems[:SHOWN] + more


def _difference(result: Numbers | Rows, wanted: Expected) -> str:
    if result.n != wanted.number:
        return f"{result.n} records, not {wanted.number}"
    if isinstance(result, Rows):
        digest = blake2b(b"".join(map(bytes, result.rows)), digest_size=16).digest()
        return (
            ""
            if digest == wanted.payloads and len(result.rows) == wanted.number
            else "other records than those that were sent"
        )
    if (result.sum, result.max) != (wanted.total, wanted.most):
        return f"sum {result.sum} and max {result.max}, not {wanted.total} and {wanted.most}"
    return ""
