"""Duplicates before handlers: handed over once, and what a handler refused for good may be written again."""

from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.reading.dedupe import DuplicateFilter
from tests.mutation.twins import without
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.producing import BY_HEADER, metrics, write
from tests.unit.engine.scene import dead

SESSIONS = pytest.mark.parametrize("session", [False, True])


def an_agent(session: bool, name: str = "book", rule: Aggregation | None = None, **how: Any) -> Agent:
    handler = Handler((f"tests.unit.engine.handlers:{name if session else 'forward'}",), session=session, **how)
    return Agent("a", ("in",), rule, Destination("out"), "dead", handler=handler, dedupe=BY_HEADER)


@SESSIONS
def test_173_a_message_that_was_written_twice_is_handed_over_once(
    log: Log, store: MemoryStore, clock: ManualClock, session: bool
) -> None:
    for amount in (1, 1, 2, 3, 2):
        write(log, f"m{amount}", amount=amount)
    driver = Driver(an_agent(session), store, log, clock).give(0).turns()
    write(log, "m3", amount=3)
    driver.turns()
    assert handlers.calls == [1, 2, 3]
    assert metrics(driver)["records_duplicate"] == 3
    assert len(log.topics["out"][0]) == 3


@SESSIONS
def test_with_the_protection_out_it_is_handed_over_twice(
    log: Log, store: MemoryStore, clock: ManualClock, session: bool
) -> None:
    for amount in (1, 1):
        write(log, "m", amount=amount)
    with without("dedupe"):
        Driver(an_agent(session), store, log, clock).give(0).turns()
    assert handlers.calls == [1, 1]


def test_a_message_that_could_not_be_read_does_not_count_as_seen(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    write(log, None, amount=9)
    write(log, "m", value=b"{no json")
    write(log, "m", amount=1)
    write(log, "m", amount=2)
    Driver(an_agent(False), store, log, clock).give(0).turns()
    assert (handlers.calls, dead(log)) == ([1], [("0", "no-id"), ("1", "undecodable")])


def given_up(log: Log, store: MemoryStore, clock: ManualClock, session: bool) -> list[int]:
    """A handler that refuses a message for good; other messages; the message again, to another process; and once more.
    What was handled well in the end."""
    handlers.fails[7] = [ValueError()] * 2
    for amount in (1, 7, 2):
        write(log, f"m{amount}", amount=amount)
    driver = Driver(an_agent(session, attempts=2), store, log, clock).give(0).turns(4).later(5).turns()
    write(log, "m2", amount=2)
    driver.turns()
    assert dead(log) == [("1", "handler-failed")]
    handlers.calls.clear()
    for amount in (7, 1, 7):
        write(log, f"m{amount}", amount=amount)
    Driver(an_agent(session, attempts=2), store, log, clock).give(0).turns()
    return handlers.calls


@SESSIONS
def test_what_a_handler_refused_for_good_does_not_count_as_seen(
    log: Log, store: MemoryStore, clock: ManualClock, session: bool
) -> None:
    assert given_up(log, store, clock, session) == [7]


@SESSIONS
def test_a_dead_letter_that_is_written_again_would_be_lost_if_it_counted(
    log: Log, store: MemoryStore, clock: ManualClock, session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DuplicateFilter, "given_up", lambda self, events: [])
    assert given_up(log, store, clock, session) == []


def test_it_counts_in_the_same_process_too(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[7] = [ValueError()]
    write(log, "m", amount=7)
    driver = Driver(an_agent(True, attempts=1), store, log, clock).give(0).turns()
    for _ in range(2):
        write(log, "m", amount=7)
        driver.turns()
    assert handlers.calls == [7, 7]
    assert store.values["sum"] == 7


def test_a_group_for_a_handler_has_no_duplicates(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    for name in ("1", "1", "2", "2", "3"):
        write(log, name)
    rule = Aggregation(count=3, compute=(Reducer("total", "sum", "amount"),))
    Driver(an_agent(True, "book_batch", rule), store, log, clock).give(0).turns()
    assert handlers.calls == [3]
