"""Sessions that are rows of the store: which ones a record reads, in which order they end, what a person sees and
changes, and what a change of the rule does with them."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Emit, Window
from sluicegate.streams.aggregation.durable.alarms import key_of, row_key
from sluicegate.streams.contracts.values import Changes, ColdGroup
from sluicegate.streams.operations.accepting import accept
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.open_groups import drop, open_groups, why
from sluicegate.streams.ownership import paged
from sluicegate.streams.testing.group import groups as shown_groups
from sluicegate.streams.windows.cold import closes, sessions
from sluicegate.streams.windows.groups import WindowGroups
from tests.unit.engine.cold_scene import ANNE, KEYS, PLACE, ColdByCloseScene
from tests.unit.engine.driver import Driver
from tests.unit.engine.scene import a_log, dead, totals
from tests.unit.engine.test_windows import NOW, put, results, windowed_agent

MINUTE = Window(60.0, grace=10.0, idle=30.0, at_most=300.0, kind="session")
START = NOW * 1000


def paged_agent(window: Window = MINUTE, **more: Any) -> Agent:
    return windowed_agent(window, **{"hot_groups": 4, "key": None} | more)


class Scene(ColdByCloseScene):
    """Session number N begins N seconds after the test and has a total of N."""

    def __init__(self, agent: Agent | None = None, most: int = 20) -> None:
        super().__init__(agent or paged_agent(), most)


def test_a_takeover_reads_the_hot_sessions_alone() -> None:
    scene = Scene()
    assert (scene.rows, scene.alarms) == (KEYS[:16], 16)
    before = list(scene.store.keys(PLACE, None, 100))
    scene.driver = scene.started(scene.agent)
    assert (len(scene.groups.states), scene.owner.groups.open, scene.groups.cold.starts) == (4, 20, {START: 16})
    assert list(scene.store.keys(PLACE, None, 100)) == before


def test_sessions_end_one_by_one_whether_they_are_cold_or_hot() -> None:
    scene = Scene()
    for second in range(20):
        scene.feed(("other", 70 + second, 0))
        assert len(results(scene.log)) == second
    scene.feed(("other", 95, 0))
    assert results(scene.log) == [(key, number, number, "event") for number, key in enumerate(KEYS)]
    assert (scene.owner.groups.open, scene.rows, scene.alarms) == (1, [], 0)


def test_sessions_that_end_at_once_end_in_order_though_they_are_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene()
    put(scene.log, ("other", 200, 0), *[(key, 30, 1000) for key in KEYS])
    scene.driver.turns(30)
    assert results(scene.log) == [(key, number, number, "event") for number, key in enumerate(KEYS)]
    assert [reason for _, reason in dead(scene.log)] == ["late"] * 20


def test_a_record_extends_a_cold_session_and_joins_two() -> None:
    scene = Scene(paged_agent(replace(MINUTE, grace=600.0)))
    scene.feed(*[(key, 100, 100) for key in ("key-03", "key-04")])
    scene.feed(*[(key, 100, 0) for key in KEYS[10:]])
    assert scene.rows.count("key-03") == scene.rows.count("key-04") == 2
    scene.driver = scene.started(scene.agent)
    scene.feed(("key-03", 60, 1000), ("key-04", 150, 1000))
    scene.feed(("other", 1000, 0))
    scene.driver.turns(8)
    assert [result for result in results(scene.log) if result[0] in ("key-03", "key-04")] == [
        ("key-04", 4, 4, "event"),
        ("key-03", 3, 1103, "event"),
        ("key-04", 100, 1100, "event"),
    ]
    assert (scene.rows, scene.alarms) == ([], 0)


def test_only_sessions_that_a_record_may_join_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(paged_agent(replace(MINUTE, grace=600.0)))
    cold, asked = scene.store.cold, list[Any]()
    monkeypatch.setattr(scene.store, "cold", lambda place, keys: asked.extend(keys) or cold(place, keys))
    scene.feed(("key-03", 119, 0), ("key-03", 121, 0))
    assert asked == [row_key(START, b"key-03")]
    scene.feed(("key-05", 200, 0))
    assert asked == [row_key(START, b"key-03")]


def test_silence_ends_cold_sessions_and_moves_the_watermark_to_no_session_that_goes_on() -> None:
    scene = Scene()
    scene.feed(("key-05", 50, 100))
    scene.driver.later(70 + 30 + 8.5 - 2.1).turns(6)
    ended = [(key, number, number, "idle") for number, key in enumerate(KEYS[:9]) if number != 5]
    assert results(scene.log) == ended
    assert scene.groups.event.watermark == START + 8_000 + 70_001
    scene.driver.later(60).turns(6)
    assert results(scene.log)[-1] == ("key-05", 5, 105, "idle")
    assert (scene.owner.groups.open, scene.rows, scene.alarms) == (0, [], 0)


def test_silence_moves_the_watermark_to_no_end_that_a_session_no_longer_has() -> None:
    """The session that would have ended first was extended, and its row is gone."""
    scene = Scene()
    scene.feed(("key-00", 50, 100))
    scene.driver.later(70 + 30 + 0.5 - 2.1).turns(6)
    assert (results(scene.log), scene.groups.event.watermark) == ([], START + 50_000)


def test_silence_reads_cold_sessions_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene()
    scene.driver.later(200).turns(30)
    assert results(scene.log) == [(key, number, number, "idle") for number, key in enumerate(KEYS)]


def test_cold_sessions_end_at_most_then_after_their_last_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    scene.feed(("key-00", 5, 100))
    scene.driver.later(99 - 2.1).turns(4)
    assert results(scene.log) == []
    for _ in range(50):
        scene.driver.later(0.1).turns(2)
    ends = [*enumerate(KEYS)][1:]
    assert results(scene.log) == [
        *((key, number, number, "at_most") for number, key in ends),
        ("key-00", 0, 100, "at_most"),
    ]
    assert (scene.rows, scene.alarms) == ([], 0)


def test_no_row_is_read_for_at_most_before_the_owner_has_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    before, asked = scene.store.before, list[Any]()
    monkeypatch.setattr(scene.store, "before", lambda *question: asked.append(question) or before(*question))
    with monkeypatch.context() as patch:
        patch.setattr(WindowGroups, "stands", lambda *position: None)
        scene.groups.caught_up = False
        scene.driver.later(110).turns(5)
        assert (results(scene.log), asked) == ([], [])
    scene.driver.turns(5)
    assert sorted(results(scene.log)) == [(key, number, number, "at_most") for number, key in enumerate(KEYS)]


@pytest.mark.parametrize("before", [None, 300.0])
def test_a_shorter_at_most_counts_for_cold_sessions(before: float | None) -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=before)))
    assert scene.alarms == (16 if before else 0)
    scene.driver = scene.started(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    for _ in range(4):
        scene.driver.later(34).turns(6)
    assert sorted(key for key, *_ in results(scene.log)) == KEYS


@pytest.mark.parametrize(("grace", "ended"), [(0.0, 20), (100.0, 0)])
def test_another_grace_counts_for_cold_sessions(grace: float, ended: int) -> None:
    scene = Scene(paged_agent(replace(MINUTE, grace=50.0)))
    scene.driver = scene.started(paged_agent(replace(MINUTE, grace=grace)))
    assert len(scene.rows) == 16
    scene.feed(("other", 90, 0))
    assert len(results(scene.log)) == ended
    scene.feed(("other", 200, 0))
    scene.driver.turns(4)
    assert results(scene.log)[:20] == [(key, number, number, "event") for number, key in enumerate(KEYS)]


def test_cold_sessions_do_not_end_later_when_the_clock_of_the_store_was_ahead() -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    scene.clock.now -= 1000
    scene.driver = scene.started(scene.agent)
    for _ in range(4):
        scene.driver.later(34).turns(8)
    assert sorted(key for key, *_ in results(scene.log)) == KEYS


def test_the_cold_session_that_ends_first_makes_room() -> None:
    """Also if the keys of other rows are before it."""
    scene = Scene(paged_agent(max_groups=20), most=0)
    for second, key in enumerate(reversed(KEYS)):
        scene.feed((key, second, second))
    scene.feed(("more", 20, 1))
    scene.feed(("and more", 20, 1))
    assert totals(scene.log) == [("key-19", "limit", 1, 0), ("key-18", "limit", 1, 1)]
    assert scene.owner.groups.open == 20


def test_sessions_that_end_in_more_intervals_than_a_record_may_ask_for_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "MOST_ENDS", 2)
    scene = Scene(paged_agent(replace(MINUTE, grace=3600.0)), most=6)
    for minute in range(2, 16, 2):
        scene.feed(*[(key, 60 * minute, 1) for key in KEYS[:6]])
    assert scene.groups.cold.starts == {START: 6, START + 120_000: 6}
    assert len(scene.groups.states) == 36


def test_a_session_whose_alarm_has_too_long_a_key_stays_in_memory() -> None:
    scene = Scene(most=0)
    long, longer = "a" * 494, "b" * 495
    scene.feed((longer, 0, 1), (long, 0, 1))
    scene.feed(*[(key, 1, 1) for key in KEYS])
    scene.feed(("other", 1, 1))
    assert long in scene.rows
    assert longer not in scene.rows
    assert max(len(row.key) for row in scene.store.keys(PLACE, None, 200)) == 512


def test_sessions_that_a_longer_grace_opens_again_do_not_take_one_row() -> None:
    """The first one had ended by event time when the second one began, and its result waited."""
    scene = Scene(paged_agent(replace(MINUTE, grace=0.0, idle=None)), most=0)
    scene.feed(("a", 0, 1))
    scene.groups.may_close = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WindowGroups, "_close", lambda self, now, most: 0)
        put(scene.log, ("b", 61, 1), ("a", 58, 10))
        scene.driver.turns(1)
    assert len(scene.groups.sessions[b"a"]) == 2
    scene.driver = scene.started(paged_agent(replace(MINUTE, grace=600.0, idle=None), hot_groups=1))
    scene.feed(*[(key, 62, 1) for key in KEYS[:5]])
    assert "a" not in scene.rows
    scene.feed(("other", 2000, 0))
    scene.driver.turns(4)
    assert sorted(result for result in results(scene.log) if result[0] == "a") == [
        ("a", 0, 1, "event"),
        ("a", 58, 10, "event"),
    ]


@pytest.mark.parametrize(("second", "pause"), [(71, 130.0), (180, 0.0)])
def test_rows_that_are_missing_halt_the_partition(second: int, pause: float) -> None:
    """When silence could end their sessions, and when event time must have ended them."""
    scene = Scene()
    scene.store._rows[PLACE].cold.apply([], [row.key for row in scene.store.keys(PLACE, None, 200)])
    scene.feed(("other", second, 1))
    scene.driver.later(pause).turns(3)
    report = scene.driver.worker.reports.of(scene.driver.clock.now)
    assert [partition.error for partition in report.partitions] == ["changelog-incomplete"]
    assert "16 rows of cold groups are missing" in str(report.partitions[0].detail)


def test_a_cold_session_keeps_its_early_results() -> None:
    scene = Scene(paged_agent(emit=Emit(count=2)))
    scene.feed(*[(key, 30, 100) for key in KEYS[:10]])
    scene.feed(*[(key, 31, 100) for key in KEYS[:10]])
    assert len(results(scene.log)) == 10
    scene.driver = scene.started(scene.agent)
    scene.feed(("other", 170, 1))
    scene.driver.turns(4)
    sums = [total for total in totals(scene.log) if total[0] == "key-00"]
    assert sums == [("key-00", "early", 2, 100), ("key-00", "window", 3, 200)]


def test_sessions_of_late_records_stay_in_memory_and_the_others_become_cold_beside_them() -> None:
    scene = Scene()
    scene.driver = scene.started(paged_agent(replace(MINUTE, late="new", gather=5.0)))
    assert (scene.rows, len(scene.groups.states)) == (KEYS[:16], 4)
    scene.feed(("other", 200, 0), ("key-03", 30, 100))
    scene.driver.turns(6)
    for second in range(200, 208):
        scene.feed((f"new-{second}", second, 1))
    assert (len(scene.rows), "key-03" in scene.rows) == (6, False)
    scene.driver.later(5).turns(3)
    assert [result for result in results(scene.log) if result[0] == "key-03"] == [
        ("key-03", 3, 3, "event"),
        ("key-03", 30, 100, "late"),
    ]


def test_a_session_of_late_records_stays_in_memory_after_a_longer_grace_made_it_one_that_is_not_closed() -> None:
    new = replace(MINUTE, late="new", gather=5.0)
    scene = Scene(paged_agent(new), most=0)
    scene.feed(("other", 200, 0), ("key-03", 30, 100))
    scene.driver = scene.started(paged_agent(replace(new, grace=1000.0)))
    for second in range(200, 208):
        scene.feed((f"new-{second}", second, 1))
    assert (len(scene.rows), "key-03" in scene.rows) == (6, False)
    scene.driver.later(5).turns(3)
    assert results(scene.log) == [("key-03", 30, 100, "late")]


@pytest.mark.parametrize("policy", ["finish", "flush", "drop"])
def test_cold_sessions_go_with_the_others_when_the_rule_changes(policy: str) -> None:
    scene = Scene()
    scene.changed(paged_agent(replace(MINUTE, grace=0.0), compute=()), policy)
    assert (scene.rows, scene.alarms) == ([], 0)
    scene.feed(("other", 170, 1))
    scene.driver.turns(4)
    assert len([total for total in totals(scene.log) if total[0] in KEYS]) == (0 if policy == "drop" else 20)


# -- what a person sees and changes ------------------------------------------------------------------------------------


def test_all_sessions_are_listed_and_one_is_explained() -> None:
    scene = Scene(paged_agent(replace(MINUTE, grace=600.0)))
    scene.feed(("key-02", 75, 100), ("key-03", 30, 0))
    assert scene.open_keys() == sorted([*KEYS, "key-02"])
    first, next_one = sorted(open_groups(scene.store, "app", scene.agent, b"key-02"), key=lambda group: group.begin)
    assert (first.values, first.records, next_one.values) == ({"total": 2}, 1, {"total": 100})
    assert first.window is not None
    assert (first.window.closes, first.window.watermark) == (START + 662_001, START + 75_000)
    assert "1 record, " in why(first, scene.agent)
    assert sorted(str(group.key) for group in shown_groups(scene.agent, scene.view, scene.store)) == scene.open_keys()


@pytest.mark.parametrize("key", ["key-02", "key-19"])
def test_a_person_fires_a_session_whether_it_is_cold_or_hot(key: str) -> None:
    scene = Scene()
    scene.fire(key)
    assert [(key, reason) for key, reason, *_ in totals(scene.log)] == [(key, "manual")]
    assert scene.owner.groups.open == 19


@pytest.mark.parametrize("key", ["key-02", "key-19", "key-05"])
def test_a_person_drops_a_session_whether_it_is_cold_or_hot(key: str) -> None:
    """The last one was cold and is hot."""
    scene = Scene()
    scene.feed(("key-05", 30, 1))
    scene.drop(key)
    scene.claimed_again()
    scene.feed(("other", 170, 1))
    scene.driver.turns(4)
    assert sorted(name for name, *_ in totals(scene.log)) == [item for item in KEYS if item != key]


def test_the_alarm_of_a_session_that_a_person_dropped_goes_with_it() -> None:
    """Another rule would take it for a row of its own when no session is cold any more."""
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    [group] = open_groups(scene.store, "app", scene.agent, b"key-02")
    drop(scene.store, group, scene.agent, ANNE)
    assert (len(scene.rows), scene.alarms) == (15, 15)
    for _ in range(5):
        scene.driver.later(25).turns(5)
    assert (len(totals(scene.log)), scene.rows, scene.alarms) == (19, [], 0)


def test_an_alarm_without_a_row_goes_when_it_is_due() -> None:
    """A person who dropped a session left its alarm before."""
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    claim, first = scene.view.claim, scene.store.keys(PLACE, None, 1)[0]
    alone = ColdGroup(first.key + b" alone", None, b"")
    scene.store.commit(claim, Changes(claim.offset, claim.epoch, put_cold=[alone]))
    scene.driver = scene.started(scene.agent)
    for _ in range(5):
        scene.driver.later(25).turns(5)
    assert (len(totals(scene.log)), scene.rows, scene.alarms) == (20, [], 0)


def test_the_store_is_asked_once_for_a_key_until_its_session_is_cold_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, asked = Scene(), list[bytes]()
    scene.driver, cold = scene.started(scene.agent), scene.store.cold
    monkeypatch.setattr(scene.store, "cold", lambda place, keys: asked.extend(keys) or cold(place, keys))
    for second in (30, 31, 32):
        scene.feed(("key-19", second, 1))
    assert [key_of(row) for row in asked] == [b"key-19"]
    scene.feed(*[(key, 33, 0) for key in KEYS[:6]])
    assert "key-19" in scene.rows
    asked.clear()
    for second in (34, 35):
        scene.feed(("key-19", second, 100))
    assert [key_of(row) for row in asked] == [b"key-19"]
    scene.feed(("other", 300, 0))
    scene.driver.turns(6)
    assert [total for key, _, total, _ in results(scene.log) if key == "key-19"] == [19 + 3 + 200]


def test_few_keys_are_known_to_have_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closes, "MOST_ABSENT", 0)
    scene = Scene(paged_agent(count=2))
    for number in range(50):
        scene.feed((f"new-{number}", 30, 1), (f"new-{number}", 31, 1))
        assert len(scene.groups.cold.absent) <= 2 * len(scene.groups.states) + 1
    assert len(totals(scene.log)) == 50


def test_one_of_two_sessions_of_a_key_is_dropped() -> None:
    scene = Scene(paged_agent(replace(MINUTE, grace=600.0)), most=10)
    for key in KEYS[:10]:
        scene.feed((key, 100, 100))
    assert scene.rows.count("key-00") == 2
    first, _ = sorted(open_groups(scene.store, "app", scene.agent, b"key-00"), key=lambda group: group.begin)
    drop(scene.store, first, scene.agent, ANNE)
    assert [group.begin for group in open_groups(scene.store, "app", scene.agent, b"key-00")] == [10]
    assert scene.rows.count("key-00") == 1


def test_an_accepted_gap_forgets_cold_sessions_whose_offsets_come_again() -> None:
    scene = Scene()
    log, stored = a_log(), {row.key for row in scene.stored}
    put(log, *[(key, 1, 1) for key in KEYS[:10]])
    scene.log = log
    facts = lambda: Driver(scene.agent, scene.store, log, scene.clock).input.facts("in", 0)  # noqa: E731
    gap = accept(scene.store, scene.agent, PLACE, facts, ANNE, forget=True)
    assert gap is not None
    assert {*gap.forgets.cold} <= stored
    assert scene.open_keys() == KEYS[:10]
    cold = contents_of(scene.agent, PLACE, scene.view).groups.cold
    assert (cold.count, cold.starts, scene.alarms) == (len(scene.rows), {START: len(scene.rows)}, len(scene.rows))


def test_closed_sessions_take_up_no_room_after_max_groups_was_lowered_below_their_number() -> None:
    scene = Scene()
    scene.driver = scene.started(paged_agent(max_groups=2, on_full="dead-letter"))
    scene.feed(("other", 200, 0))
    scene.driver.turns(6)
    assert (len(totals(scene.log)), dead(scene.log)) == (20, [])
