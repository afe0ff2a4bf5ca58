"""The formats of records and results by name: `json`, `avro`, `raw`, or `module:codec` of the user's own."""

import base64
import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas import json
from sluicegate.schemas.options import Avro


class Unwritable(TypeError):
    """A value does not fit the schema of a format. The text names the field and the problem, and quotes no payload."""


class Unavailable(Exception):
    """What a value needs to be read or written cannot be asked for now: the schema registry does not answer. The text
    says who does not."""


class Codec(NamedTuple):
    """`decode` returns plain Python values or raises; `encode` writes a result document; `shown` makes the value inside
    a result from the stored bytes of a message. `fields`: records have named fields. `text` makes JSON of a record in
    one step: where it exists, that JSON is stored; `only(names)` is a `text` of these fields alone."""

    name: str
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    shown: Callable[[bytes], Any]
    fields: bool = True
    text: Callable[[bytes], bytes] | None = None
    only: Callable[[Iterable[str]], Callable[[bytes], bytes]] | None = None


def codec(name: str, avro: Avro | None = None) -> Codec:
    """The codec of a format. Raises ValueError, whose text says what to do."""
    if name == "json":
        return Codec("json", json.document, json.encode, msgspec.Raw)
    if name == "raw":
        return Codec("raw", _same, json.encode, base64_text, fields=False)
    if name == "avro":
        return _avro(avro)
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(f"unknown format {name!r}; use json, avro, raw, or package.module:codec")
    try:
        found = getattr(importlib.import_module(module), attribute)
        return Codec(name, found.decode, found.encode, found.decode)
    except (ImportError, AttributeError, ValueError) as e:
        raise ValueError(f"format {name}: cannot be imported, or lacks decode or encode ({type(e).__name__})") from e


def _avro(avro: Avro | None) -> Codec:
    if avro is None:
        raise ValueError("format avro has no schema; write schema: FILE.avsc")
    try:
        from sluicegate.schemas.avro import compiled
    except ImportError:
        raise ValueError('the Avro library is not installed; pip install "sluicegate[avro]"') from None
    return compiled(avro)


def as_json(codec: Codec, names: Iterable[str] | None = None) -> Callable[[bytes], bytes]:
    """A function that makes JSON of a record of any format; fields other than `names` may be left out."""
    if codec.only is not None and names is not None:
        return codec.only(names)
    if codec.text is not None:
        return codec.text
    decode, encode = codec.decode, json.encode
    return lambda value: encode(decode(value))


def _same(value: bytes) -> bytes:
    return value


def base64_text(value: bytes) -> str:
    """Bytes that are not UTF-8, as text for JSON."""
    return base64.b64encode(value).decode("ascii")
