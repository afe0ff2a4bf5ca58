"""The shadow of another timeout: what it calls certain equals a program that shares no code with the engine and knows
the owner's clock, which the shadow does not."""

import json
from dataclasses import replace
from typing import NamedTuple

import pytest

from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.shadow.judge import ShadowJudge
from sluicegate.streams.shadow.uncertainty import Uncertainty
from sluicegate.streams.shadow.verdicts import Shadowed
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.bounded import Result, Taken, figures, seconds
from tests.unit.shadow.scene import Scene

VERDICTS = ("identical", "changed", "missing", "extra", "uncertain")
Ended = dict[int, tuple[int, int, str, float]]


class Open(NamedTuple):
    """A group of the oracle."""

    opened: float
    seen: float
    offsets: tuple[int, ...]
    total: float


def due(group: Open, rule: Aggregation) -> float:
    times = [group.opened + rule.since_first] if rule.since_first else []
    return min([*times, group.seen + rule.since_last] if rule.since_last else times)


def ended(scene: Scene, rule: Aggregation) -> Ended:
    """By the first record of each group that ended: its last record, its size, its reason and its sum."""
    groups: dict[bytes, Open] = {}
    results: Ended = {}

    def end(key: bytes, reason: str) -> None:
        group = groups.pop(key)
        results[group.offsets[0]] = (group.offsets[-1], len(group.offsets), reason, group.total)

    def expire(now: float) -> None:
        for key in [key for key, group in groups.items() if due(group, rule) <= now]:
            end(key, "timeout")

    for record in scene.log.topics["in"][0]:
        now = scene.taken[0, record.o]
        expire(now)
        amount = json.loads(record.v)["amount"]
        if amount is None:
            continue
        had = groups.get(record.k, Open(now, now, (), 0))
        groups[record.k] = Open(had.opened, now, (*had.offsets, record.o), had.total + amount)
        if rule.count and len(had.offsets) + 1 == rule.count:
            end(record.k, "count")
    expire(scene.clock.now + 1_700_000_000)
    return results


def sent(agent: Agent, groups: Ended) -> Ended:
    """The results that the rule's `having` lets through."""
    return {first: group for first, group in groups.items() if group[3] > 12} if agent.having else groups


def truth(live: Ended, new: Ended) -> dict[str, set[int]]:
    both = live.keys() & new.keys()
    return {
        "identical": {first for first in both if live[first] == new[first]},
        "changed": {first for first in both if live[first] != new[first]},
        "missing": new.keys() - live.keys(),
        "extra": live.keys() - new.keys(),
    }


class Said(NamedTuple):
    """What the shadow says of each result: first records by verdict, and the keys of which something is uncertain."""

    firsts: dict[str, set[int]]
    unsure: set[bytes]


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Said:
    verdicts = Said({}, set())
    count = ShadowJudge._count

    def noted(self, figures, verdict, key, live, new, differs=(), number=None):  # type: ignore[no-untyped-def]
        if figures is self.verdicts.results:
            verdicts.firsts.setdefault(verdict, set()).add((live or new).first)
        if verdict == "uncertain":
            verdicts.unsure.add(key)
        count(self, figures, verdict, key, live, new, differs, number)

    monkeypatch.setattr(ShadowJudge, "_count", noted)
    return verdicts


def an_agent_of(count: int | None, first: float | None, last: float | None = None) -> Agent:
    return an_agent(count=count, since_first=first, since_last=last)


CHANGES = {
    "a shorter timeout": (an_agent_of(None, 3.0), an_agent_of(None, 1.0)),
    "a longer timeout": (an_agent_of(None, 1.0), an_agent_of(None, 3.0)),
    "a shorter timeout beside a count": (an_agent_of(6, 3.0), an_agent_of(6, 1.0)),
    "another count beside a timeout": (an_agent_of(6, 2.5), an_agent_of(3, 2.5)),
    "a shorter silence": (an_agent_of(None, None, 2.0), an_agent_of(None, None, 0.7)),
    "a timeout where few groups have results": (
        replace(an_agent_of(None, 3.0), having="total > 12"),
        replace(an_agent_of(None, 1.0), having="total > 12"),
    ),
    "a silence instead of a timeout": (an_agent_of(8, 2.5), an_agent_of(8, None, 1.5)),
}


def compared(name: str, seed: int) -> tuple[dict[str, set[int]], dict[int, bytes]]:
    """The truth, and the key of each record. The shadow judges on the way."""
    live, rule = CHANGES[name]
    scene = Scene(live, seed=seed)
    scene.play(300, kill=0.15, lag=2.0)
    assert live.aggregation is not None
    assert rule.aggregation is not None
    scene.shadow(rule)
    expected_verdicts = truth(sent(live, ended(scene, live.aggregation)), sent(rule, ended(scene, rule.aggregation)))
    return expected_verdicts, {record.o: record.k for record in scene.log.topics["in"][0]}


def wrong(expected: dict[str, set[int]], verdicts: Said) -> dict[str, set[int]]:
    return {
        verdict: number for verdict in expected if (number := verdicts.firsts.get(verdict, set()) - expected[verdict])
    }


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_certain_is_true_and_all_else_is_uncertain(name: str, seed: int, verdicts: Said) -> None:
    expected, keys = compared(name, seed)
    assert wrong(expected, verdicts) == {}
    everything = set().union(*expected.values())
    assert {keys[first] for first in everything - set().union(*verdicts.firsts.values())} <= verdicts.unsure
    certain = sum(len(firsts) for verdict, firsts in verdicts.firsts.items() if verdict != "uncertain")
    assert certain > len(everything) / 5 or "few groups" in name


def test_twin_a_guess_that_is_called_certain_is_found(monkeypatch: pytest.MonkeyPatch, verdicts: Said) -> None:
    monkeypatch.setattr(Uncertainty, "is_unsure", lambda self, key, first: False)
    expected, _ = compared("a shorter timeout", 0)
    assert wrong(expected, verdicts)


def published(scene: Scene) -> list[Result]:
    results = []
    for record in scene.log.topics["out"][0]:
        headers, value = dict(record.headers()), json.loads(record.value())
        first, last = (int(headers[f"sluicegate-{name}"].rpartition(b"/")[2]) for name in ("first", "last"))
        times = seconds(value["opened_at"]), seconds(value["closed_at"])
        results.append(Result(first, last, value["count"], value["reason"], *times))
    return results


def plans(seed: int, after: float = 3.0, new: float = 1.0) -> tuple[Shadowed, list[int]]:
    """What the shadow says of another timeout, and what the program says that shares no code with the engine."""
    scene = Scene(an_agent_of(6, after), seed=seed)
    scene.play(300, kill=0.15, lag=2.0)
    scene.driver.later(10.0)
    scene.settle()
    records = [
        Taken(record.o, record.k, record.timestamp()[1] / 1000)
        for record in scene.log.topics["in"][0]
        if json.loads(record.v)["amount"] is not None
    ]
    return scene.shadow(an_agent_of(6, new)), figures(records, published(scene), 6, new)


@pytest.mark.parametrize("timeouts", [(3.0, 1.0), (1.0, 3.0)])
@pytest.mark.parametrize("seed", range(4))
def test_every_figure_of_another_timeout_is_that_of_another_program(timeouts: tuple[float, float], seed: int) -> None:
    rebuilds, expected = plans(seed, *timeouts)
    assert [rebuilds.results.counts[verdict] for verdict in VERDICTS] == expected
    assert min(expected[0], expected[1], expected[4]) > 0


def test_twin_a_guess_that_is_called_certain_changes_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Uncertainty, "is_unsure", lambda self, key, first: False)
    rebuilds, expected = plans(0)
    assert [rebuilds.results.counts[verdict] for verdict in VERDICTS] != expected
