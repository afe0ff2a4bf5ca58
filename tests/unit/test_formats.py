"""The schema of results: exact where the input says types, open where it does not, and always what results are."""

import json
from dataclasses import replace
from typing import Any

import avro.schema
import pytest

from sluicegate.schemas import Avro, codec
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from tests.unit.schemas.avros import SHOP

COMPUTE = (
    Reducer("n", "count"),
    Reducer("total", "sum", "amount"),
    Reducer("least", "min", "items"),
    Reducer("mean", "mean", "amount"),
    Reducer("who", "first", "customer"),
    Reducer("noted", "last", "note"),
    Reducer("when", "collect", "at"),
    Reducer("things", "last", "items"),
    Reducer("kinds", "distinct", "customer"),
    Reducer("rows", "collect"),
    Reducer("own", "reduce", None, "m:f"),
)
TEXT = {"type": "string", "contentMediaType": "application/json"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


def an_agent(compute: tuple[Reducer, ...] = COMPUTE, **wanted: Any) -> Agent:
    return Agent("a-1", ("in",), Aggregation(count=2, compute=compute), Destination("out", "avro"), "dead", **wanted)


def types(agent: Agent) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in json.loads(formats.result_schema(agent))["fields"][6:]}


def test_of_an_avro_input_simple_fields_keep_their_types() -> None:
    assert types(an_agent(format="avro", schema=Avro(json.dumps(SHOP)))) == {
        "n": "long",
        "total": ["null", "double"],
        "least": ["null", "long", "double"],
        "mean": ["null", "double"],
        "who": ["null", "string"],
        "noted": ["null", "string"],
        "when": {"type": "array", "items": MILLIS},
        "things": ["null", TEXT],
        "kinds": "long",
        "rows": {"type": "array", "items": TEXT},
        "own": ["null", TEXT],
    }


def test_of_any_other_input_values_are_json_text_and_numbers_are_of_either_kind() -> None:
    assert types(an_agent()) == {
        "n": "long",
        "total": ["null", "long", "double"],
        "least": ["null", "long", "double"],
        "mean": ["null", "double"],
        "who": ["null", TEXT],
        "noted": ["null", TEXT],
        "when": {"type": "array", "items": TEXT},
        "things": ["null", TEXT],
        "kinds": "long",
        "rows": {"type": "array", "items": TEXT},
        "own": ["null", TEXT],
    }


def test_a_path_leads_through_records_maps_and_optional_fields() -> None:
    symbol = {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}}
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "long"}, symbol]}
    fields = [{"name": "m", "type": {"type": "map", "values": ["null", inner]}}, {"name": "again", "type": "I"}]
    wanted = {"b": "again.e", "c": "again.none", "d": "again"}
    compute = (Reducer("a", "max", "m.k.x"), *(Reducer(name, "first", path) for name, path in wanted.items()))
    type_names = types(
        an_agent(compute, format="avro", schema=Avro(json.dumps({"type": "record", "name": "R", "fields": fields})))
    )
    assert type_names == {"a": ["null", "long"], "b": ["null", "string"], "c": ["null", TEXT], "d": ["null", TEXT]}


RESULT = {
    "key": "k",
    "count": 2,
    "reason": "count",
    "opened_at": "2026-01-01T00:00:00Z",
    "closed_at": "2026-01-01T00:00:00Z",
    "n": 2,
    "total": 3,
    "least": 0.5,
    "mean": 1.5,
    "who": {"a": [1, None]},
    "noted": None,
    "when": [1, "x", [None]],
    "things": "text",
    "kinds": 1,
    "rows": [{"a": 1}, 2],
    "own": True,
}


def test_any_result_comes_back_as_it_was_and_what_is_left_out_is_null() -> None:
    form = formats.writes(an_agent())
    assert form.decode(form.encode(RESULT)) == {**RESULT, "key_base64": None}
    some = {name: value for name, value in RESULT.items() if name not in ("key", "mean")}
    assert form.decode(form.encode({**some, "key_base64": "/w=="})) == {
        **RESULT,
        "key": None,
        "mean": None,
        "key_base64": "/w==",
    }


def test_the_schema_is_one_for_the_avro_package_and_is_named_after_the_agent() -> None:
    assert avro.schema.parse(formats.result_schema(an_agent())).fullname == "sluicegate.a_1.Result"


def test_a_computed_field_that_avro_cannot_name_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"cannot hold the computed field 'a b'; name it with letters, digits and _ only"
    ):
        formats.result_schema(an_agent((Reducer("a b", "count"),)))


def test_a_handler_needs_a_schema_for_what_it_sends() -> None:
    agent = replace(an_agent(), handler=Handler(("m:f",)))
    with pytest.raises(ValueError, match=r"what a handler sends has none of its own; write schema: FILE\.avsc"):
        formats.writes(agent)
    own, order = replace(agent, to=Destination("out", "avro", Avro(json.dumps(SHOP)))), {"customer": "c", "amount": 1}
    assert formats.writes(own).encode(order) == codec("avro", Avro(json.dumps(SHOP))).encode(order)


def test_results_carry_the_frame_that_their_destination_sets() -> None:
    agent = replace(an_agent(()), to=Destination("out", "avro", Avro("", None, "confluent", 7)))
    some = {name: RESULT[name] for name in ("key", "count", "reason", "opened_at", "closed_at")}
    assert formats.writes(agent).encode(some)[:5] == b"\x00\x00\x00\x00\x07"
