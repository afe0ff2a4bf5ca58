"""Handlers with `concurrency` that get the rows that were looked up, in the real engine and in tests of a file."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Lookup, Reducer
from sluicegate.streams.errors import LookupFailed
from sluicegate.streams.lookups.rows import Lookups
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.lookups import handlers
from tests.unit.lookups.scene import give, letters, out, put
from tests.unit.testing.files import crashed

ACCOUNT = Lookup("account", "table", "accounts", "account", ("currency",), "id")
TEAM = Lookup("team", "table", "teams", "key", ("site",), "id")
WAITS: dict[str, Any] = {"missing": "wait", "wait": 60.0}


@pytest.fixture(autouse=True)
def _rows(store: MemoryStore) -> Iterator[None]:
    put(store, "accounts", {"a": {"currency": "EUR"}, "b": {"currency": "USD"}})
    put(store, "teams", {"x": {"site": "Ulm"}})
    yield
    handlers.fails.clear()
    handlers.sessions.clear()


def calling(lookup: Lookup = ACCOUNT, **more: Any) -> Agent:
    handler = Handler(("tests.unit.lookups.handlers:told",), concurrency=4, **more)
    return Agent("limit", ("in",), None, Destination("out"), "dead", handler=handler, lookups=(lookup,))


def totals(lookup: Lookup = TEAM, **more: Any) -> Agent:
    handler = Handler(("tests.unit.lookups.handlers:total",), concurrency=2)
    rule = Aggregation(count=2, compute=(Reducer("total", "sum", "n"),))
    return Agent("sums", ("in",), rule, Destination("out"), "dead", handler=handler, lookups=(lookup,), **more)


def turned(driver: Driver, times: int = 10) -> Driver:
    for _ in range(times):
        driver.turns(2).later(0.5)
    return driver


def driving(agent: Agent, store: MemoryStore, log: Log, clock: ManualClock) -> Driver:
    return turned(Driver(agent, store, log, clock).give(0))


def test_a_call_outside_of_the_commit_gets_the_rows_and_no_session(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, *[{"account": name} for name in ("a", "b", "a")])
    driving(calling(), store, log, clock)
    assert sorted(document["currency"] for document in out(log)) == ["EUR", "EUR", "USD"]
    assert handlers.sessions == [None] * 3


def test_a_group_gets_its_rows_and_having_sees_them(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(store, "teams", {"x": {"site": "Ulm"}, "y": {"site": "Bonn"}})
    for key in (b"x", b"y"):
        give(log, {"n": 1}, {"n": 2}, key=key)
    driving(totals(having='team.site == "Ulm"'), store, log, clock)
    assert (out(log), letters(log)) == ([{"key": "x", "site": "Ulm"}], [])


def test_having_without_an_answer_makes_a_dead_letter_and_no_call(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"n": 1}, {"n": 2}, key=b"z")
    driving(totals(having='team.site == "Ulm"'), store, log, clock)
    assert (out(log), [reason for *_, reason in letters(log)]) == ([], ["expression-failed"])


def test_without_a_row_the_handler_is_not_called(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, *[{"account": name} for name in ("a", "c", "b")])
    driver = driving(calling(replace(ACCOUNT, missing="dead-letter")), store, log, clock)
    assert len(out(log)) == 2
    assert letters(log) == [("1", "lookup", "lookup-missing")]
    [row] = driver.worker.reports.of(clock.now).partitions
    assert (row.offset, row.sealed) == (3, 0)


def test_a_message_that_waits_for_its_row_holds_up_only_its_key(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    for key, account in ((b"1", "c"), (b"2", "a"), (b"1", "b")):
        give(log, {"account": account}, key=key)
    driver = driving(calling(replace(ACCOUNT, **WAITS), attempts=2), store, log, clock)
    assert out(log) == [{"currency": "EUR"}]
    put(store, "accounts", {"b": {"currency": "USD"}, "c": {"currency": "GBP"}})
    turned(driver, 60)
    assert out(log) == [{"currency": "EUR"}, {"currency": "GBP"}, {"currency": "USD"}]
    assert letters(log) == []


def test_it_waits_no_longer_than_the_file_says_and_no_try_counts_as_an_attempt(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"account": "c"}, {"account": "a"})
    driver = driving(calling(replace(ACCOUNT, **WAITS), attempts=1), store, log, clock)
    turned(driver, 130)
    assert letters(log) == [("0", "lookup", "lookup-missing")]
    assert out(log) == [{"currency": "EUR"}]


def test_each_attempt_gets_rows_of_its_own(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handlers.fails.append(ValueError("once"))
    give(log, {"account": "a"})
    driver = driving(calling(attempts=3, backoff_first=20.0), store, log, clock)
    put(store, "accounts", {"a": {"currency": "CHF"}})
    turned(driver, 60)
    assert out(log) == [{"currency": "CHF"}]


def test_a_lookup_that_fails_stops_the_partition_until_it_works(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(log, {"account": "a"})
    with monkeypatch.context() as patch:
        patch.setattr(Lookups, "read_apart", failing)
        driver = driving(calling(attempts=1), store, log, clock)
        assert out(log) == []
    turned(driver, 60)
    assert (out(log), letters(log)) == ([{"currency": "EUR"}], [])


def failing(*_: object) -> None:
    raise LookupFailed("lookup-failed: no such table")


def killed(log: Log, store: MemoryStore, clock: ManualClock, place: str) -> None:
    """A process dies there with work in hand, and another one goes on."""
    give(log, *[{"account": letter} for letter in "aacba"])
    agent = calling(replace(ACCOUNT, missing="dead-letter"))
    failpoints.arm({"SLUICEGATE_FAILPOINTS": f"{place}=raise"})
    with suppress(failpoints.Failpoint):
        driving(agent, store, log, clock)
    failpoints.arm({})
    clock.now += 60
    turned(driving(agent, store, log, clock), 60)


@pytest.mark.parametrize("place", ["before-commit", "after-commit", "sealed", "attempt-marked", "acked-not-recorded"])
def test_a_death_anywhere_repeats_and_loses_nothing(
    place: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    killed(log, store, clock, place)
    assert sorted(document["currency"] for document in out(log)) == ["EUR", "EUR", "EUR", "USD"]
    assert letters(log) == [("2", "lookup", "lookup-missing")]


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "lookups.md").read_text(encoding="utf-8")
FILE = """\
app: shop
kafka: {bootstrap.servers: "${BROKER}"}
store: STORE
dead_letters: dead
agents:
  call:
    from: orders
    handler: tests.unit.lookups.handlers:told
    concurrency: 4
    lookup: {account: {SOURCE, key: account, fields: [currency]MISSING}}
    to: {topic: out}
tests:
  it:
"""
TABLE, TOPIC = "table: accounts, column: id", "topic: accounts"


def test_the_file_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    [shown] = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if "service:notify" in text]
    steps = (
        "- send: {topic: customers, key: c-1, value: {mail: ann@example.com}}\n"
        "- send: {topic: orders, key: o-1, value: {customer_id: c-1}}\n"
        "- expect: {topic: notified, key: o-1, value: {mail: ann@example.com}}\n"
        "- send: {topic: orders, key: o-2, value: {customer_id: c-2}}\n"
        "- advance: 2m\n"
        "- expect: {topic: shop.dead, key: o-2, reason: lookup-missing}\n"
    )
    head = shown.replace("service:notify", "tests.unit.lookups.handlers:notify") + "tests:\n  it:\n"
    verdict = crashed(tmp_path, steps, head)
    assert (verdict.failure, verdict.place) == (None, None)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///state.db"])
@pytest.mark.parametrize("source", [TABLE, TOPIC])
def test_the_tests_of_a_file_hold_with_a_death_anywhere(url: str, source: str, tmp_path: Path) -> None:
    row = "row: {table: accounts" if source == TABLE else "send: {topic: accounts"
    steps = (
        f"- {row}, key: a, value: {{currency: EUR}}}}\n"
        "- send: {topic: orders, key: k, value: {account: a}}\n"
        "- expect: {topic: out, key: k, value: {currency: EUR}}\n"
        "- send: {topic: orders, key: l, value: {account: b}}\n"
        "- expect_nothing: out\n"
        f"- {row}, key: b, value: {{currency: USD}}}}\n"
        "- advance: 20s\n"
        "- expect: {topic: out, key: l, value: {currency: USD}}\n"
        "- send: {topic: orders, key: m, value: {account: c}}\n"
        "- advance: 2m\n"
        "- expect: {topic: dead, key: m, reason: lookup-missing}\n"
    )
    head = FILE.replace("STORE", url).replace("SOURCE", source).replace("MISSING", ", missing: {wait: 30s}")
    verdict = crashed(tmp_path, steps, head)
    assert (verdict.failure, verdict.place) == (None, None)
    assert verdict.deaths > 20
