"""Results with the rows that were looked up for them, in the real engine."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Destination, Handler, Selected
from sluicegate.streams.aggregation.rule import fingerprint
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.lookups.scene import TEAM, give, letters, out, put, run, summing


@pytest.fixture(autouse=True)
def _teams(store: MemoryStore) -> None:
    put(store, "teams", {"a": {"site": "Ulm"}, "b": {"site": "Bonn"}})


def sums(log: Log, *pairs: tuple[bytes, int]) -> None:
    for key, amount in pairs:
        give(log, {"amount": amount}, key=key)


def test_the_row_is_a_field_of_the_result(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    sums(log, (b"a", 1), (b"c", 5), (b"a", 2), (b"c", 5))
    run(summing(), store, log, clock)
    results = [(document["key"], document["total"], document["team"]) for document in out(log)]
    assert results == [("a", 3, {"site": "Ulm"}), ("c", 10, None)]
    assert [*out(log)[0]][-2:] == ["total", "team"]


def test_a_computed_field_is_a_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(store, "teams", {3: {"site": "Three"}})
    sums(log, (b"a", 1), (b"a", 2))
    run(summing(replace(TEAM, key="total")), store, log, clock)
    assert out(log)[0]["team"] == {"site": "Three"}


def test_a_missing_row_is_a_dead_letter_of_the_result(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    sums(log, (b"c", 5), (b"c", 5), (b"a", 1), (b"a", 1))
    run(summing(replace(TEAM, missing="dead-letter")), store, log, clock)
    assert letters(log) == [("0", "lookup", "lookup-missing")]
    assert out(log, "dead")[0]["total"] == 10
    assert [document["key"] for document in out(log)] == ["a"]


def test_having_routes_and_select_see_the_row(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.create("ulm", 1)
    sums(log, *[(key, 1) for key in (b"a", b"a", b"b", b"b", b"c", b"c")])
    ulm = Destination("ulm", where='team.site == "Ulm"', select=(Selected("total"), Selected("site", "team.site")))
    rest = Destination("out", select=(Selected("key"), Selected("team")))
    run(summing(having="team != null", routes=(ulm, rest)), store, log, clock)
    assert out(log, "ulm") == [{"total": 2, "site": "Ulm"}]
    assert out(log) == [{"key": "b", "team": {"site": "Bonn"}}]


def test_a_group_that_times_out_is_enriched_as_well(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    sums(log, (b"a", 1))
    driver = run(summing(rule={"since_first": 30.0}), store, log, clock)
    driver.later(31).turns()
    assert [(document["reason"], document["team"]) for document in out(log)] == [("timeout", {"site": "Ulm"})]


@pytest.mark.parametrize(("on_timeout", "expected"), [("discard", []), ("dead-letter", [None])])
def test_a_group_that_times_out_without_a_result_is_not_looked_up(
    log: Log, store: MemoryStore, clock: ManualClock, on_timeout: Any, expected: Any
) -> None:
    sums(log, (b"c", 1))
    lookup = replace(TEAM, missing="dead-letter")
    driver = run(summing(lookup, rule={"since_first": 30.0, "on_timeout": on_timeout}), store, log, clock)
    driver.later(31).turns()
    assert out(log) == []
    assert [document.get("team") for document in out(log, "dead")] == expected
    assert [reason for *_, reason in letters(log)] == ["timeout"] * len(expected)


def test_the_state_of_groups_does_not_depend_on_a_lookup() -> None:
    assert fingerprint(summing()) == fingerprint(replace(summing(), lookups=()))


def test_rows_are_those_of_the_commit_that_wrote_the_result(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = store.commit_with

    def changed(claim: Any, work: Any) -> Any:
        put(store, "teams", {"a": {"site": "Kiel"}})
        return begin(claim, work)

    monkeypatch.setattr(store, "commit_with", changed)
    sums(log, (b"a", 1), (b"a", 1))
    Driver(summing(), store, log, clock).give(0).turns()
    assert out(log)[0]["team"] == {"site": "Kiel"}


# -- waiting for a row -------------------------------------------------------------------------------------------------

WAITS = replace(TEAM, missing="wait", wait=30.0)
HANDLED = {"handler": Handler(("tests.unit.lookups.handlers:total",))}


@pytest.mark.parametrize("more", [{}, HANDLED], ids=["results", "handler"])
def test_a_group_waits_for_its_row_and_nothing_passes_it(
    log: Log, store: MemoryStore, clock: ManualClock, more: dict[str, Any]
) -> None:
    sums(log, (b"a", 1), (b"a", 1))
    driver = run(summing(WAITS, **more), store, log, clock)
    sums(log, (b"c", 5), (b"c", 5), (b"b", 1), (b"b", 1))
    driver.turns()
    for _ in range(5):
        driver.later(2).turns()
    assert [document["key"] for document in out(log)] == ["a"]
    assert any(
        "the group: lookup team found no row" in reason for reason in driver.worker.reports.of(clock.now).reasons
    )
    put(store, "teams", {"b": {"site": "Bonn"}, "c": {"site": "Cham"}})
    driver.later(20).turns(10)
    assert [document["key"] for document in out(log)] == ["a", "c", "b"]
    assert letters(log) == []


@pytest.mark.parametrize("more", [{}, HANDLED], ids=["results", "handler"])
def test_after_the_time_the_group_is_a_dead_letter(
    log: Log, store: MemoryStore, clock: ManualClock, more: dict[str, Any]
) -> None:
    sums(log, (b"c", 5), (b"c", 5), (b"a", 1), (b"a", 1))
    driver = run(summing(WAITS, **more), store, log, clock)
    for _ in range(20):
        driver.later(2.1).turns()
    assert letters(log) == [("0", "lookup", "lookup-missing")]
    assert [document["key"] for document in out(log)] == ["a"]


def test_a_group_that_waits_when_its_process_dies_waits_again(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    sums(log, (b"c", 5), (b"c", 5))
    run(summing(WAITS), store, log, clock).later(20).turns()
    again = Driver(summing(WAITS), store, log, clock).give(0).turns()
    again.later(20).turns()
    assert (out(log), letters(log)) == ([], [])
    put(store, "teams", {"c": {"site": "Cham"}})
    again.later(20).turns(10)
    assert [(document["key"], document["team"]) for document in out(log)] == [("c", {"site": "Cham"})]
