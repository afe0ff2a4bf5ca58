"""What is kept of windows under which name: the fingerprint of open groups, and completed groups that are sealed."""

from dataclasses import replace

import pytest

from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.aggregation.converting import Conversion
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.rule import earlier_agent, fingerprint
from sluicegate.streams.handlers.packing import pack, unpack
from tests.unit.windows.turning import TOTAL, an_agent, open_windows, record

USUAL = Window(300.0, time="at", unit="ms")


@pytest.mark.parametrize("change", [{"size": 60.0}, {"offset": 5.0}, {"time": "other"}, {"unit": "s"}])
def test_what_gives_a_record_its_window_must_not_change_under_open_groups(change: dict[str, object]) -> None:
    changed = an_agent(replace(USUAL, **change))  # type: ignore[arg-type]
    assert fingerprint(changed) != fingerprint(an_agent(USUAL))
    again = earlier_agent(changed, fingerprint(an_agent(USUAL))).aggregation
    assert again is not None
    assert again.window == USUAL


@pytest.mark.parametrize(
    "change",
    [
        {"grace": 5.0},
        {"idle": None},
        {"at_most": 9e3},
        {"late": "skip"},
        {"gather": 1.0},
        {"keep": 1.0},
        {"max_ahead": 1.0},
    ],
)
def test_when_a_window_closes_may_change_under_open_groups(change: dict[str, object]) -> None:
    changed = an_agent(replace(USUAL, **change))  # type: ignore[arg-type]
    assert fingerprint(changed) == fingerprint(an_agent(USUAL))


@pytest.mark.parametrize("kind", [{"kind": "session"}, {"kind": "sliding"}, {"kind": "hopping", "every": 60.0}])
def test_another_kind_has_other_windows(kind: dict[str, object]) -> None:
    changed = replace(USUAL, **kind)  # type: ignore[arg-type]
    for one, other in ((changed, USUAL), (USUAL, changed)):
        assert fingerprint(an_agent(one)) != fingerprint(an_agent(other))
        again = earlier_agent(an_agent(one), fingerprint(an_agent(other))).aggregation
        assert again is not None
        assert again.window == other


def test_a_session_that_is_converted_keeps_its_times() -> None:
    window = Window(60.0, kind="session")
    stats = (Reducer("least", "min", "amount"), Reducer("entry", "first", "amount"), *TOTAL)
    old, new = open_windows(window, compute=stats), open_windows(replace(window, grace=5.0), compute=TOTAL)
    old.accept([record(0, b"k", 1_000, 3), record(1, b"k", 50_000, 4)], 100.0)
    [(name, state)] = old.states.items()
    span = old.span(name, state)
    Conversion(old, new).move(name)
    new.rearm()
    assert (span.start, span.end) == (1_000, 110_000)
    again = new.span(name, new.states[name])
    assert (again.start, again.end) == (span.start, span.end)
    new.accept([record(2, b"k", 110_000, 5)], 100.0)
    assert new.rule.values(new.states[name], []) == {"total": 12}


def test_records_of_sliding_windows_that_are_converted_keep_their_times() -> None:
    window = Window(60.0, grace=60.0, kind="sliding")
    stats = (Reducer("least", "min", "amount"), Reducer("entry", "first", "amount"), *TOTAL)
    old, new = open_windows(window, compute=stats), open_windows(replace(window, late="skip"), compute=TOTAL)
    old.accept([record(0, b"k", 1_000, 3), record(1, b"k", 50_000, 4), record(2, b"x", 70_000, 1)], 100.0)
    conversion = Conversion(old, new)
    for name in [*old.states]:
        conversion.move(name)
    new.event.follow(old.event)
    new.rearm()
    new.accept([record(3, b"k", 61_001, 5), record(4, b"k", 61_000, 6)], 100.0)
    assert [event.values for event in new.events if isinstance(event, Fire)] == [{"total": 9}, {"total": 13}]


def test_sliding_windows_that_are_flushed_or_dropped_have_no_further_result() -> None:
    for end in ("flush", "forget", "fire"):
        groups = open_windows(Window(60.0, grace=60.0, kind="sliding"))
        groups.emitter.notes = True
        groups.accept([record(0, b"k", 1_000, 3), record(1, b"k", 50_000, 4)], 100.0)
        groups.events.clear()
        for name in [*groups.states]:
            getattr(groups, end)(name, *(["window"] if end == "fire" else []), 100.0)
        assert (groups.events, groups.states) == ([], {})
        groups.accept([record(2, b"k", 51_000, 5)], 100.0)
        [value] = [event.values for event in groups.events if isinstance(event, Fire)]
        assert value == {"total": 5}


def test_a_pane_that_is_converted_keeps_its_next_window() -> None:
    window = Window(60.0, kind="hopping", every=20.0)
    stats = (Reducer("least", "min", "amount"), Reducer("entry", "first", "amount"), *TOTAL)
    old, new = open_windows(window, compute=stats), open_windows(replace(window, late="skip"), compute=TOTAL)
    old.accept([record(0, b"k", 65_000, 3), record(1, b"x", 85_000, 4)], 100.0)
    [first] = old.events
    spans = {name: old.span(name, state) for name, state in old.states.items()}
    conversion = Conversion(old, new)
    for name in spans:
        conversion.move(name)
    new.rearm()
    assert isinstance(first, Fire)
    assert first.window is not None
    assert (first.window.start, min(span.start for span in spans.values())) == (20_000, 40_000)
    assert {name: new.span(name, state) for name, state in new.states.items()} == spans


def test_groups_from_before_the_windows_have_none() -> None:
    plain = replace(an_agent(USUAL), aggregation=replace(an_agent(USUAL).aggregation, window=None))  # type: ignore
    again = earlier_agent(an_agent(USUAL), fingerprint(plain)).aggregation
    assert again is not None
    assert again.window is None


def test_a_sealed_group_keeps_its_window() -> None:
    groups = open_windows(Window(60.0))
    groups.accept([record(0, b"k", 1_000, 3), record(1, b"k", 60_000, 4)], 100.0)
    (fire,) = groups.events
    assert isinstance(fire, Fire)
    again = unpack(pack(fire), ("in", 0), fire.first, lambda sealed: pytest.fail("a group is no message"))
    assert isinstance(again, Fire)
    assert again.window == fire.window is not None


def test_a_watermark_that_moved_waits_for_an_entry() -> None:
    groups = open_windows(Window(60.0))
    assert groups.clock(whole=False) is None
    groups.accept([record(0, b"k", 1_000)], 100.0, {0})
    assert groups.clock(whole=False) is not None
    assert groups.clock(whole=False) is None


def test_silence_is_judged_at_any_fraction_of_a_second() -> None:
    """In floating point (now - idle) * 1000 may lie below the close at which `next_due` says that it is time."""
    for idle, closes in ((68249767.86, 210069960401), (61399694.507, 255730755801), (60.0, 1_700_000_000_001)):
        groups = open_windows(Window(1.0, grace=closes % 1000 / 1000, idle=idle, at_most=None))
        groups.accept([record(0, b"k", closes - closes % 1000 - 1)], closes / 1000 - 1)
        groups.caught_up = groups.at_end = True
        groups.end_asked = groups.next_due()
        assert groups.expire(groups.next_due(), 10) == 1
        assert groups.event.watermark == closes
