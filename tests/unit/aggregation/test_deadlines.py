"""A deadline that stands in the records: any log, cut anywhere and with crashes, gives the fires of a naive oracle."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Any, NamedTuple

import pytest

from sluicegate.streams.agent import Aggregation, DataDeadline, Emit, Reducer, Until
from sluicegate.streams.aggregation import accept as accepting
from sluicegate.streams.aggregation import groups as groups_module
from sluicegate.streams.aggregation.compiled import ends
from sluicegate.streams.aggregation.completion import Completion
from sluicegate.streams.aggregation.durable import changelog as log_module
from sluicegate.streams.aggregation.events import EARLY
from sluicegate.streams.aggregation.groups import Groups
from tests.unit.aggregation import timelines as t
from tests.unit.aggregation.oracle import Oracle
from tests.unit.aggregation.patterns import replace_pattern
from tests.unit.aggregation.test_same_fires import differences

LOGS = 1_000
OF_A_MUTANT = 300
BEGIN = 1_000_000.0
LENGTHS = {"4s": 4.0, "1m30s": 90.0, "-2s": -2.0, "0s": 0.0}


class Kind(NamedTuple):
    """A deadline in the file, and what it means."""

    keys: DataDeadline
    means: Callable[[Any, float, float], float | None]


def instant(value: Any) -> float | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value).timestamp() if value[:2] == "19" else "nonsense"
    return number(value)


def number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 253_402_300_800:
        raise LookupError
    return float(value)


def length(value: Any) -> float | None:
    if value is None:
        return None
    if value not in LENGTHS:
        raise LookupError
    return LENGTHS[value]


def milliseconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 10_000 * 366 * 86_400_000.0:
        raise LookupError
    return value / 1000


def cancelled(document: Any, deadline: Callable[[], float | None]) -> float | None:
    if document.get("stop") is True:
        return inf
    return deadline()


def later(since: float, length: float | None) -> float | None:
    return None if length is None else since + length


def text(value: Any) -> float | None:
    if value is not None and not isinstance(value, str):
        raise LookupError
    return instant(value)


KINDS = {
    "at": Kind(DataDeadline(at="due", unit="s"), lambda doc, opened, now: number(doc.get("due"))),
    "at text": Kind(DataDeadline(at="day"), lambda doc, opened, now: text(doc.get("day"))),
    "cancel": Kind(
        DataDeadline(at="due", unit="s", cancel="default(stop, false)"),
        lambda doc, opened, now: cancelled(doc, lambda: number(doc.get("due"))),
    ),
    "after": Kind(DataDeadline(after="sla"), lambda doc, opened, now: later(opened, length(doc.get("sla")))),
    "after a number": Kind(
        DataDeadline(after="wait", unit="ms"), lambda doc, opened, now: later(opened, milliseconds(doc.get("wait")))
    ),
    "after the record": Kind(
        DataDeadline(after="sla", since="last", cancel="default(stop, false)"),
        lambda doc, opened, now: cancelled(doc, lambda: later(now, length(doc.get("sla")))),
    ),
}


def a_log(chance: random.Random) -> list[t.Step]:
    now, steps = BEGIN, []
    for _ in range(chance.randint(1, 40)):
        now += chance.choice([0.0, 0.0, 0.0, 1.0, 3.0, 20.0])
        if chance.random() < 0.1:
            steps.append(t.Step(now, None))
            continue
        due = chance.choice([None, now, now - 5, now + 2, now + 2, now + 10, now + 1e9, 1e15, "x", True])
        day = chance.choice([None, now + 2, now - 1, now + 30, "nonsense", 7])
        fields: dict[str, Any] = {"n": chance.randrange(9), "due": due, "stop": chance.choice([None, False, True])}
        fields["day"] = datetime.fromtimestamp(day, UTC).isoformat() if isinstance(day, float) else day
        fields["sla"] = chance.choice([None, *LENGTHS, *LENGTHS, "nonsense", 3])
        fields["wait"] = chance.choice([None, 4_000, 1_500.5, -2_000, 0, 90_000, 1e18, -1e18, "4s", True])
        fields["done"] = chance.random() < 0.1
        value = {name: field for name, field in fields.items() if field is not None or chance.random() < 0.5}
        steps.append(t.Step(now, (b"key %d" % chance.randrange(4), json.dumps(value).encode())))
    return steps


def a_rule(chance: random.Random, deadline: DataDeadline) -> Aggregation:
    return Aggregation(
        count=chance.choice([None, None, 3]),
        since_first=chance.choice([None, None, 15.0]),
        since_last=chance.choice([None, None, 8.0]),
        deadline=deadline,
        until=chance.choice([None, Until("done", True)]),
        compute=(Reducer("n", "sum", "n"), *chance.choice([(), (Reducer("rows", "collect"),)])),
        on_timeout=chance.choice(["fire", "fire", "discard"]),
        max_items=chance.choice([4, 100]),
        max_groups=chance.choice([2, 100]),
    )


def compare(seed: int, emit: Emit | None = None) -> list[str]:
    """What a random log gives that the oracle does not, without early results."""
    chance = random.Random(seed)
    name = chance.choice([*KINDS])
    agent = t.an_agent(replace(a_rule(chance, KINDS[name].keys), emit=emit))
    log, cuts = a_log(chance), [chance.randrange(4) for _ in range(60)]
    oracle: Oracle = t.expected(agent, log, gives=KINDS[name].means)
    turned = t.run(agent, log, cuts)
    turned.fires = {key: [fire for fire in fires if fire[1] != EARLY] for key, fires in turned.fires.items()}
    return differences(turned, oracle)


def all_results(seed: int, emit: Emit) -> dict[bytes, list[tuple[Any, ...]]]:
    chance = random.Random(seed)
    agent = t.an_agent(replace(a_rule(chance, KINDS[chance.choice([*KINDS])].keys), emit=emit))
    return t.run(agent, a_log(chance), [chance.randrange(4) for _ in range(60)]).fires


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that compacts all the time, and a heap of deadlines that is made anew often."""
    for name, value in {"SLACK": 150, "SLICE": 60, "GROWTH": 1}.items():
        monkeypatch.setattr(log_module, name, value)
    monkeypatch.setattr(groups_module, "STALE", 3)


def test_1000_random_logs_cut_anywhere_with_crashes_give_the_fires_of_the_oracle() -> None:
    assert [(seed, comparison) for seed in range(LOGS) if (comparison := compare(seed))] == []


def _never(*args: Any) -> bool:
    return False


def _at_once(self: Groups, key: bytes, state: Any, deadline: float, now: float) -> bool:
    before = GIVE(self, key, state, deadline, now)
    state[-2] = state[-2] and now
    return before


def _first_wins(self: Groups, key: bytes, state: Any, deadline: float, now: float) -> bool:
    return GIVE(self, key, state, deadline, now) if state[-1] is None else False


def _forgets(self: Groups, key: bytes, state: Any, deadline: float, now: float) -> bool:
    """The heap is not told."""
    before = [*self.heap]
    over = GIVE(self, key, state, deadline, now)
    self.heap = before
    return over


def _of_the_rule(self: Completion, state: Any, idle: float = 0.0) -> float:
    return DUE(replace(self, from_data=False), state, idle)


GIVE, DUE = Groups.give_deadline, Completion.due
MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "a deadline that has passed": (Groups, "give_deadline", lambda *args: GIVE(*args) and False),
    "no deadline is kept": (Groups, "give_deadline", _never),
    "the time since the first record": (Groups, "give_deadline", _at_once),
    "the last one wins": (Groups, "give_deadline", _first_wins),
    "an earlier deadline": (Groups, "give_deadline", _forgets),
    "cancel": (ends, "_GIVEN_OR_CANCELLED", ends._GIVEN_OR_CANCELLED.replace("inf", "None")),
    "the nearest counts": (Completion, "due", _of_the_rule),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_comparison_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, mutant = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, mutant)
    assert any(map(compare, range(OF_A_MUTANT)))


NO_LIMIT, NO_UNIT = ends._GIVEN.replace("unproven()", "pass"), ends._GIVEN.replace("/ PER", "/ 1")


@pytest.mark.parametrize(
    ("stage", "nothing"),
    [
        ("_OVER", "over = False"),
        ("_TIMED_OUT", "pass"),
        ("_GIVEN", "deadline = None"),
        ("_GIVEN", NO_LIMIT),
        ("_GIVEN", NO_UNIT),
    ],
)
def test_the_comparison_finds_a_loop_without(stage: str, nothing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_pattern(monkeypatch, stage, nothing)
    assert any(map(compare, range(OF_A_MUTANT)))


def test_the_careful_way_alone_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "loop_of", lambda *args: None)
    assert [(seed, comparison) for seed in range(LOGS // 5) if (comparison := compare(seed))] == []


EMITS = [Emit(every=2.0), Emit(count=2), Emit(on="change")]


@pytest.mark.parametrize("emit", EMITS)
def test_with_early_results_the_groups_end_as_without_them(emit: Emit) -> None:
    assert [(seed, comparison) for seed in range(LOGS // 3) if (comparison := compare(seed, emit))] == []


@pytest.mark.parametrize("emit", EMITS)
def test_the_careful_way_gives_the_same_early_results(emit: Emit, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [all_results(seed, emit) for seed in range(LOGS // 5)]
    monkeypatch.setattr(accepting, "loop_of", lambda *args: None)
    assert [all_results(seed, emit) for seed in range(LOGS // 5)] == quick
    assert EARLY in {fire[1] for fires in quick for of_key in fires.values() for fire in of_key}


@pytest.mark.parametrize(("stage", "nothing"), [("BEFORE", "before = None"), ("CHANGED", "pass")])
def test_the_careful_way_finds_a_loop_without(stage: str, nothing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emit = Emit(on="change")
    careful = [all_results(seed, emit) for seed in range(OF_A_MUTANT)]
    replace_pattern(monkeypatch, stage, nothing)
    assert [all_results(seed, emit) for seed in range(OF_A_MUTANT)] != careful
