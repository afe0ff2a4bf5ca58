"""Confluent's frame: a zero byte and a schema id of four bytes, or a one and a UUID, precede the value."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import msgspec

from sluicegate.schemas import registry
from sluicegate.schemas.codecs import Unavailable
from sluicegate.schemas.options import SchemaOptions
from sluicegate.schemas.registry import SchemaKey

T = TypeVar("T")
FRAME = struct.Struct(">bI")
LONG_FRAME = 17  # a one, and a UUID in place of the id


def id_of(value: bytes) -> int:
    """The schema id of a framed value. Raises msgspec.DecodeError."""
    if len(value) < FRAME.size or value[0] != 0:
        raise msgspec.DecodeError("has no Confluent frame: a zero byte and four bytes of schema id")
    id: int = FRAME.unpack_from(value)[1]
    return id


def id_and_end(value: bytes, options: SchemaOptions) -> tuple[SchemaKey, int]:
    """The schema id, and the offset at which the frame ends. A UUID comes from a header, and only a registry can
    resolve it. Raises msgspec.DecodeError."""
    if len(value) >= LONG_FRAME and value[0] == 1 and options.registry:
        return str(UUID(bytes=value[1:LONG_FRAME])), LONG_FRAME
    return id_of(value), FRAME.size


def check_id(id: SchemaKey, wanted: int | None) -> None:
    """Checks that the value has this schema id. Raises msgspec.DecodeError."""
    if wanted is not None and id != wanted:
        raise msgspec.DecodeError(f"was written with schema id {id}, not {wanted}")


def written_with(options: SchemaOptions, id: SchemaKey, suffix: str, read: Callable[[str], T]) -> T:
    """What `read` makes of the schema of the id. It raises ValueError for a text that is no schema. Raises
    msgspec.DecodeError and Unavailable."""
    what = f"was written with schema id {id}"
    text, where = _schema_and_origin(options, id, suffix, what)
    try:
        return read(text)
    except ValueError as error:
        raise msgspec.DecodeError(f"{what}, whose {where} {error}") from None


def _schema_and_origin(options: SchemaOptions, id: SchemaKey, suffix: str, what: str) -> tuple[str, str]:
    """The schema of the id, and its origin: the file of the id, or else the registry."""
    where = f"{id}{suffix}"
    if options.writers:
        try:
            return content(Path(options.writers, where), suffix), where
        except OSError:
            if not options.registry:
                raise msgspec.DecodeError(f"{what}, and there is no {where} in writer_schemas") from None
        except ValueError as error:
            raise msgspec.DecodeError(f"{what}, whose {where} {error}") from None
    try:
        return registry.table(options.registry).schema(id, options.kind), "schema in the registry"
    except registry.UnknownId as error:
        raise msgspec.DecodeError(f"{what}, which is not known: {error}") from None
    except Unavailable as error:
        raise Unavailable(f"{what}, and {error}") from None


def content(file: Path, suffix: str) -> str:
    """The text of a schema file; descriptors are in base64. Raises OSError and ValueError."""
    if suffix != ".desc":
        return file.read_text(encoding="utf-8")
    from base64 import b64encode

    return b64encode(file.read_bytes()).decode()


def frame(options: SchemaOptions) -> Callable[[], bytes]:
    """The frame of values. A registry is asked for the id when the first value is written."""
    if options.framing != "confluent":
        return lambda: b""
    if not (options.registry and options.subject):
        fixed = FRAME.pack(0, options.schema_id or 0)
        return lambda: fixed
    return lambda: FRAME.pack(0, registry.written_id(options))
