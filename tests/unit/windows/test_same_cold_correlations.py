"""Correlations by event time that are rows of the store: the same ones end with the same records, and the same records
are late, as in a naive oracle and as when all are in memory. One to three stay hot."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sluicegate.streams.agent import Correlation, Emit, Window
from sluicegate.streams.windowers import CORRELATION
from tests.unit.windows.oracle import Result, Step
from tests.unit.windows.test_same_cold_origins import OfOrigins, PagedOfOrigins, TurnedOfOrigins, of_origins
from tests.unit.windows.test_same_sessions import COMPUTE, told
from tests.unit.windows.test_same_windows import a_log, played

LOGS = 300
EVER = 1e9  # seconds for which the key of a group that ended is known
AHEAD = 60.0  # seconds that a record may be ahead of the owner's clock, beyond max_ahead: another worker read its time

pytestmark = pytest.mark.usefixtures("small")


@dataclass
class Open:
    first: int
    opened: float
    last: int = 0
    times: list[int] = field(default_factory=list)
    amounts: list[int] = field(default_factory=list)


@dataclass
class Keys:
    """`after` is in ms. With `by_last` it counts from the latest record of a group. `count` records complete one. The
    last silence moved the watermark from the first to the second time of `silence`."""

    after: int
    by_last: bool
    idle: float
    at_most: float
    ahead: float
    count: int
    remembers: bool
    watermark: int = -1
    silence: tuple[int, int] = (-1, -1)
    results: list[Result] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    open: dict[bytes, Open] = field(default_factory=dict)
    ended: set[bytes] = field(default_factory=set)

    def take(self, offset: int, step: Step) -> None:
        assert step.key is not None
        if step.time > (step.now + self.ahead) * 1000:
            self.refused += [] if step.left_out else [(offset, "time-ahead")]
            return
        self.passed(step.time)  # type: ignore[attr-defined]
        if step.left_out:
            return
        if self.is_late(step.key, step.time):
            self.refused.append((offset, "late"))
            return
        group = self.open.setdefault(step.key, Open(offset, step.now))
        group.last = offset
        group.times.append(step.time)
        group.amounts.append(step.amount)
        if len(group.times) == self.count:
            self.end(step.key, "count", "")
        self.close("event")  # an earlier record makes its group end earlier

    def is_late(self, key: bytes, time: int) -> bool:
        group = self.open.get(key)
        if group is None:
            return key in self.ended or time + self.after < self.watermark
        if self.by_last:
            return not min(group.times) - self.after <= time <= max(group.times) + self.after
        return max(*group.times, time) - min(*group.times, time) > self.after

    def due(self, group: Open) -> int:
        return (max(group.times) if self.by_last else min(group.times)) + self.after

    def close(self, by: str) -> None:
        for key, group in sorted(self.open.items(), key=lambda group: (self.due(group[1]), group[1].first)):
            if (closes := self.due(group) + 1) <= self.watermark:
                self.end(key, "timeout", "idle" if self.silence[0] < closes <= self.silence[1] else by)

    def look(self, now: float) -> None:
        over = [self.due(group) + 1 for group in self.open.values()]
        over = [closes for closes in over if closes <= self.silent_until(now)]  # type: ignore[attr-defined]
        if over:
            self.silence = self.watermark, max(over)
            self.watermark = max(over)
            self.close("idle")
        for key in [key for key, group in self.open.items() if group.opened + self.at_most <= now]:
            self.end(key, "timeout", "at_most")

    def end(self, key: bytes, reason: str, by: str) -> None:
        group = self.open.pop(key)
        if self.remembers:
            self.ended.add(key)
        numbers = len(group.times), sum(group.amounts)
        span = min(group.times), self.due(group)
        self.results.append(Result(key, *span, reason, by, group.first, group.last, *numbers))


class CorrelationOracle(OfOrigins, Keys):
    pass


def a_correlation(chance: random.Random) -> tuple[Window, Correlation]:
    after, idle = chance.choice([0.5, 2.0, 5.0]), chance.choice([2.0, 6.0, 1e9])
    at_most = after + chance.choice([1.0, 20.0])
    window = Window(after, idle=idle, at_most=at_most, max_ahead=9.0, kind=CORRELATION, origins=("re/phones",))
    since: Any = chance.choice(["first", "last"])
    return window, Correlation(chance.choice([0.0, EVER]), since=since)


def many_keys(steps: Sequence[Step], chance: random.Random) -> list[Step]:
    """Most keys are new: those that ended are late."""
    keys = [b"%d" % (at // 4 + chance.randrange(4)) for at in range(len(steps))]
    return [step if step.key is None else step._replace(key=key) for step, key in zip(steps, keys, strict=True)]


def cases(kind: str) -> Any:
    for seed in range(LOGS):
        chance = random.Random(f"{kind} {seed}")
        steps = of_origins(many_keys(a_log(chance), chance), chance)
        yield seed, chance, *a_correlation(chance), steps


def judged(window: Window, correlation: Correlation, steps: Sequence[Step], count: int) -> CorrelationOracle:
    idle, at_most = window.idle or 0.0, window.at_most or 0.0
    after, by_last = round(1000 * window.size), correlation.since == "last"
    remembers = bool(correlation.remember)
    oracle = CorrelationOracle(after, by_last, idle, at_most, window.max_ahead + AHEAD, count, remembers)
    for offset, step in enumerate(steps):
        if step.key is None:
            oracle.look(step.now)
        else:
            oracle.take(offset, step)
    return oracle


def test_any_cut_and_any_crash_give_the_correlations_of_the_oracle() -> None:
    evicted, causes = 0, set[str]()
    for seed, chance, window, correlation, steps in cases("oracle"):
        count = chance.choice([2, 3, 10_000])
        oracle = judged(window, correlation, steps, count)
        more = {"correlation": correlation, "count": None if count > 100 else count}
        partition = played(PagedOfOrigins(window, chance.randint(1, 3), **more), steps, chance)
        assert sorted(partition.results) == sorted(oracle.results), seed
        assert partition.refused == oracle.refused, seed
        assert (partition.groups.states, partition.groups.cold.count, partition.store.rows.groups) == ({}, 0, {}), seed
        evicted += partition.evicted
        causes |= {result.closed_by or result.reason for result in oracle.results} | {why for _, why in oracle.refused}
    assert evicted > 2 * LOGS
    assert causes == {"event", "idle", "at_most", "count", "late"}


@pytest.mark.parametrize("kind", ["collects", "early", "crowded", "never", "skip"])
def test_what_is_cold_changes_no_result(kind: str) -> None:
    evicted = 0
    for seed, chance, window, correlation, steps in cases(kind):
        more: dict[str, Any] = {"correlation": correlation, "compute": COMPUTE, "view": told}
        if kind == "early":
            more["emit"] = chance.choice([Emit(count=2), Emit(every=1.0), Emit(every=3.0, final=False)])
        if kind == "crowded":
            more["max_groups"] = chance.randint(2, 4)
        if kind == "never":
            window = replace(window, at_most=None)
        if kind == "skip":
            more["correlation"] = replace(correlation, late="skip")
        whole = played(TurnedOfOrigins(window, **more), steps, random.Random(seed))
        cold = played(PagedOfOrigins(window, chance.randint(1, 3), **more), steps, random.Random(seed))
        assert sorted(cold.results, key=repr) == sorted(whole.results, key=repr), seed
        assert cold.refused == whole.refused, seed
        evicted += cold.evicted
    assert evicted > LOGS
