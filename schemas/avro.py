"""Avro records: one binary datum per message, read and written by a schema, with or without Confluent's frame.

Values are values of JSON: timestamps, dates and times are RFC 3339 text, decimals and UUIDs text, bytes and fixed
base64, NaN and infinities null. `sluicegate.schemas.avro_strict` follows the bytes of each record before fastavro reads
them, because fastavro takes some that are no datum. A record is always read whole: fastavro does not look whether text
that it skips is UTF-8.
"""

import json as standard
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace
from io import BytesIO
from typing import Any

import fastavro
import msgspec
from fastavro.types import Schema

from sluicegate.schemas import frames, json, native
from sluicegate.schemas.avro_defaults import readable, writable
from sluicegate.schemas.avro_logical import NoValue
from sluicegate.schemas.avro_plain import kind_of, resolved_kind
from sluicegate.schemas.avro_reading import is_record, reading
from sluicegate.schemas.avro_sizes import size_of
from sluicegate.schemas.avro_strict import fields, walking
from sluicegate.schemas.avro_values import fitting
from sluicegate.schemas.codecs import Codec
from sluicegate.schemas.frames import FRAME, check_id, id_and_end, id_of, written_with
from sluicegate.schemas.options import SchemaOptions
from sluicegate.schemas.registry import SchemaKey

_WORDS = {UnicodeDecodeError: "is not UTF-8", OverflowError: "is out of range"}


def compiled(avro: SchemaOptions) -> Codec:
    """The codec of a schema. Its `decode`, `text` and `only` raise msgspec.DecodeError, its `encode` Unwritable; errors
    quote no payload. Raises ValueError for a text that is not a schema, and for an unsafe schema."""
    reader = parsed(avro.schema)
    writer = reader if avro.writer_schema in (None, avro.schema) else parsed(avro.writer_schema)
    document = json.document
    readable(reader)  # a wrong default is an error of the schema, not of the first record that needs it

    def only(names: Iterable[str] | None) -> Callable[[bytes], bytes]:
        return _reader(avro, writer, reader, frozenset(names) if names is not None and is_record(reader) else None)

    text = only(None)
    return Codec(
        "avro", lambda value: document(text(value)), _encoder(avro, writer), msgspec.Raw, has_fields(reader), text, only
    )


def parsed(text: str) -> Schema:
    """The schema in fastavro's form. Raises ValueError."""
    try:
        schema = fastavro.parse_schema(standard.loads(text))
        size_of(schema, {})
    except ValueError as error:
        raise ValueError(f"is not an Avro schema ({_said(error)})") from None
    except Exception as error:
        raise ValueError(f"is not an Avro schema ({type(error).__name__}: {_said(error)})") from None
    return schema


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def has_fields(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(has_fields(branch) for branch in schema)
    return isinstance(schema, dict) and schema["type"] in ("record", "error", "map")


def _reader(avro: SchemaOptions, writer: Any, reader: Any, names: frozenset[str] | None) -> Callable[[bytes], bytes]:
    """A function that makes JSON of a message, which must be exactly one datum. It keeps only these fields of a record
    (None: all), and raises msgspec.DecodeError."""
    if avro.writers is not None or avro.registry:
        return _by_id(avro, reader, names)
    text = _in_python(avro, writer, reader, names)
    kind = kind_of(reader, names) if writer is reader else resolved_kind(writer, reader, names)
    plain = native.kernel().plain_text(kind, avro.framing == "confluent", avro.schema_id)
    return text if plain is None else lambda value: plain(value) or text(value)


def _in_python(avro: SchemaOptions, writer: Any, reader: Any, names: frozenset[str] | None) -> Callable[[bytes], bytes]:
    """A reader in Python. It reads every valid record, and gives the reason for the others."""
    encode = json.encode
    read, framed = fastavro.schemaless_reader, avro.framing == "confluent"
    same = writer is reader
    first, second = reading(writer, reader, names), None if same else readable(reader)
    known = None if names is None else [field["name"] for field in reader["fields"] if field["name"] in names]
    walk, begin = walking(writer, {}), FRAME.size if framed else 0

    def text(value: bytes) -> bytes:
        if framed:
            check_id(id_of(value), avro.schema_id)
        try:
            end = walk(value, begin)
        except (IndexError, ValueError) as error:
            raise msgspec.DecodeError(_broken(value, begin, writer, error)) from None
        if end != len(value):
            raise msgspec.DecodeError(f"{len(value) - end} bytes follow the record{_hint(value, framed)}")
        stream = BytesIO(value)
        stream.seek(begin)
        try:
            datum: Any = read(stream, first, second)
        except Exception as error:
            raise msgspec.DecodeError(_why(value, begin, first, error, not same)) from None
        return encode(datum if known is None else {name: datum[name] for name in known})

    return text


def _by_id(avro: SchemaOptions, reader: Any, names: frozenset[str] | None) -> Callable[[bytes], bytes]:
    """A reader by schema id. The schema of each id is read with its first record; a missing one is looked for again
    with each record. With a registry, whose ids begin with 1, the id 0 stands for the id of `schema` if it has no
    other."""
    alone = replace(avro, writers=None, registry="")
    known: dict[SchemaKey, Callable[[bytes], bytes]] = {avro.schema_id or 0: _reader(alone, reader, reader, names)}

    def text(value: bytes) -> bytes:
        id, begin = id_and_end(value, avro)
        if begin != FRAME.size:
            value = FRAME.pack(0, 0) + value[begin:]
        read = known.get(id)
        if read is None:
            written = written_with(avro, id, ".avsc", parsed)
            same = reader if written == reader else written
            read = known[id] = _reader(replace(alone, schema_id=None), same, reader, names)
        return read(value)

    return text


def _hint(value: bytes, framed: bool) -> str:
    looks = not framed and len(value) > FRAME.size and value[0] == 0
    return "; it begins like a Confluent frame: if it has one, set framing: confluent" if looks else ""


def _broken(value: bytes, begin: int, writer: Any, error: Exception) -> str:
    """The reason why the bytes are no datum, with the top-level field at which they stop being one."""
    what, at = str(error) if isinstance(error, ValueError) else "ends too early", begin
    for name, walk in fields(writer).items() if is_record(writer) else ():
        try:
            at = walk(value, at)
        except (IndexError, ValueError):
            return f"field {name} {what}{_hint(value, begin > 0)}"
    return f"the record {what}{_hint(value, begin > 0)}"


def _why(value: bytes, begin: int, writer: Any, error: Exception, resolved: bool) -> str:
    """The reason why a datum has no value of ours, with the first top-level field that cannot be read."""
    kinds = (words for kind, words in _WORDS.items() if isinstance(error, kind))
    what = str(error) if isinstance(error, NoValue) else next(kinds, f"cannot be read ({type(error).__name__})")
    named = writer["fields"] if is_record(writer) else []

    def fails(count: int) -> bool:
        try:
            fastavro.schemaless_reader(BytesIO(value[begin:]), {**writer, "fields": named[:count]}, None)
        except Exception:
            return True
        return False

    first = bisect_left(range(len(named) + 1), True, key=fails) if named else 1
    if first <= len(named):
        return f"field {named[first - 1]['name']} {what}{_hint(value, begin > 0)}"
    if named and resolved:
        return f"the record does not fit the schema it is read with ({type(error).__name__})"
    return f"the record {what}{_hint(value, begin > 0)}"


def _encoder(avro: SchemaOptions, schema: Any) -> Callable[[Any], bytes]:
    fit = fitting(writable(schema), {})
    frame = frames.frame(avro)
    encode, decode_any, write = json.encode, json.decode_any, fastavro.schemaless_writer

    def encoded(values: Any) -> bytes:
        datum = fit(decode_any(encode(values)), "")
        stream = BytesIO()
        stream.write(frame())
        write(stream, schema, datum)
        return stream.getvalue()

    return encoded
