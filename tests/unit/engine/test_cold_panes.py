"""Panes of hopping windows that are rows of the store: one row has all panes of a key."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Window
from sluicegate.streams.aggregation.durable.alarms import NAMING, is_alarm, key_of
from sluicegate.streams.aggregation.durable.entry import unpacked_state
from sluicegate.streams.contracts.values import COLD_KEY
from sluicegate.streams.operations.accepting import accept
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.open_groups import drop, open_groups, why
from sluicegate.streams.testing.group import groups as shown_groups
from sluicegate.streams.windows import closing
from sluicegate.streams.windows.cold import panes
from tests.unit.engine.cold_scene import ANNE, KEYS, PLACE, ColdByCloseScene
from tests.unit.engine.driver import Driver
from tests.unit.engine.scene import a_log, dead, totals
from tests.unit.engine.test_windows import NOW, put, results, windowed_agent

MINUTE = Window(60.0, grace=10.0, idle=30.0, at_most=300.0, kind="hopping", every=30.0)
START = NOW * 1000
AFTER = [(key, number, number, "event") for number, key in enumerate(KEYS)]


def paged_agent(window: Window = MINUTE, **more: Any) -> Agent:
    return windowed_agent(window, **{"hot_groups": 4, "key": None} | more)


class Scene(ColdByCloseScene):
    """Key number N has a pane with the record N seconds after the test began, and a total of N."""

    def __init__(self, agent: Agent | None = None, most: int = 20) -> None:
        super().__init__(agent or paged_agent(), most)


def test_a_takeover_reads_the_hot_panes_alone() -> None:
    scene = Scene()
    assert (scene.rows, scene.alarms) == (KEYS[:16], 16)
    scene.driver = scene.started(scene.agent)
    assert (len(scene.groups.states), scene.owner.groups.open, scene.groups.cold.starts) == (4, 20, {START: 16})


def test_each_window_fires_with_its_cold_panes() -> None:
    scene = Scene()
    scene.feed(*[(key, 40, 100) for key in KEYS[:10]])
    scene.feed(("other", 41, 0), ("more", 41, 0))
    assert scene.groups.cold.starts == {START: 18, START + 30_000: 10}
    scene.feed(("other", 70, 0))
    scene.driver.turns(4)
    scene.feed(("other", 200, 0))
    scene.driver.turns(6)
    sums = [(key, total) for key, _, total, _ in results(scene.log) if key == "key-03"]
    assert sums == [("key-03", 3), ("key-03", 103), ("key-03", 100)]
    assert (scene.rows, scene.alarms) == ([], 0)


def test_at_most_ends_all_windows_of_a_cold_key() -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None)))
    scene.driver.later(310).turns(12)
    assert len(totals(scene.log)) == 40
    assert (scene.rows, scene.alarms, scene.owner.groups.open) == ([], 0, 0)


def test_a_key_whose_row_the_store_was_not_asked_for_opens_no_pane() -> None:
    scene = Scene()
    scene.groups.cold.absent = set()
    with pytest.raises(Exception, match="was not asked for"):
        scene.groups.open(panes.name(START, b"key-00"), a_record(), NOW)


def test_the_store_is_asked_once_for_a_hot_key(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, asked = Scene(), list[bytes]()
    scene.driver, cold = scene.started(scene.agent), scene.store.cold
    monkeypatch.setattr(scene.store, "cold", lambda place, keys: asked.extend(keys) or cold(place, keys))
    for second in (20, 25, 40):
        scene.feed(("key-19", second, 1))
    assert [key_of(row) for row in asked] == [b"key-19"]


def a_record() -> Any:
    log = a_log()
    put(log, ("key-00", 1, 1))
    return log.topics["in"][0][0]


def test_missing_rows_halt_the_partition() -> None:
    scene = Scene()
    scene.store._rows[PLACE].cold.apply([], [row.key for row in scene.stored])
    scene.feed(("other", 200, 1))
    scene.driver.later(1).turns(3)
    report = scene.driver.worker.reports.of(scene.driver.clock.now)
    assert [partition.error for partition in report.partitions] == ["changelog-incomplete"]


@pytest.mark.parametrize("policy", ["finish", "flush", "drop"])
def test_cold_panes_go_with_the_others_when_the_rule_changes(policy: str) -> None:
    scene = Scene()
    scene.changed(paged_agent(replace(MINUTE, grace=0.0), compute=()), policy)
    assert (scene.rows, scene.alarms) == ([], 0)
    scene.feed(("other", 170, 1))
    scene.driver.turns(6)
    assert (
        len([total for total in totals(scene.log) if total[0] in KEYS])
        == {"finish": 40, "flush": 40, "drop": 0}[policy]
    )


@pytest.mark.parametrize("key", ["key-02", "key-19"])
def test_a_person_fires_and_drops_all_windows_of_a_key(key: str) -> None:
    scene = Scene()
    [group, _] = open_groups(scene.store, "app", scene.agent, key.encode())
    assert "watermark" in why(group, scene.agent)
    drop(scene.store, group, scene.agent, ANNE)
    assert {group.key.decode() for group in open_groups(scene.store, "app", scene.agent)} == {*KEYS} - {key}
    scene.claimed_again()
    assert (key in scene.rows, scene.owner.groups.open) == (False, 19)


def test_all_windows_are_listed() -> None:
    scene = Scene()
    listed = sorted((group.key.decode(), group.records) for group in open_groups(scene.store, "app", scene.agent))
    assert listed == sorted([(key, 1) for key in KEYS] * 2)
    assert len(shown_groups(scene.agent, scene.view, scene.store)) == 40


def test_an_accepted_gap_forgets_the_panes_whose_offsets_come_again_and_keeps_the_others_of_their_keys() -> None:
    scene, log = Scene(), a_log()
    scene.feed(*[(key, 40, 100) for key in KEYS[:10]])
    scene.feed(("other", 41, 0), ("more", 41, 0))
    assert scene.groups.cold.starts == {START: 18, START + 30_000: 10}
    put(log, *[(key, 1, 1) for key in KEYS])
    scene.log = log
    facts = lambda: Driver(scene.agent, scene.store, log, scene.clock).input.facts("in", 0)  # noqa: E731
    accept(scene.store, scene.agent, PLACE, facts, ANNE, forget=True)
    cold = contents_of(scene.agent, PLACE, scene.view).groups.cold
    assert (cold.count, cold.starts) == (18, {START: 18})
    contents = [unpacked_state(row.state) for row in scene.stored if not is_alarm(row.key)]
    assert sorted(len(bag) for bag in contents) == [1] * 18
    assert scene.alarms == 18


@pytest.mark.parametrize("hot", [None, 1])
def test_a_window_that_fired_does_not_fire_again_after_a_gap_whose_records_opened_its_oldest_pane(
    hot: int | None,
) -> None:
    scene, log = Scene(paged_agent(replace(MINUTE, size=90.0), hot_groups=hot), most=0), a_log()
    for record in (("a", 40, 100), ("a", 5, 1), ("o", 75, 0), ("o", 76, 0), ("o", 76, 0)):
        scene.feed(record)
    assert [total for key, _, total, _ in results(scene.log) if key == "a"] == [101]
    put(log, ("a", 40, 100))
    scene.log = log
    facts = lambda: Driver(scene.agent, scene.store, log, scene.clock).input.facts("in", 0)  # noqa: E731
    gap = accept(scene.store, scene.agent, PLACE, facts, ANNE, forget=True)
    assert gap is not None
    assert len([name for _, name in gap.forgets.groups if name.endswith(b"a")]) == 1
    scene.driver = scene.started(scene.agent)
    assert results(log) == []


def test_a_key_with_more_panes_than_may_be_cold_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panes, "MOST_STARTS", 1)
    scene = Scene(most=6)
    scene.feed(*[(key, 40, 100) for key in KEYS[:6]])
    scene.feed(("other", 41, 0), ("more", 41, 0))
    assert scene.groups.cold.starts == {}


def test_closed_panes_take_up_no_room() -> None:
    scene = Scene()
    scene.driver = scene.started(paged_agent(max_groups=2, on_full="dead-letter"))
    scene.feed(("other", 200, 0))
    scene.driver.turns(6)
    assert (len([total for total in totals(scene.log) if total[0] in KEYS]), dead(scene.log)) == (40, [])


def test_the_panes_of_a_key_that_is_too_long_for_an_alarm_stay_in_memory() -> None:
    scene, longest = Scene(most=0), COLD_KEY - NAMING
    for key in ("a" * longest, "b" * (longest + 1), *KEYS[:8]):
        scene.feed((key, 0, 1))
    assert [len(key) for key in scene.rows] == [longest, *[6] * 5]
    assert len(scene.groups.states) == 4


def test_at_most_counts_from_the_first_pane_of_a_cold_key() -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None)), most=10)
    scene.driver.later(200).turns(2)
    scene.feed(*[(key, 40, 100) for key in KEYS[:10]])
    scene.feed(("other", 41, 0), ("more", 41, 0))
    assert len(scene.rows) == 9
    scene.driver.later(105).turns(12)
    assert sorted({key for key, *_ in totals(scene.log)}) == KEYS[:10]


def test_the_ages_of_panes_that_are_cold_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "STALE", 0)
    scene = Scene()
    for turn in range(20):
        scene.feed(*[(key, 20, 1) for key in KEYS[turn % 2 :: 2]])
    assert len(scene.groups.heap) <= 2 * len(KEYS)
