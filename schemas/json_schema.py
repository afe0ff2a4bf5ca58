"""JSON with a JSON Schema: values are read and written as JSON, with or without Confluent's frame.

The schema is needed for the id that is written, and to validate. No other schema is asked for: JSON is read without.
"""

import json as standard
from collections.abc import Callable
from typing import Any

import msgspec

from sluicegate.schemas import frames, json
from sluicegate.schemas.codecs import Codec, Unwritable
from sluicegate.schemas.frames import check_id, opened
from sluicegate.schemas.options import SchemaOptions

Wrong = Callable[[Any], str | None]


def compiled(options: SchemaOptions) -> Codec:
    """The codec. Its `decode`, `text` and `only` raise msgspec.DecodeError, its `encode` Unwritable; errors quote no
    payload. Raises ValueError for a text that is no schema."""
    if options.validate and not options.schema:
        raise ValueError("validate has no schema; write schema: FILE.json")
    if options.schema:
        parsed(options.schema)
    wrong = validator(options.schema) if options.validate else None
    body, document, frame, encode = _body(options), json.document, frames.frame(options), json.encode

    def decode(value: bytes) -> Any:
        found = document(body(value))
        if wrong is not None and (why := wrong(found)):
            raise msgspec.DecodeError(why)
        return found

    def text(value: bytes) -> bytes:
        found = body(value)
        if wrong is None:
            json.well_formed(found)
        else:
            decode(value)
        return found

    def encoded(values: Any) -> bytes:
        found = encode(values)
        if wrong is not None and (why := wrong(json.decode_any(found))):
            raise Unwritable(why)
        return frame() + found

    return Codec("json-schema", decode, encoded, msgspec.Raw, text=text, only=lambda names: text)


def parsed(text: str) -> Any:
    """Raises ValueError."""
    try:
        found = standard.loads(text)
    except ValueError as error:
        raise ValueError(f"is no JSON Schema ({error})") from None
    if not isinstance(found, dict | bool):
        raise ValueError("is no JSON Schema (it is neither an object nor true nor false)")
    return found


def validator(text: str) -> Wrong:
    """A function that says why a value is not valid. No schema is fetched. Raises ValueError and ImportError."""
    from jsonschema import SchemaError, validators
    from referencing import Registry

    schema = parsed(text)
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"is no JSON Schema ({' '.join(error.message.split())[:200]})") from None
    check = kind(schema, registry=Registry())

    def wrong(value: Any) -> str | None:
        try:
            error = next(check.iter_errors(value), None)
        except Exception as problem:
            return f"cannot be validated ({type(problem).__name__})"
        if error is None:
            return None
        place = "".join(f".{each}" if isinstance(each, str) else "[]" for each in error.absolute_schema_path)
        return f"is not valid: it breaks {place.lstrip('.')} of the schema"

    return wrong


def _body(options: SchemaOptions) -> Callable[[bytes], bytes]:
    if options.framing != "confluent":
        return lambda value: value

    def body(value: bytes) -> bytes:
        id, begin = opened(value, options)
        if not options.registry:
            check_id(id, options.schema_id)
        return value[begin:]

    return body
