"""Handlers that decide on the rows that were looked up, in the real engine."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Destination, Handler, Lookup
from sluicegate.streams.handlers.values import Outage
from tests.unit.engine.driver import Log, ManualClock
from tests.unit.lookups import handlers
from tests.unit.lookups.scene import TEAM, give, letters, out, put, run, summing

ACCOUNT = Lookup("account", "table", "accounts", "account", ("open", "currency"), "id", lock=True)
OPEN = {"open": True, "currency": "EUR"}


@pytest.fixture(autouse=True)
def _accounts(store: MemoryStore) -> Iterator[None]:
    put(store, "accounts", {"a": OPEN, "b": {"open": False, "currency": "EUR"}})
    yield
    handlers.refused.clear()
    handlers.fails.clear()


def paying(lookup: Lookup = ACCOUNT, **more: Any) -> Agent:
    handler = Handler(("tests.unit.lookups.handlers:pay",), session=True, **more)
    return Agent("limit", ("in",), None, Destination("out"), "dead", handler=handler, lookups=(lookup,))


def payments(log: Log, *accounts: str) -> None:
    give(log, *[{"id": n, "account": account} for n, account in enumerate(accounts)])


def test_a_handler_gets_the_rows_of_its_message(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    payments(log, "a", "b", "c", "a")
    run(paying(), store, log, clock)
    assert store.values["paid"] == [0, 3]
    assert handlers.refused == [1, 2]
    assert out(log) == [{"id": 0, "currency": "EUR"}, {"id": 3, "currency": "EUR"}]


def test_without_a_row_the_handler_is_not_called(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    payments(log, "a", "c", "a")
    run(paying(replace(ACCOUNT, missing="dead-letter")), store, log, clock)
    assert (store.values["paid"], handlers.refused) == ([0, 2], [])
    assert letters(log) == [("1", "lookup", "lookup-missing")]


def test_a_message_waits_for_its_row(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    payments(log, "a", "c", "a")
    driver = run(paying(replace(ACCOUNT, missing="wait", wait=60.0)), store, log, clock)
    driver.later(3).turns()
    assert store.values["paid"] == [0]
    put(store, "accounts", {"a": OPEN, "c": OPEN})
    driver.later(20).turns(10)
    assert (store.values["paid"], letters(log)) == ([0, 1, 2], [])


def test_a_call_that_is_repeated_gets_the_rows_of_its_own_try(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails.append(Outage("away"))
    payments(log, "a")
    driver = run(paying(), store, log, clock)
    put(store, "accounts", {"a": {"open": False, "currency": "EUR"}})
    driver.later(60).turns(10)
    assert (store.values.get("paid"), handlers.refused) == (None, [0])


def test_a_handler_of_groups_gets_the_rows_of_its_result(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(store, "teams", {"a": {"site": "Ulm"}})
    for key in (b"a", b"b", b"a", b"b"):
        give(log, {"amount": 1}, key=key)
    handler = Handler(("tests.unit.lookups.handlers:total",), session=True)
    run(summing(replace(TEAM, missing="dead-letter"), handler=handler), store, log, clock)
    assert out(log) == [{"key": "a", "site": "Ulm"}]
    assert [reason for *_, reason in letters(log)] == ["lookup-missing"]


def test_having_of_a_handler_sees_the_row(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(store, "teams", {"a": {"site": "Ulm"}, "b": {"site": "Bonn"}})
    for key in (b"a", b"b", b"c", b"a", b"b", b"c"):
        give(log, {"amount": 1}, key=key)
    handler = Handler(("tests.unit.lookups.handlers:total",), session=True)
    run(summing(handler=handler, having='team.site == "Ulm"'), store, log, clock)
    assert out(log) == [{"key": "a", "site": "Ulm"}]
    assert letters(log) == [("2", "expression", "expression-failed")]


@pytest.mark.parametrize("name", ["told", "total"])
def test_a_handler_without_a_session_gets_its_rows(log: Log, store: MemoryStore, clock: ManualClock, name: str) -> None:
    """It is called in the transaction that reads the rows, and does not get it."""
    handlers.sessions.clear()
    handler = Handler((f"tests.unit.lookups.handlers:{name}",))
    if name == "told":
        put(store, "accounts", {"a": {"open": True, "currency": "EUR"}})
        payments(log, "a")
        run(replace(paying(), handler=handler), store, log, clock)
        assert out(log) == [{"currency": "EUR"}]
        assert handlers.sessions == [None]
    else:
        put(store, "teams", {"a": {"site": "Ulm"}})
        for _ in range(2):
            give(log, {"amount": 1}, key=b"a")
        run(summing(handler=handler), store, log, clock)
        assert out(log) == [{"key": "a", "site": "Ulm"}]
