"""However a log out of order is cut into batches, and wherever the process dies, the same hopping windows close with
the same records, and the same records are late: compared with a naive oracle over 1,000 random logs."""

import random
from dataclasses import replace

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.windows.hopping import HoppingGroups
from sluicegate.streams.windows.tumbling import name
from tests.unit.windows.hopping_oracle import HoppingOracle
from tests.unit.windows.oracle import Step
from tests.unit.windows.test_same_sessions import COMPUTE, crowded, told
from tests.unit.windows.test_same_windows import a_log, a_window, played
from tests.unit.windows.turning import Turned, judged

LOGS = 1_000


pytestmark = pytest.mark.usefixtures("small")


def a_hopping(chance: random.Random) -> Window:
    size, parts = chance.choice([1.0, 5.0, 7.5]), chance.choice([2, 5, 10])
    window = a_window(chance)
    assert window.at_most is not None
    return replace(
        window,
        kind="hopping",
        size=size,
        every=size / parts,
        offset=chance.choice([0.0, 0.07]),
        at_most=size + window.at_most,
    )


def expected(window: Window, steps: list[Step], most: int) -> HoppingOracle:
    assert window.idle is not None
    assert window.at_most is not None
    times = (round(1000 * seconds) for seconds in (window.size, window.every, window.offset, window.grace))
    oracle = HoppingOracle(*times, window.idle, window.at_most, window.max_ahead, most)
    return judged(oracle, steps)


def outcomes(seed: int) -> tuple[HoppingOracle, Turned]:
    chance = random.Random(seed)
    window, steps, most = a_hopping(chance), crowded(a_log(chance), chance), chance.choice([4, 10_000, 10_000])
    oracle = expected(window, steps, most)
    return oracle, played(Turned(window, told, compute=COMPUTE, max_items=most), steps, chance)


def differences(logs: int = LOGS) -> int:
    """In how many logs the windows, or the records that were refused, differ from those of the oracle."""
    count = 0
    for seed in range(logs):
        oracle, partition = outcomes(seed)
        same = sorted(partition.results) == sorted(oracle.results) and partition.refused == oracle.refused
        count += not (same and not partition.groups.states)
    return count


def test_any_cut_and_any_crash_give_the_windows_of_the_oracle() -> None:
    assert differences() == 0


def test_the_logs_have_every_kind_of_closing_and_of_refusal() -> None:
    kinds: set[str] = set()
    partly = 0
    for seed in range(100):
        oracle, _ = outcomes(seed)
        kinds |= {result.closed_by or result.reason for result in oracle.results} | {why for _, why in oracle.refused}
        partly += oracle.partly
    assert kinds == {"event", "idle", "at_most", "limit", "late", "time-ahead"}
    assert partly > 100


def test_a_next_window_that_is_not_in_the_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = HoppingGroups._go_on

    def unsaved(self: HoppingGroups, key: bytes, start: int) -> None:
        known = dict(self.touched)
        go_on(self, key, start)
        for pane in self.panes.get(key, ()):
            group = name(pane, key)
            if group not in known:
                self.touched.pop(group, None)

    monkeypatch.setattr(HoppingGroups, "_go_on", unsaved)
    assert differences(200)


def test_windows_of_a_key_that_wait_while_it_takes_a_record_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HoppingGroups, "_closes", lambda self, key: None)
    assert differences(300)


def test_a_merge_into_the_pane_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pane(list):  # type: ignore[type-arg]
        def copy(self) -> GroupState:
            return self

    opened = HoppingGroups._opened

    def as_pane(self: HoppingGroups, group: bytes, state: GroupState, now: float) -> None:
        opened(self, group, state, now)
        self.states[group] = self.touched[group] = Pane(state)

    monkeypatch.setattr(HoppingGroups, "_opened", as_pane)
    assert differences(100)


def test_a_window_that_fired_does_not_fire_again_after_grace_was_raised() -> None:
    """The record at 3.2 s is not late by the new grace, but the windows that hold it have fired for its key."""
    window = Window(2.0, kind="hopping", every=1.0, idle=None, at_most=1e9, max_ahead=1e9)
    partition = Turned(window, told, compute=COMPUTE)
    steps = [Step(0.0, b"a", 4_500, 1), Step(0.0, b"b", 5_200, 2), Step(0.0, b"a", 3_200, 4), Step(0.0, b"b", 90_000)]
    partition.take(0, steps[:2])
    partition.commit(0.0, 2)
    partition.window = replace(window, grace=10.0)
    partition.restore()
    partition.take(2, steps[2:])
    partition.expire(0.0)
    partition.commit(0.0, 4)
    assert partition.refused == [(2, "late")]
    assert [(result.start, result.total) for result in partition.results if result.key == b"a"] == [
        (3_000, 1),
        (4_000, 1),
    ]
