"""Latency: a thousand records a second, one result each, from the planned moment of sending to the result in hand.

Open loop: the schedule does not wait for anybody, the planned moment (microseconds) is the record's amount and so the
result's sum. The first seconds are dropped.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import msgspec
from confluent_kafka import Consumer, Producer

from tests.bench.load import PARTITIONS, SIZE, create, delete
from tests.bench.processes import others_seconds
from tests.bench.results import reader
from tests.bench.systems import Running, Work, running
from tests.waiting import wait_until

RATE = 1000
WARM_UP = 5.0
LATE = 20.0  # seconds that results may take after the last record was sent
KEYS = 10_000
DISTINCT = 0.5  # of the moments: at high rates two records may have one microsecond


class Result(msgspec.Struct):
    n: int
    sum: int


class Latency(NamedTuple):
    """Milliseconds, and the share of the machine that others used meanwhile."""

    p50: float
    p99: float
    p999: float
    worst: float
    others: float
    problems: list[str]


def once(system: str, bootstrap: str, seconds: float, warm_up: float = WARM_UP) -> Latency:
    """Send for `warm_up` + `seconds`. Raises RuntimeError when the system ends by itself."""
    topic = f"latency-{uuid.uuid4().hex[:8]}"
    create(bootstrap, topic)
    try:
        with running(system, Work(bootstrap, topic, count=1, low_latency=True)) as run:
            _await_start(run)
            consumer = reader(bootstrap, run.out)
            many, dropped = round(RATE * (warm_up + seconds)), round(RATE * warm_up)
            with closing(consumer):
                return measured(run, consumer, partial(send, bootstrap, topic, many, RATE), many, dropped, RATE)
    finally:
        delete(bootstrap, topic)


def measured(
    run: Running, consumer: Consumer, sending: Callable[[], None], many: int, dropped: int, rate: float
) -> Latency:
    """Of all but the first of `many` records, which `sending` sends."""
    sender = threading.Thread(target=sending, daemon=True)
    decode = msgspec.json.Decoder(Result).decode
    taken: list[tuple[int, float]] = []
    wrong = 0
    sender.start()
    began, used = time.monotonic(), others_seconds()
    deadline = time.monotonic() + many / rate + LATE
    while len(taken) < many and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        now = time.time() * 1e6
        for fetched_message in [] if message is None else [message, *consumer.consume(500, 0)]:
            if fetched_message.error() is None:
                result = decode(fetched_message.value())
                wrong += result.n != 1
                taken.append((result.sum, (now - result.sum) / 1e3))
        if message is None:
            run.process.check()
    others = (others_seconds() - used) / (time.monotonic() - began) / (os.cpu_count() or 1)
    sender.join()
    problems = [f"{wrong} results of more than one record"] if wrong else []
    if len(taken) != many or len({sent for sent, _ in taken}) < many * DISTINCT:
        problems.append(f"{len(taken)} results of {many} records")
    return _percentiles([late for _, late in sorted(taken)[dropped:]], max(0.0, others), problems)


def _await_start(run: Running) -> None:
    """Records sent before the system reads would only wait: first every partition is assigned (the loop) or claimed."""

    def begun() -> bool:
        run.process.check()
        return run.process.claims >= PARTITIONS

    wait_until(begun, 60, "the system's start")


def send(bootstrap: str, topic: str, many: int, rate: float) -> None:
    """So many records, `rate` a second."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "partitioner": "murmur2_random"})
    begin = time.time() + 0.1
    for number in range(many):
        due = begin + number / rate
        while (early := due - time.time()) > 0:
            time.sleep(early)
        key = f"k{number * 7919 % KEYS}"
        head = f'{{"id":"{number:010d}","key":"{key}","amount":{round(due * 1e6)},"pad":"'
        producer.produce(topic, head + "x" * (SIZE - len(head) - 2) + '"}', key=key)
        producer.poll(0)
    producer.flush(10)


def _percentiles(late: Sequence[float], others: float, problems: list[str]) -> Latency:
    ordered = sorted(late)
    if not ordered:
        return Latency(*[float("nan")] * 4, others, [*problems, "no results at all"])
    p50, p99, p999 = (ordered[len(ordered) * part // 1000] for part in (500, 990, 999))
    return Latency(p50, p99, p999, ordered[-1], others, problems)
