"""Delivery reports in any order: the real engine over a log in memory, whose producer fails on command, before the same
judge."""

import json
from collections.abc import Callable

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.contracts.values import OutboxRow
from tests.chaos.record import Seen
from tests.chaos.verdict import Verdict, judge
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, LogRecord, ManualClock, memory

AGENT = Agent(
    "sums",
    ("in",),
    Aggregation(count=1, since_first=30.0, compute=(Reducer("total", "sum", "v"),)),
    Destination("out"),
    "dead",
)
KEYS = [b"red", b"green", b"blue", b"grey"]  # in both partitions of `out`
Fate = Callable[[OutboxRow], str]


@pytest.fixture
def log() -> Log:
    log = Log()
    log.create("in"), log.create("out", 2), log.create("dead")
    return log


def feed(log: Log) -> None:
    for number in range(12):
        log.append("in", 0, KEYS[number % 4], json.dumps({"v": 1000 + number}).encode())


def worker(log: Log, store: MemoryStore, clock: ManualClock, fate: Fate = lambda row: "delivered") -> Driver:
    driver = Driver(AGENT, store, log, clock)
    driver.producer.fate = fate
    return driver.give(0)


def some_time(driver: Driver) -> None:
    for _ in range(12):
        driver.later(1.0).turns(3)


def verdict(log: Log) -> Verdict:
    return judge(seen(log, "in"), seen(log, "out"), seen(log, "dead"))


def seen(log: Log, topic: str) -> list[Seen]:
    return [_seen(message) for records in log.topics[topic] for message in records]


def _seen(message: LogRecord) -> Seen:
    headers = {name: (value or b"").decode() for name, value in message.h or ()}
    return Seen(message.t, message.p, message.o, message.k, message.v, headers)


def late_partition(log: Log) -> Verdict:
    """Rows of output partition 0 stay under way while later ones of partition 1 are reported and recorded; then the
    worker dies."""
    clock = ManualClock()
    store = memory(clock)
    feed(log)
    some_time(worker(log, store, clock, lambda row: "held" if row.partition == 0 else "delivered"))
    assert log.topics["out"][1], "nothing was delivered: this proves nothing"
    some_time(worker(log, store, clock))
    return verdict(log)


def test_a_row_is_not_forgotten_because_a_later_one_was_reported(log: Log) -> None:
    assert late_partition(log).clean


def test_the_judge_finds_what_is_lost_when_reports_count_up_to_the_highest(log: Log) -> None:
    with without("exact-acks"):
        assert late_partition(log).lost


class FirstFails:
    """The first row of partition 0 fails once; the producer asks twice for each attempt, as it takes it and as it
    reports it."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.asked = 0

    def __call__(self, row: OutboxRow) -> str:
        if row.partition == 0 and self.number in (None, row.number):
            self.number, self.asked = row.number, self.asked + 1
            if self.asked <= 2:
                return "failed"
        return "delivered"


def failing_once(log: Log) -> Verdict:
    """One row at a time, so that newer ones wait behind the one that fails."""
    clock, fate = ManualClock(), FirstFails()
    feed(log)
    driver = worker(log, memory(clock), clock, fate)
    driver.producer.room = 1
    some_time(driver)
    assert fate.asked > 2, "nothing failed: this proves nothing"
    return verdict(log)


def test_what_failed_is_sent_before_anything_newer(log: Log) -> None:
    assert failing_once(log).clean


def test_the_judge_finds_the_order_broken_when_what_failed_goes_last(log: Log) -> None:
    with without("relay-order"):
        assert failing_once(log).order


def test_rows_that_arrived_unreported_beside_a_failure_are_sent_again_as_exact_copies(log: Log) -> None:
    """Row n and all behind it in its partition fail, n+1 in the other one arrived: all are sent again, and receivers
    drop copies."""
    clock = ManualClock()
    feed(log)
    driver = Driver(AGENT, memory(clock), log, clock).give(0)
    driver.producer.fate = lambda row: (
        "delivered" if driver.producer.replaced else "ack-lost" if row.partition else "failed"
    )
    some_time(driver)
    judgement = verdict(log)
    assert judgement.clean, judgement
    assert judgement.copies, "nothing was sent twice: this proves nothing"
