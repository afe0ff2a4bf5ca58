"""However a log out of order is cut into batches, and wherever the process dies, late records make the same further
results, or change the same windows: compared with naive oracles over 1,000 random logs of each kind."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.windows import groups
from sluicegate.streams.windows.closed import ClosedGroups
from sluicegate.streams.windows.closing import ClosingWindows
from sluicegate.streams.windows.tumbling import name
from tests.unit.windows.late_oracle import AmendOracle, NewOracle, NewSessionOracle
from tests.unit.windows.oracle import Step
from tests.unit.windows.test_same_sessions import COMPUTE, a_session, crowded, told
from tests.unit.windows.test_same_windows import a_log, a_window, played
from tests.unit.windows.turning import Turned, judged

LOGS = 1_000
GATHER = (0.3, 5.0, 60.0)

pytestmark = pytest.mark.usefixtures("small")


def a_late_log(chance: random.Random) -> list[Step]:
    """With much disorder, and many looks at the clock."""
    steps: list[Step] = []
    for step in crowded(a_log(chance), chance):
        steps += [step, Step(step.now, None)] if chance.random() < 0.3 else [step]
    return steps


def amended(seed: int, turned: Callable[..., Turned] = Turned) -> tuple[AmendOracle, Turned]:
    chance = random.Random(seed)
    keep, gather = chance.choice([0.5, 4.0, 30.0]), chance.choice(GATHER)
    window, steps = replace(a_window(chance), late="amend", keep=keep, gather=gather), a_late_log(chance)
    oracle = judged(AmendOracle(*numbers(window), 10_000, keep=round(1000 * keep), gather=gather), steps)
    return oracle, played(turned(window, on_full="dead-letter"), steps, chance)


def added(seed: int, turned: Callable[..., Turned] = Turned) -> tuple[NewOracle, Turned]:
    chance = random.Random(seed)
    count, gather = chance.choice([3, 10_000]), chance.choice(GATHER)
    window, steps = replace(a_window(chance), late="new", gather=gather), a_late_log(chance)
    oracle = judged(NewOracle(*numbers(window), count, gather=gather), steps)
    return oracle, played(turned(window, count=None if count > 100 else count), steps, chance)


def added_sessions(seed: int, turned: Callable[..., Turned] = Turned) -> tuple[NewSessionOracle, Turned]:
    chance = random.Random(seed)
    most, gather = chance.choice([4, 10_000, 10_000]), chance.choice(GATHER)
    window = replace(a_session(chance), late="new", gather=gather)
    steps = a_late_log(chance)
    size, _, *others = numbers(window)
    oracle = judged(NewSessionOracle(size, *others, most, gather=gather), steps)
    return oracle, played(turned(window, view=told, compute=COMPUTE, max_items=most), steps, chance)


def numbers(window: Window) -> tuple[int, int, int, float, float, float]:
    assert window.idle is not None
    assert window.at_most is not None
    size, offset, grace = (round(1000 * seconds) for seconds in (window.size, window.offset, window.grace))
    return size, offset, grace, window.idle, window.at_most, window.max_ahead


KINDS = {"amend": amended, "new": added, "new sessions": added_sessions}


def left(oracle: AmendOracle | NewOracle | NewSessionOracle) -> set[bytes]:
    """The names of the groups that stay at the end of the log."""
    if isinstance(oracle, AmendOracle):
        return {name(*entry) for entry in oracle.kept}
    if isinstance(oracle, NewOracle):
        return {name(*window) for window in oracle.added}
    return {name(min(session.records)[0], key) for key, sessions in oracle.added.items() for session in sessions}


def differences(kind: str, logs: int = LOGS) -> int:
    count = 0
    for seed in range(logs):
        oracle, partition = KINDS[kind](seed)
        same = sorted(partition.results) == sorted(oracle.results) and partition.refused == oracle.refused
        count += not (same and {*partition.groups.states} == {*partition.groups.closed} == left(oracle))
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_and_any_crash_give_the_results_of_the_oracle(kind: str) -> None:
    assert differences(kind) == 0


def test_last_revisions_come_in_the_order_of_the_watermark_as_closes_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """With slices that are not small: no late record finds a closed window whose result still waits."""
    monkeypatch.setattr(groups, "SLICE", 1_000)
    for seed in range(LOGS // 4):
        oracle, partition = amended(seed)
        assert partition.results == oracle.results, seed


@pytest.mark.parametrize("kind", KINDS)
def test_the_logs_have_every_kind_of_closing_and_of_refusal(kind: str) -> None:
    kinds: set[str] = set()
    revisions = 1
    for seed in range(100):
        oracle, _ = KINDS[kind](seed)
        kinds |= {result.closed_by or result.reason for result in oracle.results} | {why for _, why in oracle.refused}
        revisions = max(revisions, *(getattr(result, "revision", 1) for result in oracle.results), 1)
    more = {"amend": set(), "new": {"count"}, "new sessions": {"limit"}}[kind]
    ends = {"late"} if kind == "amend" else set()
    assert kinds == {"event", "idle", "at_most", "late", "time-ahead"} | more | ends
    assert (revisions > 2) is (kind == "amend")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_lost_of_late_records_in_a_crash_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.streams.aggregation.durable.changelog._chosen", lambda known, keys: {})
    assert differences(kind, 100)


@pytest.mark.parametrize("kind", KINDS)
def test_late_records_that_gather_anew_with_each_record_are_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    took = ClosedGroups.note_record

    def anew(self: ClosedGroups, group: bytes, now: float) -> None:
        results, _ = self._groups.closed[group]
        self._groups.closed[group] = (results, None)
        took(self, group, now)

    monkeypatch.setattr(ClosedGroups, "note_record", anew)
    assert differences(kind, 200)


def test_a_window_that_is_dropped_at_its_close_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClosingWindows, "send", Groups.fire)
    assert differences("amend", 100)


def test_a_window_that_stays_after_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClosedGroups, "ending", lambda self: None)
    assert differences("amend", 100)
