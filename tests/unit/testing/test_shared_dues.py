"""`scope: shared` on the test driver: records of several partitions give their group a deadline."""

from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Aggregation, App, DataDeadline, Deduplication, Destination, Outbox, Reducer
from sluicegate.streams.operations.groups.shared_groups import shared_groups
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

AFTER = DataDeadline(after="wait", unit="s", cancel="off")
by_form = pytest.mark.parametrize("dedupe", [None, Deduplication("field", "id", horizon=60.0)], ids=["packs", "ids"])


def an_app(deadline: DataDeadline = AFTER, dedupe: Deduplication | None = None, **rule: Any) -> App:
    made = Aggregation(deadline=deadline, compute=(Reducer("all", "collect", "id"),), **rule)
    agent = Agent("a", ("in",), made, Destination("out"), "dead", scope="shared", dedupe=dedupe)
    return App("app", "memory://", (agent,), outbox=Outbox())


def feed(driver: TestDriver, *waits: float | str | None) -> None:
    """A record for each, on partition after partition: with this wait, one that takes the deadline away (off), or one
    without."""
    for number, wait in enumerate(waits):
        value: dict[str, Any] = {"id": number, "off": wait == "off"}
        driver.send("in", value | ({"wait": wait} if isinstance(wait, float) else {}), key="k", partition=number % 4)


def results(driver: TestDriver) -> list[tuple[str, list[int]]]:
    return [(output.value["reason"], output.value["all"]) for output in driver.read("out")]


@by_form
def test_the_newest_deadline_of_all_partitions_counts(dedupe: Deduplication | None) -> None:
    with TestDriver(an_app(dedupe=dedupe), workers=3) as driver:
        feed(driver, 5.0, None, 20.0, None)
        driver.advance(19.0)
        assert results(driver) == []
        driver.advance(1.5)
        assert results(driver) == [("timeout", [0, 1, 2, 3])]


@by_form
def test_a_deadline_that_has_passed_ends_the_group_with_its_record(dedupe: Deduplication | None) -> None:
    with TestDriver(an_app(dedupe=dedupe)) as driver:
        for number, wait in enumerate([5.0, None, -1.0, None, 3.0]):
            value = {"id": number, "off": False} | ({} if wait is None else {"wait": wait})
            driver.send("in", value, key="k", partition=0)
        assert results(driver) == [("timeout", [0, 1, 2])]
        driver.advance(3.5)
        assert results(driver) == [("timeout", [3, 4])]


def test_a_record_takes_the_deadline_away_and_a_later_one_gives_it_again() -> None:
    with TestDriver(an_app(), workers=2) as driver:
        feed(driver, 5.0, "off")
        driver.advance(30.0)
        assert results(driver) == []
        driver.send("in", {"id": 2, "off": False, "wait": 40.0}, key="k", partition=3)
        driver.advance(9.0)
        assert results(driver) == []
        driver.advance(1.5)
        assert results(driver) == [("timeout", [0, 1, 2])]


def test_a_record_without_an_answer_is_a_dead_letter_and_changes_no_deadline() -> None:
    with TestDriver(an_app(), workers=2) as driver:
        feed(driver, 5.0)
        driver.send("in", {"id": 1, "off": False, "wait": "soon"}, key="k", partition=1)
        [dead] = driver.read("dead")
        assert dead.headers["sluicegate-dead-reason"] == "expression-failed"
        driver.advance(5.5)
        assert results(driver) == [("timeout", [0])]


def test_a_group_that_reaches_its_count_has_no_deadline_left() -> None:
    with TestDriver(an_app(count=2)) as driver:
        feed(driver, 5.0, None, None)
        assert results(driver) == [("count", [0, 1])]
        driver.advance(60.0)
        assert results(driver) == []


@pytest.mark.parametrize(("since", "fires_in"), [("first", 20.0), ("last", 20.5)])
def test_an_open_group_shows_the_deadline_of_its_records(since: Any, fires_in: float) -> None:
    app = an_app(DataDeadline(after="wait", since=since, unit="s", cancel="off"), since_first=90.0)
    with TestDriver(app) as driver:
        feed(driver, 1.0)
        driver.advance(0.5)
        driver.send("in", {"id": 1, "off": False, "wait": 25.0}, key="k", partition=1)
        driver.advance(4.5)
        [group] = shared_groups(driver._store.buffer, "app", app.agents[0], driver.clock.time())
        assert group.fires_in == pytest.approx(fires_in)


FILE = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
dead_letters: shop.dead
agents:
  promised:
    from: [web, shop]
    scope: shared
    aggregate:
      until: {field: status, equals: delivered}
      timeout: {at: due_at, first: 30d}
      compute: {status: {last: status}}
    to: {topic: late}
tests:
  late:
    - send: {topic: web, key: o-1, partition: 0, value: {status: paid, due_at: "2026-01-01T01:00:00Z"}}
    - send: {topic: shop, key: o-1, partition: 1, value: {status: moved, due_at: "2026-01-01T05:00:00Z"}}
    - send: {topic: shop, key: o-2, partition: 1, value: {status: paid, due_at: "2026-01-01T01:00:00Z"}}
    - send: {topic: web, key: o-2, partition: 0, value: {status: delivered}}
    - advance: 11s # the lease of a worker that died
    - expect: {topic: late, key: o-2, value: {status: delivered, reason: until}}
    - advance: 4h
    - expect_nothing: late
    - advance: 1h
    - advance: 11s
    - expect: {topic: late, key: o-1, value: {status: moved, reason: timeout, count: 2}}
"""


def test_a_promise_is_kept_whatever_dies(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(FILE)
    file = loaded(tmp_path / "app.yaml")
    assert file.app is not None, file.problems
    verdict = play_with_crashes(file.app, file.cases[0], lambda *_: None)
    assert verdict.failure is None
    assert verdict.deaths > 20


@by_form
def test_a_step_of_the_clock_stops_at_each_deadline(dedupe: Deduplication | None) -> None:
    with TestDriver(an_app(dedupe=dedupe), workers=2) as driver:
        feed(driver, 5.0)
        driver.send("in", {"id": 1, "off": False, "wait": 40.0}, key="other", partition=1)
        driver.advance(60.0)
        closed = [output.value["closed_at"] for output in driver.read("out")]
        assert closed == ["2026-01-01T00:00:05.000Z", "2026-01-01T00:00:40.000Z"]
