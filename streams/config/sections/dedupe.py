"""The `dedupe` of an agent as the file writes it."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from sluicegate.streams.agent import DedupeSettings
from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import FIELD, FieldPath, Text, refused, unless_unknown
from sluicegate.streams.config.text.scalars import Unknown

HEADER = "header:"
LONGEST_HEADER = 1000
_HINT = "write header:NAME, a field path, or key"


class IdSource(FilePart, frozen=True):
    """A header's name, a field's path, or neither: then the key."""

    header: Text | None = Field(default=None, description="The header that holds the id.", examples=["event-id"])
    field: FieldPath | None = Field(default=None, description="The field that holds the id.", examples=["event.id"])


def _as_id(value: object) -> object:
    """Accepts the short forms. `{field: PATH}` and `{header: NAME}` exist for values that the short forms cannot
    express, such as a field called `key`."""
    if isinstance(value, Unknown) or value == "key":
        return {}
    if isinstance(value, str) and value.startswith(HEADER):
        value = {"header": value.removeprefix(HEADER)}
    if not isinstance(value, dict):
        value = {"field": value}
    if len(value) != 1 or None in value.values() or not 0 < len(str(value.get("header", "-"))) <= LONGEST_HEADER:
        raise refused("does not name the place of the id", _HINT)
    return value


_FIELD_SCHEMA = {"type": "string", "pattern": FIELD}
_ONE = {"type": "object", "additionalProperties": False, "minProperties": 1, "maxProperties": 1}
_ID_KEYS: dict[str, dict[str, Any]] = {"field": _FIELD_SCHEMA, "header": {"type": "string", "minLength": 1}}
_ID_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": f"^header:.+$|{FIELD}"},
        {**_ONE, "properties": described(IdSource, _ID_KEYS)},
    ]
}


class DeduplicationModel(FilePart, DedupeSettings, frozen=True):
    id: Annotated[IdSource, BeforeValidator(_as_id), WithJsonSchema(_ID_SCHEMA)] = Field(
        description="Where the id is: `header:NAME`, a field path, `key`, or `{field: PATH}` and `{header: NAME}`.",
        examples=["header:event-id"],
    )


DedupeField = Annotated[DeduplicationModel, unless_unknown(lambda: DeduplicationModel.model_construct(id=IdSource()))]
