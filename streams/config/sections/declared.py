"""`fields` of an agent: the names and types of its records' fields. Only `check` uses them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from sluicegate.schemas.codecs import SCHEMA_FORMATS
from sluicegate.streams.config.sections.fields import refused, unless_unknown
from sluicegate.streams.config.text.problems import FileFinding, Path, printable
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.expressions.types import (
    BOOLEAN,
    INTEGER,
    LIST,
    MAP,
    NUMBER,
    TEXT,
    UNKNOWN,
    ValueType,
    list_of,
    nullable,
    record_of,
)
from sluicegate.streams.hints import did_you_mean

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models import FileModel

WORDS = {
    "number": NUMBER,
    "integer": INTEGER,
    "text": TEXT,
    "boolean": BOOLEAN,
    "time": replace(TEXT, note="a time"),
    "list": LIST,
    "map": MAP,
}
OR_NULL = " or null"


def _declared(value: object) -> ValueType:
    if isinstance(value, Unknown):
        return UNKNOWN
    if isinstance(value, Mapping) and value:
        return record_of({str(name): _declared(member) for name, member in value.items()})
    if isinstance(value, list) and len(value) == 1:
        return list_of(_declared(value[0]))
    if not isinstance(value, str):
        raise refused("has no type", "write a type, such as number, a mapping of fields, or [TYPE] for a list")
    word = value.removesuffix(OR_NULL)
    if word not in WORDS:
        raise refused(f"has {printable(word)}, which is not a type", did_you_mean(word, list(WORDS)))
    return nullable(WORDS[word]) if word != value else WORDS[word]


_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": f"^({'|'.join(WORDS)})({OR_NULL})?$"},
        {"type": "array", "minItems": 1, "maxItems": 1},
        {"type": "object", "minProperties": 1},
    ]
}
DeclaredField = Annotated[Any, BeforeValidator(_declared), WithJsonSchema(_SCHEMA)]
DeclaredFields = Annotated[dict[str, DeclaredField], unless_unknown(dict)]


def findings(file: "FileModel") -> Iterator[FileFinding]:
    """`fields` with a format that defines the fields itself."""
    for name, agent in file.agents.items():
        for at, reader in agent.readers.items():
            if reader.fields is not None and reader.format in (*SCHEMA_FORMATS, "raw"):
                path: Path = ("agents", name, *at, "fields")
                what = "raw records have none" if reader.format == "raw" else "the schema has the fields"
                needs = (path, (*path[:-1], "format"))
                yield FileFinding(path, f"is not for format: {reader.format}: {what}", "leave it out", needs)
