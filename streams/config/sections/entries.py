"""A part of the file as a pydantic model whose keys come from tables (sluicegate.streams.keys), and conversions between
its values and the values that run."""

from dataclasses import is_dataclass
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sluicegate.streams.config.sections.fields import (
    ClauseField,
    Duration,
    FlagField,
    LimitField,
    SizeField,
    Text,
    TopicField,
    unless_unknown,
)
from sluicegate.streams.config.text.scalars import Native
from sluicegate.streams.keys import TableKey, keys_of

_OF_A_WORD = {"topic": TopicField, "expression": ClauseField, "size": SizeField, "limit": LimitField}
_OF_A_TYPE: dict[Any, Any] = {bool: FlagField, float: Duration, str: Text}


class FilePart(BaseModel, frozen=True):
    """A part of the file. Its keys are its own fields, and the keys of the tables among its bases."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        for key in _added(cls):
            cls.__annotations__[key.name] = _annotation(key)
            setattr(cls, key.name, _field(key))

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The properties in the order of the reference."""
        schema = handler(core)
        node = handler.resolve_ref_schema(schema)
        tables = [key for base in reversed(cls.__mro__) for key in _added(base)]
        names = [name for name in node.get("properties", ()) if name not in {key.name for key in tables}]
        place = 0
        for key in tables:
            place = names.index(key.entry.after) + 1 if key.entry.after else place
            names.insert(place, key.name)
            place += 1
        if names:
            node["properties"] = {name: node["properties"][name] for name in names}
        return schema


def _added(model: type) -> list[TableKey]:
    """The keys of the tables that this class adds to those of its bases."""
    tables = [base for base in model.__bases__ if is_dataclass(base) and not issubclass(base, BaseModel)]
    return [key for table in tables for key in keys_of(table)]


def _kind(key: TableKey) -> Any:
    """The pydantic type of a value that the file writes."""
    if key.entry.kind:
        return _OF_A_WORD[key.entry.kind]
    kind = next((arg for arg in get_args(key.type) if arg is not NoneType), key.type)
    if get_origin(key.type) is Literal:
        words = tuple(word for word in get_args(key.type) if word)
        return Annotated[Literal[words], unless_unknown(words[0])]
    if kind is int:
        return Annotated[int, Field(ge=key.entry.least, le=key.entry.most), unless_unknown(key.entry.least)]
    return _OF_A_TYPE[kind]


def _annotation(key: TableKey) -> Any:
    """The type of the field. A key that is left out, or null, has the default of the value that runs."""
    kind = _kind(key)
    if not key.left_out:
        return kind
    return Annotated[
        kind if kind is ClauseField else kind | None,
        AfterValidator(lambda value: key.default if value is None else value),
    ]


def _field(key: TableKey) -> Any:
    return Field(
        default=key.default,
        description=key.entry.text,
        examples=[key.entry.example],
        repr=not key.secret,
        json_schema_extra={"default": None} if key.left_out else None,
    )


def values(table: type, model: FilePart) -> dict[str, Any]:
    """The values of the table's keys, as keywords of a value that runs."""
    return {key.name: getattr(model, key.name) for key in keys_of(table)}


def written(table: type, value: Any) -> dict[str, Any]:
    """The keys of the table in the tree of a file. A value that the key cannot have is left out."""
    return {
        key.name: Native(content) if key.numbers else content
        for key in keys_of(table)
        if (content := getattr(value, key.name)) != key.default or not key.left_out
    }
