"""What reads a record: decoders, expressions, conversions of texts and numbers, headers."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sluicegate.schemas import SchemaOptions, cloud_events, codec
from sluicegate.schemas import json as ours
from sluicegate.schemas.codecs import base64_text
from sluicegate.streams import formats, units
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Let, Reducer, Selected
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events_read import framed
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.leased_values import Entry
from sluicegate.streams.contracts.origin import original
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.expressions import times
from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.handlers.packing import pack, unpack
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.reading.addressed import for_us
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.shared.shared_records import packed, unpacked
from sluicegate.streams.testing.log import Log, LogProducer
from sluicegate.streams.windows.times import milliseconds
from tests.fuzz.cost import REFUSALS
from tests.fuzz.records import Hostile

Run = Callable[[Any], object]

EXPRESSIONS = (
    "duration(t)",
    "timestamp(t)",
    "timestamp(t).getHours(t)",
    "timestamp('2026-01-31T12:00:00Z').getHours(t) == 1",
    "int(t)",
    "double(t)",
    "bool(t)",
    "t.split('a').size()",
    "t.split('').join('-')",
    "t.split('').exists(c, c == '\\n')",
    "t.replace('a', 'bb')",
    "t.replace('', 'b')",
    "t.matches('(a+)+$') || t.matches('([0-9]+h?)*x')",
    "t.contains(t.substring(0, t.size() / 2) + '!')",
    "t.trim().upperAscii().lowerAscii() == t",
    "t + t == t",
    "t < t + 'a'",
    "t in [t, 'a', 1]",
    "t.exists(i, i == t)",
    "t.map(i, i).size()",
    "t.filter(i, i != null)",
    "t == t",
    "t in t",
    "t.exists(i, i in t)",
    "has(t.a) && t.a == t",
    "t.join(',')",
    "math.greatest(t) > math.least(t)",
    "string(t)",
    "string(duration(t))",
    "{'a': t, 'b': [t, t]}",
    "t * t - t / 3 == 1",
)


def each_of(runs: Sequence[Run]) -> Run:
    """All of them; what one refuses, the next one gets as well."""

    def run(value: Any) -> None:
        for one in runs:
            with suppress(*REFUSALS):
                one(value)

    return run


def of_json() -> dict[str, Run]:
    field = ours.wanted([ours.Field("t", required=False), ours.Field("b.c", "number")]).decode
    strict = ours.wanted([ours.Field("t", "text")]).decode
    number = ours.wanted([ours.Field("t", "number")]).decode
    decode = ours.decode_any
    return {
        "json": each_of([ours.document, ours.well_formed, ours.bounded(field), strict, number]),
        "keys and ids": lambda value: ours.key_text(decode(value)),
        "depth": lambda value: ours.deep(decode(value)),
        "texts and times of a field": lambda value: _field(decode(value)["t"]),
        "a CloudEvent": _event,
    }


def _event(value: bytes) -> None:
    attributes = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"s"), ("ce_type", b"t")]
    for headers in (
        attributes,
        [*attributes, ("content-type", b"text/plain")],
        [*attributes, ("content-type", b"image/png")],
        [("content-type", cloud_events.STRUCTURED.encode())],
        [*attributes[:3], ("ce_type", value), ("content-type", value)],
    ):
        each_of([lambda value, headers=headers: cloud_events.document(value, headers)])(value)


def _field(value: Any) -> None:
    runs: list[Run] = [lambda value, unit=unit: milliseconds(value, unit, "t") for unit in ("s", "ms", "us", "rfc3339")]
    if isinstance(value, str):
        runs += [units.duration, units.span, units.size, units.moment, times.zone]
        runs += [lambda value: base64_text(value.encode())]
    each_of(runs)(value)


def of_expressions() -> dict[str, Run]:
    return {text: _expression(text) for text in EXPRESSIONS}


def _expression(text: str) -> Run:
    evaluate = exact(parse(text), lambda field: lambda value: value.get(field))
    decode = ours.decode_any
    return lambda value: evaluate(decode(value))


RULES: dict[str, Any] = {
    "patterns": {"properties": {"t": {"pattern": "^(a+)+$"}}, "patternProperties": {"(1+h)+$": {"type": "string"}}},
    "unique": {"properties": {"t": {"uniqueItems": True}}},
    "alternatives": {
        "$defs": {"v": {"anyOf": [{"items": {"$ref": "#/$defs/v"}, "minItems": 1}, {"items": {"$ref": "#/$defs/v"}}]}},
        "properties": {"t": {"oneOf": [{"$ref": "#/$defs/v"}, {"$ref": "#/$defs/v"}]}},
    },
    "objects": {
        "properties": {
            "t": {
                "additionalProperties": {"type": "integer"},
                "propertyNames": {"maxLength": 20},
                "dependentRequired": {"a": ["b"]},
                "maxProperties": 1_000_000,
            }
        }
    },
    "items": {
        "properties": {
            "t": {
                "contains": {"const": [1, {"a": 2}]},
                "prefixItems": [{"type": "string"}],
                "items": {"enum": [0, "a", [], {}, None]},
                "not": {"maxItems": 0},
            }
        }
    },
    "numbers": {"properties": {"t": {"multipleOf": 0.01, "items": {"multipleOf": 7, "maximum": 1e300}}}},
    "conditions": {
        "properties": {
            "t": {"if": {"items": {"type": "array"}}, "then": {"minItems": 1}, "else": {"maxItems": 10_000_000}}
        }
    },
}


def of_json_schema() -> dict[str, Run]:
    return {f"JSON Schema: {name}": _valid(schema) for name, schema in RULES.items()}


def _valid(schema: Any) -> Run:
    options = SchemaOptions(json.dumps(schema), kind="JSON", validate=True)
    return codec("json-schema", options).decode


AGENT = Agent(
    "fuzz",
    ("in",),
    Aggregation(count=3),
    Destination("out"),
    "dead",
    receive=("in",),
    dedupe=Deduplication("header", "id", on_missing="accept"),
)


def of_headers() -> dict[str, Run]:
    codec = formats.reads(AGENT)
    partition = Partition("app", "fuzz", "in", 0)
    producer = LogProducer(Log(partitions=2))

    def engine(headers: Any) -> None:
        record, groups = Hostile(1, b"k", b"{", headers), Groups(Rule(AGENT, codec))
        rows = Rows(partition, AGENT, formats.writes(AGENT), producer, 1_000_000)
        kept = ReceivedShards("in").drop_repeats(for_us([record], partition), 1.0)
        for run in DuplicateFilter(IdRule(AGENT, codec)).runs(kept, 1.0, groups):
            accept(groups, run, 1.0)
        rows.make(list(groups.drain()))

    def carried(headers: Any) -> None:
        record = Hostile(1, b"k", b"{}", headers)
        unpack(pack(Message(None, record)), ("in", 0), 1, lambda item: Message(None, item))
        list(unpacked([Entry("k", "c", "", packed(record, "id", 1.0))]))
        original(record, "a", True)
        framed([record])

    def event(headers: Any) -> None:
        cloud_events.document(b"{}", [("content-type", b"application/json"), *headers])

    others: list[Run] = [cloud_events.read_headers, cloud_events.others]
    return {"headers": each_of([engine, carried, event, *others])}


def of_rules() -> dict[str, Run]:
    """A record in the aggregation of a rule, with clauses that read the field."""
    values = (
        Reducer("all", "collect"),
        Reducer("some", "collect", "t"),
        Reducer("kinds", "distinct", "t"),
        Reducer("first", "first", "t"),
    )
    rules = {
        "collected": Agent(
            "a", ("in",), Aggregation(count=3, compute=values, on_missing="ignore"), Destination("out"), "d"
        ),
        "summed by a key": Agent(
            "a", ("in",), Aggregation(key="t", count=3, compute=(Reducer("n", "sum", "t"),)), Destination("out"), "d"
        ),
        "named": Agent(
            "a",
            ("in",),
            Aggregation(count=3, on_missing="ignore"),
            Destination("out", select=(Selected("x", "y"),)),
            "d",
            where="y == t",
            let=(Let("y", "t"),),
        ),
    }
    return {f"a group, {name}": _grouped(agent) for name, agent in rules.items()}


def _grouped(agent: Agent) -> Run:
    codec = formats.reads(agent)
    partition = Partition("app", "a", "in", 0)
    producer = LogProducer(Log(partitions=2))

    def run(value: bytes) -> None:
        groups = Groups(Rule(agent, codec))
        rows = Rows(partition, agent, formats.writes(agent), producer, 1_000_000)
        accept(groups, [Hostile(number, b"k", value) for number in range(3)], 1.0)
        rows.make(list(groups.drain()))

    return run
