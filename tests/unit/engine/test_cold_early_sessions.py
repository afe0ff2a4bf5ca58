"""Sessions that are rows of the store, with early results by time: an alarm rings for the next result, or for
`at_most`."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Emit
from sluicegate.streams.aggregation.durable.alarms import is_alarm, row_of
from sluicegate.streams.operations.accepting import accept
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.open_groups import open_groups, why
from tests.unit.engine.cold_scene import ANNE, KEYS, PLACE
from tests.unit.engine.driver import Driver
from tests.unit.engine.scene import a_log, totals
from tests.unit.engine.test_cold_sessions import MINUTE, Scene, paged_agent
from tests.unit.engine.test_windows import put

LONG = replace(MINUTE, size=600.0, idle=None, at_most=None)


def early_agent(every: float | None = 20.0, **more: Any) -> Agent:
    emit = None if every is None else Emit(every=every)
    return paged_agent(more.pop("window", LONG), emit=emit, **more)


def told(scene: Scene, reason: str = "early") -> list[tuple[Any, ...]]:
    return [total for total in totals(scene.log) if total[1] == reason]


def evicted(scene: Scene) -> None:
    """Three records of another key, each in a commit of its own: the others become rows."""
    for _ in range(3):
        scene.feed(("other", 30, 0))


def test_a_cold_session_has_its_early_result_in_time_and_none_when_nothing_changed() -> None:
    scene = Scene(early_agent())
    assert (scene.rows, scene.alarms, told(scene)) == (KEYS[:16], 16, [])
    scene.driver.later(30).turns(8)
    assert sorted(told(scene)) == [(key, "early", 1, number) for number, key in enumerate(KEYS)]
    evicted(scene)
    assert (len(scene.rows), scene.alarms) == (17, 0)  # no result of them is due
    scene.driver.later(60).turns(8)
    assert len(told(scene)) == 21
    scene.feed(("key-00", 30, 100))
    evicted(scene)
    scene.driver.later(30).turns(8)
    assert told(scene)[21:] == [("key-00", "early", 2, 100), ("other", "early", 6, 0)]


def test_a_takeover_reads_no_cold_session_and_its_alarm_rings() -> None:
    scene = Scene(early_agent())
    scene.driver = scene.started(scene.agent)
    assert (len(scene.groups.states), scene.alarms, told(scene)) == (4, 16, [])
    scene.driver.later(30).turns(8)
    assert len(told(scene)) == 20


def test_at_most_rings_before_the_early_result_and_after_it() -> None:
    scene = Scene(early_agent(window=replace(LONG, at_most=25.0)))
    scene.driver.later(21).turns(12)
    assert len(told(scene)) == 20
    scene.driver.later(10).turns(12)
    assert (len(told(scene, "window")), scene.rows, scene.alarms) == (20, [], 0)
    shorter = Scene(early_agent(window=replace(LONG, at_most=10.0)))
    shorter.driver.later(30).turns(12)
    assert (len(told(shorter)), len(told(shorter, "window")), shorter.rows, shorter.alarms) == (0, 20, [], 0)


@pytest.mark.parametrize(("before", "after"), [(20.0, 60.0), (60.0, 20.0), (None, 20.0), (20.0, None)])
@pytest.mark.parametrize("at_most", [None, 300.0])
def test_another_interval_counts_for_cold_sessions(before: float | None, after: float | None, at_most: Any) -> None:
    window = replace(LONG, at_most=at_most)
    scene = Scene(early_agent(before, window=window))
    scene.driver = scene.started(early_agent(after, window=window))
    assert (len(scene.rows), scene.alarms) == (16, 0 if after is None and at_most is None else 16)
    scene.driver.later(30).turns(8)
    assert len(told(scene)) == (20 if after == 20.0 else 0)
    scene.driver.later(40).turns(8)
    assert len(told(scene)) == (0 if after is None else 20)
    scene.driver.later(300).turns(12)
    assert (len(scene.rows), scene.alarms) == ((16, 0) if at_most is None else (0, 0))


def test_a_session_that_a_person_drops_or_fires_leaves_no_alarm() -> None:
    scene = Scene(early_agent())
    scene.drop("key-02")
    scene.claimed_again()
    assert "key-02" not in scene.rows
    scene.fire("key-03")
    assert ("key-03", "manual", 1, 3) in totals(scene.log)
    scene.driver.later(30).turns(8)
    assert (scene.alarms, len(told(scene)), len(scene.rows)) == (0, 18, 14)


def test_the_early_results_of_a_cold_session_are_shown() -> None:
    scene = Scene(early_agent())
    scene.driver.later(30).turns(8)
    assert len(open_groups(scene.store, "app", scene.agent)) == 20
    assert "1 early result sent" in why(scene.group("key-01"), scene.agent)


def test_an_accepted_gap_forgets_the_alarms_of_cold_sessions() -> None:
    scene, log = Scene(early_agent()), a_log()
    scene.driver.later(30).turns(8)
    scene.feed(*[(key, 31, 1) for key in KEYS[:12]])
    evicted(scene)
    assert (len(scene.rows), scene.alarms) == (17, 9)
    put(log, *[(key, 1, 1) for key in KEYS[:10]])
    scene.log = log
    facts = lambda: Driver(scene.agent, scene.store, log, scene.clock).input.facts("in", 0)  # noqa: E731
    accept(scene.store, scene.agent, PLACE, facts, ANNE, forget=True)
    assert scene.open_keys() == KEYS[:10]
    rows = {row.key for row in scene.store.keys(PLACE, None, 200)}
    assert {row_of(key) for key in rows if is_alarm(key)} < rows
    assert len(scene.rows) == contents_of(scene.agent, PLACE, scene.view).groups.cold.count
