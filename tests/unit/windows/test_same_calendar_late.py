"""Late records of windows of a calendar make the further results, or the changed windows, of naive oracles: 1,000
random logs around changes of clocks, cut anywhere, with crashes."""

import random
from dataclasses import dataclass, replace

import pytest

from sluicegate.streams.windows.boundaries import CalendarTumbling
from sluicegate.streams.windows.closed import ClosedGroups
from tests.unit.windows.calendar_oracle import CalendarOracle
from tests.unit.windows.late_oracle import AmendOracle, NewOracle
from tests.unit.windows.oracle import Step
from tests.unit.windows.test_same_calendar import DAY, HOUR, Log, a_log
from tests.unit.windows.test_same_late import left
from tests.unit.windows.test_same_windows import played
from tests.unit.windows.turning import Turned, judged

LOGS, PARTS = 1_000, 8
KEEP = (HOUR, 30 * HOUR, 60 * DAY)
GATHER = (60.0, 5.0 * HOUR, 3.0 * DAY)

pytestmark = pytest.mark.usefixtures("small")


@dataclass
class AmendCalendarOracle(AmendOracle, CalendarOracle):
    """Windows of a calendar that late records change."""


@dataclass
class NewCalendarOracle(NewOracle, CalendarOracle):
    """Windows of a calendar whose late records make a further result."""


def looked(log: Log, chance: random.Random) -> list[Step]:
    """With many looks at the clock."""
    steps: list[Step] = []
    for step in log.steps:
        steps += [step, Step(step.now, None)] if chance.random() < 0.3 else [step]
    return steps


def outcomes(seed: int) -> tuple[AmendCalendarOracle | NewCalendarOracle, Turned]:
    chance, log = random.Random(f"late/{seed}"), a_log(seed)
    window, steps = log.window, looked(log, chance)
    assert window.idle is not None
    assert window.at_most is not None
    times = 0, 0, round(1_000 * window.grace), window.idle, window.at_most, window.max_ahead
    gather = chance.choice(GATHER)
    if chance.random() < 0.5:
        keep = chance.choice(KEEP)
        oracle = AmendCalendarOracle(*times, 10_000, edges=log.edges, keep=1_000 * keep, gather=gather)
        changed = replace(window, late="amend", keep=keep, gather=gather)
        return judged(oracle, steps), played(Turned(changed, on_full="dead-letter"), steps, chance)
    added = NewCalendarOracle(*times, log.count, edges=log.edges, gather=gather)
    count = None if log.count > 100 else log.count
    return judged(added, steps), played(Turned(replace(window, late="new", gather=gather), count=count), steps, chance)


def differs(seed: int) -> bool:
    oracle, partition = outcomes(seed)
    same = sorted(partition.results) == sorted(oracle.results) and partition.refused == oracle.refused
    return not (same and {*partition.groups.states} == {*partition.groups.closed} == left(oracle))


def differences(logs: int) -> int:
    return sum(map(differs, range(logs)))


@pytest.mark.parametrize("part", range(PARTS))
def test_any_cut_and_any_crash_give_the_results_of_the_oracle(part: int) -> None:
    assert [seed for seed in range(part, LOGS, PARTS) if differs(seed)] == []


def test_the_logs_have_late_records_of_both_kinds() -> None:
    amended = added = refused = 0
    for seed in range(100):
        oracle, _ = outcomes(seed)
        late = [result for result in oracle.results if result.closed_by == "late"]
        amended += sum(result.revision > 1 for result in late)
        added += sum(result.revision == 1 for result in late)
        refused += len(oracle.refused)
    assert min(amended, added, refused) > 20


def test_a_window_that_is_kept_for_a_day_of_24_hours_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CalendarTumbling, "next", lambda self, start: start + 1_000 * DAY)
    assert differences(60)


def test_late_records_that_gather_anew_with_each_record_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    took = ClosedGroups.note_record

    def anew(self: ClosedGroups, group: bytes, now: float) -> None:
        results, _ = self._groups.closed[group]
        self._groups.closed[group] = (results, None)
        took(self, group, now)

    monkeypatch.setattr(ClosedGroups, "note_record", anew)
    assert differences(100)
