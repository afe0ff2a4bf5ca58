"""The quick form of `where` in the stream: it takes the same records as the exact form, and hands over in time."""

import json
import random

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation.clauses import WINDOW, QuickAnswers
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import taken
from tests.unit.aggregation.turning import an_agent, record

WHERES = ("n > 3", 'n > 3 && s == "x"', 's in ["x", "y"] || n < 0', "done", "!done", 'd.x == 1 && s.startsWith("x")')
WRONG_KINDS, LARGE = b'{"n": true, "s": 1, "done": 0, "d": 5}', b'{"n": 5' + b" " * 300 + b"}"
ODD = (None, b"{", b"7", WRONG_KINDS, b'{"n": null}', b"{}", LARGE)


def values(seed: int, size: int) -> list[bytes | None]:
    chance = random.Random(seed)
    found: list[bytes | None] = []
    for _ in range(size):
        fields = {"n": chance.choice([0, 4, 2**70, 3.5]), "s": chance.choice(["x", "y", "z"])}
        fields |= {"done": chance.choice([True, False]), "d": {"x": chance.randrange(2)}}
        found.append(chance.choice(ODD) if chance.random() < 0.1 else json.dumps(fields).encode())
    return found


def answers(where: str, records: list[bytes | None], is_quick: bool) -> tuple[list[int], list[tuple[int, str, str]]]:
    rule = Rule(an_agent(Aggregation(), where=where, max_record_bytes=200), codec("json"))
    assert rule.where is not None
    assert rule.where.quick is not None
    rule.where.quick.usable = is_quick
    groups = Groups(rule)
    kept = taken(groups, [record(offset, b"k", value) for offset, value in enumerate(records)])
    refused = [(event.record.offset(), event.reason, event.error) for event in groups.drain()]
    return [each.offset() for each in kept], refused


@pytest.mark.parametrize("where", WHERES)
def test_both_forms_take_and_refuse_the_same_records(where: str) -> None:
    for seed in range(20):
        records = values(seed, 60)
        assert answers(where, records, True) == answers(where, records, False)


def test_without_the_exact_form_for_what_the_quick_one_cannot_judge_the_check_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(QuickAnswers, "of", lambda self, values: iter([True] * 60))
    assert answers("n > 3", values(1, 60), True) != answers("n > 3", values(1, 60), False)


def test_the_quick_form_ends_where_many_records_need_the_exact_one() -> None:
    rule = Rule(an_agent(Aggregation(), where="n > 3"), codec("json"))
    assert rule.where is not None
    assert rule.where.quick is not None
    groups = Groups(rule)
    for value, usable in ((b'{"n": 4}', True), (b'{"n": "4"}', False)):
        taken(groups, [record(offset, b"k", value) for offset in range(WINDOW)])
        assert rule.where.quick.usable is usable
    assert groups.outcomes == {("where", "true"): WINDOW, ("where", "false"): 0, ("where", "failed"): WINDOW}
