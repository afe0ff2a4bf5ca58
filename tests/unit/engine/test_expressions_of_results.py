"""Expressions of results, and those of a shared batch: `on_error.expression: stop`, `skip`, and the metric."""

from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Let, OnError, Reducer, Selected
from sluicegate.streams.shared import shared_fires
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import COMPUTE, dead, feed, shown
from tests.unit.engine.test_where import answers

OUT = Destination("out")
STOP = OnError(expression="stop")
RESULTS: dict[str, dict[str, Any]] = {
    "having": {"having": "12 / (total - 3) > 0"},
    "to.out": {"to": None, "routes": (Destination("out", where="12 / (total - 3) > 0"), Destination("rest"))},
    "select.mean": {"to": Destination("out", select=(Selected("mean", "12 / (total - 3)"),))},
}
DOUBLED: dict[str, Any] = {"let": (Let("twice", "amount * 2"),)}
SCOPES = ("partition", "shared")


def sums(compute: tuple[Reducer, ...] = COMPUTE, **more: Any) -> Agent:
    more = {"to": OUT, "dead_letters": "dead"} | more
    return Agent("sums", ("in",), Aggregation(count=2, compute=compute), **more)


def over(agent: Agent, log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """Two turns and half a second, a few times: the buffer of a shared scope is looked at by the clock."""
    if "rest" not in log.topics:
        log.create("rest", 1)
    driver = Driver(agent, store, log, clock).give(0)
    for _ in range(6):
        driver.turns(2).later(0.5)
    return driver


def rows(store: MemoryStore, topic: str) -> int:
    return sum(row.message.topic == topic for row in store.outbox._rows.values())


@pytest.mark.parametrize("clause", RESULTS)
def test_stop_halts_before_the_record_that_ends_the_group(
    clause: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 5), ("a", 5), ("b", 1), ("b", 2))
    driver = over(sums(on_error=STOP, **RESULTS[clause]), log, store, clock)
    assert shown(driver)[1]["in", 0] == ("halted", "expression-stopped")
    text = str(driver.worker._claims.others()[0].detail)
    assert f"{clause} has no answer (division by zero), and on_error.expression is stop" in text
    assert dead(log) == []
    over(sums(), log, store, clock)
    assert len(log.topics["out"][0]) == 2


@pytest.mark.parametrize("clause", RESULTS)
def test_stop_halts_the_agent_of_a_shared_batch_and_a_restart_with_another_file_goes_on(
    clause: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 1), ("a", 2))
    driver = over(sums(scope="shared", on_error=STOP, **RESULTS[clause]), log, store, clock)
    feed(log, ("b", 1))
    driver.turns(4)
    assert shown(driver)[1]["in", 0] == ("halted", "expression-stopped")
    assert (rows(store, "out"), rows(store, "dead"), dead(log)) == (0, 0, [])
    clock.now += 20
    over(sums(scope="shared"), log, store, clock)
    assert rows(store, "out") == 1


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("clause", RESULTS)
def test_a_result_without_an_answer_is_counted(
    clause: str, scope: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 1), ("a", 2))
    assert answers(over(sums(scope=scope, **RESULTS[clause]), log, store, clock)) == {(clause, "failed"): 1}


@pytest.mark.parametrize("scope", SCOPES)
def test_having_and_routes_are_counted(scope: Any, log: Log, store: MemoryStore, clock: ManualClock) -> None:
    routes = (Destination("rest", where="total > 100"), OUT)
    feed(log, ("a", 1), ("a", 1), ("b", 9), ("b", 9), ("c", 99), ("c", 99))
    driver = over(sums(scope=scope, having="total > 5", to=None, routes=routes), log, store, clock)
    assert answers(driver) == {
        ("having", "true"): 2,
        ("having", "false"): 1,
        ("to.rest", "true"): 1,
        ("to.rest", "false"): 1,
    }


def shared_skip(log: Log, store: MemoryStore, clock: ManualClock) -> tuple[Any, Any]:
    """The file names the computed field only after the first record is in the buffer."""
    feed(log, ("a", "secret"))
    over(sums((), scope="shared"), log, store, clock)
    feed(log, ("a", 1))
    agent = sums((Reducer("all", "sum", "twice"),), scope="shared", on_error=OnError(expression="skip"), **DOUBLED)
    driver = over(agent, log, store, clock)
    skipped = [value for name, _, value in driver.worker._parts.meter.snapshot() if name == "records_skipped"]
    return answers(driver), skipped


def test_a_record_of_a_shared_batch_that_is_skipped_is_counted(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert shared_skip(log, store, clock) == ({("let.twice", "failed"): 1}, [1])
    assert (rows(store, "out"), rows(store, "dead")) == (1, 0)


def test_twin_without_counting_it_is_not(
    monkeypatch: pytest.MonkeyPatch, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    monkeypatch.setattr(shared_fires, "count_answers", lambda answers, meter: None)
    assert shared_skip(log, store, clock)[0] == {}
