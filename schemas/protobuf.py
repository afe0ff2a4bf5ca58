"""Protobuf records: one message each, with or without Confluent's frame, which identifies the message by its position.

A record is always read by the reader's own schema, because Protobuf finds fields by their numbers. The schema of the
record's id only identifies its message: a record of another message would have a value, but a wrong one.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from sluicegate.schemas import frames, json
from sluicegate.schemas.codecs import Codec, Unwritable
from sluicegate.schemas.frames import check_id, id_and_end, written_with
from sluicegate.schemas.options import SchemaOptions
from sluicegate.schemas.protobuf_schema import IndexPath, message, names, path_of
from sluicegate.schemas.protobuf_values import reading
from sluicegate.schemas.registry import SchemaKey

DEEPEST_PATH = 100
"""Levels of nested messages; Protobuf's own libraries read no more."""


def compiled(options: SchemaOptions) -> Codec:
    """The codec of a message. Its `decode`, `text` and `only` raise msgspec.DecodeError, its `encode` Unwritable;
    errors quote no payload. Raises ValueError for a schema that is not a set of file descriptors, and without the
    message."""
    descriptor = message(options.schema, options.message)
    encode, document, body, kind = json.encode, json.document, _body(options, descriptor), GetMessageClass(descriptor)

    def only(wanted: Iterable[str] | None) -> Callable[[bytes], bytes]:
        read = reading(descriptor, None if wanted is None else frozenset(wanted))

        def text(value: bytes) -> bytes:
            empty = kind()
            try:
                empty.ParseFromString(body(value))
                if not empty.IsInitialized():
                    raise msgspec.DecodeError(f"lacks {', '.join(empty.FindInitializationErrors())}")
                return encode(read(empty))
            except (DecodeError, RecursionError):
                raise msgspec.DecodeError(f"is no message {descriptor.full_name}{_hint(value, options)}") from None
            except msgspec.DecodeError:
                raise
            except (ValueError, OverflowError) as error:
                raise msgspec.DecodeError(f"has a field without a value ({_said(error)})") from None

        return text

    text = only(None)
    return Codec(
        "protobuf",
        lambda value: document(text(value)),
        _encoder(options, descriptor),
        msgspec.Raw,
        text=text,
        only=only,
    )


def _said(error: Exception) -> str:
    """An error text of our own, because the library's texts may quote the value."""
    text = str(error)
    return text if type(error) is ValueError and text.startswith("holds ") else type(error).__name__


def _hint(value: bytes, options: SchemaOptions) -> str:
    looks = options.framing == "none" and len(value) > frames.FRAME.size and value[0] == 0
    return "; it begins like a Confluent frame: if it has one, set framing: confluent" if looks else ""


def _body(options: SchemaOptions, descriptor: Descriptor) -> Callable[[bytes], bytes]:
    """The message without its frame. The frame must name this message."""
    if options.framing != "confluent":
        return lambda value: value
    own, by_id = path_of(descriptor), bool(options.writers or options.registry)
    known: dict[SchemaKey, dict[IndexPath, str]] = {}

    def body(value: bytes) -> bytes:
        id, begin = id_and_end(value, options)
        path, begin = read_path(value, begin)
        if not by_id:
            check_id(id, options.schema_id)
        if not by_id or id == (options.schema_id or 0):
            name = descriptor.full_name if path == own else None
        else:
            if id not in known:
                known[id] = written_with(options, id, ".desc", names)
            name = known[id].get(path)
        if name != descriptor.full_name:
            raise msgspec.DecodeError(f"is {name or f'the message at {[*path]}'}, not {descriptor.full_name}")
        return value[begin:]

    return body


def read_path(value: bytes, at: int) -> tuple[IndexPath, int]:
    """The position of the message in its file, and the offset after it: a count and that many numbers, each a zigzag
    varint. No number stands for the first message. Raises msgspec.DecodeError."""
    count, at = _varint(value, at)
    if not 0 <= count <= DEEPEST_PATH:
        raise msgspec.DecodeError("has no message index in its frame")
    indexes = []
    for _ in range(count):
        index, at = _varint(value, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(value) and shift < 35:
        number |= (value[at] & 0x7F) << shift
        if value[at] < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
        at, shift = at + 1, shift + 7
    raise msgspec.DecodeError("has no message index in its frame")


def written_path(path: IndexPath) -> bytes:
    """The bytes of a position. The first message is a single zero."""
    if path == (0,):
        return b"\0"
    return b"".join(_zigzag(index) for index in (len(path), *path))


def _zigzag(number: int) -> bytes:
    rest, data = number << 1, bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*data, rest))


def _encoder(options: SchemaOptions, descriptor: Descriptor) -> Callable[[Any], bytes]:
    frame, pool, kind = frames.frame(options), descriptor.file.pool, GetMessageClass(descriptor)
    path = written_path(path_of(descriptor)) if options.framing == "confluent" else b""
    encode, decode_any = json.encode, json.decode_any

    def encoded(values: Any) -> bytes:
        plain = decode_any(encode(values))
        try:
            filled = json_format.ParseDict(plain, kind(), descriptor_pool=pool)
            written: bytes = filled.SerializeToString(deterministic=True)
        except json_format.ParseError as error:
            raise Unwritable(_misfit(str(error), plain, descriptor)) from None
        except (EncodeError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise Unwritable(f"does not fit the message {descriptor.full_name} ({type(error).__name__})") from None
        return frame() + path + written

    return encoded


def _misfit(text: str, value: Any, descriptor: Descriptor) -> str:
    """The error of a value that does not fit. The library's text quotes values, sometimes as names of fields, so only
    known names are used."""
    match = re.search(r'has no field named "([\w.]{1,200})"', text)
    if match and isinstance(value, dict) and match[1] in value:
        return f"has a field {match[1]}, which the message {descriptor.full_name} does not have"
    match = re.match(r"Failed to parse (\w+)", text)
    if match and match[1] in descriptor.fields_by_name:
        return f"field {match[1]} does not fit the message {descriptor.full_name}"
    return f"does not fit the message {descriptor.full_name}"
