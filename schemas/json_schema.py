"""JSON with a JSON Schema: values are read and written as JSON, with or without Confluent's frame.

The schema of a record's id is asked for, because an id that nobody registered shows a record of another kind. JSON is
read without it; to validate, a value must fit `schema`, or the schema of its id if there is no other.
"""

import json as standard
from collections.abc import Callable
from typing import Any

import msgspec

from sluicegate.schemas import frames, json
from sluicegate.schemas.codecs import Codec, Unwritable
from sluicegate.schemas.frames import check_id, id_and_end, written_with
from sluicegate.schemas.options import SchemaOptions
from sluicegate.schemas.registry import SchemaKey

Wrong = Callable[[Any], str | None]
Opened = tuple[bytes, Wrong | None]
"""The JSON of a record, and what it must be valid for."""


def compiled(options: SchemaOptions) -> Codec:
    """The codec. Its `decode`, `text` and `only` raise msgspec.DecodeError, its `encode` Unwritable; errors quote no
    payload. Raises ValueError for a text that is not a schema."""
    if options.validate and not (options.schema or _by_id(options)):
        raise ValueError("validate has no schema; write schema: FILE.json")
    if options.schema:
        parsed(options.schema)
    own = validator(options.schema or "true") if options.validate else None
    opening, document, frame, encode = _opening(options, own), json.document, frames.frame(options), json.encode

    def valid(body: bytes, wrong: Wrong | None) -> Any:
        schema = document(body)
        if wrong is not None and (why := wrong(schema)):
            raise msgspec.DecodeError(why)
        return schema

    def decode(value: bytes) -> Any:
        return valid(*opening(value))

    def text(value: bytes) -> bytes:
        body, wrong = opening(value)
        if wrong is None:
            json.well_formed(body)
        else:
            valid(body, wrong)
        return body

    def encoded(values: Any) -> bytes:
        schema = encode(values)
        if own is not None and (why := own(json.decode_any(schema))):
            raise Unwritable(why)
        return frame() + schema

    return Codec("json-schema", decode, encoded, msgspec.Raw, text=text, only=lambda names: text)


def parsed(text: str) -> Any:
    """The parsed schema. Raises ValueError."""
    try:
        schema = standard.loads(text)
    except ValueError as error:
        raise ValueError(f"is not a JSON Schema ({error})") from None
    if not isinstance(schema, dict | bool):
        raise ValueError("is not a JSON Schema (it is neither an object nor true nor false)")
    return schema


def validator(text: str) -> Wrong:
    """A function that returns the reason why a value is invalid. No schema is fetched. Raises ValueError and
    ImportError."""
    from sluicegate.schemas.json_rules import checker

    first = checker(parsed(text))

    def wrong(value: Any) -> str | None:
        try:
            error = first(value)
        except Exception as problem:
            return f"cannot be validated ({type(problem).__name__})"
        if error is None:
            return None
        place = "".join(f".{step}" if isinstance(step, str) else "[]" for step in error.absolute_schema_path)
        return f"is not valid: it breaks {place.lstrip('.')} of the schema"

    return wrong


def _by_id(options: SchemaOptions) -> bool:
    return options.framing == "confluent" and bool(options.registry or options.writers)


def _opening(options: SchemaOptions, own: Wrong | None) -> Callable[[bytes], Opened]:
    """A function that removes the frame. The frame's schema id must be known."""
    if options.framing != "confluent":
        return lambda value: (value, own)
    by_id, by_writer = _by_id(options), options.validate and not options.schema
    known: dict[SchemaKey, Wrong | None] = {} if by_writer else {options.schema_id or 0: own}

    def opening(value: bytes) -> Opened:
        id, begin = id_and_end(value, options)
        if not by_id:
            check_id(id, options.schema_id)
            return value[begin:], own
        if id not in known:
            writer = written_with(options, id, ".json", lambda text: validator(text) if options.validate else None)
            known[id] = writer if by_writer else own
        return value[begin:], known[id]

    return opening
