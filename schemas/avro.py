"""Avro records: one binary datum per message, read and written by a schema, with or without Confluent's frame.

Values are those of JSON: timestamps, dates and times are RFC 3339 text, decimals and UUIDs text, bytes and fixed base64, NaN and
infinities null. Measured: fastavro skips no field faster than it reads it, so a record is always read whole (docs/formats.md).
"""

import json as standard
import struct
from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import msgspec
from fastavro.types import Schema

from schemas import json
from schemas.avro_values import CONTENT, JSON_TEXT, fitting
from schemas.codecs import Avro

FRAME = struct.Struct(">bI")
_WORDS = {
    EOFError: "ends too early",
    UnicodeDecodeError: "is not UTF-8",
    IndexError: "ends too early, or names a symbol or a branch of a union that does not exist",
    OverflowError: "is out of range",
}


class Compiled(NamedTuple):
    """`decode` and `text` raise msgspec.DecodeError, `encode` Unwritable; no text of theirs quotes a payload."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    text: Callable[[bytes], bytes]
    fields: bool


def compiled(avro: Avro) -> Compiled:
    """Raises ValueError for a schema that is none, and for one that is not safe to read with."""
    reader = parsed(avro.schema)
    writer = reader if avro.writer_schema is None else parsed(avro.writer_schema)
    read = _reader(avro, writer, None if writer is reader else reader)
    encode, decode_any, restore = json.encode, json.decode_any, _restoring(reader)
    if restore is None:
        text: Callable[[bytes], bytes] = lambda value: encode(read(value))  # noqa: E731
    else:
        text = lambda value: encode(restore(read(value)))  # noqa: E731
    return Compiled(lambda value: decode_any(text(value)), _encoder(avro, writer), text, has_fields(reader))


def parsed(text: str) -> Schema:
    """A schema as fastavro wants it. Raises ValueError."""
    try:
        found = fastavro.parse_schema(standard.loads(text))
        named: dict[str, Any] = {}
        least_bytes(found, named, ())
    except ValueError as error:
        raise ValueError(f"is no Avro schema ({_said(error)})") from None
    except Exception as error:
        raise ValueError(f"is no Avro schema ({type(error).__name__}: {_said(error)})") from None
    return found


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def least_bytes(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> int:
    """How short a datum can be; fills `named`. Raises ValueError where a short message could exhaust the process: a type inside itself
    (the library recurses without a bound), and arrays of what takes no bytes."""
    if isinstance(schema, list):
        for branch in schema:
            if isinstance(branch, list):
                raise ValueError("a union lies directly in another one")
            least_bytes(branch, named, inside)
        return 1
    if isinstance(schema, str):
        if schema in inside:
            raise ValueError(f"{schema} contains itself: recursive types are not supported")
        return least_bytes(named[schema], named, inside) if schema in named else 0 if schema == "null" else 1
    kind = schema["type"]
    if schema.get("logicalType") == "decimal" and not isinstance(schema.get("precision"), int):
        raise ValueError("a decimal has no precision")
    if kind in ("record", "error"):
        named[schema["name"]] = schema
        return sum(least_bytes(field["type"], named, (*inside, schema["name"])) for field in schema["fields"])
    if kind in ("enum", "fixed"):
        named[schema["name"]] = schema
        return 1 if kind == "enum" else int(schema["size"])
    if kind == "array":
        if not least_bytes(schema["items"], named, inside):
            raise ValueError("an array has items that take no bytes")
        return 1
    if kind == "map":
        least_bytes(schema["values"], named, inside)
        return 1
    return least_bytes(kind, named, inside)


def has_fields(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(has_fields(branch) for branch in schema)
    return isinstance(schema, dict) and schema["type"] in ("record", "error", "map")


def _reader(avro: Avro, writer: Any, reader: Any) -> Callable[[bytes], Any]:
    """Raises msgspec.DecodeError. All of the message must be the datum."""
    read, framed = fastavro.schemaless_reader, avro.framing == "confluent"

    def datum(value: bytes) -> Any:
        try:
            end, stream = len(value), BytesIO(value)
            if framed:
                _check_frame(value, avro.schema_id)
                stream.seek(FRAME.size)
            found = read(stream, writer, reader)
            if stream.tell() == end:
                return found
        except msgspec.DecodeError:
            raise
        except Exception as error:
            raise msgspec.DecodeError(_why(value, writer, reader, error, framed)) from None
        raise msgspec.DecodeError(f"{end - stream.tell()} bytes follow the record{_hint(value, framed)}")

    return datum


def _check_frame(value: bytes, wanted: int | None) -> None:
    if len(value) < FRAME.size or value[0] != 0:
        raise msgspec.DecodeError("has no Confluent frame: a zero byte and four bytes of schema id")
    _, found = FRAME.unpack_from(value)
    if wanted is not None and found != wanted:
        raise msgspec.DecodeError(f"was written with schema id {found}, not {wanted}")


def _hint(value: bytes, framed: bool) -> str:
    looks = not framed and len(value) > FRAME.size and value[0] == 0
    return "; it begins like a Confluent frame: if it has one, set framing: confluent" if looks else ""


def _why(value: bytes, writer: Any, reader: Any, error: Exception, framed: bool) -> str:
    """In words, with the first field at the top that cannot be read."""
    what = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), f"cannot be read ({type(error).__name__})")
    fields = writer["fields"] if isinstance(writer, dict) and writer["type"] == "record" else []
    for count, field in enumerate(fields, 1):
        try:
            fastavro.schemaless_reader(BytesIO(value[FRAME.size * framed :]), {**writer, "fields": fields[:count]}, None)
        except Exception:
            return f"field {field['name']} {what}{_hint(value, framed)}"
    if fields and reader is not None:
        return f"the record does not fit the schema it is read with ({type(error).__name__})"
    return f"the record {what}{_hint(value, framed)}"


def _encoder(avro: Avro, schema: Any) -> Callable[[Any], bytes]:
    fit = fitting(schema, {})
    frame = FRAME.pack(0, avro.schema_id or 0) if avro.framing == "confluent" else b""
    encode, decode_any, write = json.encode, json.decode_any, fastavro.schemaless_writer

    def encoded(values: Any) -> bytes:
        datum = fit(decode_any(encode(values)), "")
        stream = BytesIO()
        stream.write(frame)
        write(stream, schema, datum)
        return stream.getvalue()

    return encoded


def _restoring(schema: Any) -> Callable[[Any], Any] | None:
    """Gives back the values that our own result schemas hold as JSON text (JSON_TEXT, at the top of the record)."""
    fields = schema["fields"] if isinstance(schema, dict) and schema["type"] == "record" else []
    single = [field["name"] for field in fields if any(_is_text(each) for each in _branches(field["type"]))]
    arrays = [(field["name"], each) for field in fields for each in _branches(field["type"]) if isinstance(each, dict)]
    many = [name for name, each in arrays if each["type"] == "array" and _is_text(each["items"])]
    if not single and not many:
        return None
    decode = json.decode_any

    def restore(record: Any) -> Any:
        for name in single:
            if record[name] is not None:
                record[name] = decode(record[name])
        for name in many:
            if record[name] is not None:
                record[name] = [decode(item) for item in record[name]]
        return record

    return restore


def _branches(schema: Any) -> list[Any]:
    return schema if isinstance(schema, list) else [schema]


def _is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] == "string" and schema.get(CONTENT) == JSON_TEXT[CONTENT]
