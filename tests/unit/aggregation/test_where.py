"""`where`: however the input is cut and wherever the process dies, the groups that fire are those of the records that a
Python function of the same meaning takes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.streams.agent import Aggregation
from tests.unit.aggregation import timelines as t
from tests.unit.aggregation import turning
from tests.unit.aggregation.oracle import at, is_number
from tests.unit.aggregation.test_same_fires import choices, differences, mirror


def number(document: Any, name: str) -> Any:
    """Raises LookupError where there is none: an expression has no answer then."""
    if not is_number(value := at(document, name)):
        raise LookupError(name)
    return value


WHERES = {
    "n > 0": lambda document: number(document, "n") > 0,
    "n < 3 && n > -3": lambda document: -3 < number(document, "n") < 3,
    'default(s, "") != "x"': lambda document: at(document, "s") != "x",
    "has(done) && done == true": lambda document: at(document, "done") is True,
    "!has(done) || n >= 1": lambda document: at(document, "done") is None or number(document, "n") >= 1,
    "true": lambda document: True,
    "false": lambda document: False,
}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(t.rules(), t.timelines(), choices, st.sampled_from(sorted(WHERES)))
def test_any_cut_and_any_crash_give_the_fires_of_the_records_that_a_predicate_takes(
    rule: Aggregation, timeline: list[t.Step], cuts: list[int], where: str
) -> None:
    agent = t.an_agent(rule, where=where)
    assert differences(t.run(agent, timeline, cuts), t.expected(agent, timeline, where=WHERES[where])) == []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(t.rules(), t.timelines(), choices, st.sampled_from(sorted(WHERES)))
def test_a_format_of_the_users_own_gives_the_same_fires(
    rule: Aggregation, timeline: list[t.Step], cuts: list[int], where: str
) -> None:
    mirrored = [step if step.record is None else t.Step(step.now, mirror(step.record)) for step in timeline]
    agent = t.an_agent(rule, t.BACKWARDS, where=where)
    loads = lambda value: json.loads(value[::-1])  # noqa: E731
    oracle = t.expected(agent, mirrored, loads=loads, shown=loads, where=WHERES[where])
    assert differences(t.run(agent, mirrored, cuts), oracle) == []


def test_without_the_question_the_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "taken", lambda groups, records: records)
    agent, timeline = t.an_agent(Aggregation(count=2), where="n > 0"), t.long_timeline(7, 60)
    oracle = t.expected(agent, timeline, where=WHERES["n > 0"])
    assert differences(t.run(agent, timeline, []), oracle)
