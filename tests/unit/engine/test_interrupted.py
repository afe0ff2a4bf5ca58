"""What an outage, a fence, a stop or a changed rule interrupts goes on as if it had not been: nothing is counted,
doubled or lost by it."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.calling.pool import Threads
from sluicegate.streams.contracts.values import Changes, Partition
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import a_log, dead, feed, shown
from tests.waiting import wait_until

HERE = "tests.unit.engine.handlers"
PLACE = Partition("app", "a", "in", 0)


def an_agent(name: str = "forward", rule: Aggregation | None = None, **how: Any) -> Agent:
    return Agent("a", ("in",), rule, Destination("out"), "dead", handler=Handler((f"{HERE}:{name}",), **how))


def outputs(log: Log) -> list[Any]:
    return [json.loads(message.v or b"null") for message in distinct(log, "out")]


def turned(driver: Driver, times: int) -> Driver:
    for _ in range(times):
        driver.turns(2).later(0.5)
    return driver


def test_what_was_done_for_a_group_is_not_taken_for_one_that_ended_with_other_messages(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    rule = Aggregation(count=3, since_first=5.0, compute=(Reducer("total", "sum", "amount"),))
    driver = Driver(an_agent("result", rule, backoff_first=10.0, backoff_most=10.0), store, log, clock).give(0)
    feed(log, ("a", 1))
    driver.turns(6)
    handlers.fails[300] = [ValueError()]
    feed(log, ("a", 10), ("a", 20), ("b", 100), ("b", 100), ("b", 100))
    driver.turns(2).later(11)
    for _ in range(10):
        driver.turns(3).later(3)
    assert sum(output["sum"] for output in outputs(log)) == 1 + 10 + 20 + 300


COLLECT, SUM = (Reducer("rows", "collect"),), (Reducer("total", "sum", "amount"),)
VALUES = (Reducer("rows", "collect", "amount"),)
DISTINCT = (Reducer("rows", "distinct", "amount"),)


@pytest.mark.parametrize(
    ("old", "new"), [(COLLECT, SUM), (COLLECT, (*COLLECT, Reducer("all", "distinct", "amount"))), (VALUES, DISTINCT)]
)
def test_an_agent_with_a_changed_rule_starts_a_second_time(
    old: tuple[Reducer, ...], new: tuple[Reducer, ...], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    def agent(compute: tuple[Reducer, ...]) -> Agent:
        return Agent("a", ("in",), Aggregation(count=2, since_first=30.0, compute=compute), Destination("out"), "dead")

    for _ in range(2):
        log.append("in", 0, b"a", b'{"amount": [1]}' if old == VALUES else b'{"amount": 1}')
        Driver(agent(old), store, log, clock).give(0).turns(6)
    for amount in (5, 6):
        feed(log, ("c", amount))
        driver = Driver(agent(new), store, log, clock).give(0).turns(6)
        assert shown(driver)[1] == {("in", 0): ("running", None)}


def test_a_handler_that_was_corrected_is_called_after_a_stop(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[0] = [ValueError()] * 3
    feed(log, ("a", 0))
    agent = an_agent(concurrency=2, attempts=3, backoff_first=0.1, then="stop")
    driver = turned(Driver(agent, store, log, clock).give(0), 20)
    assert shown(driver)[1] == {("in", 0): ("halted", "handler-stopped")}
    driver.worker.run(lambda: True, drain=0)
    handlers.fails.clear()
    turned(Driver(agent, store, log, clock).give(0), 20)
    assert (outputs(log), dead(log)) == ([{"doubled": 0}], [])


def test_an_outage_counts_no_attempt_whatever_restarts(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[0] = [handlers.away() for _ in range(50)]
    feed(log, ("a", 0))
    for _ in range(6):
        driver = turned(Driver(an_agent(concurrency=2, attempts=3), store, log, clock).give(0), 3)
        driver.worker.run(lambda: True, drain=0)
    assert (len(handlers.calls) > 3, dead(log)) == (True, [])


def test_fences_under_a_call_that_runs_are_no_deaths(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.gate.clear()
    feed(log, ("k", 7))
    driver = Driver(an_agent("waits", concurrency=4, attempts=3), store, log, clock, pool=Threads).give(0)
    turned(driver, 4)
    wait_until(lambda: handlers.calls, 5, "the call")
    for number in range(5):
        claim = store.claim(PLACE, f"person {number}", "a person")
        store.commit(claim, Changes(claim.offset, claim.epoch, trying=claim.trying))
        turned(driver, 24)
    assert dead(log) == []
    handlers.gate.set()
    wait_until(lambda: turned(driver, 2) and outputs(log), 10, "its output", pause=0.02)
    assert dead(log) == []


def test_an_idle_partition_is_not_given_up_because_anothers_handler_is_away(
    store: MemoryStore, clock: ManualClock
) -> None:
    log = a_log(partitions=2)
    handlers.fails[1] = [handlers.away() for _ in range(60)]
    log.append("in", 1, b"z", b'{"amount": 5}')
    driver = Driver(an_agent(), store, log, clock).give(0, 1).turns(10)
    feed(log, ("a", 1))
    claims: list[int] = []
    claim = store.claim
    store.claim = lambda partition, *rest: (claims.append(partition.number), claim(partition, *rest))[1]  # type: ignore[method-assign]
    turned(driver, 120)
    assert (claims.count(1), sum(map(len, log.topics["out"]))) == (0, 1)
    assert len(handlers.calls) < 15  # the back-off of the outage grows


SENDS: dict[str, Callable[..., object]] = {
    "a blank topic": lambda send, schedule: schedule({}, after=1.0, topic=" "),
    "a topic that is not text": lambda send, schedule: send({}, topic=5),
    "a topic that Kafka refuses": lambda send, schedule: send({}, topic="bad topic!"),
    "a time before all times": lambda send, schedule: schedule(
        {}, at=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    ),
}


@pytest.mark.parametrize("what", list(SENDS))
def test_what_cannot_be_sent_is_the_messages_failure_and_not_the_workers(
    what: str, log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sends(send: Any, schedule: Any) -> None:
        SENDS[what](send, schedule)

    monkeypatch.setattr(handlers, "sends", sends, raising=False)
    feed(log, ("a", 1))
    driver = turned(Driver(an_agent("sends", attempts=2, backoff_first=0.1), store, log, clock).give(0), 20)
    assert (dead(log), shown(driver)[1]) == ([("0", "handler-failed")], {("in", 0): ("running", None)})
