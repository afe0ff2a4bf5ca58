"""However a log out of order is cut into batches, and wherever the process dies, the same sessions close with the same
records, and the same records are late: compared with a naive oracle over 1,000 random logs."""

import random
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import pytest

from sluicegate.streams.agent import Reducer, Until, Window
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.sessions import SessionGroups
from tests.unit.windows.oracle import Step
from tests.unit.windows.session_oracle import SessionOracle, SessionResult
from tests.unit.windows.test_same_windows import a_log, a_window, played
from tests.unit.windows.turning import Turned, judged

LOGS = 1_000
VALUES = ("count", "sum", "min", "max", "first", "last", "distinct", "collect")
COMPUTE = tuple(Reducer(kind, kind, None if kind == "count" else "amount") for kind in VALUES)


pytestmark = pytest.mark.usefixtures("small")


class Ends(NamedTuple):
    """What ends a session beside its pause: `rule` in the file's aggregation, `complete` and `until` of the oracle."""

    rule: dict[str, Any]
    complete: float = inf
    until: Callable[[int, list[int]], bool] | None = None


ENDS = (
    Ends({}),
    Ends({"count": 3}, 3),
    Ends({"until": Until("amount", 2)}, until=lambda amount, amounts: amount == 2),
    Ends({"until": "group.sum >= 6"}, until=lambda amount, amounts: sum(amounts) >= 6),
    Ends({"until": "group.distinct > 2"}, until=lambda amount, amounts: len(set(amounts)) > 2),
    Ends({"until": "group.count == 3 && amount > 0"}, until=lambda amount, amounts: len(amounts) == 3 and amount > 0),
    Ends({"until": Until("amount", 2), "count": 4}, 4, lambda amount, amounts: amount == 2),
)


def told(fire: Fire) -> SessionResult:
    assert fire.window is not None
    values = fire.values | {"collect": sorted(fire.values["collect"])}
    window = (fire.window.start, fire.window.end, fire.reason, fire.window.by)
    return SessionResult(fire.key, *window, fire.first, fire.last, tuple(values[name] for name in VALUES))


def a_session(chance: random.Random) -> Window:
    size, grace = chance.choice([0.3, 1.0, 3.0]), chance.choice([0.0, 3.0, 10.0, 10.0])
    return replace(a_window(chance), kind="session", size=size, grace=grace, offset=0.0)


def crowded(steps: list[Step], chance: random.Random) -> list[Step]:
    """Half of the logs have one key, and much disorder: records between two sessions make one of them."""
    if chance.random() < 0.5:
        return steps
    return [
        step if step.key is None else step._replace(key=b"a", time=max(0, step.time - chance.randint(0, 6_000)))
        for step in steps
    ]


def expected(window: Window, steps: list[Step], most: int, ends: Ends = ENDS[0]) -> SessionOracle:
    assert window.idle is not None
    assert window.at_most is not None
    gap, grace = round(1000 * window.size), round(1000 * window.grace)
    oracle = SessionOracle(gap, grace, window.idle, window.at_most, window.max_ahead, most, ends.complete, ends.until)
    return judged(oracle, steps)


def outcomes(seed: int) -> tuple[SessionOracle, Turned]:
    chance = random.Random(seed)
    window, steps, most = a_session(chance), crowded(a_log(chance), chance), chance.choice([4, 10_000, 10_000])
    ends = chance.choice(ENDS)
    oracle = expected(window, steps, most, ends)
    return oracle, played(Turned(window, told, compute=COMPUTE, max_items=most, **ends.rule), steps, chance)


def differences(logs: int = LOGS) -> int:
    """In how many logs the sessions, or the records that were refused, differ from those of the oracle."""
    count = 0
    for seed in range(logs):
        oracle, partition = outcomes(seed)
        same = sorted(partition.results) == sorted(oracle.results) and partition.refused == oracle.refused
        count += not (same and not partition.groups.states)
    return count


def test_any_cut_and_any_crash_give_the_sessions_of_the_oracle() -> None:
    assert differences() == 0


def test_the_logs_have_every_kind_of_closing_and_of_refusal() -> None:
    kinds: set[str] = set()
    for seed in range(100):
        oracle, _ = outcomes(seed)
        kinds |= {result.closed_by or result.reason for result in oracle.results} | {why for _, why in oracle.refused}
    assert kinds == {"event", "idle", "at_most", "limit", "late", "time-ahead", "count", "until"}


def test_an_until_that_does_not_see_the_sessions_which_the_record_joins_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionGroups, "whole", lambda self, state, bags: (state, bags))
    assert differences()


def test_a_session_that_ends_without_those_which_its_last_record_joins_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionGroups, "end", WindowGroups.end)
    assert differences()


def test_a_merged_session_that_is_kept_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drop = SessionGroups.drop

    def kept(self: SessionGroups, key: bytes):  # type: ignore[no-untyped-def]
        record = drop(self, key)
        if self.merging:
            self.touched.pop(key)
        return record

    join = SessionGroups._join
    monkeypatch.setattr(SessionGroups, "merging", False, raising=False)

    def joining(self: SessionGroups, *rest: object) -> None:
        monkeypatch.setattr(SessionGroups, "merging", True, raising=False)
        join(self, *rest)  # type: ignore[arg-type]
        monkeypatch.setattr(SessionGroups, "merging", False, raising=False)

    monkeypatch.setattr(SessionGroups, "drop", kept)
    monkeypatch.setattr(SessionGroups, "_join", joining)
    assert differences(200)


def test_sessions_that_a_record_joins_and_that_stay_apart_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionGroups, "_join", lambda self, *rest: None)
    assert differences(100)


def test_a_gap_that_is_one_millisecond_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    init = SessionGroups.__init__

    def made(self: SessionGroups, *rest: object, **more: object) -> None:
        init(self, *rest, **more)  # type: ignore[arg-type]
        self.gap -= 1

    monkeypatch.setattr(SessionGroups, "__init__", made)
    assert differences(300)
