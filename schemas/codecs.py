"""The formats of records and results by name: `json`, `raw`, formats with a schema, or `module:codec` of the
user's own."""

import base64
import importlib
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from sluicegate.schemas import json
from sluicegate.schemas.options import SchemaOptions


class SchemaFormat(NamedTuple):
    """A format whose records have a schema. `kind` is the registry's word for it. `module` has `compiled(options)`; the
    extra that installs its library has the format's name. `file` is the kind of its schema files."""

    kind: Literal["AVRO", "PROTOBUF", "JSON"]
    module: str
    library: str
    file: str


SCHEMA_FORMATS = {
    "avro": SchemaFormat("AVRO", "sluicegate.schemas.avro", "the Avro library", ".avsc"),
    "protobuf": SchemaFormat("PROTOBUF", "sluicegate.schemas.protobuf", "the Protobuf library", ".desc"),
    "json-schema": SchemaFormat("JSON", "sluicegate.schemas.json_schema", "the library that validates JSON", ".json"),
}


class Unwritable(TypeError):
    """A value does not fit the schema of a format. The text names the field and the problem, and quotes no payload."""


class Unavailable(Exception):
    """A value cannot be read or written now, because the schema registry does not answer. The text names the
    registry."""

    why = "the schema registry does not answer"
    remedy = "tried again until it answers"


class UnusableSchema(Unavailable):
    """The schema that the file names is in the registry, and no record can be read with it."""

    why = "the schema of the registry cannot be used"
    remedy = "write schema: FILE or another version, and restart: the records wait"


class Codec(NamedTuple):
    """`decode` returns plain Python values or raises; `encode` writes a result document; `shown` makes the value for a
    result from the stored bytes of a message. `fields`: records have named fields. `text` makes JSON of a record in one
    step; where it exists, that JSON is stored. `only(names)` is a `text` of these fields alone."""

    name: str
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    shown: Callable[[bytes], Any]
    fields: bool = True
    text: Callable[[bytes], bytes] | None = None
    only: Callable[[Iterable[str]], Callable[[bytes], bytes]] | None = None


def codec(name: str, options: SchemaOptions | None = None) -> Codec:
    """The codec of a format; `options` are the options of a schema. Raises ValueError with a remedy."""
    if name == "json":
        return Codec("json", json.document, json.encode, msgspec.Raw)
    if name == "raw":
        return Codec("raw", _same, json.encode, base64_text, fields=False)
    if name in SCHEMA_FORMATS:
        return _of_schema(name, SCHEMA_FORMATS[name], options)
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(
            f"unknown format {name!r}; use json, {', '.join(SCHEMA_FORMATS)}, raw, or package.module:codec"
        )
    try:
        made = getattr(importlib.import_module(module), attribute)
        return Codec(name, made.decode, made.encode, made.decode)
    except (ImportError, AttributeError, ValueError) as e:
        raise ValueError(f"format {name}: cannot be imported, or lacks decode or encode ({type(e).__name__})") from e


def _of_schema(name: str, form: SchemaFormat, options: SchemaOptions | None) -> Codec:
    if options is None:
        raise ValueError(f"format {name} has no schema; write schema: FILE{form.file}")
    if options.kind != form.kind:
        raise ValueError(f"format {name} has a schema of kind {options.kind}; give SchemaOptions kind={form.kind!r}")
    try:
        compiled: Callable[[SchemaOptions], Codec] = importlib.import_module(form.module).compiled
        if not options.pinned:
            return compiled(options)
    except ImportError:
        raise ValueError(f'{form.library} is not installed; pip install "sluicegate[{name}]"') from None
    from sluicegate.schemas.pinned import later

    return later(name, options, form.file, compiled)


def as_json(codec: Codec, names: Iterable[str] | None = None) -> Callable[[bytes], bytes]:
    """A function that makes JSON of a record of any format; fields other than `names` may be left out."""
    if codec.only is not None and names is not None:
        return codec.only(names)
    if codec.text is not None:
        return codec.text
    decode, encode = codec.decode, json.encode
    return lambda value: encode(decode(value))


def json_text(codec: Codec) -> Callable[[bytes], bytes]:
    """A function that makes JSON of a record of any format. A record of JSON stays as it is. It raises the errors of
    decoders."""
    if codec.name != "json":
        return as_json(codec)
    decode = codec.decode

    def checked(value: bytes) -> bytes:
        if not value.isascii():
            value.decode()
        decode(value)
        return value

    return checked


def _same(value: bytes) -> bytes:
    return value


def base64_text(value: bytes) -> str:
    """Bytes that are not UTF-8, as text for JSON."""
    return base64.b64encode(value).decode("ascii")
