"""JSON with a schema: read as JSON, validated where that is asked for, without a request."""

import json
import socket
from typing import Any

import msgspec
import pytest

from sluicegate.schemas import Codec, SchemaOptions, codec
from sluicegate.schemas.codecs import Unwritable

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
    monkeypatch.setattr(socket, "create_connection", lambda *each, **_: asked.append(each))
    form = by({"$ref": "http://127.0.0.1:1/other.json"}, validate=True)
    with pytest.raises(msgspec.DecodeError, match="cannot be validated"):
        form.decode(b"{}")
    assert asked == []


@pytest.mark.parametrize(
    ("schema", "error"),
    [({"type": "nothing"}, "is no JSON Schema"), ([], "is no JSON Schema .it is neither an object nor true nor false")],
)
def test_what_is_no_schema_is_said(schema: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        by(schema, validate=True)


def test_options_of_another_format_are_refused() -> None:
    with pytest.raises(ValueError, match="format json-schema has a schema of kind AVRO"):
        codec("json-schema", SchemaOptions("{}"))


def test_a_text_that_is_no_json_is_no_schema() -> None:
    with pytest.raises(ValueError, match="is no JSON Schema"):
        codec("json-schema", SchemaOptions("{", kind="JSON"))
