"""The formats of records and results by name: `json`, `raw`, or `module:codec` of the user's own."""

import base64
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from schemas import json


class Codec(NamedTuple):
    """`decode(bytes)` gives plain Python values or raises; `encode` writes a result document; `shown` turns a message
    into what stands for it inside a result. `fields` says that records have named fields."""

    name: str
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    shown: Callable[[bytes], Any]
    fields: bool = True


def codec(name: str) -> Codec:
    """The codec of a format name. Raises ValueError with what to do."""
    if name == "json":
        return Codec("json", json.decode_any, json.encode, msgspec.Raw)
    if name == "raw":
        return Codec("raw", _same, json.encode, base64_text, fields=False)
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(f"unknown format {name!r}; use json, raw, or package.module:codec")
    try:
        found = getattr(importlib.import_module(module), attribute)
        return Codec(name, found.decode, found.encode, found.decode)
    except (ImportError, AttributeError, ValueError) as e:
        raise ValueError(f"format {name}: cannot be imported, or lacks decode or encode ({type(e).__name__})") from e


def _same(value: bytes) -> bytes:
    return value


def base64_text(value: bytes) -> str:
    """Bytes that are no UTF-8, as text for JSON."""
    return base64.b64encode(value).decode("ascii")
