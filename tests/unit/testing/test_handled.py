"""Handlers on the test driver: their outputs, their own writes, their failures, and a death at every place."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.sql.sqlite import Sqlite
from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Handler
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.testing.deaths import REPLIES, DeathKind, Deaths, MortalStore
from sluicegate.streams.testing.driver import TestDriver
from tests.unit.engine import handlers
from tests.unit.testing.apps import TOTAL
from tests.unit.testing.files import crashed, played

AMOUNTS = [1, 20, 300, 4000]
FILE = """\
app: books
kafka: {bootstrap.servers: "${BROKER}"}
store: memory://
agents:
  double:
    from: in
    handler: tests.unit.engine.handlers:forward
    to: {topic: doubled}
  again:
    from: doubled
    key: doubled
    repartition: by-amount
    aggregate: {count: 2}
    to: {topic: pairs}
tests:
  it:
"""
STEPS = """\
- send: {topic: in, key: a, value: {amount: 2}}
- send: {topic: in, key: b, value: {amount: 2}}
- expect: {topic: doubled, key: a, value: {doubled: 4}}
- expect: {topic: doubled, key: b, value: {doubled: 4}}
- expect: {topic: pairs, key: 4, value: {count: 2}}
"""


def an_app(function: str, rule: Aggregation | None = None, **how: Any) -> App:
    handler = Handler((f"tests.unit.engine.handlers:{function}",), **how)
    return App("app", "memory://", (Agent("a", ("in",), rule, Destination("out"), "dead", handler=handler),))


def play(app: App, deaths: Deaths | None = None, store: Store | None = None) -> TestDriver:
    driver = TestDriver(app, partitions=2, deaths=deaths, store=store)
    for amount in AMOUNTS:
        driver.send("in", {"amount": amount}, key="k")
    return driver


def test_a_handler_sends_and_its_failures_are_tried_again_as_the_clock_moves() -> None:
    handlers.fails[20] = [ValueError(), ValueError()]
    driver = play(an_app("forward", attempts=3, backoff_first=10.0))
    assert [output.value for output in driver.read("out")] == [{"doubled": 2}]
    (reason,) = driver.troubles()
    assert "the handler raised ValueError (attempt 1 of 3)" in reason
    driver.advance("15s")
    assert [output.value["doubled"] for output in driver.read("out")] == [40, 600, 8000]
    assert (driver.troubles(), driver.dead_letters()) == ([], [])


def test_a_message_that_fails_for_good_is_a_dead_letter() -> None:
    handlers.fails[20] = [ValueError()] * 9
    driver = play(an_app("forward", attempts=3, backoff_first=1.0))
    driver.advance(60)
    (letter,) = driver.dead_letters()
    assert (letter.reason, letter.value, letter.headers["sluicegate-dead-attempts"]) == (
        "handler-failed",
        {"amount": 20},
        "3",
    )
    assert [output.value["doubled"] for output in driver.read("out")] == [2, 600, 8000]


def test_what_a_handler_wrote_through_its_session_can_be_read() -> None:
    assert play(an_app("book", session=True)).values == {"sum": sum(AMOUNTS)}


def unbalanced(app: App) -> list[tuple[str, DeathKind]]:
    """The places where a death, or a store that does not answer, leaves other books than none does."""
    places = play_and_count(app)
    breaks: list[tuple[int, DeathKind]] = [(n, "kill") for n in range(1, len(places) + 1)]
    breaks += [(n, "lost") for n, name in enumerate(places, 1) if name in REPLIES]
    wrong: list[tuple[str, DeathKind]] = []
    for number, kind in breaks:
        driver = play(app, Deaths(number, kind))
        booked = (driver.values["sum"], sum(output.value for output in driver.read("out")))
        if booked != (sum(AMOUNTS), sum(AMOUNTS)):
            wrong.append((places[number - 1], kind))
    return wrong


def play_and_count(app: App) -> list[str]:
    deaths = Deaths()
    play(app, deaths)
    assert "before-commit" in deaths.reached
    return deaths.reached


@pytest.mark.parametrize(("function", "rule"), [("book", None), ("book_batch", Aggregation(count=2, compute=TOTAL))])
def test_the_books_balance_whatever_dies_wherever(function: str, rule: Aggregation | None) -> None:
    assert unbalanced(an_app(function, rule, session=True)) == []


def test_with_the_writes_outside_of_the_commit_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def apart(self: Any, claim: Any, work: Any) -> Any:
        def applied(session: Any) -> Any:
            changes = work(session)
            session.values.apply()
            self._deaths.reach("commit-asked")
            return changes

        after = self._store.commit_with(claim, applied)
        self.writes += 1
        return self._timed(after)

    monkeypatch.setattr(MortalStore, "commit_with", apart)
    assert ("commit-asked", "kill") in unbalanced(an_app("book", session=True))


@pytest.mark.parametrize("place", ["before-commit", "commit-asked", "commit-answered"])
def test_on_another_store_its_transaction_ends_with_the_process(tmp_path: Path, place: str) -> None:
    store = SqlStore(Sqlite(tmp_path / "state.db"))
    store.migrate()
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("create table book (amount integer)")
    handler = Handler(("tests.unit.testing.apps:enter",), session=True)
    app = App("app", "memory://", (Agent("a", ("in",), None, Destination("out"), "dead", handler=handler),))
    driver = play(app, store=store)
    driver.crash(place)
    driver.send("in", {"amount": 5}, key="k")
    with sqlite3.connect(tmp_path / "state.db") as database:
        assert database.execute("select sum(amount), count(*) from book").fetchall() == [
            (sum(AMOUNTS) + 5, len(AMOUNTS) + 1)
        ]
    assert driver.deaths.done == [place]
    store.close()


def test_a_file_with_handlers_and_a_repartition_is_played_and_survives_every_crash(tmp_path: Path) -> None:
    assert played(tmp_path, STEPS, FILE) is None
    verdict = crashed(tmp_path, STEPS, FILE)
    assert (verdict.failure, verdict.place) == (None, None)
    assert verdict.deaths > 80
