"""The codec of CloudEvents with data of any format.

A value is the document of an event. As JSON it has the decoded data as `data`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sluicegate.schemas.cloud_events import FORMS, of_format
from sluicegate.schemas.codecs import Codec, json_text
from sluicegate.schemas.json import document, encode

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_bytes = msgspec.json.Decoder(bytes).decode
_NULL = msgspec.Raw(b"null")


def of_events(payload: Codec) -> Codec:
    """The codec of events with data of this codec. An event without data is only its attributes."""
    data_text = json_text(payload)

    def text(value: bytes) -> bytes:
        if not value.isascii():
            value.decode()
        members = _members(value)
        encoded, data = members.pop("data_base64", None), bytes(members.pop("data", _NULL))
        if encoded is not None:
            data = _bytes(encoded)
        elif data == b"null":
            return value
        elif payload.name in FORMS:
            raise msgspec.DecodeError(f"is a CloudEvent with data in JSON, not with {payload.name} in data_base64")
        return encode({**members, "data": msgspec.Raw(data_text(data))})

    def written(event: Mapping[str, Any]) -> bytes:
        attributes = {name: value for name, value in event.items() if name != "data"}
        data = event.get("data")
        return of_format(attributes, None if data is None else payload.encode(data), payload.name)

    return Codec(payload.name, lambda value: document(text(value)), written, msgspec.Raw, text=text)
