"""Groups of closed windows under a changed rule, at limits, and when a person ends them."""

from dataclasses import replace
from math import inf

import pytest

from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.aggregation import early
from sluicegate.streams.aggregation.converting import Conversion
from sluicegate.streams.aggregation.durable.entry import ADDED, ChangelogEntry, halves
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.errors import BufferFull
from sluicegate.streams.windows import closed as late_module
from sluicegate.streams.windows import closing
from sluicegate.streams.windows import groups as groups_module
from sluicegate.streams.windows import sessions as sessions_module
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.standing import After, open_window
from sluicegate.streams.windows.tumbling import name
from tests.unit.windows.oracle import Result, Step
from tests.unit.windows.turning import TOTAL, Turned, open_windows, record

AMEND = Window(10.0, late="amend", keep=20.0, gather=5.0)
NEW = Window(10.0, late="new", gather=5.0)
SKIP = Window(10.0, late="skip")
LATE = [Step(100.0, b"a", 1_000, 1), Step(100.0, b"b", 12_000, 2), Step(100.0, b"a", 2_000, 4)]
"""Of the window at 0 one record in time and one that is late."""
A = name(0, b"a")


def turned(window: Window, steps: list[Step] = LATE, **more: object) -> Turned:
    partition = Turned(window, **more)  # type: ignore[arg-type]
    partition.take(0, steps)
    partition.commit(100.0, len(steps))
    return partition


def under(partition: Turned, window: Window) -> list[Result]:
    """The results of the next owner, whose rule has this window, at its first turn and 6 s later."""
    before = len(partition.results)
    partition.window = window
    partition.restore()
    for now in (100.0, 106.0):
        partition.expire(now)
        partition.commit(now, 3)
    return partition.results[before:]


def a_result(total: int, count: int, first: int, revision: int = 1, by: str = "late") -> Result:
    return Result(b"a", 0, 10_000, "window", by, first, 2, count, total, revision)


@pytest.mark.parametrize(
    ("old", "new", "results", "rest"),
    [
        (AMEND, AMEND, [a_result(5, 2, 0, 2)], {A: (2, None)}),
        (AMEND, SKIP, [a_result(5, 2, 0, 2)], {}),
        (AMEND, NEW, [a_result(5, 2, 0, 2)], {}),
        (NEW, NEW, [a_result(4, 1, 2)], {}),
        (NEW, SKIP, [a_result(4, 1, 2)], {}),
        (NEW, AMEND, [a_result(4, 1, 2)], {}),
        (SKIP, AMEND, [], {}),
    ],
)
def test_late_records_that_wait_are_sent_under_any_rule(
    old: Window, new: Window, results: list[Result], rest: dict[bytes, object]
) -> None:
    partition = turned(old)
    assert under(partition, new) == results
    assert partition.groups.closed == rest
    assert {*partition.groups.states} == {name(10_000, b"b"), *rest}


@pytest.mark.parametrize(("window", "totals"), [(AMEND, [5, 2]), (NEW, [2, 4])])
def test_a_flush_sends_what_is_in_no_result_and_ends_every_group(window: Window, totals: list[int]) -> None:
    groups = turned(window).groups
    for key in list(groups.states):
        groups.flush(key, 100.0)
    assert [event.values["total"] for event in groups.drain() if isinstance(event, Fire)] == totals
    assert not groups.states
    assert not groups.closed


def test_a_flush_does_not_repeat_a_result() -> None:
    groups = turned(AMEND, LATE[:2]).groups
    groups.flush(A, 100.0)
    assert (list(groups.drain()), [*groups.states]) == ([], [name(10_000, b"b")])


def test_a_group_that_a_person_wants_fired_is_not_fired_without_anything_new() -> None:
    partition = turned(AMEND, LATE[:2])
    for waits, steps in ((False, []), (True, LATE[2:])):
        if steps:
            partition.take(2, steps)
            partition.commit(100.0, 3)
        partition.restore()
        partition.groups.asked[A] = 0
        assert bool(partition.groups.judge()) is waits


def test_a_converted_group_of_a_closed_window_stays_one() -> None:
    old = turned(AMEND, compute=(*TOTAL, Reducer("least", "min", "amount"))).groups
    new = open_windows(replace(AMEND, grace=1.0), compute=TOTAL)
    new.event.restore(old.event.state())
    conversion = Conversion(old, new)
    for group in list(old.states):
        conversion.move(group)
    new.rearm()
    assert new.closed == {A: (1, 100.0)}
    assert not old.closed
    new.expire(105.0, 10)
    assert [event.window.revision for event in new.drain() if isinstance(event, Fire) and event.window] == [2]


def test_a_late_record_that_is_refused_is_in_no_group() -> None:
    fold = Reducer("kept", "reduce", None, "tests.unit.windows.test_late:refuses")
    for window, groups in ((AMEND, {A}), (NEW, set())):
        partition = turned(window, compute=(*TOTAL, fold))
        assert {*partition.groups.states} == {name(10_000, b"b"), *groups}
        assert list(partition.groups.closed.values()) == [(1, None)] * len(groups)
        assert partition.refused == [(2, "reducer")]


def refuses(total: int | None, message: dict[str, int]) -> int:
    if message["amount"] == 4:
        raise ValueError("no fours")
    return (total or 0) + 1


def test_a_group_of_late_records_that_is_full_is_sent_and_the_next_record_begins_another() -> None:
    steps = [*LATE, Step(100.0, b"a", 3_000, 8), Step(100.0, b"a", 4_000, 16)]
    partition = turned(NEW, steps, max_items=2)
    assert [(result.total, result.reason, result.closed_by) for result in partition.results] == [
        (1, "window", "event"),
        (12, "limit", ""),
    ]
    assert partition.groups.closed == {A: (ADDED, 100.0)}


def test_a_full_group_of_a_revised_window_refuses_late_records() -> None:
    steps = [*LATE, Step(100.0, b"a", 3_000, 8)]
    partition = turned(AMEND, steps, max_items=2, on_full="dead-letter")
    assert partition.refused == [(3, "limit")]
    assert under(partition, AMEND) == [a_result(5, 2, 0, 2)]


@pytest.mark.parametrize(
    "limit", [{"max_items": 2}, {"max_bytes": 2, "compute": (*TOTAL, Reducer("all", "collect", "amount"))}]
)
@pytest.mark.parametrize("on_full", ["dead-letter", "stop"])
@pytest.mark.parametrize("last", [50_001, 50_003], ids=["behind the watermark", "moves the watermark"])
def test_windows_that_wait_to_end_make_no_room_in_a_full_group_of_a_revised_window(
    limit: dict[str, object], on_full: str, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_module, "SLICE", 1)
    partition = turned(AMEND, [Step(100.0, b"k%d" % number, 1_000, 1) for number in range(4)], **limit, on_full=on_full)
    steps = [Step(100.0, b"x", time, 1) for time in (50_000, 50_002, last)]
    if on_full == "stop":
        with pytest.raises(BufferFull, match=next(iter(limit))):
            partition.take(4, steps)
        return
    partition.take(4, steps)
    partition.commit(100.0, 7)
    assert partition.refused == [(6, "limit")]


def test_what_a_revised_result_holds_is_not_changed_by_later_records() -> None:
    groups = open_windows(AMEND, compute=(Reducer("all", "collect", "amount"),))
    groups.accept([record(0, b"a", 1_000, 1), record(1, b"b", 12_000, 2)], 100.0)
    [fire] = groups.drain()
    groups.accept([record(2, b"a", 2_000, 4)], 100.0)
    assert isinstance(fire, Fire)
    assert len(fire.values["all"]) == 1
    groups.expire(105.0, 10)
    assert [len(event.values["all"]) for event in groups.drain() if isinstance(event, Fire)] == [2]


@pytest.mark.parametrize("keys", [(b"a", b"b", b"c"), (b"a",)])
def test_an_entry_that_is_cut_in_two_tells_which_windows_have_closed(keys: tuple[bytes, ...]) -> None:
    states = {name(0, key): [2, 0, 1, 100.0, None, None, 2] for key in keys}
    added = {group: [[b"1", b"2"]] for group in states}
    closed = {group: (number, None) for number, group in enumerate(states, 1)}
    parts = halves(ChangelogEntry(1, 100.0, states, added, {}, {}, {}, closed=closed))
    assert len(parts) == 2
    for part in parts:
        assert part.closed == {group: closed[group] for group in part.states}


@pytest.mark.parametrize(
    ("window", "steps", "after"),
    [
        (AMEND, LATE, After(1, 105.0, 30_000)),
        (AMEND, LATE[:2], After(1, inf, 30_000)),
        (NEW, LATE, After(None, 105.0, inf)),
    ],
)
def test_what_a_closed_window_waits_for(window: Window, steps: list[Step], after: After) -> None:
    groups = turned(window, steps).groups
    group = open_window(groups, A, groups.states[A])
    assert group is not None
    assert (group.after, group.silent) == (after, inf)


@pytest.mark.parametrize("window", [AMEND, NEW, replace(NEW, kind="session", size=1.0)])
def test_what_is_noted_of_windows_that_ended_is_forgotten(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (closing, late_module, sessions_module):
        monkeypatch.setattr(module, "STALE", 10)
    groups = open_windows(replace(window, max_ahead=1e9))
    assert isinstance(groups, WindowGroups)
    for number in range(200):
        late = record(2 * number + 1, b"a", 10_000 * number - 5_000, 1)
        groups.accept([record(2 * number, b"b", 10_000 * number + 9_999, 1), late], 100.0 + 10 * number)
        groups.expire(100.0 + 10 * number, 100)
    most = 2 * len(groups.states) + 11
    assert len(groups.states) < 10
    assert max(map(len, (groups.after._opened_first, groups._order, groups.after._ends, groups.after._due))) <= most


@pytest.mark.parametrize("kind", [{}, {"kind": "hopping", "every": 5.0}, {"late": "amend", "keep": 90.0}])
def test_what_many_windows_send_at_one_moment_is_cut_by_bytes(
    kind: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (closing, early):
        monkeypatch.setattr(module, "SLICE_BYTES", 20)
    groups = open_windows(replace(SKIP, **kind), compute=(Reducer("all", "collect", "amount"),))  # type: ignore
    groups.accept([record(offset, b"k%d" % offset, 1_000, 7) for offset in range(100)], 100.0)
    groups.accept([record(100, b"x", 50_000, 7)], 100.0)
    first = len(list(groups.drain()))
    assert 1 < first < 100
    assert isinstance(groups, WindowGroups)
    assert 0 < groups.expire(100.0, 1_000) < 100
    assert groups.behind


def test_a_late_record_loses_no_result_of_its_key_however_many_windows_wait() -> None:
    """It looks for groups in the 1,000 windows before its own, and fires them in order. Those of earlier windows
    follow."""
    now, waiting = 10_000.0, closing.SLICE + groups_module.MOST_WAITING + 500
    late = waiting - 2
    steps = [Step(now, b"a", 1_000 * second, 1) for second in [*range(waiting), late]]
    partition = turned(Window(1.0, late="new", gather=5.0), steps)
    for time in (now, now + 6):
        partition.expire(time)
        partition.commit(time, len(steps))
    begin = late - groups_module.MOST_WAITING + 1
    in_order = [*range(closing.SLICE), *range(begin, late + 1), *range(closing.SLICE, begin), late]
    assert [result.start for result in partition.results] == [1_000 * second for second in in_order]
    assert {result.count for result in partition.results} == {1}
