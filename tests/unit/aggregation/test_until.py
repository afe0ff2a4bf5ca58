"""`until` as an expression: however the input is cut and wherever the process dies, groups end where a Python function
of the same meaning ends them."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.schemas import codec
from sluicegate.streams.agent import Aggregation, Let, OnError, Reducer
from sluicegate.streams.aggregation import accept as accept_module
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.compiled import group_code
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.errors import ExpressionStopped
from tests.unit.aggregation import timelines as t
from tests.unit.aggregation.oracle import at
from tests.unit.aggregation.test_same_fires import choices, differences, mirror
from tests.unit.aggregation.test_where import number
from tests.unit.aggregation.turning import record


def asked_first(document: Any, group: dict[str, Any]) -> bool:
    """`n > 0 && group.least < 3`: a side that is false decides, and a least that does not exist makes all false."""
    least = group.get("least")
    if least is None or least >= 3:
        return False
    return bool(number(document, "n") > 0)


UNTILS: dict[str, Any] = {
    "group.sum >= 10": lambda document, group: group["sum"] >= 10,
    "group.count % 3 == 2": lambda document, group: group["count"] % 3 == 2,
    "group.mean > 1": lambda document, group: "mean" in group and group["mean"] > 1,
    "group.most > 4 || group.least < -4": lambda document, group: (
        "most" in group and (group["most"] > 4 or group["least"] < -4)
    ),
    "group.kinds >= 2 || group.numbers >= 4": lambda document, group: group["kinds"] >= 2 or group["numbers"] >= 4,
    "group.count == 2 || n > 3": lambda document, group: group["count"] == 2 or number(document, "n") > 3,
    "n > 0 && group.least < 3": asked_first,
    "has(group.least) && group.least < 0": lambda document, group: group.get("least", 0) < 0,
    "has(done) && done == true": lambda document, group: at(document, "done") is True,
    "n < 3": lambda document, group: number(document, "n") < 3,
    "true": lambda document, group: True,
}
NAMES = {"sum", "least", "most", "mean", "kinds", "numbers"}


def with_until(rule: Aggregation, until: str) -> Aggregation:
    """With the reducers that the expression asks for."""
    more = [r for r in t.POOL if r.name in NAMES and f"group.{r.name}" in until and r not in rule.compute]
    return replace(rule, until=until, compute=(*rule.compute, *more), max_bytes=900_000)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(t.rules(), t.timelines(), choices, st.sampled_from(sorted(UNTILS)))
def test_any_cut_and_any_crash_give_the_fires_of_a_predicate(
    rule: Aggregation, timeline: list[t.Step], cuts: list[int], until: str
) -> None:
    agent = t.an_agent(with_until(rule, until))
    assert differences(t.run(agent, timeline, cuts), t.expected(agent, timeline, ends=UNTILS[until])) == []


@pytest.mark.parametrize("until", UNTILS)
def test_a_long_run_gives_the_fires_of_a_predicate(until: str) -> None:
    agent, timeline = t.an_agent(with_until(Aggregation(count=9, since_first=90.0), until)), t.long_timeline(11, 300)
    assert (
        differences(t.run(agent, timeline, [2, 0, 1, 3, 2] * 90), t.expected(agent, timeline, ends=UNTILS[until])) == []
    )


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(t.rules(), t.timelines(), choices, st.sampled_from(sorted(UNTILS)))
def test_a_format_of_the_users_own_gives_the_same_fires(
    rule: Aggregation, timeline: list[t.Step], cuts: list[int], until: str
) -> None:
    mirrored = [step if step.record is None else t.Step(step.now, mirror(step.record)) for step in timeline]
    agent = t.an_agent(with_until(rule, until), t.BACKWARDS)
    loads = lambda value: json.loads(value[::-1])  # noqa: E731
    oracle = t.expected(agent, mirrored, loads=loads, shown=loads, ends=UNTILS[until])
    assert differences(t.run(agent, mirrored, cuts), oracle) == []


def test_when_the_group_is_seen_without_the_record_the_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_module, "with_items", lambda claim, items: claim)
    monkeypatch.setattr(group_code, "_GROWS_ONCE", "0")
    until, timeline = "group.kinds >= 2 || group.numbers >= 4", t.long_timeline(7, 60)
    agent = t.an_agent(with_until(Aggregation(count=9), until))
    assert differences(t.run(agent, timeline, []), t.expected(agent, timeline, ends=UNTILS[until]))


# -- a record that `until` cannot answer is refused whole --------------------------------------------------------------

EVERYTHING = tuple(r for r in t.POOL if r.name in ("sum", "most", "first", "last", "kinds", "rows", "texts", "width"))


def groups_of(until: str = "group.sum > limit", **more: Any) -> Groups:
    on_error = more.pop("on_error", OnError())
    rule = Aggregation(until=until, compute=more.pop("compute", EVERYTHING), since_last=5.0)
    return Groups(Rule(t.an_agent(rule, on_error=on_error, **more), codec("json")))


def send(groups: Groups, offset: int, **fields: Any) -> None:
    accept(groups, [record(offset, b"k", json.dumps(fields).encode())], 1.0 + offset)


def held(groups: Groups) -> str:
    return repr((groups.states, groups.bags, groups.added, groups.bytes, groups.full))


def test_a_record_without_an_answer_leaves_no_trace_in_its_group() -> None:
    groups = groups_of()
    send(groups, 0, n=1, s="a", limit=100)
    before = held(groups)
    send(groups, 1, n=50, s="b")
    assert held(groups) == before
    (refused,) = groups.drain()
    assert (refused.record.offset(), refused.reason, refused.clause) == (1, "expression-failed", "until")
    assert refused.error == "limit is missing"
    assert groups.outcomes == {("until", "false"): 1, ("until", "failed"): 1}
    send(groups, 2, n=100, s="c", limit=100)
    (fire,) = groups.drain()
    assert (fire.reason, fire.count, fire.values["sum"], fire.values["kinds"]) == ("until", 2, 101, 2)


def test_a_first_record_without_an_answer_opens_no_group() -> None:
    groups = groups_of()
    send(groups, 0, n=1, s="a")
    assert (groups.states, groups.bags, groups.bytes) == ({}, {}, 0)
    send(groups, 1, n=1, s="a", limit=9)
    assert groups.states[b"k"][COUNT] == 1


def test_skip_leaves_it_out_and_stop_halts_before_it() -> None:
    skipping = groups_of(on_error=OnError(expression="skip"))
    send(skipping, 0, n=1, s="a")
    assert (skipping.states, list(skipping.drain()), skipping.counts["skipped"]) == ({}, [], 1)
    stopping = groups_of(on_error=OnError(expression="stop"))
    send(stopping, 0, n=1, s="a", limit=9)
    before = held(stopping)
    with pytest.raises(ExpressionStopped, match=r"in/3/1: until has no answer \(limit is missing\)"):
        send(stopping, 1, n=1, s="a")
    assert held(stopping) == before


def test_what_is_neither_true_nor_false_is_no_answer() -> None:
    groups = groups_of("limit")
    send(groups, 0, n=1, s="a", limit=3)
    (refused,) = groups.drain()
    assert (refused.clause, refused.error) == ("until", "the expression gives neither true nor false")


def test_it_sees_computed_fields_and_the_message() -> None:
    groups = groups_of(
        'message.key == "k" && message.offset > 0 && twice + group.count > 5', let=(Let("twice", "n * 2"),)
    )
    send(groups, 0, n=9, s="a")
    send(groups, 1, n=1, s="a")
    assert list(groups.drain()) == []
    send(groups, 2, n=2, s="a")
    (fire,) = groups.drain()
    assert (fire.reason, fire.count) == ("until", 3)
    send(groups, 3, n=2**62, s="a")
    (refused,) = groups.drain()
    assert refused.clause == "let.twice"


def test_a_value_that_does_not_exist_yet_makes_it_false() -> None:
    rule = Aggregation(until="group.least > 2", compute=(Reducer("least", "min", "n"),), on_missing="ignore")
    groups = Groups(Rule(t.an_agent(rule), codec("json")))
    send(groups, 0, s="a")
    assert (list(groups.drain()), groups.states[b"k"][COUNT]) == ([], 1)
    send(groups, 1, n=3)
    assert [event.reason for event in groups.drain()] == ["until"]


def test_count_precedes_until_and_until_precedes_a_limit() -> None:
    for more, reason in (({"count": 1}, "count"), ({"max_items": 1}, "until"), ({}, "until")):
        groups = Groups(Rule(t.an_agent(Aggregation(until="true", **more)), codec("json")))
        send(groups, 0, n=1)
        assert [event.reason for event in groups.drain()] == [reason]


def test_a_raw_record_can_be_asked_for_its_headers_and_its_group() -> None:
    rule = Aggregation(until="has(message.headers.last) || group.count == 2", compute=(Reducer("all", "collect"),))
    groups = Groups(Rule(t.an_agent(rule, "raw"), codec("raw")))
    accept(groups, [record(0, b"k", b"x"), record(1, b"k", b"y"), record(2, b"k", b"z", [("last", b"1")])], 1.0)
    assert [(event.reason, event.count) for event in groups.drain()] == [("until", 2), ("until", 1)]
