"""JSON with a schema: read as JSON, validated where that is asked for, without a request."""

import json
import socket
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from sluicegate.schemas import Codec, SchemaOptions, codec, registry
from sluicegate.schemas.codecs import Unavailable, Unwritable

ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Order",
    "type": "object",
    "properties": {"amount": {"type": "number"}, "by": {"type": "string", "maxLength": 3}},
    "required": ["amount"],
}


def by(schema: Any = ORDER, **wanted: Any) -> Codec:
    return codec("json-schema", SchemaOptions(json.dumps(schema), kind="JSON", **wanted))


def test_without_validation_it_is_json() -> None:
    form = by()
    assert form.decode(b'{"amount": "c4n4ry"}') == {"amount": "c4n4ry"}
    assert form.encode({"by": 1}) == b'{"by":1}'
    assert form.text is not None
    for broken in (b"", b"{", b"\0\0\0\0\7{}"):
        with pytest.raises(msgspec.DecodeError):
            form.decode(broken)
        with pytest.raises(msgspec.DecodeError):
            form.text(broken)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"amount": "c4n4ry"}, "is not valid: it breaks properties.amount.type of the schema"),
        ({"amount": 1, "by": "c4n4ry"}, "is not valid: it breaks properties.by.maxLength of the schema"),
        ({}, "is not valid: it breaks required of the schema"),
    ],
)
def test_validation_names_the_rule_and_not_the_value(value: Any, error: str) -> None:
    form, written = by(validate=True), json.dumps(value).encode()
    assert form.text is not None
    for read in (form.decode, form.text):
        with pytest.raises(msgspec.DecodeError) as caught:
            read(written)
        assert str(caught.value) == error
    with pytest.raises(Unwritable) as refused:
        form.encode(value)
    assert str(refused.value) == error


def test_a_frame_is_taken_off_and_put_on() -> None:
    form = by(framing="confluent", schema_id=7)
    assert form.encode({"amount": 1}) == b'\0\0\0\0\7{"amount":1}'
    assert form.decode(b'\0\0\0\0\7{"amount": 1}') == {"amount": 1}
    with pytest.raises(msgspec.DecodeError, match="was written with schema id 8, not 7"):
        form.decode(b"\0\0\0\0\x08{}")
    with pytest.raises(msgspec.DecodeError, match="has no Confluent frame"):
        form.decode(b'{"amount": 1}')


def test_no_schema_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(socket, "create_connection", lambda *arguments, **_: asked.append(arguments))
    form = by({"$ref": "http://127.0.0.1:1/other.json"}, validate=True)
    with pytest.raises(msgspec.DecodeError, match="cannot be validated"):
        form.decode(b"{}")
    assert asked == []


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"type": "nothing"}, "is not a JSON Schema"),
        ([], "is not a JSON Schema .it is neither an object nor true nor false"),
    ],
)
def test_what_is_no_schema_is_said(schema: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        by(schema, validate=True)


def test_options_of_another_format_are_refused() -> None:
    with pytest.raises(ValueError, match="format json-schema has a schema of kind AVRO"):
        codec("json-schema", SchemaOptions("{}"))


def test_a_text_that_is_no_json_is_no_schema() -> None:
    with pytest.raises(ValueError, match="is not a JSON Schema"):
        codec("json-schema", SchemaOptions("{", kind="JSON"))


class Registry:
    """Knows two schemas; `away` while it does not answer."""

    def __init__(self) -> None:
        self.away, self.asked = False, 0
        self.schemas: dict[int, str] = {7: json.dumps(ORDER), 8: "true", 9: '{"type": "nothing"}'}

    def schema(self, id: Any, kind: str) -> str:
        self.asked += 1
        if self.away:
            raise Unavailable("the schema registry does not answer")
        if id not in self.schemas:
            raise registry.UnknownId(f"it has no schema with id {id}")
        return self.schemas[id]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Registry:
    table, registry_ = registry.SchemaTable(count(0, 10).__next__), Registry()
    table.ask = registry_  # type: ignore[assignment]
    monkeypatch.setattr(registry, "table", lambda name: table)
    return registry_


def framed(id: int, value: bytes = b'{"amount":1}') -> bytes:
    return b"\0" + id.to_bytes(4, "big") + value


def asking(**wanted: Any) -> Codec:
    return codec("json-schema", SchemaOptions("", None, "confluent", registry="r", kind="JSON", **wanted))


def test_the_id_is_looked_up_once_and_one_that_is_not_known_is_undecodable(server: Registry) -> None:
    form = asking()
    assert form.text is not None
    for _ in range(3):
        assert form.decode(framed(7)) == {"amount": 1}
        assert form.text(framed(8)) == b'{"amount":1}'
    assert server.asked == 2
    for read in (form.decode, form.text):
        with pytest.raises(msgspec.DecodeError, match="schema id 6, which is not known: it has no schema with id 6"):
            read(framed(6))


def test_an_id_waits_while_the_registry_is_away(server: Registry) -> None:
    form = asking()
    form.decode(framed(7))
    server.away = True
    assert form.decode(framed(7)) == {"amount": 1}
    with pytest.raises(Unavailable, match="was written with schema id 8, and the schema registry does not answer"):
        form.decode(framed(8))
    server.away = False
    assert form.decode(framed(8)) == {"amount": 1}


def test_without_a_schema_each_record_is_validated_with_that_of_its_id(server: Registry) -> None:
    form, wrong = asking(validate=True), b'{"amount": "c4n4ry"}'
    assert form.text is not None
    for read in (form.decode, form.text):
        with pytest.raises(msgspec.DecodeError) as caught:
            read(framed(7, wrong))
        assert str(caught.value) == "is not valid: it breaks properties.amount.type of the schema"
        with pytest.raises(msgspec.DecodeError, match="schema id 9, whose schema in the registry is not a JSON Schema"):
            read(framed(9))
        with pytest.raises(msgspec.DecodeError, match="schema id 0, which is not known"):
            read(framed(0))
    assert form.decode(framed(8, wrong)) == {"amount": "c4n4ry"}


def test_with_a_schema_each_record_is_validated_with_it(server: Registry) -> None:
    form = codec(
        "json-schema", SchemaOptions(json.dumps(ORDER), None, "confluent", registry="r", kind="JSON", validate=True)
    )
    with pytest.raises(msgspec.DecodeError, match=r"breaks properties\.amount\.type"):
        form.decode(framed(8, b'{"amount": "c4n4ry"}'))


def test_a_file_of_writer_schemas_stands_in(tmp_path: Path, server: Registry) -> None:
    (tmp_path / "5.json").write_text(json.dumps(ORDER))
    form = asking(validate=True, writers=str(tmp_path))
    assert form.decode(framed(5)) == {"amount": 1}
    with pytest.raises(msgspec.DecodeError, match="breaks required"):
        form.decode(framed(5, b"{}"))
    assert server.asked == 0


def nest(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


AGAIN = {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!", False),
        ({"patternProperties": {"^(a+)+$": False}}, {"a" * 40 + "!": 1}, True),
        ({"patternProperties": {"^(a+)+$": True}, "additionalProperties": False}, {"a" * 40 + "!": 1}, False),
        ({"uniqueItems": True}, [[number] for number in range(20_000)], True),
        ({"uniqueItems": True}, [[number % 19_999] for number in range(20_000)], False),
        ({"anyOf": [{"type": "string"}, AGAIN, {**AGAIN, "minItems": 1}]}, nest(15), False),
        ({"oneOf": [{"type": "string"}, AGAIN, {**AGAIN, "minItems": 1}]}, nest(15), False),
        ({"$ref": "#"}, 1, False),
    ],
)
def test_validation_takes_time_that_grows_with_the_value_and_not_faster(schema: Any, value: Any, valid: bool) -> None:
    form, written, begin = by(schema, validate=True), json.dumps(value).encode(), time.thread_time()
    if valid:
        form.decode(written)
    else:
        with pytest.raises(msgspec.DecodeError):
            form.decode(written)
    assert time.thread_time() - begin < 2


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"anyOf": [{"type": "string"}, AGAIN, {**AGAIN, "minItems": 1}]}, [nest(8), nest(10)]),
        ({"uniqueItems": True}, [[{"a": n} for n in range(m)] for m in (200, 400)]),
    ],
    ids=["anyOf", "uniqueItems"],
)
def test_without_these_rules_the_work_of_the_library_grows_faster(schema: Any, values: list[Any]) -> None:
    """The twin, of smaller values: two more levels or twice as many items take four times as many calls."""
    calls = [calls_of(lambda value=value: list(Draft202012Validator(schema).iter_errors(value))) for value in values]
    assert calls[1] > calls[0] * 3


def calls_of(work: Callable[[], object]) -> int:
    """The number of functions that `work` calls: it does not depend on the machine or its load."""
    calls = 0

    def tally(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ([1, 1.0], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([1, True, 0, False, "1", None, "", [], {}], True),
        ([1e300, 10**300], True),
        (["a", "A"], True),
    ],
)
def test_items_are_unique_if_no_two_are_equal_in_json(value: Any, valid: bool) -> None:
    form = by({"uniqueItems": True}, validate=True)
    if valid:
        form.decode(json.dumps(value).encode())
    else:
        with pytest.raises(msgspec.DecodeError, match="it breaks uniqueItems of the schema"):
            form.decode(json.dumps(value).encode())


def test_values_at_a_reference_are_judged_one_by_one() -> None:
    schema = {"$defs": {"n": {"type": "number"}}, "properties": {"a": {"$ref": "#/$defs/n"}}, "items": {"$ref": "#"}}
    form = by(schema, validate=True)
    for value in ([{"a": 1}, {"a": 2}], [[{"a": 1}], {"a": 1}]):
        assert form.decode(json.dumps(value).encode()) == value
    for value in ([{"a": 1}, {"a": "x"}], {"a": None}, [[{"a": "x"}], {"a": "x"}]):
        with pytest.raises(msgspec.DecodeError, match=r"it breaks (items\.)*properties\.a\.type of the schema"):
            form.decode(json.dumps(value).encode())


def test_what_validation_needs_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    monkeypatch.delitem(sys.modules, "sluicegate.schemas.json_rules", raising=False)
    with pytest.raises(ValueError) as caught:
        by(validate=True)
    assert str(caught.value) == (
        'the library that validates JSON is not installed; pip install "sluicegate[json-schema]"'
    )
