"""Reducers of this folder in the file: what `check` refuses and where, and the types of their results."""

import json
from typing import Any

import pytest

from sluicegate.streams import formats
from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.aggregation.rule import earlier_agent, fingerprint
from sluicegate.streams.asyncapi import messages
from sluicegate.streams.config.words import _reducer as phrase
from sluicegate.streams.reducers import written
from tests.unit.aggregation.turning import an_agent
from tests.unit.config.files import loaded

HEAD = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
dead_letters: dead
agents:
  a:
    from: in
    fields: {name: text, ms: integer}
    aggregate:
      count: 3
      compute:
        x: REDUCER
    to: out
"""
FORM = "write {last_n: {field: FIELD, n: 5}}"
REFUSED = {
    "last_n": f"is not a reducer; {FORM}",
    "{last_n: name}": f"needs a field and n; {FORM}",
    "{last_n: {field: name}}": f"needs a field and n; {FORM}",
    "{last_n: {field: name, n: 5, most: 1}}": f"needs a field and n; {FORM}",
    "{last_n: {field: name, n: 0}}": f"needs an integer from 1 to 1,000 as n; {FORM}",
    "{last_n: {field: name, n: 1001}}": f"needs an integer from 1 to 1,000 as n; {FORM}",
    "{last_n: {field: name, n: 2.5}}": f"needs an integer from 1 to 1,000 as n; {FORM}",
    "{last_n: {field: name, n: true}}": f"needs an integer from 1 to 1,000 as n; {FORM}",
    "{value_counts: name}": "is not a reducer; did you mean count_by?",
    "{tail: name}": "is not a reducer; did you mean last_n?",
    "{std: ms}": "is not a reducer; did you mean stddev?",
    "{stddev: name}": "needs a number, but name is text",
    "{percentile: {field: ms, p: 101}}": "needs a number from 0 to 100 as p; write {percentile: {field: FIELD, p: 99}}",
    "{percentile: {field: ms, p: .nan}}": "needs a number from 0 to 100 as p",
    "{percentile: {field: name, p: 50}}": "needs a number, but name is text",
    "{top: {field: name, n: 101}}": "needs an integer from 1 to 100 as n; write {top: {field: FIELD, n: 10}}",
    "{median: ms}": "is not a reducer; did you mean percentile?",
    "{top_k: name}": "is not a reducer; did you mean top?",
    "{variance: [1]}": "must be text",
}


def problems(reducer: str, tmp_path: Any, **more: str) -> list[str]:
    return [str(problem) for problem in loaded(tmp_path, HEAD.replace("REDUCER", reducer)).problems]


@pytest.mark.parametrize("reducer", REFUSED)
def test_what_is_wrong_is_refused_at_its_place(reducer: str, tmp_path: Any) -> None:
    [problem] = problems(reducer, tmp_path)
    assert REFUSED[reducer] in problem
    assert "agents.a.aggregate.compute.x" in problem


OPTIONAL = (Reducer("x", "last_n", "ms", option=3), Reducer("y", "count_by", "name"), Reducer("z", "stddev", "ms"))


SKETCHES = (
    Reducer("p", "percentile", "ms", option=99.9),
    Reducer("a", "approx_distinct", "name"),
    Reducer("t", "top", "name", option=3),
)


def test_a_reducer_with_a_number_is_written_as_the_file_has_it_and_restored_from_its_fingerprint() -> None:
    assert [written(reducer) for reducer in OPTIONAL] == [
        {"last_n": {"field": "ms", "n": 3}},
        {"count_by": "name"},
        {"stddev": "ms"},
    ]
    agent = an_agent(Aggregation(count=3, compute=OPTIONAL))
    made = earlier_agent(agent, fingerprint(agent)).aggregation
    assert made is not None
    assert made.compute == OPTIONAL
    assert fingerprint(an_agent(Aggregation(count=3, compute=OPTIONAL[1:]))) == (
        '[null,[["y","count_by","name",null],["z","stddev","ms",null]],"json",false]'
    )


def test_check_says_what_they_compute() -> None:
    phrases = [phrase(reducer) for reducer in OPTIONAL]
    assert phrases == ["the last 3 of ms", "how many records have each name", "the standard deviation of ms"]


def test_the_types_of_their_results_in_avro_and_in_a_description() -> None:
    agent = an_agent(Aggregation(count=3, compute=(*OPTIONAL, *SKETCHES)))
    fields = {field["name"]: field for field in json.loads(formats.result_schema(agent))["fields"]}
    assert fields["y"]["type"] == {"type": "map", "values": "long"}
    assert fields["x"]["type"]["type"] == "array"
    assert fields["z"]["type"] == ["null", "double"]
    assert fields["p"]["type"] == ["null", "double"]
    assert fields["a"]["type"] == "long"
    entry = fields["t"]["type"]["items"]
    assert [(field["name"], field["type"]) for field in entry["fields"]] == [
        ("value", "string"),
        ("count", "long"),
        ("error", "long"),
    ]
    shown = messages._fields(agent)
    assert shown["y"] == {"type": "object", "additionalProperties": {"type": "integer"}}


def test_an_expression_may_ask_a_result_for_the_number_of_a_value(tmp_path: Any) -> None:
    having = HEAD.replace("    to: out", "    having: 'has(x.paid) && x[\"paid\"] > 1'\n    to: out")
    assert [str(problem) for problem in loaded(tmp_path, having.replace("REDUCER", "{count_by: name}")).problems] == []
    wrong = having.replace('x["paid"] > 1', 'x["paid"] == "1"')
    [problem] = loaded(tmp_path, wrong.replace("REDUCER", "{count_by: name}")).problems
    assert "f.yaml:" in str(problem)


def test_until_may_not_ask_for_them(tmp_path: Any) -> None:
    text = HEAD.replace("count: 3", 'count: 3, until: "size(group.x) > 2"').replace("REDUCER", "{count_by: name}")
    text = text.replace(
        '      count: 3, until: "size(group.x) > 2"\n', '      count: 3\n      until: "size(group.x) > 2"\n'
    )
    [problem] = loaded(tmp_path, text).problems
    assert "group.x" in str(problem)
