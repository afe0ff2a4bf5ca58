"""Handlers with a session: their writes, their outputs and the offset are one commit, whatever fails or dies."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import NotCommitted, PersistenceError
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import dead, feed, shown

Patch = pytest.MonkeyPatch
HERE = "tests.unit.engine.handlers"
PLACE = Partition("app", "a", "in", 0)


def an_agent(*functions: str, rule: Aggregation | None = None, **how: Any) -> Agent:
    handler = Handler(tuple(f"{HERE}:{name}" for name in functions or ("book",)), session=True, **how)
    return Agent("a", ("in",), rule, Destination("out"), "dead", handler=handler)


def balanced(log: Log, store: MemoryStore, expected: int) -> bool:
    """The sum in the store, that of the outputs, and what was to be booked."""
    sent = sum(json.loads(message.v or b"0") for message in distinct(log, "out"))
    return (store.values.get("sum", 0), sent) == (expected, expected)


def test_writes_outputs_and_offset_are_one_commit(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, *[("k", n) for n in range(1000)])
    Driver(an_agent(), store, log, clock).give(0).turns(30)
    assert balanced(log, store, sum(range(1000)))
    assert handlers.calls == list(range(1000))


def test_what_fails_before_any_handler_is_called_is_none_of_the_handlers_failures(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    def broken(claim: Any, work: Any) -> Any:
        raise LookupError("a driver's own")

    feed(log, ("k", 1))
    driver = Driver(an_agent(attempts=1), store, log, clock).give(0)
    with monkeypatch.context() as patch:
        patch.setattr(store, "commit_with", broken)
        with capture_logs() as lines:
            driver.turns()
    assert (dead(log), "partition.fault" in [line["event"] for line in lines]) == ([], True)
    driver.later(3).turns()
    assert (dead(log), shown(driver)[1]) == ([], {("in", 0): ("running", None)})


def test_all_handlers_of_a_message_share_its_session_and_one_that_fails_undoes_all(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails["audit", 2] = [ValueError()] * 2
    feed(log, ("k", 1), ("k", 2), ("k", 3))
    Driver(an_agent("book", "audit", attempts=2), store, log, clock).give(0).turns().later(5).turns()
    assert balanced(log, store, 4)
    assert (store.values["audited"], dead(log)) == (2, [("1", "handler-failed")])


def test_without_a_rollback_the_failed_ones_writes_stay(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    begin = store.commit_with

    def keeps(claim: Any, work: Any) -> Any:
        def kept(session: Any) -> Any:
            try:
                return work(session)
            except Exception:
                session.values.apply()
                raise

        return begin(claim, kept)

    monkeypatch.setattr(store, "commit_with", keeps)
    handlers.fails["audit", 2] = [ValueError()] * 2
    feed(log, ("k", 1), ("k", 2), ("k", 3))
    Driver(an_agent("book", "audit", attempts=2), store, log, clock).give(0).turns().later(5).turns()
    assert not balanced(log, store, 4)


def test_a_batch_with_a_bad_message_comes_to_the_same_as_one_by_one(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    bad = {7, 8, 100, 249}
    for amount in bad:
        handlers.fails[amount] = [ValueError()] * 100
    feed(log, *[("k", n) for n in range(250)])
    driver = Driver(an_agent(attempts=2, backoff_first=0.1), store, log, clock).give(0)
    for _ in range(100):
        driver.turns(3).later(0.5)
    assert balanced(log, store, sum(range(250)) - sum(bad))
    assert sorted(int(offset or -1) for offset, _ in dead(log)) == sorted(bad)


def test_what_the_store_refuses_as_a_whole_is_tried_in_halves(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """As a constraint that is checked at the end of the transaction, and that one message violates."""
    begin, sizes = store.commit_with, []

    def checked(claim: Any, work: Any) -> Any:
        def judged(session: Any) -> Any:
            before = len(handlers.calls)
            changes = work(session)
            sizes.append(len(handlers.calls) - before)
            if 37 in handlers.calls[before:]:
                raise NotCommitted("deferred")
            return changes

        return begin(claim, judged)

    store.commit_with = checked  # type: ignore[method-assign]
    feed(log, *[("k", n) for n in range(100)])
    driver = Driver(an_agent(attempts=2, backoff_first=0.1), store, log, clock).give(0)
    for _ in range(40):
        driver.turns(3).later(0.5)
    assert balanced(log, store, sum(range(100)) - 37)
    assert dead(log) == [("37", "handler-failed")]
    assert sizes[0] == 100
    assert len(sizes) < 30


def test_a_lost_connection_is_an_outage_and_no_attempt(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails[1] = [PersistenceError("the connection is lost")] * 10
    feed(log, ("k", 1), ("k", 2))
    driver = Driver(an_agent(attempts=1), store, log, clock).give(0)
    for _ in range(100):
        driver.turns(3).later(1)
    assert balanced(log, store, 3)
    assert dead(log) == []


def test_groups_are_booked_once_with_their_end(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rule = Aggregation(count=3, since_first=30.0, compute=(Reducer("total", "sum", "amount"),))
    handlers.fails[6] = [ValueError()] * 2
    feed(log, *[(f"k{n % 2}", n) for n in range(10)])
    driver = Driver(an_agent("book_batch", rule=rule, backoff_first=0.1), store, log, clock).give(0)
    for _ in range(20):
        driver.turns(3).later(0.5)
    driver.later(31).turns(10)
    assert balanced(log, store, sum(range(10)))
    assert dead(log) == []


AWAITED = ("before-commit", "commit-sent", "after-commit", "after-claim", "after-restore")
DEATHS = [(point, "raise") for point in ("after-poll", "after-decode", "produced-not-acked", *AWAITED)]


def books_after_a_death(point: str, store: MemoryStore, log: Log, clock: ManualClock, kind: str) -> bool:
    """A process that dies at the second time at this place, and one that goes on."""
    agent = an_agent()
    failpoints.arm({"SLUICEGATE_FAILPOINTS": f"{point}={kind}@2"})
    first = Driver(agent, store, log, clock).give(0)
    expected = 0
    for round_ in range(10):
        feed(log, *[("k", round_ * 10 + n) for n in range(10)])
        expected += sum(round_ * 10 + n for n in range(10))
        try:
            first.turns(3)
        except failpoints.Failpoint:
            break
    failpoints.arm({})
    second = Driver(agent, store, log, clock).give(0)
    second.turns(10).later(1).turns(10)
    return balanced(log, store, expected)


@pytest.mark.parametrize(("point", "kind"), [*DEATHS, *((point, "lost") for point in AWAITED)])
def test_the_books_balance_after_a_death_anywhere(
    point: str, kind: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert books_after_a_death(point, store, log, clock, kind)


def test_without_the_common_transaction_they_do_not(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    def apart(claim: Any, work: Any) -> Any:
        return store.commit(claim, work(handlers_session(store)))

    monkeypatch.setattr(store, "commit_with", apart)
    assert not books_after_a_death("before-commit", store, log, clock, "raise")


def handlers_session(store: MemoryStore) -> Any:
    class Direct:
        values = store._values

    return Direct


def test_an_owner_that_was_overtaken_never_calls_its_handlers(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    feed(log, ("k", 1))
    driver.turns()
    store.claim(PLACE, "another", "somebody")
    feed(log, ("k", 2))
    driver.turns(2)
    assert handlers.calls == [1]
    driver.later(3).turns(10)
    assert balanced(log, store, 3)
