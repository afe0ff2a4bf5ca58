"""`throttle`, `rate_limit`, `priority` and `singleton` in the engine: on a log and a store in memory, with the test's
clock."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Destination, Handler, RateLimit, Throttle
from sluicegate.streams.calling.pool import Threads
from sluicegate.streams.flow.singletons import LEASE
from sluicegate.streams.flow.tokens import Tokens
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import Killed, a_log, dead, feed, hooked, until_killed
from tests.waiting import wait_until

HERE = "tests.unit.engine.handlers"


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    handlers.gate.clear()


def an_agent(name: str = "note", concurrency: int = 4, **how: Any) -> Agent:
    handler = Handler((f"{HERE}:{name}",), concurrency=concurrency, **how)
    return Agent("a", ("in",), None, Destination("out"), "dead", handler=handler)


def calls_each_second(drivers: list[Driver], seconds: int, step: float = 0.05) -> list[int]:
    """How many calls begin in each second, of workers that share a clock."""
    counts, before = [], 0
    for _ in range(seconds):
        for _ in range(round(1 / step)):
            for driver in drivers:
                driver.turns(2)
            drivers[0].later(step)
        counts.append(len(handlers.calls) - before)
        before = len(handlers.calls)
    return counts


def test_a_throttle_holds_for_two_workers_together(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    for number in range(2):
        feed(log, *[(f"k{n}", n) for n in range(200)], number=number)
    agent = an_agent(throttle=Throttle(limit=20, per=1.0))
    drivers = [Driver(agent, store, log, clock).give(number) for number in range(2)]
    counts = calls_each_second(drivers, 8)
    assert max(counts) <= 20
    assert min(counts[1:]) >= 18


def test_what_is_throttled_waits_in_its_order_and_nothing_is_lost(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, *[("k", n) for n in range(30)])
    driver = Driver(an_agent(throttle=Throttle(limit=10, per=1.0)), store, log, clock).give(0)
    calls_each_second([driver], 5)
    assert handlers.calls == list(range(30))
    assert dead(log) == []


def test_each_key_of_a_throttle_has_a_limit_of_its_own(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, *[(f"{n % 2}-{n}", n) for n in range(60)])
    throttle = Throttle(limit=10, per=1.0, key="amount % 2")
    driver = Driver(an_agent(throttle=throttle), store, log, clock).give(0)
    [count] = calls_each_second([driver], 1)
    assert 18 <= count <= 20
    assert {amount % 2 for amount in handlers.calls} == {0, 1}


def test_what_is_beyond_a_rate_limit_is_a_dead_letter(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, *[(f"k{n}", n) for n in range(10)])
    driver = Driver(an_agent(rate_limit=RateLimit(limit=4, per=60.0)), store, log, clock).give(0)
    calls_each_second([driver], 1)
    assert sorted(handlers.calls) == [0, 1, 2, 3]
    assert dead(log) == [(str(n), "rate-limited") for n in range(4, 10)]


def test_what_is_beyond_a_rate_limit_is_dropped_where_the_file_says_so(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, *[(f"k{n}", n) for n in range(10)])
    rate = RateLimit(limit=4, per=60.0, over="drop")
    driver = Driver(an_agent(rate_limit=rate), store, log, clock).give(0)
    calls_each_second([driver], 1)
    assert (sorted(handlers.calls), distinct(log, "dead")) == ([0, 1, 2, 3], [])
    driver.later(70.0)
    feed(log, ("k", 11))
    calls_each_second([driver], 1)
    assert handlers.calls[4:] == [11]


def test_a_rate_limit_holds_for_two_workers_together(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    agent = an_agent(rate_limit=RateLimit(limit=7, per=60.0, over="drop"))
    drivers = [Driver(agent, store, log, clock).give(number) for number in range(2)]
    for number in range(2):
        feed(log, *[(f"k{n}", n) for n in range(5)], number=number)
    calls_each_second(drivers, 2)
    assert len(handlers.calls) == 7


def test_the_highest_priority_begins_first_in_all_partitions(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    feed(log, *[(f"k{n}", n) for n in range(5)], number=0)
    feed(log, *[(f"k{n}", n) for n in range(5, 10)], number=1)
    agent = an_agent(concurrency=1, priority="amount")
    driver = Driver(agent, store, log, clock).give(0, 1)
    calls_each_second([driver], 2)
    assert sorted(handlers.calls) == list(range(10))
    assert handlers.calls[1:] == sorted(handlers.calls[1:], reverse=True)


def test_the_keys_of_a_partition_take_turns(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, *[("a", n) for n in range(5)], ("b", 10), ("b", 11), ("c", 20))
    driver = Driver(an_agent(concurrency=1), store, log, clock).give(0)
    calls_each_second([driver], 2)
    assert handlers.calls[:3] == [0, 10, 20]
    assert handlers.calls[3:5] == [1, 11]


@pytest.mark.parametrize("key", ["throttle", "rate_limit"])
def test_an_expression_without_an_answer_counts_for_the_key_null(
    key: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, *[(f"k{n}", n) for n in range(5)])
    kind: Any = Throttle if key == "throttle" else RateLimit
    limit = kind(limit=2, per=60.0, key="nothing.there")
    driver = Driver(an_agent(**{key: limit}), store, log, clock).give(0)
    calls_each_second([driver], 2)
    assert len(handlers.calls) <= 2


def test_one_call_of_a_key_runs_at_a_time_in_all_workers(store: MemoryStore, clock: ManualClock) -> None:
    """Two workers with threads: a call of a key holds up the other worker's calls of it, and no others."""
    log = a_log(partitions=2)
    feed(log, ("a", 1), number=0)
    feed(log, ("b", 11), ("c", 2), number=1)  # 1 and 11 have one key
    agent = an_agent("blocked", singleton="amount % 10")
    first, second = (Driver(agent, store, log, clock, pool=Threads) for _ in range(2))
    first.give(0)
    second.give(1)
    _until(clock, [first], lambda: handlers.calls == [1])
    _until(clock, [first, second], lambda: 2 in handlers.calls)
    calls_each_second([first, second], 2)
    assert 11 not in handlers.calls
    handlers.gate.set()
    _until(clock, [first, second], lambda: 11 in handlers.calls)


def test_the_key_of_a_process_that_ended_is_free_when_its_lease_has_ended(
    store: MemoryStore, clock: ManualClock
) -> None:
    log = a_log(partitions=2)
    feed(log, ("a", 1), number=0)
    feed(log, ("b", 11), number=1)
    agent = an_agent("blocked", singleton="amount % 10")
    ended, other = (Driver(agent, store, log, clock, pool=Threads) for _ in range(2))
    ended.give(0)
    other.give(1)
    _until(clock, [ended], lambda: handlers.calls == [1])  # and it is turned no more: its process ended
    calls_each_second([other], int(LEASE) - 2)
    assert handlers.calls == [1]
    calls_each_second([other], 4)
    _until(clock, [other], lambda: handlers.calls == [1, 11])
    handlers.gate.set()


def test_a_lease_is_renewed_while_its_call_runs(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    feed(log, ("a", 1), number=0)
    feed(log, ("b", 11), number=1)
    agent = an_agent("blocked", singleton="amount % 10")
    drivers = [Driver(agent, store, log, clock, pool=Threads).give(number) for number in range(2)]
    _until(clock, drivers[:1], lambda: handlers.calls == [1])
    calls_each_second(drivers, int(3 * LEASE), step=0.25)
    assert handlers.calls == [1]
    handlers.gate.set()
    _until(clock, drivers, lambda: handlers.calls == [1, 11])


def _until(clock: ManualClock, drivers: list[Driver], true: Callable[[], bool]) -> None:
    def turned() -> bool:
        for driver in drivers:
            driver.turns(2)
        clock.now += 0.02
        return true()

    wait_until(turned)


@pytest.mark.parametrize("over", ["drop", "dead-letter"])
def test_what_is_read_again_after_a_crash_was_counted_already(
    over: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, *[(f"k{n}", n) for n in range(6)])
    agent = an_agent(rate_limit=RateLimit(limit=4, per=60.0, over=over))

    def dies(claim: Any, changes: Any) -> None:
        if claim.partition.agent == "a" and changes.offset > 1:
            raise Killed

    commit = store.commit
    assert until_killed(Driver(agent, hooked(store, dies), log, clock).give(0))
    store.commit = commit  # type: ignore[method-assign]
    calls_each_second([Driver(agent, store, log, clock).give(0)], 1)
    assert len(handlers.calls) == 4


@pytest.mark.parametrize(
    "value", [b'{"amount": "\\ud800"}', b'{"amount": [1, {"b": 1, "a": 2}]}', b"7", b'{"amount": 1e999}']
)
def test_a_key_of_any_value_stops_no_call(value: bytes, log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.append("in", 0, b"k", value)
    feed(log, ("l", 2))
    keys: dict[str, Any] = {"throttle": Throttle(limit=100, key="amount"), "singleton": "amount", "priority": "amount"}
    calls_each_second([Driver(an_agent("pass_on", **keys), store, log, clock).give(0)], 1)
    assert len(distinct(log, "out")) + len(distinct(log, "dead")) == 2


def test_a_call_that_did_not_begin_counts_no_attempt(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its token had ended when the thread came to it."""
    late, take = [False] * 5, Tokens.take
    monkeypatch.setattr(Tokens, "take", lambda *arguments: late.pop() if late else take(*arguments))
    handlers.fails[7] = [ValueError(), ValueError()]
    feed(log, ("k", 7))
    how: dict[str, Any] = {"throttle": Throttle(limit=100, per=1.0), "attempts": 3, "backoff_first": 0.1}
    calls_each_second([Driver(an_agent(**how), store, log, clock).give(0)], 3)
    assert (handlers.calls, dead(log), late) == ([7, 7, 7], [], [])
