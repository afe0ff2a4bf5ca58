"""`let`: groups keyed and computed by computed fields are those of records that have these fields already."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Let, Reducer, Until
from sluicegate.streams.aggregation.clauses import extended
from sluicegate.streams.aggregation.rule import Rule, fingerprint, restored
from sluicegate.streams.errors import ConfigurationError
from tests.unit.aggregation import timelines as t
from tests.unit.aggregation import turning
from tests.unit.aggregation.oracle import Oracle, at
from tests.unit.aggregation.test_same_fires import choices, differences
from tests.unit.aggregation.turning import record

TOTAL = Let("total", "n * 2")
REGION = Let("region", 'default(s, "none") + "!"')
RULE = Aggregation(
    key="region",
    count=3,
    since_first=5.0,
    until=Until("ends", True),
    compute=(Reducer("sum", "sum", "total"), Reducer("last", "last", "s")),
    on_missing="ignore",
)
LETS = (TOTAL, REGION, Let("ends", "has(done) && done == true"))


class Added(Oracle):
    """An oracle that adds the computed fields to each document, in plain Python."""

    def read(self, offset: int, value: bytes | None) -> Any:
        document = super().read(offset, value) if value is None else self.computed(offset, value)
        return document

    def computed(self, offset: int, value: bytes) -> Any:
        try:
            document = self.loads(value)
        except ValueError:
            return self.turn_away(offset, "undecodable", "dead-letter")
        n, s = at(document, "n"), at(document, "s")
        is_integer = isinstance(n, int) and not isinstance(n, bool)
        if not (is_integer or isinstance(n, float)) or (is_integer and not -(2**62) <= n < 2**62):
            return self.turn_away(offset, "expression-failed", "dead-letter")
        if s is not None and not isinstance(s, str):
            return self.turn_away(offset, "expression-failed", "dead-letter")
        region = "none" if s is None else s
        more = {"total": n * 2, "region": f"{region}!", "ends": at(document, "done") is True}
        return super().read(offset, json.dumps({**document, **more}).encode())


@settings(max_examples=150, deadline=None, derandomize=True)
@given(t.timelines(), choices)
def test_any_cut_and_any_crash_give_the_fires_of_records_that_have_the_fields(
    timeline: list[t.Step], cuts: list[int]
) -> None:
    agent = t.an_agent(RULE, let=LETS)
    oracle = Added(RULE)
    for offset, (now, taken) in enumerate(timeline):
        oracle.advance(now)
        if taken is not None:
            oracle.take(offset, *taken, now)
    assert differences(t.run(agent, timeline, cuts), oracle) == []


@pytest.mark.parametrize(
    ("text", "fields", "wanted"),
    [
        (b'{"a": 1}', {"b": 2}, {"a": 1, "b": 2}),
        (b"  { } \n", {"b": 2}, {"b": 2}),
        (b'{"b": 1, "a": {"b": {}}}', {"b": 2}, {"a": {"b": {}}, "b": 2}),
        (b"[1]", {"b": 2}, [1]),
        (b'{"a": null}', {"a": None}, {"a": None}),
    ],
)
def test_computed_fields_hide_those_of_the_record(text: bytes, fields: dict[str, Any], wanted: Any) -> None:
    assert json.loads(extended(text, fields)) == wanted


def an_agent(*lets: Let, **more: Any) -> Agent:
    rule = Aggregation(key="region", count=2, compute=(Reducer("sum", "sum", "total"),))
    return Agent("sums", ("in",), rule, Destination("out"), "dead", let=lets, **more)


def test_the_fingerprint_has_the_normal_forms_of_what_key_and_compute_name() -> None:
    plain = an_agent()
    both = an_agent(Let("base", "amount"), Let("total", "base*2"), Let("region", "country"), Let("other", "x"))
    assert fingerprint(plain) == '["region",[["sum","sum","total",null]],"json",false]'
    assert fingerprint(both) != fingerprint(plain)
    base, _, region, _ = both.let
    assert fingerprint(both) == fingerprint(replace(both, let=(base, Let("total", " base * 2 "), region)))
    assert fingerprint(both) != fingerprint(replace(both, let=(Let("base", "amount + 1"), *both.let[1:])))
    unused = replace(both, where="other > 1", having="sum > 2", let=(*both.let[:3], Let("other", "y")))
    assert fingerprint(unused) == fingerprint(both)


def test_a_rule_is_made_again_from_its_fingerprint() -> None:
    before = an_agent(Let("total", "n * 2"), Let("region", "s"), scope="shared")
    after = an_agent(Let("total", "n * 3"), Let("region", "d"), where="n > 1")
    again = restored(after, fingerprint(before))
    assert again.fingerprint == fingerprint(before)
    assert again.reader.read(record(0, b"k", b'{"n": 4, "s": "x", "d": "y"}')) is not None
    assert again.key_of is not None
    assert again.key_of(again.reader.read(record(0, b"k", b'{"n": 4, "s": "x", "d": "y"}'))) == b"x"


def test_an_expression_that_is_none_is_a_configuration_error() -> None:
    for broken in (an_agent(where="n ="), an_agent(Let("total", "nope(n)")), an_agent(having="nope(sum)")):
        with pytest.raises(ConfigurationError, match="column"):
            Rule(broken, codec("json"))


def test_a_computed_id_is_remembered_and_one_that_fails_is_a_dead_letter() -> None:
    lets = (Let("id", 's + "/" + string(n)'),)
    agent = Agent(
        "sums", ("in",), Aggregation(count=1), Destination("out"), "dead", let=lets, dedupe=Deduplication("field", "id")
    )
    turned = turning.Turned(agent)
    values = (b'{"s":"a","n":1}', b'{"s":"a","n":1}', b'{"s":"a"}', b'{"s":"a","n":2}')
    turned.accept([record(offset, b"k", value) for offset, value in enumerate(values)], 1.0)
    turned.commit(1.0)
    assert [fire[3] for fire in turned.fires[b"k"]] == [0, 3]
    assert turned.refused == [(2, "expression-failed")]
