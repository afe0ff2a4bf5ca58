"""Records that nobody meant, and the rules that they are given to."""

import json
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import fastavro

from sluicegate.schemas import Avro
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer, Until
from sluicegate.streams.contracts.record import Headers

CANARY = "c4n4ry"
"""Stands in every good value: no text of an error may quote it."""


@dataclass(slots=True)
class Hostile:
    """Satisfies sluicegate.streams.contracts.record.Record."""

    o: int
    k: bytes | None
    v: bytes | None
    h: Headers = field(default_factory=list)

    def topic(self) -> str:
        return "in"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.o

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> Headers:
        return self.h

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_700_000_000_000)

    def leader_epoch(self) -> int:
        return 0

    def error(self) -> None:
        return None


def _json(**values: Any) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


JSONS = [
    _json(user="ann", n=1, s=CANARY, deep={"a": {"b": 2}}, tags=["x", "y"]),
    _json(user="bob", n=-2.5, s=CANARY, deep={"a": {"b": [1, {"c": None}]}}, tags=[], end=True),
    _json(user="zoë", n=10**15, s=CANARY + "\n\u2028", deep={"a": {}}, tags={"k": "v"}),
    _json(n=0, user=7, s=CANARY, end=False),
    b'{"user":"ann","n":1e308,"s":"' + CANARY.encode() + b'","deep":' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}",
    b'{"user":"ann","n":3,"s":"' + CANARY.encode() + b'","tags":' + b"[" * 900 + b"]" * 900 + b"}",
    b'[1,2,"' + CANARY.encode() + b'"]',
]

FIELDS: list[Any] = [
    {"name": "user", "type": "string"},
    {"name": "n", "type": ["long", "double"]},
    {"name": "s", "type": "string"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "more", "type": {"type": "map", "values": ["null", "bytes"]}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 8}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "cost", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "any", "type": {"type": "string", "contentMediaType": "application/json"}},
]
SCHEMA = {"type": "record", "name": "Order", "fields": FIELDS}


def _avro(frame: bytes = b"", **values: Any) -> bytes:
    stream = BytesIO()
    about = {"tags": ["a", "b"], "more": {"x": None, "y": b"z"}, "kind": "B", "id": b"12345678", "any": '{"a":[1]}'}
    plain = {"at": "long", "cost": "bytes"}
    fields = [{**field, "type": plain.get(field["name"], field["type"])} for field in FIELDS]
    schema = fastavro.parse_schema({**SCHEMA, "fields": fields})
    fastavro.schemaless_writer(stream, schema, about | {"at": 1_700_000_000_000, "cost": b"\x01\x02"} | values)
    return frame + stream.getvalue()


AVROS = [
    _avro(user="ann", n=1, s=CANARY),
    _avro(user="bob", n=2.5, s=CANARY * 20, tags=[]),
    _avro(user="", n=-1, s=CANARY, more={}),
]
FRAME = b"\x00\x00\x00\x00\x07"
FRAMED = [FRAME + value for value in AVROS] + [b"\x00\x00\x00\x00\x08" + AVROS[0]]
BACKWARDS = [value[::-1] for value in JSONS]
KEYS: list[bytes | None] = [b"a", b"b", b"c\xff\xfe", b"", "ü".encode(), b"d", b"e"]

COUNT, SUM, MAX, MEAN = (
    Reducer("many", "count"),
    Reducer("sum", "sum", "n"),
    Reducer("max", "max", "n"),
    Reducer("mean", "mean", "n"),
)
ALL = Reducer("all", "collect")
FIRST, LAST = Reducer("first", "first", "deep"), Reducer("last", "last", "tags")
VALUES = (FIRST, LAST, Reducer("kinds", "distinct", "s"), Reducer("some", "collect", "tags"))
TEXTS = Reducer("texts", "reduce", None, "tests.unit.aggregation.formats:texts")
ANY = Reducer("any", "last", "any")
AVRO = Avro(json.dumps(SCHEMA))

RULES: dict[str, tuple[list[bytes], dict[str, Any], dict[str, Any]]] = {
    "sum of a field": (JSONS, {}, {"count": 50, "compute": (SUM, MAX)}),
    "counted only": (JSONS, {}, {"count": 100, "compute": (COUNT,)}),
    "by a field until one": (JSONS, {}, {"key": "user", "count": 40, "compute": (SUM,), "until": Until("end", True)}),
    "numbers that may be missing": (JSONS, {}, {"count": 30, "compute": (SUM, MEAN), "on_missing": "ignore"}),
    "values of any kind": (JSONS, {}, {"count": 20, "compute": VALUES, "on_missing": "ignore"}),
    "whole messages": (JSONS, {}, {"count": 25, "compute": (ALL,)}),
    "whole messages and values": (JSONS, {}, {"key": "user", "since_first": 1.0, "compute": (ALL, *VALUES)}),
    "little room": (
        JSONS,
        {"max_record_bytes": 300},
        {"compute": (ALL,), "count": 90, "max_bytes": 2000, "max_buffered_bytes": 9000},
    ),
    "no room": (
        JSONS,
        {},
        {"compute": (ALL,), "count": 5, "max_bytes": 4000, "max_groups": 3, "on_full": "dead-letter"},
    ),
    "a reducer of the user's": (JSONS, {}, {"count": 9, "compute": (TEXTS,)}),
    "raw": (JSONS, {"format": "raw"}, {"count": 25, "compute": (ALL, COUNT)}),
    "a codec of the user's": (
        BACKWARDS,
        {"format": "tests.unit.aggregation.formats:backwards"},
        {"count": 30, "compute": (SUM, ALL)},
    ),
    "avro": (AVROS, {"format": "avro", "schema": AVRO}, {"count": 30, "compute": (SUM, MAX)}),
    "avro by a field": (AVROS, {"format": "avro", "schema": AVRO}, {"key": "user", "count": 30, "compute": (ANY, ALL)}),
    "avro with a frame": (
        FRAMED,
        {"format": "avro", "schema": Avro(AVRO.schema, framing="confluent", schema_id=7)},
        {"count": 30, "compute": (SUM, ALL)},
    ),
}


def agent(name: str) -> Agent:
    """The one of a rule."""
    _, about, rule = RULES[name]
    return Agent("fuzz", ("in",), Aggregation(**rule), Destination("out"), "dead", **about)
