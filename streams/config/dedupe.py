"""The `dedupe` of an agent as the file writes it."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from sluicegate.streams.config.fields import FIELD, Count, Duration, FieldPath, Text, refused, unless_unknown
from sluicegate.streams.config.scalars import Unknown

_CLOSED = ConfigDict(extra="forbid", frozen=True, strict=True)
HEADER = "header:"
LONGEST_HEADER = 1000
_HINT = "write header:NAME, a field path, or key"

OnMissingId = Annotated[Literal["dead-letter", "accept"], unless_unknown("dead-letter")]


class IdSource(BaseModel):
    """A header's name, a field's path, or neither: the key."""

    model_config = _CLOSED
    header: Text | None = None
    field: FieldPath | None = None


def _as_id(value: object) -> object:
    """`{field: PATH}` and `{header: NAME}` are for what the short forms cannot say, such as a field called `key`."""
    if isinstance(value, Unknown) or value == "key":
        return {}
    if isinstance(value, str) and value.startswith(HEADER):
        value = {"header": value.removeprefix(HEADER)}
    if not isinstance(value, dict):
        value = {"field": value}
    if len(value) != 1 or None in value.values() or not 0 < len(str(value.get("header", "-"))) <= LONGEST_HEADER:
        raise refused("says not where the id is", _HINT)
    return value


_FIELD_SCHEMA = {"type": "string", "pattern": FIELD}
_ONE = {"type": "object", "additionalProperties": False, "minProperties": 1, "maxProperties": 1}
_ID_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": f"^header:.+$|{FIELD}"},
        {**_ONE, "properties": {"field": _FIELD_SCHEMA, "header": {"type": "string", "minLength": 1}}},
    ]
}


class DeduplicationModel(BaseModel):
    model_config = _CLOSED
    id: Annotated[IdSource, BeforeValidator(_as_id), WithJsonSchema(_ID_SCHEMA)]
    horizon: Duration = 24 * 3600.0
    on_missing: OnMissingId = "dead-letter"
    max_ids: Count = 1_000_000


DedupeField = Annotated[DeduplicationModel, unless_unknown(lambda: DeduplicationModel.model_construct(id=IdSource()))]
