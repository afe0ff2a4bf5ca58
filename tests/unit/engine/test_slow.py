"""Slow handlers: sealed with the offset, run apart from the loop, one after the other for each key, the same after a
crash."""

import json
import threading
from contextlib import suppress
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.calling.pool import InlinePool, Threads
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError, PersistenceError
from sluicegate.streams.handlers import sealed as sealed_module
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations import parking
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import dead, feed, shown, until_killed
from tests.waiting import wait_until

PLACE = Partition("app", "a", "in", 0)
HERE = "tests.unit.engine.handlers"
SUMS = Aggregation(count=2, since_first=30.0, compute=(Reducer("total", "sum", "amount"),))


def an_agent(name: str = "forward", rule: Aggregation | None = None, concurrency: int = 4, **how: Any) -> Agent:
    handler = Handler((f"{HERE}:{name}",), concurrency=concurrency, **how)
    return Agent("a", ("in",), rule, Destination("out"), "dead", handler=handler)


def outputs(log: Log) -> list[Any]:
    return [json.loads(message.v or b"null") for message in distinct(log, "out")]


def turned(driver: Driver, times: int, seconds: float = 0.5) -> None:
    for _ in range(times):
        driver.turns(2).later(seconds)


def test_every_message_is_handled_once_and_the_offset_goes_on_before(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, *[(f"k{n % 3}", n) for n in range(100)])
    driver = Driver(an_agent(), store, log, clock).give(0)
    turned(driver, 60)
    assert sorted(handlers.calls) == list(range(100))
    assert sorted(out["doubled"] for out in outputs(log)) == [2 * n for n in range(100)]


def test_the_messages_of_a_key_are_handled_in_their_order(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[3] = [ValueError()] * 2
    feed(log, *[(f"k{n % 3}", n) for n in range(30)])
    turned(Driver(an_agent(), store, log, clock).give(0), 60)
    for key in range(3):
        calls = [n for n in handlers.calls if n % 3 == key]
        assert calls == sorted(calls)


def test_a_failing_message_holds_up_only_its_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[0] = [ValueError()] * 100
    feed(log, ("a", 0), ("b", 1), ("a", 2), ("c", 3))
    driver = Driver(an_agent(attempts=5, backoff_first=10.0), store, log, clock).give(0)
    turned(driver, 10)
    assert sorted(out["doubled"] for out in outputs(log)) == [2, 6]
    turned(driver, 600)
    assert sorted(out["doubled"] for out in outputs(log)) == [2, 4, 6]
    assert (dead(log), handlers.calls.count(0)) == ([("0", "handler-failed")], 5)
    assert header(distinct(log, "dead")[0], "sluicegate-dead-attempts") == "5"


def test_the_status_counts_what_handlers_have_yet_to_end(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[0] = [ValueError()] * 100
    feed(log, ("a", 0), ("b", 1), ("a", 2))
    driver = Driver(an_agent(attempts=5, backoff_first=10.0), store, log, clock).give(0)
    turned(driver, 10)
    [row] = driver.worker.reports.of(clock.now).partitions
    assert (row.offset, row.sealed) == (3, 2)
    turned(driver, 600)
    assert driver.worker.reports.of(clock.now).partitions[0].sealed == 0


def test_completed_groups_are_sealed_and_handled(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("k", 1), ("k", 2), ("j", 3))
    driver = Driver(an_agent("result", SUMS), store, log, clock).give(0)
    turned(driver, 10)
    driver.later(31)
    turned(driver, 5)
    assert [(key, reason, value["total"]) for key, reason, value in handlers.calls] == [
        ("k", "count", 3),
        ("j", "timeout", 3),
    ]
    assert outputs(log) == [{"sum": 3}, {"sum": 3}]


def after_a_death(
    store: MemoryStore, log: Log, clock: ManualClock, point: str, rule: Aggregation | None = None
) -> None:
    """A process that dies at this place with work in hand, and one that goes on."""
    agent = an_agent("result" if rule else "forward", rule)
    failpoints.arm({"SLUICEGATE_FAILPOINTS": f"{point}=raise@{1 if point == 'sealed' else 2}"})
    feed(log, *[(f"k{n % 3}", n) for n in range(12)])
    first = Driver(agent, store, log, clock).give(0)
    with suppress(failpoints.Failpoint):
        turned(first, 10)
    failpoints.arm({})
    second = Driver(agent, store, log, clock).give(0)
    turned(second, 40)


COMMITS = ("before-commit", "commit-sent", "after-commit")
POINTS = ("after-poll", "after-decode", "after-claim", "after-restore", "produced-not-acked", *COMMITS)
SEALS = ("sealed", "attempt-marked", "complete-sent")


@pytest.mark.parametrize("point", [*POINTS, *SEALS])
def test_each_is_handled_and_sent_once_after_a_death_anywhere(
    point: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    after_a_death(store, log, clock, point)
    assert sorted(out["doubled"] for out in outputs(log)) == [2 * n for n in range(12)]
    assert dead(log) == []


@pytest.mark.parametrize("point", COMMITS)
def test_a_sealed_group_comes_back_unchanged_after_a_death(
    point: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    after_a_death(store, log, clock, point, SUMS)
    assert sum(out["sum"] for out in outputs(log)) == sum(range(12))


def test_without_the_seal_what_ran_is_lost(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_module.Sealed, "replay", lambda self, section: None)
    after_a_death(store, log, clock, "before-commit")
    assert sorted(out["doubled"] for out in outputs(log)) != [2 * n for n in range(12)]


def test_a_message_that_kills_its_process_is_a_dead_letter_after_its_attempts(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.killer.add(1)
    agent = an_agent("deadly", attempts=3)
    feed(log, ("a", 0), ("b", 1), ("c", 2))
    died = 0
    for _ in range(10):
        driver = Driver(agent, store, log, clock).give(0)
        driver.later(1)
        if until_killed(driver, 30):
            died += 1
            continue
        turned(driver, 5)
        break
    assert died == 3
    assert dead(log) == [("1", "handler-failed")]
    assert sorted(outputs(log)) == [0, 2]


def test_an_attempt_whose_commit_got_no_answer_was_no_death(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The handler was not even called, and its process lives."""
    feed(log, ("a", 0))
    driver = Driver(an_agent(attempts=1), store, log, clock).give(0)

    def unanswered(place: str) -> None:
        if place == "attempt-marked":
            raise PersistenceError("no answer")

    with failpoints.watched(unanswered):
        turned(driver, 30, 3.0)
    assert (handlers.calls, dead(log)) == ([], [])
    turned(driver, 10, 3.0)
    assert (handlers.calls, outputs(log), dead(log)) == ([0], [{"doubled": 0}], [])


def test_stop_halts_the_partition(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[0] = [ValueError()] * 10
    feed(log, ("a", 0))
    driver = Driver(an_agent(attempts=1, then="stop"), store, log, clock).give(0).turns(10)
    assert shown(driver)[1]["in", 0] == ("halted", "handler-stopped")


def test_an_outage_counts_no_attempt(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[0] = [handlers.away() for _ in range(5)]
    feed(log, ("a", 0))
    turned(Driver(an_agent(attempts=1), store, log, clock).give(0), 100, 1.0)
    assert (outputs(log), dead(log)) == ([{"doubled": 0}], [])


def test_a_session_is_refused(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    with pytest.raises(ConfigurationError, match="session"):
        Driver(an_agent(session=True), store, log, clock)


def test_too_many_sealed_ones_pause_the_intake(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_module, "MOST_ITEMS", 50)
    monkeypatch.setattr(InlinePool, "free", lambda self: 0)
    feed(log, *[(f"k{n}", n) for n in range(400)])
    driver = Driver(an_agent(), store, log, clock).give(0).turns(4)
    assert (driver.input.paused, handlers.calls) == ({("in", 0)}, [])
    monkeypatch.setattr(InlinePool, "free", lambda self: 4)
    turned(driver, 150)
    assert len(outputs(log)) == 400


def test_threads_run_as_many_as_they_are_and_the_loop_goes_on(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.gate.clear()
    feed(log, *[(f"k{n}", n) for n in range(6)])
    driver = Driver(an_agent("waits", concurrency=3), store, log, clock, pool=Threads).give(0).turns(4)
    wait_until(lambda: len(handlers.calls) == 3, 10, "three calls at once")
    driver.turns(10)
    assert len(handlers.calls) == 3
    handlers.gate.set()
    wait_until(lambda: driver.turns(2) and len(outputs(log)) == 6, 10, "all six")


def test_coroutines_share_one_loop(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.loops.clear()
    feed(log, *[(f"k{n}", n) for n in range(6)])
    driver = Driver(an_agent("in_a_loop", concurrency=3), store, log, clock, pool=Threads).give(0)
    wait_until(lambda: driver.turns(2) and len(outputs(log)) == 6, 10, "all six")
    assert len(handlers.loops) == 1


def test_a_lost_partition_cancels_its_calls_and_their_outcome_is_void(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.gate.clear()
    feed(log, ("a", 0))
    driver = Driver(an_agent("until_cancelled"), store, log, clock, pool=Threads).give(0).turns(4)
    wait_until(lambda: handlers.calls == [0], 10, "the call")
    driver.input.take(("in", 0))
    driver.turns(2)
    wait_until(lambda: handlers.calls == [0, "cancelled"], 10, "its end")
    driver.turns(4)
    assert outputs(log) == []
    turned(Driver(an_agent("forward"), store, log, clock).give(0), 5)
    assert outputs(log) == [{"doubled": 0}]


def test_a_stop_waits_for_running_calls_and_begins_no_other(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.gate.clear()
    feed(log, ("a", 0), ("a", 1))
    driver = Driver(an_agent("waits"), store, log, clock, pool=Threads).give(0).turns(4)
    wait_until(lambda: handlers.calls == [0], 10, "the call")
    threading.Timer(0.2, handlers.gate.set).start()
    driver.worker.run(lambda: True, drain=1e9)
    assert (outputs(log), handlers.calls) == ([0], [0])
    turned(Driver(an_agent("waits"), store, log, clock).give(0), 5)
    assert (outputs(log), handlers.calls) == ([0, 1], [0, 1])


def test_what_waits_for_a_thread_does_not_keep_the_loop_busy(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers.fails[0] = [ValueError()]
    feed(log, ("a", 0))
    driver = Driver(an_agent(), store, log, clock).give(0).turns(6)
    monkeypatch.setattr(InlinePool, "free", lambda self: 0)
    driver.later(10).turns(2)
    assert driver.worker._wait(clock.now) > 0
    monkeypatch.undo()
    assert outputs(turned(driver, 3) or log) == [{"doubled": 0}]


def test_what_is_sealed_is_not_forgotten_when_the_file_changes(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[0] = [ValueError()]
    feed(log, ("a", 0))
    Driver(an_agent(), store, log, clock).give(0).turns(6)
    with pytest.raises(ConfigurationError, match="1 messages or groups of in/0 wait for a handler"):
        Driver(Agent("a", ("in",), None, Destination("out"), "dead"), store, log, clock).give(0).turns(6)
    turned(Driver(an_agent(concurrency=0), store, log, clock).give(0), 3)
    assert outputs(log) == [{"doubled": 0}]


def given_parked(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    handlers.fails[0] = [ValueError()] * 2
    feed(log, ("a", 0), ("b", 1), ("a", 2))
    driver = Driver(an_agent(attempts=2, backoff_first=0.1, then="park"), store, log, clock).give(0)
    turned(driver, 10)
    return driver


def test_a_parked_message_holds_up_its_key_alone_and_stays_over_a_restart(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    given_parked(log, store, clock)
    turned(Driver(an_agent(attempts=2, then="park"), store, log, clock).give(0), 10)
    assert (outputs(log), dead(log)) == ([{"doubled": 2}], [])
    [item] = parking.parked(store, "app", an_agent(then="park"))
    assert (item.partition, item.offset, item.key, item.attempts, item.kind) == (PLACE, 0, b"a", 2, "message")
    assert item.error == "the handler raised ValueError (tests/unit/engine/handlers.py:34 in _maybe_fail) (attempt 2)"


def test_what_is_let_go_is_tried_anew_and_its_key_goes_on(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = given_parked(log, store, clock)
    handlers.fails.clear()
    parking.retry(store, PLACE, [0], Person("a person", "mended", "a token"))
    turned(driver, 20)
    assert outputs(log) == [{"doubled": 2}, {"doubled": 0}, {"doubled": 4}]
    assert parking.parked(store, "app", an_agent(then="park")) == []


def test_a_parked_message_survives_the_compaction_of_its_log(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog, "SLACK", 200)
    driver = given_parked(log, store, clock)
    for number in range(40):
        feed(log, (f"k{number}", 100 + number))
        turned(driver, 2)
    assert store.read(PLACE).claim.first > 1  # type: ignore[union-attr]
    assert [item.offset for item in parking.parked(store, "app", an_agent(then="park"))] == [0]
    handlers.fails.clear()
    parking.retry(store, PLACE, [0], Person("a person", "mended", "a token"))
    turned(driver, 10)
    assert {"doubled": 0} in outputs(log)
