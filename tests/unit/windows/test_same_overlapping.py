"""Hopping windows that are kept one by one: as in test_same_hopping.py, with `count`, and with further and revised
results. Hopping windows are as many series of tumbling windows as a record has windows, which share a watermark. So the
naive oracles of tumbling windows judge them."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.windows.overlapping import OverlappingGroups
from tests.unit.windows.late_oracle import AmendOracle, NewOracle
from tests.unit.windows.oracle import Oracle, Result, Step
from tests.unit.windows.test_same_hopping import a_hopping
from tests.unit.windows.test_same_late import GATHER, a_late_log
from tests.unit.windows.test_same_windows import played
from tests.unit.windows.turning import Turned

LOGS = 300

pytestmark = pytest.mark.usefixtures("small")


@dataclass
class Series:
    """The oracles of the series. Silence moves the watermark of all of them."""

    oracles: list[Oracle]
    idle: float
    refused: list[tuple[int, str]] = field(default_factory=list)
    partly: int = 0

    @property
    def results(self) -> list[Result]:
        return [result for oracle in self.oracles for result in oracle.results]

    def take(self, offset: int, step: Step) -> None:
        for oracle in self.oracles:
            oracle.take(offset, step)
        refusals = [
            oracle.refused[-1][1] for oracle in self.oracles if oracle.refused and oracle.refused[-1][0] == offset
        ]
        self.partly += 0 < len(refusals) < len(self.oracles)
        if len(refusals) == len(self.oracles):
            self.refused.append((offset, refusals[0]))

    def look(self, now: float) -> None:
        closes = [start + oracle.size + oracle.grace for oracle in self.oracles for start, _ in oracle.open]
        over = [at for at in closes if at <= (now - self.idle) * 1000]
        silent = bool(over) and now >= self.oracles[0].seen + self.idle
        for oracle in self.oracles:
            if silent:
                oracle.watermark = max(over)
                oracle.close("idle")
            oracle.look(now)


Made = Callable[..., Oracle]


def series(window: Window, made: Made, **more: Any) -> Series:
    assert window.idle is not None
    size, every, offset, grace = (round(1000 * n) for n in (window.size, window.every, window.offset, window.grace))
    times = window.at_most, window.max_ahead
    oracles = [made(size, offset + part, grace, inf, *times, **more) for part in range(0, size, every)]
    return Series(oracles, window.idle)


def counted(chance: random.Random, window: Window) -> tuple[Window, Series, dict[str, Any]]:
    count = chance.choice([2, 3, 5])
    return window, series(window, Oracle, count=count), {"count": count}


def amended(chance: random.Random, window: Window) -> tuple[Window, Series, dict[str, Any]]:
    keep, gather = chance.choice([0.5, 4.0, 30.0]), chance.choice(GATHER)
    count = series(window, AmendOracle, count=10_000, keep=round(1000 * keep), gather=gather)
    return replace(window, late="amend", keep=keep, gather=gather), count, {"on_full": "dead-letter"}


def added(chance: random.Random, window: Window) -> tuple[Window, Series, dict[str, Any]]:
    count, gather = chance.choice([3, 10_000]), chance.choice(GATHER)
    rounds = series(window, NewOracle, count=count, gather=gather)
    return replace(window, late="new", gather=gather), rounds, {"count": None if count > 100 else count}


KINDS = {"count": counted, "amend": amended, "new": added}


def outcomes(kind: str, seed: int, turned: Callable[..., Turned] = Turned) -> tuple[Series, Turned]:
    chance = random.Random(seed)
    window, oracle, rule = KINDS[kind](chance, replace(a_hopping(chance), kind="overlapping"))
    steps = a_late_log(chance)
    for offset, step in enumerate(steps):
        oracle.look(step.now) if step.key is None else oracle.take(offset, step)
    return oracle, played(turned(window, **rule), steps, chance)


def differences(kind: str, logs: int = LOGS) -> int:
    """In how many logs the results, or the records that were refused, differ from those of the oracles."""
    differing = 0
    for seed in range(logs):
        oracle, partition = outcomes(kind, seed)
        differing += sorted(partition.results) != sorted(oracle.results) or partition.refused != oracle.refused
    return differing


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_and_any_crash_give_the_results_of_the_oracles(kind: str) -> None:
    assert differences(kind) == 0


def test_the_logs_have_every_kind_of_closing_and_of_refusal() -> None:
    closings: set[str] = set()
    partly = 0
    for seed in range(60):
        for kind in KINDS:
            oracle, _ = outcomes(kind, seed)
            closings |= {result.closed_by or result.reason for result in oracle.results} | {
                why for _, why in oracle.refused
            }
            partly += oracle.partly
    assert closings == {"event", "idle", "at_most", "count", "late", "time-ahead"}
    assert partly > 100


def test_a_record_that_its_closed_windows_refuse_though_one_is_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        OverlappingGroups, "_starts", lambda self, time: range(self.tumbling.start(time), time + 1, 10**9)
    )
    assert differences("count", 100)
