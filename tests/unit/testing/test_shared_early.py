"""`scope: shared` with `emit: {every}` on the test driver: results of groups that stay open."""

from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.memory.buffer import MemoryBuffer
from sluicegate.streams.agent import Agent, Aggregation, App, Deduplication, Destination, Emit, Outbox, Reducer
from sluicegate.streams.contracts.leased_values import EarlyPast, OpenBatch
from sluicegate.streams.operations.groups import open_groups
from sluicegate.streams.operations.groups.shared_groups import shared_groups
from sluicegate.streams.shared.shared_firing import SharedFiring
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes
from tests.unit.testing import sharing

COMPUTE = (Reducer("total", "sum", "v"),)
by_form = pytest.mark.parametrize("dedupe", [None, Deduplication("field", "id", horizon=60.0)], ids=["packs", "ids"])


def an_app(final: bool = True, compute: Any = COMPUTE, more: dict[str, Any] | None = None, **rule: Any) -> App:
    emit = Emit(every=10.0, final=final)
    aggregation = Aggregation(**({"count": 9, "since_first": 60.0} | rule), compute=compute, emit=emit)
    agent = Agent("a", ("in",), aggregation, Destination("out"), "dead", scope="shared", **(more or {}))
    return App("app", "memory://", (agent,), outbox=Outbox())


def feed(driver: TestDriver, *values: int) -> None:
    for value in values:
        driver.send("in", {"v": value, "id": value}, key="k", partition=value % 4)


def told(driver: TestDriver) -> list[tuple[int, str, int, bool]]:
    """The number of records, the reason, the revision and whether it is the last one, of each result."""
    fields = ("count", "reason", "revision", "final")
    return [tuple(output.value[name] for name in fields) for output in driver.read("out")]  # type: ignore[misc]


@by_form
def test_a_group_has_a_result_a_period_after_its_first_new_record_and_one_when_it_ends(
    dedupe: Deduplication | None,
) -> None:
    with TestDriver(an_app(more={"dedupe": dedupe}), workers=3) as driver:
        feed(driver, 1, 2)
        driver.advance(9.0)
        assert told(driver) == []
        driver.advance(1.5)
        [output] = driver.read("out")
        assert (output.value["total"], output.value["reason"], output.value["revision"]) == (3, "early", 1)
        assert (output.headers["sluicegate-revision"], output.headers["sluicegate-final"]) == ("1", "false")
        driver.advance(20.0)
        assert told(driver) == []  # nothing changed
        feed(driver, 3, 4, 5)
        driver.advance(10.5)
        assert told(driver) == [(5, "early", 2, False)]
        feed(driver, *range(6, 11))
        [last, *_] = driver.read("out")
        assert (last.value["total"], last.value["revision"], last.value["final"]) == (45, 3, True)
        assert last.headers["sluicegate-first"] == output.headers["sluicegate-first"]
        driver.advance(10.5)
        driver.advance(50.0)
        assert told(driver) == [(1, "early", 1, False), (1, "timeout", 2, True)]


def test_a_group_whose_records_are_all_in_a_result_has_no_other_one_without_final() -> None:
    with TestDriver(an_app(final=False), workers=2) as driver:
        feed(driver, 1, 2)
        driver.advance(10.5)
        driver.advance(50.0)
        assert told(driver) == [(2, "early", 1, False)]
        feed(driver, 3)
        driver.advance(10.5)
        feed(driver, 4)
        driver.advance(5.0)
        feed(driver, *range(5, 12))
        assert told(driver) == [(1, "early", 1, False), (9, "count", 2, True)]


def test_having_leaves_results_out_and_numbers_are_missing_then() -> None:
    with TestDriver(an_app(more={"having": "total > 2.0"})) as driver:
        feed(driver, 1)
        driver.advance(10.5)
        feed(driver, 2)
        driver.advance(10.5)
        assert told(driver) == [(2, "early", 2, False)]


def test_a_record_that_a_reducer_refuses_is_a_dead_letter_once() -> None:
    refuses = Reducer("total", "reduce", function="tests.unit.testing.sharing:without_ones")
    sharing.reset()
    with TestDriver(an_app(compute=(refuses,))) as driver:
        feed(driver, 0, 1, 2)
        driver.advance(10.5)
        assert (told(driver), driver.dead_letters()) == ([(2, "early", 1, False)], [])
        driver.advance(60.0)
        assert told(driver) == [(2, "timeout", 2, True)]
        assert [letter.reason for letter in driver.dead_letters()] == ["reducer"]


def test_a_group_that_ends_in_parts_has_no_early_result_of_all_of_them() -> None:
    """Its first part is the group that had early results, and continues their numbers."""
    compute = (Reducer("all", "collect", "text"),)
    with TestDriver(an_app(compute=compute, max_bytes=100)) as driver:
        for number in range(3):
            driver.send("in", {"text": f"{number}" * 40}, key="k", partition=number)
            driver.advance(10.5)
        assert told(driver) == [(1, "early", 1, False), (2, "early", 2, False)]
        driver.advance(60.0)
        results = [
            (output.value["count"], output.value["reason"], output.value["final"]) for output in driver.read("out")
        ]
        assert results == [(2, "limit", True), (1, "timeout", True)]


def test_a_result_that_cannot_be_made_is_left_out_and_the_last_one_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ArithmeticError

    with TestDriver(an_app(final=False)) as driver:
        feed(driver, 1, 2)
        with monkeypatch.context() as patch:
            patch.setattr(SharedFiring, "early", fails)
            driver.advance(59.0)
        assert told(driver) == []
        driver.advance(1.5)
        assert told(driver)[-1][:2] == (2, "timeout")


def test_fewer_results_are_made_together_when_leases_end_before_they_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else workers would take the same many groups from each other without end."""
    asked: list[int] = []

    def early(_: Any, name: str, gate: Any, limit: int) -> list[OpenBatch]:
        asked.append(limit)
        return [OpenBatch("k", (), 1, EarlyPast(1, True), "token")] * limit

    with TestDriver(an_app()) as driver, monkeypatch.context() as patch:
        patch.setattr(MemoryBuffer, "early", early)
        patch.setattr(MemoryBuffer, "complete_early", lambda *parts: [len(asked) > 3] * len(parts[3]))
        for _ in range(6):
            driver.advance(1.0)
    assert asked[:6] == [100, 50, 25, 12, 24, 48]


FILE = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
dead_letters: shop.dead
agents:
  baskets:
    from: [web, shop]
    scope: shared
    aggregate: {count: 3, timeout: 10m, compute: {total: {sum: amount}}}
    emit: {every: 30s}
    to: {topic: baskets}
tests:
  so far:
    - send: {topic: web, key: a, partition: 0, value: {amount: 1}}
    - send: {topic: shop, key: a, partition: 1, value: {amount: 2}}
    - advance: 11s # the lease of a worker that died
    - advance: 20s
    - advance: 11s
    - expect: {topic: baskets, key: a, value: {total: 3, reason: early, revision: 1, final: false}}
    - advance: 1m
    - expect_nothing: baskets
    - send: {topic: web, key: a, partition: 2, value: {amount: 4}}
    - advance: 11s
    - expect: {topic: baskets, key: a, value: {total: 7, reason: count, revision: 2, final: true}}
"""


def test_a_crash_at_any_place_loses_and_repeats_no_result(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(FILE)
    file = loaded(tmp_path / "app.yaml")
    assert file.app is not None, file.problems
    verdict = play_with_crashes(file.app, file.cases[0], lambda *_: None)
    assert verdict.failure is None
    assert verdict.deaths > 20


@by_form
def test_why_says_how_many_early_results_were_sent_and_when_the_next_is_due(dedupe: Deduplication | None) -> None:
    app = an_app(more={"dedupe": dedupe})
    [agent] = app.agents

    def why() -> str:
        [group] = shared_groups(driver._store.buffer, "app", agent, driver.clock.time())
        return open_groups.why(group, agent)

    with TestDriver(app, workers=2) as driver:
        feed(driver, 1, 2)
        assert "the next early result is due in 10 s, any worker fires it" in why()
        driver.advance(10.5)
        assert ", 1 early result sent, any worker" in why()
        feed(driver, 3)
        assert "1 early result sent, the next early result is due in 10 s" in why()


def test_a_step_of_the_clock_stops_at_each_early_result() -> None:
    with TestDriver(an_app()) as driver:
        feed(driver, 1)
        driver.advance(4.0)
        feed(driver, 2)
        driver.advance(60.0)
        assert told(driver) == [(2, "early", 1, False), (2, "timeout", 2, True)]
        feed(driver, 3)
        driver.advance(60.0)
        assert told(driver) == [(1, "early", 1, False), (1, "timeout", 2, True)]
