"""`together`: what the messages of a commit gave is written at once, and means the same as one by one."""

import pytest
from structlog.testing import capture_logs

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.errors import ConfigurationError, PersistenceError
from sluicegate.streams.handlers import Outage
from sluicegate.streams.handlers.failures import Failures
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import dead, feed
from tests.unit.engine.test_sessions import HERE, an_agent, balanced

Patch = pytest.MonkeyPatch


def test_the_rows_of_a_commit_come_at_once_and_in_order(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, *[("k", n) for n in range(1000)])
    Driver(an_agent("book_together"), store, log, clock).give(0).turns(30)
    assert balanced(log, store, sum(range(1000)))
    assert [amount for amounts in handlers.added for amount in amounts] == list(range(1000))
    assert len(handlers.added) <= 1000 / 250


def with_two_bad_rows(log: Log, store: MemoryStore, clock: ManualClock) -> bool:
    for amount in (37, 71):
        handlers.fails["row", amount] = [ValueError()] * 100
    feed(log, *[("k", n) for n in range(100)])
    driver = Driver(an_agent("book_together", attempts=1), store, log, clock).give(0)
    with capture_logs():  # rendering a traceback takes seconds
        for _ in range(60):
            driver.turns(3).later(0.5)
    return balanced(log, store, sum(range(100)) - 37 - 71) and dead(log) == [
        ("37", "handler-failed"),
        ("71", "handler-failed"),
    ]


def test_a_bad_row_is_found_by_halves_and_only_its_message_is_refused(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert with_two_bad_rows(log, store, clock)
    assert len(handlers.added[0]) == 100
    assert len(handlers.added) < 50


def test_without_the_halves_a_bad_row_holds_up_all_messages(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(Failures, "step", lambda self, offset: 0)
    assert not with_two_bad_rows(log, store, clock)


@pytest.mark.parametrize(
    "error", [Outage("not there"), PersistenceError("the connection is lost")], ids=["outage", "connection"]
)
def test_an_outage_while_rows_are_written_is_no_attempt(
    error: Exception, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails["row", 1] = [error] * 5
    feed(log, ("k", 1), ("k", 2))
    driver = Driver(an_agent("book_together", attempts=1), store, log, clock).give(0)
    for _ in range(100):
        driver.turns(3).later(1)
    assert balanced(log, store, 3)
    assert dead(log) == []


@pytest.mark.parametrize("point", ["after-decode", "before-commit", "commit-sent", "after-commit"])
def test_rows_written_together_are_there_once_after_a_death(
    point: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    failpoints.arm({"SLUICEGATE_FAILPOINTS": f"{point}=raise@2"})
    first = Driver(an_agent("book_together"), store, log, clock).give(0)
    feed(log, *[("k", amount) for amount in range(2500)])
    with pytest.raises(failpoints.Failpoint):
        first.turns(30)
    failpoints.arm({})
    second = Driver(an_agent("book_together"), store, log, clock).give(0)
    second.turns(10).later(1).turns(10)
    assert balanced(log, store, sum(range(2500)))


@pytest.mark.parametrize(
    ("function", "session", "rule", "message"),
    [
        ("book_together", False, None, "`together` needs session: true"),
        (
            "together_of_a_batch",
            True,
            Aggregation(count=2, compute=(Reducer("total", "sum", "amount"),)),
            "`together` collects rows of messages, not of groups; write the groups to a topic, and insert its ",
        ),
    ],
)
def test_together_is_refused_where_it_would_have_no_transaction_or_no_halves(
    function: str,
    session: bool,
    rule: Aggregation | None,
    message: str,
    log: Log,
    store: MemoryStore,
    clock: ManualClock,
) -> None:
    agent = Agent(
        "a", ("in",), rule, Destination("out"), "dead", handler=Handler((f"{HERE}:{function}",), session=session)
    )
    with pytest.raises(ConfigurationError, match=message):
        Driver(agent, store, log, clock)


def test_together_through_the_context_fails_the_message_where_there_is_no_session(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1))
    agent = Agent("a", ("in",), None, None, "dead", handler=Handler((f"{HERE}:context_together",), attempts=1))
    Driver(agent, store, log, clock).give(0).turns(3)
    assert (dead(log), handlers.added) == ([("0", "handler-failed")], [])
