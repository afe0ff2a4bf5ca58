"""What the groups of windows note beside their states: an open group is always found again, and limits end."""

import random
from dataclasses import replace

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.layout import COUNT, FIRST
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows import closing, sessions
from sluicegate.streams.windows.hopping import HoppingGroups
from sluicegate.streams.windows.marks import Stamp
from sluicegate.streams.windows.opening import groups_of, window_of
from sluicegate.streams.windows.sessions import SessionGroups
from sluicegate.streams.windows.tumbling import name
from tests.unit.windows.turning import an_agent, open_windows, record

ALL = (Reducer("all", "collect"),)
ORIGIN = "sums.repartition/in"


@pytest.mark.parametrize("most", [60, 1_000_000])
@pytest.mark.parametrize("seed", range(40))
def test_each_open_session_is_among_those_that_close_and_those_of_its_key(seed: int, most: int) -> None:
    """With few bytes a session is fired for room while a record makes one of two."""
    chance = random.Random(seed)
    groups = open_windows(Window(1.0, kind="session", grace=5.0), compute=ALL, max_bytes=most)
    assert isinstance(groups, SessionGroups)
    for offset in range(60):
        key, time, amount = chance.choice([b"a", b"b"]), chance.randrange(20_000), chance.choice([1, 111_111])
        groups.accept([record(offset, key, time, amount)], 100.0)
        closing = {
            name for _, first, name in groups._order if name in groups.states and groups.states[name][FIRST] == first
        }
        assert closing >= {*groups.states}
        assert sorted(name for names in groups.sessions.values() for name in names) == sorted(groups.states)


LIMITS = ({}, {"max_items": 4}, {"max_groups": 3}, {"max_bytes": 30}, {"max_buffered_bytes": 60, "max_bytes": 60})


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_a_record_is_in_as_many_results_as_it_has_open_windows(seed: int, limits: dict[str, int]) -> None:
    """Limits end all windows of a key, and its next record makes further results."""
    chance = random.Random(seed)
    groups = open_windows(Window(4.0, kind="hopping", every=1.0, grace=1.0, max_ahead=1e9), compute=ALL, **limits)
    assert isinstance(groups, HoppingGroups)
    expected = watermark = 0
    for offset in range(120):
        time = 100 * offset + chance.randrange(8_000)
        watermark = max(watermark, time)
        expected += sum(start + 5_000 > watermark for start in range(time // 1_000 * 1_000, time - 4_000, -1_000))
        groups.accept([record(offset, chance.choice([b"a", b"b"]), time, chance.choice([1, 111_111]))], 0.0)
        closing = {(key, closes) for closes, _, key in groups._order}
        assert sorted(name(pane, key) for key, panes in groups.panes.items() for pane in panes) == sorted(groups.states)
        assert closing >= {
            (oldest, groups.span(oldest, groups.states[oldest]).closes)
            for oldest in (name(panes[0], key) for key, panes in groups.panes.items())
        }
    groups.accept([record(200, b"c", 1_000_000, 1)], 0.0)
    assert sum(event.count for event in groups.events if isinstance(event, Fire)) == expected
    assert len(groups.states) == 1


def test_a_session_is_noted_once_when_its_heap_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (closing, sessions):
        monkeypatch.setattr(module, "STALE", 3)
    groups = open_windows(Window(60.0, kind="session", grace=1000.0), max_items=10)
    for offset in range(500):
        groups.accept([record(offset, b"k", 1_000, 1)], 100.0)
    ended = sum(fire.count for fire in groups.events)  # type: ignore[union-attr]
    assert ended + sum(state[COUNT] for state in groups.states.values()) == 500


def test_windows_make_room_in_an_earlier_version_that_fills_it() -> None:
    limits = {"compute": ALL, "max_buffered_bytes": 60, "max_bytes": 60}
    plain = an_agent(Window(60.0), **limits)
    assert plain.aggregation is not None
    older = groups_of(Rule(replace(plain, aggregation=replace(plain.aggregation, window=None)), codec("json")))
    accept(older, [record(offset, b"k", 0, 1) for offset in range(5)], 1.0)
    newer = open_windows(Window(60.0), **limits)
    newer.elders = [older]
    newer.accept([record(5, b"k", 1_000, 1)], 100.0)
    assert (len(older.states), len(newer.states)) == (0, 1)


@pytest.mark.parametrize(("time", "kept"), [("a", True), ("b", False)])
def test_the_origins_of_another_time_are_not_restored(time: str, kept: bool) -> None:
    """As the watermark. A process that dies between a change of `time` and its first entry would find all late."""
    window = Window(60.0, time="a", unit="ms", origins=(ORIGIN,))
    before = open_windows(window)
    log = Changelog(before, 1)
    assert before.merged is not None
    before.merged.hear(Stamp(f"{ORIGIN}/0", 5_000_000, "at-end", 1))
    entries, _ = log.entries({}, dict, 1.0)
    after = open_windows(replace(window, time=time))
    Changelog(after, 1).replay(entries, 1, len(entries), ReceivedShards("in"))
    assert after.merged is not None
    assert (f"{ORIGIN}/0" in after.merged.origins) is kept


@pytest.mark.parametrize(("time", "start"), [(b"61000", 60_000), (b"", None)])
def test_explain_finds_the_window_of_a_re_keyed_record_by_the_time_it_was_re_keyed_with(
    time: bytes, start: int | None
) -> None:
    """Not by the time at which it was written again."""
    headers = [("sluicegate-agent", b"sums.repartition"), ("sluicegate-origin", b"in/0/7"), ("sluicegate-time", time)]
    log_record = LogRecord("by", 0, 0, b"k", b'{"amount":1}', headers, at=700_000)
    rule = Rule(an_agent(Window(60.0, origins=(ORIGIN,))), codec("json"))
    assert window_of(rule)(log_record) == start
