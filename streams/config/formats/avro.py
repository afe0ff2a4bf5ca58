"""`format: avro`: schemas that are invalid, that do not fit each other, or that do not fit the results."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import Any

from sluicegate.schemas import SchemaOptions
from sluicegate.streams.config.text.document import Unreadable, read
from sluicegate.streams.config.text.problems import FileFinding, Path, printable


def installed() -> bool:
    """Whether both libraries are installed: one reads and writes, the other compares schemas."""
    return all(find_spec(name) is not None for name in ("fastavro", "avro"))


def findings(avro: SchemaOptions, path: Path) -> Iterator[FileFinding]:
    """Schemas that the stricter library rejects, and writers' schemas that cannot be resolved."""
    from sluicegate.schemas.avro_check import incompatible, strict

    for key, text in (("schema", avro.schema), ("writer_schema", avro.writer_schema)):
        if text and (why := strict(text)):
            yield FileFinding((*path, key), f"is not a valid schema: {printable(why)}", "correct the schema")
            return
    for why in incompatible(avro.schema, avro.writer_schema) if avro.writer_schema else ():
        hint = "give the field a default, or another type; or keep the schemas equal"
        yield FileFinding((*path, "writer_schema"), f"cannot be read with `schema`: {printable(why)}", hint)
    for file in sorted(FilePath(avro.writers).glob("*.avsc")) if avro.writers else ():
        for why in _misfits(avro.schema, file):
            what = f"{printable(file.name)} cannot be read with `schema`: {printable(why)}"
            yield FileFinding(
                (*path, "writer_schemas"), what, "correct that file, or `schema`; records of its id cannot be decoded"
            )


def _misfits(schema: str, file: FilePath) -> list[str]:
    from sluicegate.schemas.avro import parsed
    from sluicegate.schemas.avro_check import incompatible, strict

    try:
        parsed(text := read(file))
        why = strict(text)
        return [why] if why else list(incompatible(schema, text))
    except Unreadable as error:
        return [error.message]
    except ValueError as error:
        return [str(error)]


def fields(avro: SchemaOptions) -> dict[str, bool] | None:
    """The fields of the record, and whether each has a default. None: it is not a record, or not a schema."""
    from sluicegate.schemas.avro import parsed

    try:
        schema: Any = parsed(avro.schema)
    except ValueError:
        return None
    if not isinstance(schema, dict) or schema["type"] != "record":
        return None
    return {field["name"]: "default" in field for field in schema["fields"]}
