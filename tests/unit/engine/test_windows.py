"""Event-time windows in the engine: what closes them, what is late, and what survives the end of a process."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Deduplication, Window
from sluicegate.streams.engine.event_clock import EventClocks
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups import group_changes, open_groups
from sluicegate.streams.ownership.intake_pauses import IntakePauses
from sluicegate.streams.testing.log import LogInput
from sluicegate.streams.windows import intake
from sluicegate.streams.windows.clock import EventClock
from sluicegate.streams.windows.groups import WindowGroups
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import COMPUTE, an_agent, dead, shown

NOW = round(1_700_000_000 + ManualClock().now)  # the store's time when a test begins, which is the begin of a minute
ANN = Person("ann@host", "a reason", "ann-1")
MINUTE = Window(60.0, grace=10.0, idle=30.0, at_most=300.0)


def windowed_agent(window: Window = MINUTE, where: str = "", **more: Any) -> Any:
    rule = {"count": None, "since_first": None, "compute": COMPUTE, "window": window}
    return replace(an_agent(**{**rule, **more}), where=where)


def put(log: Log, *records: tuple[str, int, Any], number: int = 0) -> None:
    """Key, seconds since the test's first minute began, amount."""
    for key, at, amount in records:
        log.append("in", number, key.encode(), json.dumps({"amount": amount}).encode(), at=(NOW + at) * 1000)


def results(log: Log) -> list[tuple[str, int, Any, str | None]]:
    """Key, the second in which the window began, total, and what closed it."""
    documents = [json.loads(message.v or b"null") for message in distinct(log, "out")]
    return [(r["key"], second(r["window"]["start"]), r["total"], r["window"].get("closed_by")) for r in documents]


def second(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp()) - NOW


def a_driver(log: Log, store: MemoryStore, clock: ManualClock, agent: Any = None) -> Driver:
    return Driver(agent or windowed_agent(), store, log, clock).give(0)


@pytest.fixture
def driver(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    return a_driver(log, store, clock)


def test_a_record_past_the_end_and_grace_closes_a_window_and_one_before_does_not(log: Log, driver: Driver) -> None:
    put(log, ("a", 0, 1), ("a", 59, 2), ("a", 60, 4), ("b", 69, 8))
    driver.turns()
    assert results(log) == []
    put(log, ("c", 70, 16))
    driver.turns()
    assert results(log) == [("a", 0, 3, "event")]


def test_a_record_of_a_closed_window_is_late_and_one_of_an_open_window_is_not(log: Log, driver: Driver) -> None:
    put(log, ("a", 0, 1), ("b", 70, 1), ("a", 59, 2), ("a", 60, 4))
    driver.turns()
    assert dead(log) == [("2", "late")]
    assert results(log) == [("a", 0, 1, "event")]


def test_hopping_windows_of_one_record_are_results_of_their_own(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """They begin with the same record, so the start of the window is a part of the id."""
    hopping = replace(MINUTE, kind="hopping", every=20.0, late="skip")
    driver = a_driver(log, store, clock, windowed_agent(hopping))
    put(log, ("a", 0, 1), ("a", 45, 2), ("b", 400, 1), ("a", 45, 4))
    driver.turns()
    assert results(log) == [
        ("a", -40, 1, "event"),
        ("a", -20, 1, "event"),
        ("a", 0, 3, "event"),
        ("a", 20, 2, "event"),
        ("a", 40, 2, "event"),
    ]
    fires = [header(message, "sluicegate-fire") for message in distinct(log, "out")]
    assert len(set(fires)) == len(fires)


def test_records_that_are_late_for_some_windows_only_are_counted(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = a_driver(log, store, clock, windowed_agent(replace(MINUTE, kind="hopping", every=20.0)))
    put(log, ("b", 60, 1), ("a", 25, 2), ("a", -35, 4))
    driver.turns().later(1).turns()
    samples = {name: value for name, _, value in driver.reports[-1].metrics}
    assert (samples["records_partly_late"], dead(log)) == (1, [("2", "late")])


def test_late_records_may_be_skipped_and_are_counted(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = a_driver(log, store, clock, windowed_agent(replace(MINUTE, late="skip")))
    put(log, ("a", 0, 1), ("b", 70, 1), ("a", 59, 2))
    driver.turns().later(1).turns()
    assert dead(log) == []
    samples = {name: value for name, _, value in driver.reports[-1].metrics}
    assert samples["records_past_window"] == 1


def test_a_record_far_ahead_of_the_clock_is_a_dead_letter_and_moves_no_watermark(log: Log, driver: Driver) -> None:
    put(log, ("a", 0, 1), ("b", 10_000, 1), ("a", 59, 2))
    driver.turns()
    assert dead(log) == [("1", "time-ahead")]
    assert results(log) == []


@pytest.fixture(params=["compiled", "with care"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that cannot be compiled takes the careful way."""
    if request.param == "with care":
        monkeypatch.setattr(intake, "loop_of", lambda *_: None)


@pytest.mark.usefixtures("way")
def test_a_record_that_where_leaves_out_moves_the_watermark_in_its_place(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    put(log, ("a", 0, 1), ("b", 70, -1), ("a", 59, 2))
    a_driver(log, store, clock, windowed_agent(where="amount > 0")).turns()
    assert (results(log), dead(log)) == ([("a", 0, 1, "event")], [("2", "late")])


@pytest.mark.usefixtures("way")
def test_a_record_that_where_cannot_judge_moves_no_watermark(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(log, ("a", 0, 1), ("b", 70, "?"), ("a", 59, 2))
    a_driver(log, store, clock, windowed_agent(where="amount > 0")).turns()
    assert dead(log) == [("1", "expression-failed")]
    assert results(log) == []


@pytest.mark.usefixtures("way")
def test_a_duplicate_moves_no_watermark(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Its producer wrote it again with another time."""
    agent = windowed_agent(dedupe=Deduplication("field", "amount"))
    put(log, ("a", 0, 1), ("b", 1, 8), ("b", 70, 8), ("a", 59, 2))
    a_driver(log, store, clock, agent).turns()
    assert (results(log), dead(log)) == ([], [])


@pytest.mark.usefixtures("way")
def test_left_out_records_and_duplicates_together_keep_the_order_of_the_log(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = windowed_agent(where="amount > 0", dedupe=Deduplication("field", "amount"))
    put(log, ("a", 0, 1), ("a", 65, -1), ("a", 5, 2), ("a", 6, 2), ("x", 70, -1), ("a", 7, 3), ("x", 71, -2))
    a_driver(log, store, clock, agent).turns()
    assert (results(log), dead(log)) == ([("a", 0, 3, "event")], [("5", "late")])


def test_silence_closes_what_is_over_in_real_time_and_no_more(log: Log, driver: Driver, clock: ManualClock) -> None:
    put(log, ("a", 0, 1), ("b", 65, 2))
    driver.turns()
    clock.now += 99.9  # the first window and its grace are over after 70 s, and idle is 30 s
    driver.turns()
    assert results(log) == []
    clock.now += 0.2
    driver.turns()
    assert results(log) == [("a", 0, 1, "idle")]
    put(log, ("a", 59, 4), ("b", 66, 8))
    driver.turns()
    assert dead(log) == [("2", "late")]
    clock.now += 60
    driver.turns()
    assert results(log)[1:] == [("b", 60, 10, "idle")]


def test_the_headers_say_what_a_closing_rests_on(log: Log, driver: Driver, clock: ManualClock) -> None:
    put(log, ("a", 0, 1), ("b", 70, 2))
    driver.turns()
    clock.now += 1000
    driver.turns()
    first, second_one = distinct(log, "out")
    assert header(first, "sluicegate-closed") == "event"
    assert header(second_one, "sluicegate-closed") == f"idle/2/{(NOW + 130) * 1000}"
    assert header(first, "sluicegate-window") == "2023-11-14T22:30:00.000Z/2023-11-14T22:31:00.000Z"
    assert header(first, "sluicegate-revision") == "1"


def backlog(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """A worker stops for an hour. What waits then is of the window that was open."""
    put(log, ("a", 0, 1))
    a_driver(log, store, clock).turns()
    clock.now += 3600
    put(log, *[("a", 1, 1)] * 2_000)
    return a_driver(log, store, clock)


def test_no_clock_closes_a_window_whose_records_wait_in_the_backlog(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    backlog(log, store, clock).turns(30)
    assert results(log) == [("a", 0, 2001, "at_most")]
    assert dead(log) == []


def test_silence_without_the_end_of_the_partition_is_found(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogInput, "ended", lambda self, topic, number: 1 << 60)
    monkeypatch.setattr("sluicegate.streams.engine.event_clock._holds", lambda batch, place: False)
    backlog(log, store, clock).turns(30)
    assert ("a", 0, 2001, "at_most") not in results(log)


def test_a_clock_that_closes_before_the_backlog_was_read_is_found(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands = WindowGroups.stands

    def at_once(self: WindowGroups, offset: int, at_end: bool, now: float, asked: float) -> None:
        stands(self, offset, at_end, now, asked)
        self.caught_up = True

    monkeypatch.setattr(WindowGroups, "stands", at_once)
    backlog(log, store, clock).turns(30)
    assert ("a", 0, 1, "at_most") in results(log)


def test_silence_waits_while_intake_is_paused(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(log, ("a", 0, 1))
    driver = a_driver(log, store, clock).turns()
    monkeypatch.setattr(IntakePauses, "reads", lambda self, place: False)
    clock.now += 200
    driver.turns()
    assert results(log) == []
    monkeypatch.undo()
    driver.turns()
    assert results(log) == [("a", 0, 1, "idle")]


def test_at_most_ends_the_group_and_not_its_window(log: Log, driver: Driver, clock: ManualClock) -> None:
    """A producer's clock stands still: records keep coming, so there is no silence."""
    for _ in range(16):
        put(log, ("a", 5, 1))
        driver.turns(3)
        clock.now += 20
    driver.turns()
    assert results(log) == [("a", 0, 15, "at_most")]
    message = distinct(log, "out")[0]
    assert header(message, "sluicegate-closed") == "at_most/15"
    put(log, ("b", 70, 1))
    driver.turns()
    assert results(log)[1:] == [("a", 0, 1, "event")]


def test_the_watermark_and_the_silence_survive_the_worker(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(log, ("a", 0, 1), ("b", 70, 2))
    a_driver(log, store, clock).turns()
    clock.now += 100
    put(log, ("a", 59, 4))
    again = a_driver(log, store, clock).turns()
    assert dead(log) == [("2", "late")]
    clock.now += 29
    again.turns()
    clock.now += 100
    third = a_driver(log, store, clock).turns(8)
    assert results(log)[1:] == [("b", 60, 2, "idle")]
    assert shown(third)[0] == []


def test_silence_counts_from_the_last_record_and_not_from_the_claim(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    put(log, ("a", -100, 1))
    a_driver(log, store, clock).turns()
    clock.now += 20
    again = a_driver(log, store, clock).turns()
    assert results(log) == []
    clock.now += 10.2
    again.turns()
    assert results(log) == [("a", -120, 1, "idle")]


def test_a_partition_whose_records_have_not_come_yet_is_not_silent(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The first fetch after the claim takes its time."""
    put(log, ("a", -100, 1))
    a_driver(log, store, clock).turns()
    clock.now += 100
    put(log, ("a", -99, 2))
    again = a_driver(log, store, clock)
    poll = again.input.poll
    again.input.poll = lambda timeout: None  # type: ignore[method-assign]
    again.turns()
    assert results(log) == []
    again.input.poll = poll  # type: ignore[method-assign]
    again.turns()
    assert results(log) == []
    clock.now += 31
    again.turns()
    assert results(log) == [("a", -120, 3, "idle")]


def test_a_watermark_that_a_left_out_record_moved_is_committed(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = windowed_agent(where="amount > 0")
    put(log, ("b", 70, -1))
    a_driver(log, store, clock, agent).turns()
    put(log, ("a", 0, 1))
    a_driver(log, store, clock, agent).turns()
    assert dead(log) == [("1", "late")]


def test_the_report_has_the_age_of_the_watermark_and_a_deadline_that_is_a_number(
    log: Log, driver: Driver, clock: ManualClock
) -> None:
    put(log, ("a", 0, 1))
    driver.turns()
    [before] = driver.worker.reports.of(clock.now).partitions
    assert (before.watermark_lag, before.next_deadline) == (0.0, 100.0)
    [owner] = driver.worker._owners.values()
    assert owner.groups.windows is not None
    owner.groups.windows.event.read((NOW + 3600) * 1000)
    [after] = driver.worker.reports.of(clock.now).partitions
    assert after.next_deadline == 0.0


def test_an_empty_partition_has_no_silence(driver: Driver, clock: ManualClock) -> None:
    driver.turns()
    clock.now += 1000
    driver.turns()
    assert driver.worker.due_in(clock.now) == float("inf")


def test_a_watermark_of_other_times_is_not_taken_over(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The rule now reads another field: what the old times said about late records says nothing about the new ones."""
    put(log, ("a", 0, 1), ("b", 70, 2))
    a_driver(log, store, clock).turns()
    other = windowed_agent(replace(MINUTE, time="amount", unit="s"))
    put(log, ("c", 0, 5))
    Driver(other, store, log, clock, on_rule_change="drop").give(0).turns()
    assert dead(log) == []


def test_nor_when_no_group_was_open_at_the_change(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(log, ("a", 0, 1))
    driver = a_driver(log, store, clock).turns()
    clock.now += 1000
    driver.turns()
    other = windowed_agent(replace(MINUTE, time="amount", unit="s"))
    for _ in range(2):
        a_driver(log, store, clock, other).turns()
    put(log, ("c", 0, 5))
    a_driver(log, store, clock, other).turns()
    assert len(results(log)) == 1
    assert dead(log) == []


def test_a_changed_size_keeps_the_watermark_and_flush_fires_what_was_open(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    put(log, ("a", 0, 1), ("b", 75, 2))
    a_driver(log, store, clock).turns()
    put(log, ("c", 15, 4), ("d", 70, 8))
    larger = windowed_agent(replace(MINUTE, size=20.0))
    Driver(larger, store, log, clock, on_rule_change="flush").give(0).turns()
    assert results(log) == [("a", 0, 1, "event"), ("b", 60, 2, None)]
    assert dead(log) == [("2", "late")]
    again = Driver(larger, store, log, clock, on_rule_change="refuse").give(0)
    put(log, ("c", 15, 16))
    again.turns()
    assert dead(log) == [("2", "late"), ("4", "late")]


def test_groups_that_open_windows_hold_let_new_partitions_come(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    put(log, ("a", 0, 1))
    a_driver(log, store, clock).turns()
    log.topics["in"].append([])
    assert shown(a_driver(log, store, clock).turns())[0] == []


# -- twins: the same scenes without one protection ---------------------------------------------------------------------


def test_left_out_records_that_are_forgotten_are_found(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WindowGroups, "pass_over", lambda self, record, now: None)
    put(log, ("a", 0, 1), ("b", 70, -1), ("a", 59, 2))
    a_driver(log, store, clock, windowed_agent(where="amount > 0")).turns()
    assert dead(log) == []


def test_a_watermark_that_is_not_restored_is_found(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventClock, "restore", lambda self, state: None)
    put(log, ("a", 0, 1), ("b", 70, 2))
    a_driver(log, store, clock).turns()
    put(log, ("a", 59, 4))
    a_driver(log, store, clock).turns()
    assert dead(log) == []


def test_windows_without_a_look_at_the_end_of_the_partition_stay_open(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventClocks, "look", lambda self, batch, now: None)
    put(log, ("a", 0, 1))
    driver = a_driver(log, store, clock).turns()
    clock.now += 10_000
    driver.turns()
    assert results(log) == []


@pytest.mark.parametrize("ends", ["fire", "drop"])
def test_a_person_sees_hopping_windows_and_ends_all_of_a_key(
    ends: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = windowed_agent(replace(MINUTE, kind="hopping", every=30.0))
    driver = a_driver(log, store, clock, agent)
    put(log, ("a", 40, 1), ("a", 70, 2), ("b", 75, 4))
    driver.turns(3)
    windows = open_groups.open_groups(store, "app", agent, b"a")
    spans = [(group.window.start // 1000 - NOW, group.records, group.first) for group in windows if group.window]
    assert spans == [(30, 2, 0), (60, 1, 1)]
    group = group_changes.only(windows, "a", None)
    assert group_changes.overlap(group)
    if ends == "fire":
        open_groups.fire(store, group, ANN)
    else:
        open_groups.drop(store, group, agent, ANN)
    a_driver(log, store, clock, agent).turns(10)
    totals = [total for key, _, total, _ in results(log) if key == "a"]
    assert totals == ([1, 3, 2] if ends == "fire" else [1])
    assert open_groups.open_groups(store, "app", agent, b"a") == []
