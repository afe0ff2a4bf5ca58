"""A failed call does not end its owner: the claim stays, the messages before it are committed, and it is handled again
later."""

import json
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.handlers.held import WaitingItems
from sluicegate.streams.ownership.owner import Owner
from tests.simulation.run import silent
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import dead, feed, header, shown

HERE = "tests.unit.engine.handlers"
PLACE = Partition("app", "a", "in", 0)
RETRY = {"attempts": 3, "backoff_first": 1.0, "backoff_most": 1.0}


def an_agent(function: str = "forward", rule: Aggregation | None = None, **how: Any) -> Agent:
    return Agent(
        "a", ("in",), rule, Destination("out"), "dead", handler=Handler((f"{HERE}:{function}",), **(RETRY | how))
    )


def claims(driver: Driver) -> int:
    return sum(count for name, _, count in driver.worker._parts.meter.snapshot() if name == "claims")


def begun(agent: Agent, log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """Its first batch, with the crash mark, is done."""
    feed(log, ("k", 0))
    return Driver(agent, store, log, clock).give(0).turns()


def offset(store: MemoryStore) -> int:
    view = store.read(PLACE)
    assert view is not None
    return view.claim.offset


def outputs(log: Log) -> list[tuple[Any, str | None]]:
    """Every record, repeats and all."""
    return [(json.loads(message.v or b""), header(message, "sluicegate-id")) for message in log.order["out"]]


def a_failing_message(
    log: Log, store: MemoryStore, clock: ManualClock, function: str = "forward", **how: Any
) -> Driver:
    driver = begun(an_agent(function, **how), log, store, clock)
    handlers.fails[3] = [ValueError()] * 3
    feed(log, *[("k", n) for n in range(1, 6)])
    return driver.turns(8)


@pytest.mark.parametrize(("function", "session"), [("forward", False), ("book", True)])
def test_what_lies_before_is_committed_and_the_rest_follows_when_it_is_given_up(
    log: Log, store: MemoryStore, clock: ManualClock, function: str, session: bool
) -> None:
    driver = a_failing_message(log, store, clock, function, session=session)
    assert offset(store) == 3
    [reason], states = shown(driver)
    assert reason == "waiting to handle in/0 again: in/0/3: the handler raised ValueError (attempt 2 of 3)"
    assert states["in", 0][0] == "running"
    driver.later(1.1).turns(8)
    assert (offset(store), dead(log), claims(driver)) == (6, [("3", "handler-failed")], 1)
    ids = [identity for _, identity in outputs(log)]
    assert len(ids) == len(set(ids)) == 5


def test_without_it_the_owner_ends(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold(self: Owner, items: Any, error: Exception) -> None:
        raise error

    monkeypatch.setattr(Owner, "_hold", hold)
    driver = a_failing_message(log, store, clock).later(1.1).turns(8)
    assert claims(driver) > 1


def test_a_commit_never_goes_past_a_message_that_is_held(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Reports, looks and further records come meanwhile; the process dies; the next one handles it."""
    driver = a_failing_message(log, store, clock)
    feed(log, *[("k", n) for n in range(6, 9)])
    for _ in range(6):
        driver.later(0.1).turns(2)
    assert offset(store) == 3
    handlers.fails.clear()
    driver.later(0.3)
    Driver(an_agent(), store, log, clock).give(0).turns(8)
    assert offset(store) == 9
    assert {value["doubled"] for value, _ in outputs(log)} == {2 * n for n in range(9)}


def test_if_only_the_offset_read_were_committed_a_message_would_be_lost(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WaitingItems, "reached", lambda self, offset, epoch: (offset, epoch))
    a_failing_message(log, store, clock)
    assert offset(store) == 6
    handlers.fails.clear()
    Driver(an_agent(), store, log, clock).give(0).turns(8)
    assert 6 not in {value["doubled"] for value, _ in outputs(log)}


def test_a_group_waits_with_its_partition_under_the_same_claim(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    rule = Aggregation(count=2, since_first=30.0, compute=(Reducer("total", "sum", "amount"),))
    driver = Driver(an_agent("result", rule), store, log, clock).give(0)
    feed(log, ("a", 1), ("a", 1))
    driver.turns()
    assert [value for value, _ in outputs(log)] == [{"sum": 2}]
    handlers.fails[7] = [ValueError()] * 3
    feed(log, ("b", 3), ("b", 4), ("c", 1), ("c", 1), ("d", 5))
    for _ in range(3):
        driver.turns(4).later(1.1)
    driver.turns(4)
    assert (offset(store), claims(driver)) == (7, 1)
    assert [value for value, _ in outputs(log)] == [{"sum": 2}, {"sum": 2}]
    assert dead(log) == [("2", "handler-failed")]
    assert driver.worker._owners["in", 0].intake.pending == 0


def test_the_last_attempt_among_others_is_made_at_once(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Without a session nothing was undone, so that nothing is handled again for it."""
    driver = begun(an_agent(attempts=2), log, store, clock)
    handlers.fails[3] = [ValueError()] * 2
    feed(log, *[("k", n) for n in range(1, 6)])
    driver.turns(3)
    assert (offset(store), dead(log), claims(driver)) == (6, [("3", "handler-failed")], 1)
    assert handlers.calls == [0, 1, 2, 3, 3, 4, 5]


def test_a_given_up_message_in_a_session_does_not_make_the_others_run_again_and_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = begun(an_agent("book", session=True, attempts=1), log, store, clock)
    bad = range(10, 200, 10)
    for number in bad:
        handlers.fails[number] = [ValueError()]
    feed(log, *[("k", n) for n in range(1, 200)])
    with silent():  # a traceback with all locals, drawn for each of them, takes seconds
        driver.turns(30)
    assert (offset(store), len(dead(log)), claims(driver)) == (200, len(bad), 1)
    assert len(handlers.calls) < 3 * 200


def test_intake_pauses_when_too_much_waits(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = a_failing_message(log, store, clock)
    feed(log, *[("k", 10 + n) for n in range(6_000)])
    driver.turns(60)
    assert driver.worker._owners["in", 0].full
    assert driver.worker._owners["in", 0].intake.pending < 4_000
    driver.later(1.1).turns(60)
    assert offset(store) == 6_006
