"""`format: protobuf`: sets of file descriptors, and messages that do not fit the results."""

from base64 import b64encode
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path as FilePath

from sluicegate.schemas import SchemaOptions
from sluicegate.streams.config.text.document import Unreadable
from sluicegate.streams.config.text.problems import FileFinding, Path, printable


def installed() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


def read(file: FilePath) -> str:
    """The set of file descriptors, in base64. Raises Unreadable."""
    try:
        return b64encode(file.read_bytes()).decode()
    except OSError as error:
        raise Unreadable(f"cannot be read ({type(error).__name__})", "correct the name, or the permissions") from None


def findings(options: SchemaOptions, path: Path) -> Iterator[FileFinding]:
    """Invalid files of `writer_schemas`."""
    from sluicegate.schemas.protobuf_schema import names

    for file in sorted(FilePath(options.writers).glob("*.desc")) if options.writers else ():
        try:
            names(read(file))
        except (Unreadable, ValueError) as error:
            what = f"{printable(file.name)} {printable(str(error)).partition('; ')[0]}"
            hint = "correct that file; records of its id cannot be decoded"
            yield FileFinding((*path, "writer_schemas"), what, hint)


def fields(options: SchemaOptions) -> dict[str, bool] | None:
    """The fields of the message; only those of proto2 may be required."""
    from sluicegate.schemas.protobuf_schema import message

    try:
        descriptor = message(options.schema, options.message)
    except ValueError:
        return None
    return {field.name: not field.is_required for field in descriptor.fields}
