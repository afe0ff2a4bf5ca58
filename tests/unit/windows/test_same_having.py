"""The compiled loop of sliding windows decides `having` as the careful way does, on random records."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.firing import Emitter
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.testing.log import LogRecord
from tests.unit.windows.turning import an_agent, opened

KINDS = ("count", "sum", "mean", "min", "max", "first", "last")
COMPUTE = tuple(Reducer(kind, kind, None if kind == "count" else "amount") for kind in KINDS)
HAVING = (
    "count >= 3",
    "sum > 10 && mean < 9 || max == 7",
    "max - min >= 5.5",
    "sum / count >= 4",
    "min / (count - 2) < 3",
    "sum * 4611686018427387904 > 0",
    "max in [1, 5, 7]",
    "count > 1 ? mean > 3.0 : sum > 0",
    "sum % 2 == 0",
    'first != 3 || reason == "window"',
    'key == "a" && last > 2',
    "sum",
)
DECIDED = HAVING[:9]
"""The loop gives answers of these."""
AMOUNTS = ("1", "3", "7", "-2", "0.5", "1e308", "-1e308", "9223372036854775807", "18446744073709551615", "null", '"x"')


def a_batch(chance: random.Random, first: int, time: int, odd: float) -> list[LogRecord]:
    """`odd`: how often an amount is any of AMOUNTS."""
    usual = AMOUNTS[:5]
    return [
        LogRecord(
            *("in", 0, first + number, chance.choice([b"a", b"b"])),
            b'{"amount":%s}' % chance.choice(AMOUNTS if chance.random() < odd else usual).encode(),
            at=time + number * 20 + chance.choice([0, 0, 0, -60]),
        )
        for number in range(chance.choice([1, 5, 40]))
    ]


def outcome(
    having: str, lenient: bool, seed: int, loop: bool, odd: float | None = None
) -> tuple[list[Any], Counter[Any]]:
    """The events and the counted outcomes of a random log. Without the loop each record goes the careful way."""
    chance = random.Random(f"{having} {seed}")
    window = Window(1.0, kind="sliding", grace=0.1, last=chance.choice([0, 4]), max_ahead=1e12)
    odd = chance.choice([0.01, 0.1]) if odd is None else odd
    more = {"compute": COMPUTE, "on_missing": "ignore" if lenient else "dead-letter"}
    groups = opened(Rule(replace(an_agent(window, **more), having=having), codec("json")))
    groups.placing = groups.placing if loop else None
    events, offset = list[Any](), 0
    while offset < 150:
        records = a_batch(chance, offset, 1_700_000_000_000 + offset * 20, odd)
        groups.accept(records, 1_700_000_000.0 + offset)
        events += groups.drain()
        offset += len(records)
    return events, groups.outcomes


def differing(seeds: int) -> list[tuple[str, bool, int]]:
    cases = [(having, lenient, seed) for having in HAVING for lenient in (False, True) for seed in range(seeds)]
    return [case for case in cases if outcome(*case, True) != outcome(*case, False)]


def test_the_loop_decides_as_the_careful_way_does() -> None:
    assert differing(5) == []


@pytest.mark.parametrize("having", HAVING)
def test_the_loop_decides_itself_where_an_expression_reads_numbers(
    having: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_expression = list[bytes]()
    emit = Emitter.emit

    def counted(self: Emitter, fire: Fire) -> None:
        by_expression.append(fire.key)
        emit(self, fire)

    monkeypatch.setattr(Emitter, "emit", counted)
    _, outcomes = outcome(having, False, 1, True, odd=0.0)
    assert (sum(outcomes.values()) > len(by_expression)) is (having in DECIDED)
