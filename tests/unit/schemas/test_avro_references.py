"""Avro schemas with references become schemas that stand alone."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest

from sluicegate.connectors.registry import avro

MONEY = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
LINE = {
    "type": "record",
    "name": "shop.Line",
    "fields": [{"name": "price", "type": "Money"}, {"name": "old", "type": ["null", "shop.Money"], "default": None}],
}
COLOUR = {"type": "enum", "name": "Colour", "namespace": "shop.orders", "symbols": ["RED", "BLUE"]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop.orders",
    "fields": [
        {"name": "lines", "type": {"type": "array", "items": "shop.Line"}},
        {"name": "total", "type": "shop.Money"},
        {"name": "prices", "type": {"type": "map", "values": ["null", "shop.Money"]}},
        {"name": "colour", "type": "Colour"},
        {"name": "next", "type": ["null", "Order"]},
    ],
}
REFERRED = {"shop.Line": json.dumps(LINE), "shop.Money": json.dumps(MONEY), "shop.orders.Colour": json.dumps(COLOUR)}


def written(schema: Any, value: Any, names: dict[str, Any] | None = None) -> bytes:
    from io import BytesIO

    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas=names), value)
    return out.getvalue()


def test_the_bundle_reads_what_the_schemas_with_references_wrote() -> None:
    """fastavro itself resolves the names for the judge."""
    value = {
        "lines": [{"price": {"cents": 5}, "old": None}, {"price": {"cents": 7}, "old": {"cents": 6}}],
        "total": {"cents": 12},
        "prices": {"a": {"cents": 1}, "b": None},
        "colour": "BLUE",
        "next": None,
    }
    names: dict[str, Any] = {}
    for part in (MONEY, LINE, COLOUR):
        fastavro.parse_schema(part, named_schemas=names)
    bundle = json.loads(avro.bundled(json.dumps(ORDER), REFERRED))
    assert written(bundle, value) == written(ORDER, value, names)
    assert fastavro.schema.to_parsing_canonical_form(bundle).count('"name":"shop.Money"') == 1


@pytest.mark.parametrize("main", ["shop.Money", ["null", "shop.Money"], {"type": "array", "items": "shop.Money"}])
def test_a_schema_that_is_nothing_but_a_reference(main: Any) -> None:
    fastavro.parse_schema(json.loads(avro.bundled(json.dumps(main), REFERRED)))


def test_a_type_that_is_defined_inside_of_a_referred_one_may_be_named_before_it() -> None:
    tax = {"type": "record", "name": "Tax", "fields": [{"name": "rate", "type": "double"}]}  # shop.Tax, as enclosed
    fields = [{"name": "tax", "type": ["null", tax]}, {"name": "taxes", "type": {"type": "map", "values": "Tax"}}]
    line = {"type": "record", "name": "shop.Line", "fields": fields}
    first = [{"name": "tax", "type": "shop.Tax"}, {"name": "line", "type": "shop.Line"}]
    order = {"type": "record", "name": "Order", "fields": first}
    value = {"tax": {"rate": 0.5}, "line": {"tax": {"rate": 1.5}, "taxes": {"a": {"rate": 2.5}}}}
    names: dict[str, Any] = {}
    fastavro.parse_schema(line, named_schemas=names)
    bundle = json.loads(avro.bundled(json.dumps(order), {"shop.Line": json.dumps(line)}))
    assert written(bundle, value) == written(order, value, names)


def versions(**subjects: tuple[str, list[Any]]) -> Callable[[Any], Any]:
    def version(reference: Any) -> Any:
        text, references = subjects[reference.subject]
        return SimpleNamespace(schema_str=text, references=references)

    return version


def reference(name: str, subject: str) -> Any:
    return SimpleNamespace(name=name, subject=subject, version=1)


def test_references_of_references_are_read_once_each() -> None:
    money = reference("shop.Money", "money")
    known = versions(money=(json.dumps(MONEY), []), line=(json.dumps(LINE), [money]))
    schema = SimpleNamespace(references=[money, reference("shop.Line", "line")])
    assert avro.referred(known, schema) == {"shop.Line": json.dumps(LINE), "shop.Money": json.dumps(MONEY)}


def test_an_endless_chain_of_references_is_refused() -> None:
    def endless(of: Any) -> Any:
        return SimpleNamespace(schema_str="{}", references=[reference(f"{of.subject}x", f"{of.subject}x")])

    schemas = avro.referred(endless, SimpleNamespace(references=[reference("a", "a")]))
    with pytest.raises(ValueError, match="more than 200 references"):
        avro.bundled('"int"', schemas)
