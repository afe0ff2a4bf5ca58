"""`format: json-schema`: invalid schemas, and results that lack fields which their schema requires."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path as FilePath

from sluicegate.schemas import SchemaOptions
from sluicegate.streams.config.text.document import Unreadable, read
from sluicegate.streams.config.text.problems import FileFinding, Path, printable


def installed() -> bool:
    """Whether the libraries that `validate` needs are installed."""
    return all(find_spec(name) is not None for name in ("jsonschema", "re2"))


def findings(options: SchemaOptions, path: Path) -> Iterator[FileFinding]:
    """A schema that is written by its id but missing; invalid files of `writer_schemas`."""
    from sluicegate.schemas.json_schema import parsed, validator

    if options.subject and not options.schema:
        yield FileFinding(path, "format json-schema has no schema", "write schema: FILE.json")
    judge = validator if options.validate else parsed
    for file in sorted(FilePath(options.writers).glob("*.json")) if options.writers else ():
        try:
            judge(read(file))
        except (Unreadable, ValueError) as error:
            what = f"{printable(file.name)} {printable(str(error))}"
            hint = "correct that file; records of its id cannot be decoded"
            yield FileFinding((*path, "writer_schemas"), what, hint)


def fields(options: SchemaOptions) -> dict[str, bool] | None:
    """The properties of an object that allows no others, and whether each may be left out."""
    from sluicegate.schemas.json_schema import parsed

    schema = parsed(options.schema) if options.schema else None
    if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
        return None
    properties = schema.get("properties")
    return (
        {name: name not in schema.get("required", ()) for name in properties} if isinstance(properties, dict) else None
    )
