"""`on_error: {stop_above}`: a partition with too many dead letters halts after the commit that says so. It loses
nothing, and acknowledges nothing more."""

from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, OnError, Reducer
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.ownership import dead_limit
from tests.unit.engine import scene
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import COMPUTE, DIES, a_log, dead, feed, shown, until_killed

PLACE = Partition("app", "sums", "in", 0)
BAD = b"{nonsense"
HALTED, RUNNING = ("halted", "dead-letters-stopped"), ("running", None)


def sums(stop_above: str = "10% of 1m", compute: Reducer = COMPUTE[0]) -> Agent:
    how = OnError(stop_above=stop_above)
    return Agent("sums", ("in",), Aggregation(count=1, compute=(compute,)), Destination("out"), "dead", on_error=how)


def mixed(log: Log, good: int, bad: int, number: int = 0) -> None:
    feed(log, *[("k", 1)] * good, number=number)
    for _ in range(bad):
        log.append("in", number, b"k", BAD)


def state(driver: Driver, number: int = 0) -> tuple[str, str | None]:
    return shown(driver)[1]["in", number]


def offset(store: MemoryStore) -> int:
    view = store.read(PLACE)
    assert view is not None
    return view.claim.offset


@pytest.mark.parametrize(
    ("stop_above", "good", "bad", "expected"),
    [
        ("10% of 1m", 18, 2, RUNNING),
        ("10% of 1m", 17, 3, HALTED),
        ("10% of 1m", 0, 19, RUNNING),
        ("10% of 1m", 0, 20, HALTED),
        ("3 of 1m", 100, 3, RUNNING),
        ("3 of 1m", 0, 4, HALTED),
        ("", 0, 100, RUNNING),
    ],
)
def test_more_than_the_share_or_the_number_halts(
    stop_above: str, good: int, bad: int, expected: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """A share counts from 20 records on."""
    mixed(log, good, bad)
    driver = Driver(sums(stop_above), store, log, clock).give(0).turns(6)
    assert state(driver) == expected
    assert (len(dead(log)), offset(store)) == (bad, good + bad)


def test_what_is_older_than_the_time_does_not_count(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = Driver(sums("5 of 1m"), store, log, clock).give(0)
    for _ in range(10):
        mixed(log, 0, 5)
        driver.turns(3).later(61.0)
    assert state(driver) == RUNNING
    mixed(log, 0, 3)
    driver.turns(3).later(50.0)
    mixed(log, 0, 3)
    assert state(driver.turns(6)) == HALTED


def test_the_halt_says_where_how_many_why_and_what_to_do(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    mixed(log, 20, 18)
    log.append("in", 0, b"k", b'{"other": 1}')
    driver = Driver(sums(), store, log, clock).give(0).turns(6)
    text = str(driver.worker._claims.others()[0].detail)
    assert "agent sums, in/0, before offset 39: 19 of 39 records (48.7%) became dead letters within 1 min" in text
    assert "stop_above is 10% of 1m; the most frequent cause is undecodable (18): see `sluicegate dead ls FILE" in text
    assert "sums --by cause`, correct the cause, and restart" in text
    assert "halted in/0: dead-letters-stopped" in shown(driver)[0]


def test_nothing_more_is_taken_and_a_restart_goes_on_there(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    mixed(log, 0, 20)
    driver = Driver(sums(), store, log, clock).give(0).turns(6)
    mixed(log, 0, 7)
    driver.turns(6).later(120.0).turns(6)
    assert (state(driver), offset(store), len(dead(log))) == (HALTED, 20, 20)
    again = Driver(sums(), store, log, clock).give(0).turns(6)
    assert (state(again), offset(store), len(dead(log))) == (RUNNING, 27, 27)


def test_the_letters_are_sent_before_it_halts(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The broker is away meanwhile: no record is taken."""
    driver = Driver(sums(), store, log, clock).give(0).turns()
    driver.producer.fate = lambda row: "failed"
    mixed(log, 0, 20)
    driver.turns(3)
    mixed(log, 0, 5)
    driver.turns(6)
    assert (state(driver)[0], offset(store), dead(log)) == ("paused", 20, [])
    assert shown(driver)[0] == ["halting in/0 when its rows are sent: dead-letters-stopped"]
    driver.producer.fate = lambda row: "delivered"
    for _ in range(6):
        driver.turns(2).later(1.0)
    assert (state(driver), offset(store), len(dead(log)), list(store.pending(PLACE, 0, 9))) == (HALTED, 20, 20, [])


def test_other_partitions_go_on(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    mixed(log, 0, 20)
    driver = Driver(sums(), store, log, clock).give(0, 1).turns(6)
    mixed(log, 0, 10, number=1)
    feed(log, *[("k", 1)] * 200, number=1)
    driver.turns(8)
    assert (state(driver), state(driver, 1)) == (HALTED, RUNNING)


def test_a_handler_that_fails_for_good_counts(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handler, allowed = Handler(("tests.unit.engine.handlers:forward",), attempts=1), OnError(stop_above="9 of 1m")
    agent = Agent("sums", ("in",), None, Destination("out"), "dead", handler=handler, on_error=allowed)
    for _ in range(12):
        log.append("in", 0, b"k", b'{"other": 1}')
    driver = Driver(agent, store, log, clock).give(0)
    for _ in range(12):
        driver.turns(3).later(1.0)
    assert state(driver) == HALTED
    assert offset(store) == len(dead(log)) >= 10


def test_no_fetched_record_is_taken_behind_the_limit(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """A partition whose owner died takes the records of a poll in small steps, each with its own commit."""
    times = iter([True])
    scene.deadly["now"] = lambda message: next(times, False)
    mixed(log, 1, 200)
    agent = sums("3 of 1m", DIES)
    assert until_killed(Driver(agent, store, log, clock).give(0))
    clock.now += 10
    driver = Driver(agent, store, log, clock).give(0).turns(6)
    assert (state(driver), offset(store), len(dead(log))) == (HALTED, 100, 99)


def test_a_group_counts_as_its_records(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rule = Aggregation(count=50, since_first=5.0, on_timeout="dead-letter")
    agent = Agent("sums", ("in",), rule, Destination("out"), "dead", on_error=OnError(stop_above="50% of 1m"))
    mixed(log, 30, 0)
    driver = Driver(agent, store, log, clock).give(0).turns(3).later(6.0).turns(6)
    assert (state(driver), len(dead(log))) == (HALTED, 1)


def test_the_clock_of_the_store_may_be_set_back() -> None:
    class Place:
        place, stopping = ("in", 0), None

        def now(self, monotonic: float) -> float:
            return monotonic

    limit = dead_limit.DeadLetterLimit(sums("5 of 1m"))
    owner: Any = Place()
    limit.committed(owner, (), 3, 1_000_000.0)
    limit.committed(owner, (), 4, 1_000.0)
    assert [step.records for step in limit._steps["in", 0]] == [4]
