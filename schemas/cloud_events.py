"""CloudEvents 1.0 in Kafka messages: the Kafka protocol binding, in binary and in structured mode.

Both modes are read as the JSON document of the structured mode: the attributes, and `data`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sluicegate.schemas.codecs import base64_text
from sluicegate.schemas.json import UNREADABLE, decode_any, encode, well_formed

MANDATORY = ("specversion", "id", "source", "type")
PREFIX = "ce_"
CONTENT_TYPE = "content-type"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch"
JSON = "application/json"
FORMS = {"avro": "application/avro", "protobuf": "application/protobuf"}
"""The content types of data that is not JSON, by the name of its format."""
_ANY_EVENT = "application/cloudevents"
_ATTRIBUTE = re.compile(r"[a-z0-9]+")
_JSON_TYPE = re.compile(r"[^/]+/(?:[^/;]+\+)?json\s*(?:;|$)", re.IGNORECASE)
_TEXT_TYPE = re.compile(r"text/|[^/]+/(?:[^/;]+\+)?xml\s*(?:;|$)", re.IGNORECASE)

KafkaHeaders = Sequence[tuple[str, bytes | None]]


class _Attributes(msgspec.Struct, gc=False):
    """The attributes of a structured event that are checked. Only text is valid here."""

    specversion: Any = None
    id: Any = None
    source: Any = None
    type: Any = None


_attributes = msgspec.json.Decoder(_Attributes).decode


def document(value: bytes | None, headers: KafkaHeaders, format: str = "json") -> bytes:
    """The event as a JSON document, with data of this format; in structured mode `value` itself. Raises
    msgspec.DecodeError."""
    pairs = {name: content for name, content in headers if name == CONTENT_TYPE or name.startswith(PREFIX)}
    form = _text(CONTENT_TYPE, pairs.pop(CONTENT_TYPE, None))
    if not _is_structured(form):
        return _from_binary(value, form, pairs, format)
    if form.lower().startswith(BATCH):
        raise msgspec.DecodeError(
            "is a batch of CloudEvents, and a record is one event: an agent with a handler must split it"
        )
    if form.partition(";")[0].strip().lower() != STRUCTURED:
        raise msgspec.DecodeError(f"is not a readable CloudEvent: of the event formats only {STRUCTURED} is known")
    if value is None:
        raise msgspec.DecodeError("is not a CloudEvent: it has the content-type of an event, and no value")
    try:
        attributes = _attributes(value)
    except msgspec.ValidationError:
        raise msgspec.DecodeError("is not a CloudEvent: its value is not a JSON object") from None
    check({name: getattr(attributes, name) for name in MANDATORY})
    return value


def is_structured(headers: KafkaHeaders) -> bool:
    """Whether the headers declare an event in structured mode, with the event in the value. Raises
    msgspec.DecodeError."""
    return any(_is_structured(_text(name, content)) for name, content in headers if name == CONTENT_TYPE)


def _is_structured(content_type: str) -> bool:
    return content_type.lower().startswith(_ANY_EVENT)


def check(attributes: Mapping[str, Any]) -> None:
    """Checks the attributes of an event. Raises msgspec.DecodeError with the name of the attribute."""
    for name in MANDATORY:
        content = attributes.get(name)
        if not isinstance(content, str) or not content:
            wrong = "is missing or empty" if not content else "is not text"
            raise msgspec.DecodeError(f"is not a CloudEvent: the mandatory attribute {name} {wrong}")
    if attributes["specversion"] != "1.0":
        raise msgspec.DecodeError("is not a CloudEvent of version 1.0: its specversion is another one")


def _from_binary(value: bytes | None, form: str, headers: Mapping[str, bytes | None], format: str) -> bytes:
    if not headers:
        raise msgspec.DecodeError(f"is not a CloudEvent: it has neither {PREFIX} headers nor content-type {STRUCTURED}")
    attributes = {name.removeprefix(PREFIX): _text(name, content) for name, content in headers.items()}
    for name in attributes:
        if name == "data" or not _ATTRIBUTE.fullmatch(name):
            raise msgspec.DecodeError("is not a CloudEvent: the name of a ce_ header is not the name of an attribute")
    check(attributes)
    if form:
        attributes["datacontenttype"] = form
    return _with_data(attributes, value) if format == "json" else of_format(attributes, value, format)


def _text(name: str, value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise msgspec.DecodeError(f"is not a CloudEvent: its header {name} is not UTF-8") from None


def _with_data(attributes: dict[str, Any], value: bytes | None) -> bytes:
    """The document of the event. Data that is declared as JSON must be JSON; without a declaration it is JSON."""
    form = attributes.get("datacontenttype", JSON)
    as_json = _JSON_TYPE.match(form)
    if value is None or (as_json and not value):  # the official SDK for Python writes an empty value for no data
        return encode(attributes)
    if as_json:
        well_formed(value)
        return encode({**attributes, "data": msgspec.Raw(value)})
    if _TEXT_TYPE.match(form):
        try:
            return encode({**attributes, "data": value.decode()})
        except UnicodeDecodeError:
            pass
    return of_format(attributes, value)


def of_format(attributes: Mapping[str, Any], value: bytes | None, format: str = "") -> bytes:
    """The document of an event whose data a codec reads, whatever its content type. Data of JSON Schema without a frame
    is in `data`, like all JSON."""
    if value is None:
        return encode(attributes)
    if format == "json-schema" and _is_json(value):
        return encode({**attributes, "data": msgspec.Raw(value)})
    return encode({**attributes, "data_base64": base64_text(value)})


def read_headers(headers: KafkaHeaders) -> list[tuple[str, bytes | None]]:
    """The headers of a message whose value is the document of the event."""
    return [*others(headers), (CONTENT_TYPE, STRUCTURED.encode())]


def others(headers: KafkaHeaders) -> list[tuple[str, bytes | None]]:
    """The headers that are no part of an event."""
    return [header for header in headers if header[0] != CONTENT_TYPE and not header[0].startswith(PREFIX)]


def written(
    mode: str, attributes: Mapping[str, str], value: bytes | None, format: str = "json"
) -> tuple[bytes | None, list[tuple[str, bytes | None]]]:
    """The value and the headers of an event with data of this format. Other data that is not JSON is bytes."""
    form = FORMS.get(format) or (JSON if value is None or _is_json(value) else "application/octet-stream")
    declared = {**attributes, **({} if value is None else {"datacontenttype": form})}
    if mode == "structured":
        return _with_data(declared, value), [(CONTENT_TYPE, STRUCTURED.encode())]
    made: list[tuple[str, bytes | None]] = [(f"{PREFIX}{name}", text.encode()) for name, text in attributes.items()]
    return value, made if value is None else [*made, (CONTENT_TYPE, form.encode())]


def _is_json(value: bytes) -> bool:
    try:
        decode_any(value)
    except UNREADABLE:
        return False
    return True
