"""Late records with `late: {new}` and `late: {amend}` in the engine: further and revised results, and their ids."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Window
from tests.unit.engine.driver import Log, ManualClock, distinct, header
from tests.unit.engine.scene import dead
from tests.unit.engine.test_windows import MINUTE, a_driver, put, second, windowed_agent

AMEND = replace(MINUTE, late="amend", keep=120.0, gather=5.0)
NEW = replace(MINUTE, late="new", gather=5.0)


def late_agent(window: Window, **more: Any) -> Any:
    return windowed_agent(window, **{"on_full": "dead-letter" if window.late == "amend" else "fire-oldest"} | more)


def results(log: Log) -> list[tuple[str, int, Any, str, int]]:
    """Key, the second in which the window began, total, what closed it, and the revision."""
    outputs = [(json.loads(message.v or b"null"), message) for message in distinct(log, "out")]
    assert all(header(message, "sluicegate-revision") == str(r["window"]["revision"]) for r, message in outputs)
    return [
        (r["key"], second(r["window"]["start"]), r["total"], r["window"]["closed_by"], r["window"]["revision"])
        for r, _ in outputs
    ]


def ids(log: Log) -> list[Sequence[object]]:
    return [
        [header(message, name) for name in ("sluicegate-id", "sluicegate-fire")] for message in distinct(log, "out")
    ]


def test_late_records_revise_the_result_of_their_window(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = a_driver(log, store, clock, late_agent(AMEND))
    put(log, ("a", 0, 1), ("b", 70, 2), ("a", 59, 4))
    driver.turns()
    clock.now += 4
    put(log, ("a", 58, 8))
    driver.turns()
    assert results(log) == [("a", 0, 1, "event", 1)]
    clock.now += 1.1  # 5 s after the first late record
    driver.turns()
    assert results(log)[1:] == [("a", 0, 13, "late", 2)]
    put(log, ("a", 57, 16))
    clock.now += 10
    driver.turns()
    clock.now += 5.1
    driver.turns()
    assert results(log)[2:] == [("a", 0, 29, "late", 3)]
    assert dead(log) == []
    assert len({*map(tuple, ids(log))}) == 3
    assert header(distinct(log, "out")[-1], "sluicegate-closed") == "late"


def test_a_record_that_is_later_than_amend_is_a_dead_letter(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The window ends at 60, with its grace at 70, and stays up to 190."""
    driver = a_driver(log, store, clock, late_agent(AMEND))
    put(log, ("a", 0, 1), ("b", 189, 2), ("a", 59, 4), ("b", 190, 2), ("a", 58, 8))
    driver.turns()
    assert results(log)[:2] == [("a", 0, 1, "event", 1), ("a", 0, 5, "late", 2)]
    assert dead(log) == [("4", "late")]


def test_a_late_record_of_a_window_without_records_makes_its_first_result(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = a_driver(log, store, clock, late_agent(AMEND))
    put(log, ("b", 75, 2), ("a", 0, 1))
    driver.turns()
    assert results(log) == []
    clock.now += 5.1
    driver.turns()
    assert results(log) == [("a", 0, 1, "late", 1)]


def test_late_records_make_a_further_result(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = a_driver(log, store, clock, late_agent(NEW))
    put(log, ("a", 0, 1), ("b", 70, 2), ("a", 59, 4), ("a", 58, 8))
    driver.turns()
    clock.now += 4.9
    driver.turns()
    assert results(log) == [("a", 0, 1, "event", 1)]
    clock.now += 0.2
    driver.turns()
    assert results(log)[1:] == [("a", 0, 12, "late", 1)]
    assert len({*map(tuple, ids(log))}) == 2


def test_late_records_of_a_key_make_a_further_session(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = a_driver(log, store, clock, late_agent(replace(NEW, kind="session", grace=0.0)))
    put(log, ("a", 0, 1), ("b", 200, 2), ("a", 100, 4), ("a", 20, 8), ("a", 60, 16))
    driver.turns()
    clock.now += 5.1
    driver.turns()
    assert results(log) == [("a", 0, 1, "event", 1), ("a", 20, 28, "late", 1)]


@pytest.mark.parametrize(("window", "total", "revision"), [(AMEND, 5, 2), (NEW, 4, 1)])
def test_late_records_survive_the_worker(
    window: Window, total: int, revision: int, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    put(log, ("a", 0, 1), ("b", 70, 2), ("a", 59, 4))
    a_driver(log, store, clock, late_agent(window)).turns()
    clock.now += 4.9
    again = a_driver(log, store, clock, late_agent(window)).turns()
    assert results(log) == [("a", 0, 1, "event", 1)]
    clock.now += 0.2
    again.turns()
    assert results(log)[1:] == [("a", 0, total, "late", revision)]


def test_at_most_sends_a_result_that_later_records_revise(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """A receiver replaces the earlier result, so the later one must have the records of both."""
    driver = a_driver(log, store, clock, late_agent(AMEND))
    total = 0
    for _ in range(17):
        put(log, ("a", 5, 1))
        total += 1
        driver.turns(3)
        clock.now += 20
    driver.turns()
    assert results(log)[0][3:] == ("at_most", 1)
    clock.now += 6
    driver.turns()
    assert results(log)[-1][2:4] == (total, "late")
    driver = a_driver(log, store, clock, late_agent(AMEND)).turns()
    put(log, ("b", 200, 1))
    driver.turns()
    assert results(log)[-1][2:4] == (total, "late")


def test_at_most_ends_windows_that_are_opened_after_a_change_to_dead_letters(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The result that `at_most` sent under `amend` keeps its group until the watermark is past its window."""
    amend, dead_letter = (late_agent(replace(window, idle=None)) for window in (AMEND, MINUTE))
    put(log, ("a", 5, 1))
    a_driver(log, store, clock, amend).turns().later(301).turns()
    driver = a_driver(log, store, clock, dead_letter).turns()
    assert results(log) == [("a", 0, 1, "at_most", 1)]
    put(log, ("b", 20, 2))
    driver.turns().later(301).turns()
    assert results(log)[1:] == [("b", 0, 2, "at_most", 1)]


def test_the_groups_of_windows_that_ended_are_gone(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = a_driver(log, store, clock, late_agent(AMEND))
    put(log, ("a", 0, 1), ("b", 70, 2))
    driver.turns()
    [owner] = driver.worker._owners.values()
    assert (len(owner.groups.newest.states), len(owner.groups.newest.closed)) == (2, 1)
    put(log, ("a", 400, 1))
    driver.turns()
    assert (len(owner.groups.newest.states), len(owner.groups.newest.closed)) == (1, 0)


def test_limits_end_groups_of_late_records_early(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = a_driver(log, store, clock, late_agent(NEW, max_groups=2))
    put(log, ("z", 200, 2), ("a", 0, 1), ("b", 1, 2), ("c", 2, 4), ("d", 3, 8))
    driver.turns()
    assert [(row["key"], row["total"], row["reason"]) for row in documents(log)] == [
        ("z", 2, "limit"),
        ("a", 1, "limit"),
        ("b", 2, "limit"),
    ]
    assert dead(log) == []


def documents(log: Log) -> list[dict[str, Any]]:
    return [json.loads(message.v or b"null") for message in distinct(log, "out")]
