"""`then: park` of a handler inside the commit: the item waits in the store, and the later ones of its key behind it."""

import json
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Handler, Reducer
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations import parking
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import Killed, dead, feed

HERE = "tests.unit.engine.handlers"
ANN = Person("ann@host", "mended", "ann-1")
GROUPS = Aggregation(count=2, compute=(Reducer("rows", "collect"), Reducer("total", "sum", "amount")))
SESSIONS = [{}, {"session": True}]


def an_agent(rule: Aggregation | None = None, dedupe: Deduplication | None = None, **how: Any) -> Agent:
    session = how.get("session")
    name = ("book_batch" if session else "result") if rule else "book" if session else "forward"
    how = {"attempts": 2, "backoff_first": 1.0, "backoff_most": 1.0, "then": "park", **how}
    handler = Handler((f"{HERE}:{name}",), **how)
    return Agent("a", ("in",), rule, Destination("out"), "dead", handler=handler, dedupe=dedupe)


def later(driver: Driver, times: int = 6) -> Driver:
    for _ in range(times):
        driver.later(2).turns(3)
    return driver


def sums(log: Log) -> list[int]:
    documents = [json.loads(message.v or b"null") for message in distinct(log, "out")]
    return [
        document if isinstance(document, int) else document.get("doubled", document.get("sum"))
        for document in documents
    ]


def parked(store: MemoryStore, agent: Agent) -> list[tuple[int, str, str]]:
    return [(record.offset, record.kind, record.error) for record in parking.parked(store, "app", agent)]


def let_go(store: MemoryStore, *offsets: int) -> None:
    parking.retry(store, Partition("app", "a", "in", 0), offsets, ANN)


@pytest.mark.parametrize("how", SESSIONS)
@pytest.mark.parametrize("dedupe", [None, Deduplication("field", "amount")])
def test_a_message_waits_with_the_later_ones_of_its_key_and_the_others_go_on(
    how: dict[str, Any], dedupe: Deduplication | None, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[2] = [ValueError("no table")] * 2
    feed(log, ("a", 1), ("k", 2), ("k", 3), ("b", 4), ("k", 5))
    agent = an_agent(dedupe=dedupe, **how)
    driver = later(Driver(agent, store, log, clock).give(0))
    factor = 1 if how else 2
    assert sums(log) == [1 * factor, 4 * factor]
    feed(log, ("k", 6), ("a", 7))
    later(driver, 2)
    assert (sums(log)[2:], dead(log)) == ([7 * factor], [])
    [(offset, kind, error)] = parked(store, agent)
    assert (offset, kind) == (1, "message")
    assert error.startswith("the handler raised ValueError: no table (tests/unit/engine/handlers.py:")
    assert error.endswith(" (attempt 2)")
    driver = later(Driver(agent, store, log, clock).give(0), 2)  # a restart changes nothing
    assert (sums(log)[3:], len(parked(store, agent))) == ([], 1)
    let_go(store, 1)
    driver.later(10).turns(3)
    later(driver)
    assert (sums(log)[3:], parked(store, agent)) == ([2 * factor, 3 * factor, 5 * factor, 6 * factor], [])
    if how:
        assert store.values["sum"] == 1 + 2 + 3 + 4 + 5 + 6 + 7
    feed(log, ("k", 8))
    later(driver, 2)
    assert sums(log)[-1] == 8 * factor


@pytest.mark.parametrize("how", SESSIONS)
def test_a_group_waits_with_the_later_ones_of_its_key(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[3] = [ValueError("no table")] * 2
    feed(log, ("k", 1), ("k", 2), ("j", 10), ("k", 5), ("k", 5), ("j", 20))
    agent = an_agent(GROUPS, **how)
    driver = later(Driver(agent, store, log, clock).give(0))
    assert (sums(log), dead(log)) == ([30], [])
    assert [(offset, kind) for offset, kind, _ in parked(store, agent)] == [(0, "group")]
    let_go(store, 0)
    driver.later(10).turns(3)
    later(driver)
    assert (sums(log), parked(store, agent)) == ([30, 3, 10], [])
    assert handlers.calls[-2:] == ([3, 10] if how else [handlers.calls[-2], handlers.calls[-1]])


@pytest.mark.parametrize("how", SESSIONS)
def test_one_that_fails_again_is_parked_again(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[2] = [ValueError("one")] * 2 + [ValueError("two")] * 2
    feed(log, ("k", 2), ("k", 3))
    agent = an_agent(**how)
    driver = later(Driver(agent, store, log, clock).give(0))
    let_go(store, 0)
    driver.later(10).turns(3)
    later(driver, 12)
    assert sums(log) == []
    [(_, _, error)] = parked(store, agent)
    assert "ValueError: two" in error
    parking.retry(store, Partition("app", "a", "in", 0), [0], ANN._replace(token="ann-2"))
    driver.later(10).turns(3)
    later(driver)
    assert sums(log) == ([2, 3] if how else [4, 6])


def test_one_that_ends_its_process_again_and_again_is_parked(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[2] = [ValueError()] * 2
    feed(log, ("k", 2))
    agent = an_agent()
    later(Driver(agent, store, log, clock).give(0))
    let_go(store, 0)
    handlers.fails[2] = [Killed()] * 10
    deaths = 0
    for _ in range(10):
        driver = Driver(agent, store, log, clock).give(0)
        try:
            later(driver, 3)
        except Killed:
            deaths += 1
            clock.now += 60
            continue
        break
    assert deaths == 3
    [(_, _, error)] = parked(store, agent)
    assert "the process ended while the handler was running" in error


def test_an_outage_of_one_that_was_let_go_counts_nothing(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[2] = [ValueError()] * 2 + [handlers.away() for _ in range(6)]
    feed(log, ("k", 2))
    agent = an_agent()
    driver = later(Driver(agent, store, log, clock).give(0))
    let_go(store, 0)
    for _ in range(120):
        driver.later(2).turns(2)
    assert (sums(log), parked(store, agent), handlers.calls.count(2)) == ([4], [], 9)


def test_a_handler_that_is_removed_must_finish_what_waits(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[2] = [ValueError()] * 2
    feed(log, ("k", 2))
    later(Driver(an_agent(), store, log, clock).give(0))
    forwards = Agent("a", ("in",), None, Destination("out"), "dead")
    with pytest.raises(ConfigurationError, match="1 messages or groups of in/0 wait for a handler"):
        later(Driver(forwards, store, log, clock).give(0))
    slow = an_agent(concurrency=2)  # what waits goes on under either setting
    driver = Driver(slow, store, log, clock).give(0)
    let_go(store, 0)
    driver.later(10).turns(3)
    later(driver)
    assert sums(log) == [4]
