"""Schemas by the ids of a schema registry: a table of known schemas, and the client that gets the others.

A process has one table for each registry. `ask` is the registry's client. Until a command opens one, a table answers
from memory, as in the tests of a file.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from json import loads
from typing import NamedTuple, Protocol, TypeVar

from sluicegate.schemas.codecs import Unavailable
from sluicegate.schemas.options import SchemaOptions

PAUSE = 1.0  # seconds after an unanswered request in which no other one is made


T = TypeVar("T")
SchemaKey = int | str
"""A registry's id of a schema, its UUID as text, or `SUBJECT:VERSION`."""


class UnknownId(LookupError):
    """The registry has no schema with this id."""


class SubjectRefused(LookupError):
    """The registry refuses the schema under this subject, or does not have it. The text has the registry's words, and a
    remedy."""


class Asked(Protocol):
    """A registry. Both methods raise Unavailable while it does not answer."""

    def schema(self, id: SchemaKey, kind: str) -> str:
        """The schema, which must be of this `SchemaOptions.kind`. Raises UnknownId."""

    def id(self, subject: str, schema: str, register: bool, kind: str) -> int:
        """The id of the schema under the subject. With `register`, the schema is registered if necessary. Raises
        SubjectRefused."""


class KnownSchema(NamedTuple):
    """A schema with its id. `subject` is the subject under which it is written; empty if it was only read."""

    id: SchemaKey
    schema: str
    subject: str = ""


class InMemory:
    """The registry of a file's tests: it assigns ids, and knows only its own."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def schema(self, id: SchemaKey, kind: str) -> str:
        for schema, known_id in self._ids.items():
            if known_id == id:
                return schema
        raise UnknownId

    def id(self, subject: str, schema: str, register: bool, kind: str) -> int:
        return self._ids.setdefault(schema, 1_000_001 + len(self._ids))


class SchemaTable:
    """The known schemas of one registry. It only grows, because a registry never changes the schema of an id."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.ask: Asked = InMemory()
        self._clock = clock
        self._schemas: dict[SchemaKey, str] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._silent, self._why = -PAUSE, ""

    def __len__(self) -> int:
        return len(self._schemas) + len(self._ids)

    def __iter__(self) -> Iterator[KnownSchema]:
        yield from (KnownSchema(id, schema) for id, schema in self._schemas.items())
        yield from (KnownSchema(id, schema, subject) for (subject, schema), id in self._ids.items())

    def learn(self, known: Iterable[tuple[SchemaKey, str, str]]) -> None:
        """Adds schemas that another process knew."""
        for id, schema, subject in known:
            if subject and isinstance(id, int):
                self._ids[subject, schema] = id
            else:
                self._schemas[id] = schema

    def schema(self, id: SchemaKey, kind: str) -> str:
        """Raises UnknownId and Unavailable."""
        if id not in self._schemas:
            self._schemas[id] = self._asked(lambda: self.ask.schema(id, kind))
        return self._schemas[id]

    def id(self, subject: str, schema: str, register: bool, kind: str) -> int:
        """Raises SubjectRefused and Unavailable."""
        if (subject, schema) not in self._ids:
            self._ids[subject, schema] = self._asked(lambda: self.ask.id(subject, schema, register, kind))
        return self._ids[subject, schema]

    def _asked(self, request: Callable[[], T]) -> T:
        """After an unanswered request, requests within PAUSE fail at once, so that a silent registry does not hold up a
        worker."""
        if self._clock() < self._silent + PAUSE:
            raise Unavailable(self._why)
        try:
            return request()
        except Unavailable as error:
            self._silent, self._why = self._clock(), str(error)
            raise


@cache
def table(name: str) -> SchemaTable:
    """The table of this process for the registry of this name (`SchemaOptions.registry`)."""
    return SchemaTable()


def written_id(options: SchemaOptions) -> int:
    """The id of the schema under its subject. Raises SubjectRefused and Unavailable."""
    return table(options.registry).id(subject_of(options), options.schema, options.register, options.kind)


def subject_of(options: SchemaOptions) -> str:
    """The subject under which values are written."""
    if "{record}" not in options.subject:
        return options.subject
    return options.subject.replace("{record}", _record(options))


def _record(options: SchemaOptions) -> str:
    """The full name of the record; the title of a JSON Schema."""
    if options.kind == "PROTOBUF":
        from sluicegate.schemas.protobuf_schema import message

        return str(message(options.schema, options.message).full_name)
    schema = loads(options.schema)
    if options.kind == "JSON":
        return str(schema.get("title", ""))
    name, space = (str(schema.get(key) or "") for key in ("name", "namespace"))
    return name if "." in name or not space else f"{space}.{name}"
