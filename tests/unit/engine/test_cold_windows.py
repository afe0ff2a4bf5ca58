"""Groups of windows that are rows of the store: which ones are read when a window closes, what a takeover reads, what a
person sees and changes, and what a change of the rule does with them."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Emit, Reducer, Window
from sluicegate.streams.operations.accepting import accept
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.open_groups import drop, open_groups, why
from sluicegate.streams.ownership import paged
from sluicegate.streams.testing.group import groups as shown_groups
from sluicegate.streams.windows.cold import starts
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.tumbling import key_of, start_of
from tests.unit.engine.cold_scene import ANNE, KEYS, PLACE, ColdWindowScene
from tests.unit.engine.driver import Driver, distinct, header
from tests.unit.engine.scene import a_log, dead, totals
from tests.unit.engine.test_windows import NOW, put, results, windowed_agent

MINUTE = Window(60.0, grace=10.0, idle=30.0, at_most=300.0)
START = NOW * 1000


def paged_agent(window: Window = MINUTE, **more: Any) -> Agent:
    return windowed_agent(window, **{"hot_groups": 4, "key": None} | more)


class Scene(ColdWindowScene):
    """The groups are of the first minute."""

    def __init__(self, agent: Agent | None = None, most: int = 20) -> None:
        super().__init__(agent or paged_agent(), most)

    def key(self, name: bytes) -> str:
        return key_of(name).decode()


def test_a_takeover_reads_the_hot_groups_alone_and_knows_the_windows_of_the_others() -> None:
    scene = Scene()
    assert scene.cold == KEYS[:16]
    before = list(scene.store.keys(PLACE, None, 100))
    scene.driver = scene.started(scene.agent)
    groups = scene.owner.groups
    assert (len(groups.newest.states), groups.open, groups.newest.cold.starts) == (4, 20, {START: 16})
    assert groups.newest.next_close() == START + 70_000
    assert list(scene.store.keys(PLACE, None, 100)) == before


def test_a_window_closes_with_its_cold_groups_and_the_next_one_stays_open() -> None:
    scene = Scene()
    scene.feed(*[(key, 65, 100) for key in KEYS[:6]])
    scene.feed(("other", 70, 1))
    scene.driver.turns(4)
    assert sorted(results(scene.log)) == [(key, 0, number, "event") for number, key in enumerate(KEYS)]
    assert (scene.owner.groups.open, scene.rows) == (7, scene.cold)


def test_a_window_with_more_cold_groups_than_one_expiry_reads_closes_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if all groups of the next one are hot."""
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene()
    scene.feed(("key-01", 65, 50))
    put(scene.log, ("other", 200, 1))
    scene.driver.turns(30)
    outputs = results(scene.log)
    assert sorted(outputs[:20]) == [(key, 0, number, "event") for number, key in enumerate(KEYS)]
    assert outputs[20:] == [("key-01", 60, 50, "event")]
    assert scene.owner.groups.open == 1


def test_a_record_of_a_closed_window_is_late_while_its_cold_group_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene()
    put(scene.log, ("other", 70, 1), *[(key, 30, 1000) for key in KEYS])
    scene.driver.turns(20)
    assert [reason for _, reason in dead(scene.log)] == ["late"] * 20
    assert sorted(results(scene.log)) == [(key, 0, number, "event") for number, key in enumerate(KEYS)]


def test_a_record_of_a_cold_group_is_added_to_it_and_not_to_that_of_another_window() -> None:
    scene = Scene()
    scene.feed(("key-03", 65, 1000), ("key-03", 20, 100))
    scene.driver = scene.started(scene.agent)
    scene.feed(("other", 140, 1))
    scene.driver.turns(4)
    assert [result for result in results(scene.log) if result[0] == "key-03"] == [
        ("key-03", 0, 103, "event"),
        ("key-03", 60, 1000, "event"),
    ]


def test_silence_closes_cold_groups_window_by_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watermark that silence moved closes no later window."""
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene()
    scene.driver.later(71)
    scene.feed(*[(key, 65, 50) for key in KEYS[:8]])
    scene.driver.later(31).turns(30)
    assert sorted(results(scene.log)) == [(key, 0, number, "idle") for number, key in enumerate(KEYS)]
    scene.driver.later(54).turns(2)
    assert len(results(scene.log)) == 20
    scene.driver.later(3).turns(30)
    assert sorted(results(scene.log)[20:]) == [(key, 60, 50, "idle") for key in KEYS[:8]]
    assert (scene.owner.groups.open, scene.rows) == (0, [])


def test_silence_moves_the_watermark_to_the_last_cold_window_that_is_over() -> None:
    """A result says how far silence moved it."""
    scene = Scene(paged_agent(replace(MINUTE, grace=3600.0, at_most=None)), most=8)
    scene.feed(*[(key, 65, 50) for key in KEYS[:8]])
    scene.feed(*[(key, 130, 50) for key in KEYS[8:12]])
    assert scene.owner.groups.newest.cold.starts == {START: 8, START + 60_000: 8}
    scene.driver.later(60 + 60 + 3600 + 31).turns(20)
    closed = {header(message, "sluicegate-closed") for message in distinct(scene.log, "out")}
    assert closed == {f"idle/20/{START + 60_000 + 60_000 + 3_600_000}"}


def test_cold_groups_end_at_most_then_and_their_window_stays_open() -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    scene.driver.later(99 - 2).turns(4)
    assert results(scene.log) == []
    for _ in range(40):
        scene.driver.later(0.1).turns(2)
    assert results(scene.log) == [(key, 0, number, "at_most") for number, key in enumerate(KEYS)]
    scene.feed(("key-00", 30, 7), ("other", 70, 1))
    scene.driver.turns(4)
    assert results(scene.log)[20:] == [("key-00", 0, 7, "event")]


def test_no_row_is_read_for_at_most_before_the_owner_has_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    due, asked = scene.store.due, list[Any]()
    monkeypatch.setattr(scene.store, "due", lambda *question: asked.append(question) or due(*question))
    with monkeypatch.context() as patch:
        patch.setattr(WindowGroups, "stands", lambda *position: None)
        scene.owner.groups.newest.caught_up = False
        scene.driver.later(110).turns(5)
        assert (results(scene.log), asked) == ([], [])
    scene.driver.turns(5)
    assert sorted(results(scene.log)) == [(key, 0, number, "at_most") for number, key in enumerate(KEYS)]


def test_a_shorter_at_most_counts_for_cold_groups() -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None)))
    agent = paged_agent(replace(MINUTE, idle=None, at_most=100.0))
    scene.driver = scene.started(agent)
    for _ in range(4):
        scene.driver.later(34).turns(6)
    assert sorted(key for key, *_ in results(scene.log)) == KEYS


def test_cold_groups_have_early_results_and_after_a_takeover_too() -> None:
    agent = paged_agent(replace(MINUTE, idle=None), emit=Emit(every=30.0))
    scene = Scene(agent)
    scene.driver = scene.started(agent)
    assert (scene.cold, results(scene.log)) == (KEYS[:16], [])
    scene.driver.later(30).turns(8)
    early = sorted(results(scene.log))
    assert early == [(key, 0, number, None) for number, key in enumerate(KEYS)]
    scene.feed(("key-03", 5, 100))
    assert len(scene.cold) == 16
    scene.driver = scene.started(agent)
    scene.driver.later(31).turns(6)
    assert results(scene.log)[20:] == [("key-03", 0, 103, None)]
    scene.feed(("other", 70, 1))
    scene.driver.turns(6)
    assert sorted(result for result in results(scene.log)[21:]) == [
        (key, 0, number + 100 * (number == 3), "event") for number, key in enumerate(KEYS)
    ]


def test_a_record_joins_its_cold_hopping_windows_and_each_closes_with_its_groups() -> None:
    agent = paged_agent(replace(MINUTE, kind="overlapping", every=30.0), count=100)
    scene = Scene(agent)
    assert len(scene.cold) == 36
    scene.driver = scene.started(agent)
    scene.feed(("key-03", 29, 100))
    scene.feed(("other", 40, 1))  # the first of the windows of all records closes
    scene.driver.turns(6)
    totals = [(key, number + 100 * (number == 3)) for number, key in enumerate(KEYS)]
    assert sorted(results(scene.log)) == [(key, -30, total, "event") for key, total in totals]
    scene.feed(("other", 70, 1))
    scene.driver.turns(6)
    assert sorted(result for result in results(scene.log)[20:] if result[0] != "other") == [
        (key, 0, total, "event") for key, total in totals
    ]
    assert dead(scene.log) == []


def test_early_results_that_are_due_more_often_are_so_for_cold_groups() -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None), emit=Emit(every=200.0)))
    scene.driver = scene.started(paged_agent(replace(MINUTE, idle=None), emit=Emit(every=20.0)))
    scene.driver.later(20).turns(8)
    assert sorted(key for key, *_ in results(scene.log)) == KEYS


def test_an_early_result_of_a_cold_group_hides_no_group_that_is_open_for_at_most() -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0), emit=Emit(every=40.0, final=False)))
    for _ in range(110):
        scene.driver.later(1).turns(2)
        scene.feed(("key-19", 30, 0))
    ended = [key for key, _, _, by in results(scene.log) if by == "at_most"]
    assert (ended, scene.owner.groups.open) == (["key-19"], 1)
    assert {key for key, *_ in results(scene.log)} == set(KEYS)


def test_the_group_that_was_opened_first_ends_first_if_it_was_cold() -> None:
    scene = Scene(paged_agent(replace(MINUTE, idle=None, at_most=100.0)))
    scene.feed(*[(key, 30, 0) for key in ("key-02", "key-01", "key-00")])
    scene.driver.later(100 - 4).turns(4)
    for _ in range(40):
        scene.driver.later(0.1).turns(2)
    assert [key for key, *_ in results(scene.log)] == KEYS


def test_a_full_partition_has_room_when_the_watermark_has_closed_windows_with_cold_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before their groups are read."""
    monkeypatch.setattr(paged, "DUE", 1)
    scene = Scene(paged_agent(max_groups=20, on_full="dead-letter"))
    scene.feed(("refused", 30, 1))
    put(scene.log, *[(key, 70, 1) for key in KEYS], ("one", 75, 1))
    scene.driver.turns(40)
    assert [reason for _, reason in dead(scene.log)] == ["limit", "limit"]
    assert scene.owner.groups.open == 20


def test_the_cold_group_whose_window_closes_first_makes_room() -> None:
    """Also if other groups were opened before it."""
    scene = Scene(paged_agent(max_groups=20), most=0)
    scene.feed(*[(key, 65, 1) for key in KEYS[:10]])
    scene.feed(*[(key, 5, 1) for key in KEYS[:10]])
    scene.feed(*[(key, 65, 1) for key in KEYS[:4]])
    assert {start_of(name) for name in scene.owner.groups.newest.states} == {START + 60_000}
    scene.feed(("more", 65, 1), ("and more", 66, 1))
    scene.driver.turns(3)
    assert [(reason, key in KEYS[:10]) for key, reason, *_ in totals(scene.log)] == [("limit", True)] * 2
    assert [start for _, start, *_ in results(scene.log)] == [0, 0]
    assert scene.owner.groups.open == 20


def test_a_group_of_a_window_before_1970_stays_in_memory() -> None:
    """The bytes of its name are not in the order of the starts."""
    window = replace(MINUTE, time="amount", unit="s", offset=30.0, idle=None, at_most=None)
    scene = Scene(paged_agent(window))
    states = scene.owner.groups.newest.states
    assert len(states) == 20
    assert {start_of(name) for name in states} == {-30_000}


def test_no_more_windows_have_cold_groups_than_a_commit_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "MOST_STARTS", 2)
    scene = Scene(paged_agent(replace(MINUTE, grace=3600.0)), most=6)
    for minute in range(1, 8):
        scene.feed(*[(key, 60 * minute, 1) for key in KEYS[:6]])
    assert scene.owner.groups.newest.cold.starts == {START: 6, START + 60_000: 6}
    assert len(scene.owner.groups.newest.states) == 36


def test_sliding_windows_keep_all_groups_hot() -> None:
    scene = Scene(paged_agent(replace(MINUTE, kind="sliding")))
    assert scene.cold == []
    assert len(scene.owner.groups.newest.states) >= 20


# -- late records that count -------------------------------------------------------------------------------------------


AMEND = replace(MINUTE, late="amend", keep=60.0, gather=5.0)


def amending(**more: Any) -> Agent:
    return paged_agent(AMEND, on_full="dead-letter", **more)


def closed_scene() -> Scene:
    """The window of all groups has closed, and most of them are rows that wait for late records."""
    scene = Scene(amending())
    scene.feed(("other", 70, 1))
    scene.driver.turns(6)
    for second in range(71, 78):
        scene.feed((f"new-{second}", second, 1))
    return scene


def test_the_last_revision_of_a_window_comes_behind_the_result_of_the_next_one_though_it_is_cold() -> None:
    scene = closed_scene()
    scene.feed(("key-03", 72, 50), ("key-03", 30, 100))
    for second in range(78, 90):
        scene.feed((f"new-{second}", second, 1))
    assert scene.rows.count("key-03") == 2  # the older row is of the group that is in memory again
    scene.feed(("other", 200, 1))
    scene.driver.turns(8)
    assert [result for result in results(scene.log) if result[0] == "key-03"] == [
        ("key-03", 0, 3, "event"),
        ("key-03", 60, 50, "event"),
        ("key-03", 0, 103, "late"),
    ]


@pytest.mark.parametrize("closer", [b"other", None])
@pytest.mark.parametrize("hot", [1, 4, 100])
def test_a_late_record_closes_the_earlier_windows_of_its_key_first(
    hot: int, closer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a record without a key closed them, which `where` leaves out."""
    monkeypatch.setattr(paged, "DUE", 1)
    window = replace(AMEND, grace=300.0)
    scene = Scene(paged_agent(window, on_full="dead-letter", hot_groups=hot, where="amount > 0"), most=0)
    for key in ("a", *KEYS[:5]):
        scene.feed((key, 5, 1), (key, 65, 10), (key, 125, 100))
    scene.log.append("in", 0, closer, b'{"amount": %d}' % (closer is not None), at=START + 485_000)
    put(scene.log, ("a", 126, 1000))
    for _ in range(40):
        scene.driver.turns(1).later(0.1)
    assert [result for result in results(scene.log) if result[0] == "a"] == [
        ("a", 0, 1, "event"),
        ("a", 60, 10, "event"),
        ("a", 120, 100, "event"),
    ]


def test_the_store_is_asked_for_the_groups_of_many_late_records_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each late record asks for three windows."""
    monkeypatch.setattr(paged, "ASKED", 4)
    monkeypatch.setattr(paged, "DUE", 1)
    scene = Scene(paged_agent(replace(AMEND, grace=300.0), hot_groups=4), most=0)
    for key in KEYS:
        scene.feed((key, 5, 1), (key, 65, 10), (key, 125, 100))
    cold, asked = scene.store.cold, list[int]()
    monkeypatch.setattr(scene.store, "cold", lambda place, keys: asked.append(len(keys)) or cold(place, keys))
    put(scene.log, ("other", 485, 1), *[(key, 126, 1000) for key in KEYS])
    scene.driver.turns(200)
    assert max(asked) <= 4 + 3
    assert sorted(result for result in results(scene.log) if result[0] != "other") == sorted(
        (key, minute, total, "event") for key in KEYS for minute, total in ((0, 1), (60, 10), (120, 100))
    )


def test_groups_stay_in_the_store_after_their_results_until_late_records_would_be_too_late() -> None:
    scene = closed_scene()
    assert sorted(results(scene.log)) == [(key, 0, number, "event") for number, key in enumerate(KEYS)]
    assert {*KEYS} <= {*scene.rows}
    assert scene.owner.groups.newest.cold.starts[starts.CLOSED + START] == 20
    scene.feed(("other", 129, 1))
    assert {*KEYS} <= {*scene.rows}
    scene.feed(("other", 130, 1))
    scene.driver.turns(6)
    assert not {*KEYS} & {*scene.rows}
    assert len([result for result in results(scene.log) if result[0] in KEYS]) == 20


def test_a_late_record_revises_the_result_of_a_cold_group_and_after_a_takeover_too() -> None:
    scene = closed_scene()
    scene.feed(("key-03", 30, 100))
    scene.driver.later(5).turns(3)
    scene.driver = scene.started(scene.agent)
    assert len(scene.owner.groups.newest.states) <= 5
    scene.feed(("key-03", 31, 1000), ("key-04", 30, 100))
    scene.driver.later(5).turns(3)
    late = [(message.key().decode(), header(message, "sluicegate-revision")) for message in distinct(scene.log, "out")]
    assert sorted(result for result in late if result[1] != "1") == [("key-03", "2"), ("key-03", "3"), ("key-04", "2")]
    assert [result for result in results(scene.log)[20:] if result[0] in KEYS] == [
        ("key-03", 0, 103, "late"),
        ("key-03", 0, 1103, "late"),
        ("key-04", 0, 104, "late"),
    ]


def test_a_group_with_late_records_that_no_result_has_stays_in_memory() -> None:
    scene = closed_scene()
    scene.feed(("key-03", 30, 100))
    for second in range(78, 90):
        scene.feed((f"new-{second}", second, 1))
    assert "key-03" not in scene.cold
    scene.driver.later(5).turns(3)
    assert results(scene.log)[20:] == [("key-03", 0, 103, "late")]


def test_a_group_that_ended_at_most_then_is_revised_in_its_open_window_though_it_is_cold() -> None:
    scene = Scene(paged_agent(replace(AMEND, idle=None, at_most=100.0), on_full="dead-letter"), most=10)
    scene.driver.later(110).turns(6)
    assert sorted(results(scene.log)) == [(key, 0, number, "at_most") for number, key in enumerate(KEYS[:10])]
    for second in range(30, 38):
        scene.feed((f"new-{second}", second, 1))
    assert {*KEYS[:10]} <= {*scene.rows}
    scene.driver = scene.started(scene.agent)
    scene.feed(("key-03", 40, 100))
    scene.driver.later(5).turns(4)
    assert [result for result in results(scene.log) if result[0] == "key-03"][1:] == [("key-03", 0, 103, "late")]
    scene.feed(("other", 70, 1))
    scene.driver.turns(8)
    assert len([result for result in results(scene.log) if result[0] in KEYS]) == 11


def test_groups_whose_results_are_covered_end_without_one_when_late_records_are_refused_again() -> None:
    scene = closed_scene()
    scene.driver = scene.started(paged_agent())
    scene.feed(("key-03", 30, 100))
    scene.driver.turns(6)
    assert ([reason for _, reason in dead(scene.log)], len(results(scene.log))) == (["late"], 20)
    assert not {*KEYS} & {*scene.rows}


def test_groups_that_stay_in_the_store_take_up_room_until_they_end() -> None:
    scene = Scene(amending(max_groups=21))
    scene.feed(("other", 70, 1))
    scene.driver.turns(6)
    scene.feed(("refused", 71, 1))
    assert [reason for _, reason in dead(scene.log)] == ["limit"]
    scene.feed(("other", 130, 1))
    scene.driver.turns(6)
    scene.feed(("taken", 131, 1))
    assert (len(dead(scene.log)), scene.owner.groups.open) == (1, 3)


def test_a_group_that_stays_has_no_further_result_by_a_lower_limit() -> None:
    both: dict[str, Any] = {"compute": (Reducer("total", "sum", "amount"), Reducer("all", "collect", "amount"))}
    scene = Scene(amending(**both), most=8)
    scene.feed(*[(key, 30, 100) for key in KEYS[:8]])
    scene.feed(("other", 70, 1))
    scene.driver.turns(6)
    for second in range(71, 78):
        scene.feed((f"new-{second}", second, 1))
    assert {*KEYS[:8]} <= {*scene.rows}
    scene.driver = scene.started(paged_agent(MINUTE, max_items=2, **both))
    scene.driver.turns(6)
    assert sorted(key for key, *_ in results(scene.log)) == KEYS[:8]


def test_rows_of_windows_that_have_closed_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their groups are cold again before the last of them was read."""
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene(amending())
    keys, read = scene.store.keys, list[bytes]()

    def counted(*question: Any) -> Any:
        rows = keys(*question)
        read.extend(row.key for row in rows)
        return rows

    monkeypatch.setattr(scene.store, "keys", counted)
    scene.feed(("other", 70, 1))
    for _ in range(20):
        scene.driver.turns(1).later(0.1)
    assert len(results(scene.log)) == 20
    assert max(read.count(row) for row in read) <= 2


def test_a_person_sees_the_results_of_a_cold_group_and_drops_it() -> None:
    scene = closed_scene()
    group = scene.group("key-03")
    assert group.window is not None
    assert group.window.after is not None
    assert (group.window.after.results, group.window.after.ends) == (1, START + 130_000)
    scene.fire("key-04")
    assert len(results(scene.log)) == 20
    drop(scene.store, scene.group("key-03"), scene.agent, ANNE)
    scene.claimed_again()
    scene.feed(("key-03", 30, 7))
    scene.driver.later(5).turns(3)
    assert results(scene.log)[20:] == [("key-03", 0, 7, "late")]


def test_late_records_make_further_results_beside_cold_groups() -> None:
    scene = Scene(paged_agent(replace(MINUTE, late="new", gather=5.0)))
    assert scene.cold == KEYS[:16]
    scene.feed(("other", 70, 1), ("key-03", 30, 100), ("key-19", 30, 100))
    scene.driver.turns(6)
    for second in range(71, 78):
        scene.feed((f"new-{second}", second, 1))
    assert not {"key-03", "key-19"} & {*scene.cold}
    scene.driver = scene.started(scene.agent)
    scene.driver.later(5).turns(3)
    assert sorted(result for result in results(scene.log) if result[3] == "late") == [
        ("key-03", 0, 100, "late"),
        ("key-19", 0, 100, "late"),
    ]
    assert len([result for result in results(scene.log) if result[3] == "event"]) == 20


def test_a_late_record_changes_no_cold_group_whose_result_still_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene(paged_agent(replace(MINUTE, late="new", gather=5.0)))
    put(scene.log, ("other", 70, 1), *[(key, 30, 1000) for key in KEYS])
    scene.driver.turns(20).later(5).turns(10)
    assert sorted(results(scene.log)) == sorted(
        step for number, key in enumerate(KEYS) for step in ((key, 0, number, "event"), (key, 0, 1000, "late"))
    )


def test_the_oldest_group_ends_at_most_then_beside_late_records_though_it_was_cold() -> None:
    window = replace(MINUTE, idle=None, at_most=100.0, late="new", gather=1000.0)
    scene = Scene(paged_agent(window), most=0)
    scene.feed(*[(key, 65, 1) for key in KEYS[:8]])
    scene.feed(("late", 1, 5), ("other", 75, 1))
    scene.feed(("late", 2, 5))
    scene.driver.later(60)
    scene.feed(("key-00", 66, 1), ("young", 66, 1))
    scene.driver.later(42).turns(6)
    assert ("key-00", 60, 2, "at_most") in results(scene.log)
    assert "young" not in [key for key, *_ in results(scene.log)]


def test_a_cold_group_keeps_its_early_results() -> None:
    scene = Scene(paged_agent(emit=Emit(count=2)))
    scene.feed(*[(key, 30, 100) for key in KEYS[:10]])
    scene.feed(*[(key, 31, 100) for key in KEYS[:10]])
    assert len(results(scene.log)) == 10
    scene.driver = scene.started(scene.agent)
    scene.feed(("other", 70, 1))
    scene.driver.turns(4)
    sums = [total for total in totals(scene.log) if total[0] == "key-00"]
    assert sums == [("key-00", "early", 2, 100), ("key-00", "window", 3, 200)]


def test_rows_that_are_missing_when_a_window_closes_halt_the_partition() -> None:
    scene = Scene()
    rows = scene.store._rows[PLACE].cold
    rows.apply([], list(rows.groups))
    scene.feed(("other", 70, 1))
    scene.driver.turns(3)
    report = scene.driver.worker.reports.of(scene.driver.clock.now)
    assert [partition.error for partition in report.partitions] == ["changelog-incomplete"]
    assert "16 rows of cold groups are missing" in str(report.partitions[0].detail)


@pytest.mark.parametrize("policy", ["finish", "flush", "drop"])
def test_cold_groups_go_with_the_others_when_the_rule_changes(policy: str) -> None:
    scene = Scene()
    scene.changed(paged_agent(replace(MINUTE, grace=0.0), compute=()), policy)
    assert scene.rows == []
    scene.feed(("other", 70, 1))
    scene.driver.turns(4)
    assert len([total for total in totals(scene.log) if total[0] in KEYS]) == (0 if policy == "drop" else 20)


# -- what a person sees and changes ------------------------------------------------------------------------------------


def test_all_groups_are_listed_and_one_is_explained() -> None:
    scene = Scene()
    scene.feed(("key-02", 65, 100))
    assert scene.open_keys() == sorted([*KEYS, "key-02"])
    first, next_one = sorted(open_groups(scene.store, "app", scene.agent, b"key-02"), key=lambda group: group.begin)
    assert (first.values, first.records, next_one.values) == ({"total": 2}, 1, {"total": 100})
    assert first.window is not None
    assert (first.window.closes, first.window.watermark) == (START + 70_000, START + 65_000)
    assert "1 record, " in why(first, scene.agent)
    assert sorted(str(group.key) for group in shown_groups(scene.agent, scene.view, scene.store)) == scene.open_keys()


@pytest.mark.parametrize("key", ["key-02", "key-19"])
def test_a_person_fires_a_group_whether_it_is_cold_or_hot(key: str) -> None:
    scene = Scene()
    scene.fire(key)
    assert [(key, reason) for key, reason, *_ in totals(scene.log)] == [(key, "manual")]
    assert scene.owner.groups.open == 19


@pytest.mark.parametrize("key", ["key-02", "key-19", "key-05"])
def test_a_person_drops_a_group_whether_it_is_cold_or_hot(key: str) -> None:
    """The last one has a row and is hot."""
    scene = Scene()
    scene.feed(("key-05", 30, 1))
    scene.drop(key)
    scene.claimed_again()
    scene.feed(("other", 70, 1))
    scene.driver.turns(4)
    assert sorted(name for name, *_ in totals(scene.log)) == [item for item in KEYS if item != key]


def test_an_accepted_gap_forgets_cold_groups_whose_offsets_come_again() -> None:
    scene = Scene()
    log = a_log()
    put(log, *[(key, 1, 1) for key in KEYS[:10]])
    scene.log = log
    facts = lambda: Driver(scene.agent, scene.store, log, scene.clock).input.facts("in", 0)  # noqa: E731
    accept(scene.store, scene.agent, PLACE, facts, ANNE, forget=True)
    assert scene.open_keys() == KEYS[:10]
    cold = contents_of(scene.agent, PLACE, scene.view).groups.cold
    assert (cold.count, cold.starts) == (len(scene.cold), {START: len(scene.cold)})
