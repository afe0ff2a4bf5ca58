"""A reader's schema that is a version of a subject in a schema registry, such as `orders-value:3`.

It is asked for with the first record, so a worker that starts while the registry is down has it from the store. While
it is unknown, records wait: no record is at fault.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from sluicegate.schemas import registry
from sluicegate.schemas.codecs import Codec, Unavailable, UnusableSchema
from sluicegate.schemas.frames import content
from sluicegate.schemas.options import SchemaOptions


def later(name: str, options: SchemaOptions, suffix: str, compiled: Callable[[SchemaOptions], Codec]) -> Codec:
    """The codec of the format `name`, made when it is first used. All its functions raise Unavailable."""
    codecs: list[Codec] = []

    def made() -> Codec:
        if not codecs:
            schema = text(options, suffix)
            try:
                codecs.append(compiled(replace(options, schema=schema, pinned="")))
            except ValueError as error:
                raise UnusableSchema(f"the schema {options.pinned} {error}") from None
        return codecs[0]

    def only(names: Iterable[str] | None) -> Callable[[bytes], bytes]:
        known: list[Callable[[bytes], bytes]] = []
        wanted = None if names is None else frozenset(names)

        def text_of(value: bytes) -> bytes:
            if not known:
                known.append(_text(made(), wanted))
            return known[0](value)

        return text_of

    return Codec(
        name,
        lambda value: made().decode(value),
        lambda value: made().encode(value),
        msgspec.Raw,
        text=only(None),
        only=only,
    )


def _text(codec: Codec, names: frozenset[str] | None) -> Callable[[bytes], bytes]:
    schema = codec.text if names is None or codec.only is None else codec.only(names)
    assert schema is not None  # every format with a schema has it
    return schema


def text(options: SchemaOptions, suffix: str) -> str:
    """The schema: the file `SUBJECT.VERSION` of `writers`; without such a file, the registry's. Raises Unavailable."""
    if options.writers:
        try:
            return content(Path(options.writers, options.pinned.replace(":", ".") + suffix), suffix)
        except (OSError, ValueError):
            pass
    try:
        return registry.table(options.registry).schema(options.pinned, options.kind)
    except registry.UnknownId as error:
        raise Unavailable(f"the schema {options.pinned} is not known: {error}") from None
