"""The `lookup` of an agent as the file writes it: its models and its problems."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from sluicegate.streams.agent import Lookup
from sluicegate.streams.config.sections import deadlines
from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import (
    REDIS,
    Duration,
    Expression,
    SizeField,
    Text,
    TopicField,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.text.problems import FileFinding, Path, printable
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import is_name, parse
from sluicegate.streams.expressions.scope import roots
from sluicegate.streams.hints import did_you_mean

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models import FileModel
    from sluicegate.streams.config.sections.models_agent import AgentModel

COLUMN = r"[A-Za-z_][A-Za-z0-9_$]*"
TABLE = rf"{COLUMN}(\.{COLUMN})?"
PLACEHOLDER = "{key}"
KINDS = ("table", "collection", "hash", "topic")
STORES: Mapping[str, tuple[str, ...]] = {
    "table": ("sqlite", "postgresql", "mysql", "mariadb", "memory"),
    "collection": ("mongodb", "mongodb+srv", "memory"),
    "hash": (*(scheme for scheme in REDIS if "cluster" not in scheme), "memory"),
}
"""The stores that have each kind of rows. The memory store has all of them, for tests. A topic is in Kafka."""
_IN_WORDS = {"table": "SQLite, PostgreSQL, MySQL or MariaDB", "collection": "MongoDB", "hash": "Redis without cluster"}
MOST_LOOKUPS = 8
RESERVED = ("message", "group")


class MissingRow(FilePart, frozen=True):
    """The fate of a record without a row. `wait` is the longest time that a record waits for its row."""

    then: Literal["null", "dead-letter", "wait"] = Field(
        default="null", description="What happens without a row.", examples=["null"]
    )
    wait: Duration = Field(
        default=0.0, description="The longest time that a record waits for its row.", examples=["30s"]
    )


def _as_missing(value: object) -> object:
    if isinstance(value, Unknown | MissingRow):
        return {} if isinstance(value, Unknown) else value
    if value is None or value in ("null", "dead-letter"):
        return {"then": value or "null"}
    if isinstance(value, dict) and [*value] == ["wait"]:
        return {"then": "wait", **value}
    raise refused("is not a rule for a row that is missing", "write null, dead-letter, or {wait: 30s}")


_WAIT_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["wait"],
    "properties": described(MissingRow, {"wait": {"type": "string"}}),
}
_MISSING_SCHEMA = {"anyOf": [{"enum": [None, "null", "dead-letter"]}, _WAIT_SCHEMA]}


def _as_columns(value: object) -> object:
    if value == [] or isinstance(value, str):
        raise refused("names no field of the row", "write the fields that it adds, such as [name, tier]")
    if isinstance(value, list) and (twice := [column for column in value if value.count(column) > 1]):
        raise refused(f"names {printable(str(twice[0]))} twice", "keep one of them")
    return value


_COLUMNS_SCHEMA = {"type": "array", "minItems": 1, "items": {"type": "string"}}


class LookupModel(FilePart, frozen=True):
    """A lookup. Exactly one of `table`, `collection`, `hash` and `topic` is the source of the row."""

    table: Text | None = Field(
        default=None, description="The table that has the row, as `TABLE` or `SCHEMA.TABLE`.", examples=["customers"]
    )
    collection: Text | None = Field(
        default=None, description="The collection of MongoDB that has the document.", examples=["customers"]
    )
    hash: Text | None = Field(
        default=None, description="The name of the Redis hash, with `{key}` for the key.", examples=["customer:{key}"]
    )
    topic: TopicField | None = Field(
        default=None,
        description="A compacted topic. The newest record of each key is a row, which every process keeps in memory.",
        examples=["items"],
    )
    column: Text | None = Field(
        default=None, description="The column or field that is compared with `key`.", examples=["id"]
    )
    key: Expression = Field(description="An expression whose answer names the row.", examples=["customer.id"])
    fields: Annotated[
        list[Text], BeforeValidator(_as_columns), unless_unknown(list), WithJsonSchema(_COLUMNS_SCHEMA)
    ] = Field(description="The fields of the row that are added.", examples=[["name", "tier"]])
    missing: Annotated[MissingRow, BeforeValidator(_as_missing), WithJsonSchema(_MISSING_SCHEMA)] = Field(
        default_factory=MissingRow,
        description="What happens without a row: its fields are `null`, a `dead-letter`, or the record waits.",
        examples=[{"wait": "30s"}],
        json_schema_extra={"default": "null"},
    )
    lock: Annotated[Literal["share"], unless_unknown("share")] | None = Field(
        default=None, description="`share` keeps the row unchanged until the commit.", examples=["share"]
    )
    max_rows: Annotated[int, Field(ge=1, le=100_000_000), unless_unknown(1)] = Field(
        default=1_000_000,
        description="The most rows of a topic that a process keeps. Beyond it the agent halts.",
        examples=[1_000_000],
    )
    max_table_bytes: SizeField = Field(
        default=256 * 1024 * 1024,
        description="The most memory that the rows of a topic may take in a process. Beyond it the agent halts.",
        examples=["256MiB"],
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if len([kind for kind in KINDS if getattr(self, kind) is not None]) != 1:
            hint = "write one of table: NAME, collection: NAME, hash: 'customer:{key}' and topic: NAME"
            raise refused("does not say where the row is, or says it twice", hint)
        return self

    @property
    def kind(self) -> Literal["table", "collection", "hash", "topic"]:
        if self.topic is not None:
            return "topic"
        return "table" if self.table is not None else "collection" if self.collection is not None else "hash"

    @property
    def source(self) -> str:
        return self.table or self.collection or self.hash or self.topic or ""


_UNKNOWN_LOOKUP = unless_unknown(lambda: LookupModel.model_construct(table="unknown", key="true", fields=[]))
LookupsField = Annotated[
    dict[str, Annotated[LookupModel, _UNKNOWN_LOOKUP]],
    Field(min_length=1, max_length=MOST_LOOKUPS),
    unless_unknown(dict),
]


def built(lookups: Mapping[str, LookupModel] | None) -> tuple[Lookup, ...]:
    return tuple(
        Lookup(
            name=name,
            kind=lookup.kind,
            source=lookup.source,
            key=lookup.key,
            fields=tuple(lookup.fields),
            column=lookup.column or "",
            missing=lookup.missing.then,
            wait=lookup.missing.wait,
            lock=lookup.lock is not None,
            max_rows=lookup.max_rows,
            max_table_bytes=lookup.max_table_bytes,
        )
        for name, lookup in (lookups or {}).items()
    )


def findings(file: "FileModel") -> Iterator[FileFinding]:
    for name, agent in file.agents.items():
        path: Path = ("agents", name, "lookup")
        if agent.lookup:
            yield from _of_agent(agent, path)
            yield from _named_before(agent, path)
            for lookup_name, lookup in agent.lookup.items():
                yield from _of_store(file, lookup, (*path, lookup_name))
                yield from _of_source(lookup, (*path, lookup_name))
                yield from _of_name(agent, lookup_name, (*path, lookup_name))
                yield from _of_key(agent, lookup, (*path, lookup_name))


def _of_agent(agent: "AgentModel", path: Path) -> Iterator[FileFinding]:
    """Keys that the agent must have, or cannot have, beside a lookup."""
    whole = path[:-1]
    apart = {
        "concurrency": (agent.concurrency, "concurrency: the call runs after the transaction that read the row"),
        "scope": (
            agent.scope == "shared",
            "scope: shared: a batch is completed after the transaction that read the row",
        ),
    }
    for name in [name for name, lookup in (agent.lookup or {}).items() if lookup.lock]:
        for key in [key for key, (wrong, _) in apart.items() if wrong]:
            at = (*path, name, "lock")
            what = f"has no meaning with {apart[key][1]}"
            yield FileFinding(at, what, "leave one of the two out", (at, (*whole, key)))
    if agent.aggregate is None and agent.format == "raw":
        needs = (path, (*whole, "format"), (*whole, "handler"), (*whole, "aggregate"))
        yield FileFinding(path, "needs fields, but raw records have none", "leave out lookup, or change format", needs)


def _of_store(file: "FileModel", lookup: LookupModel, path: Path) -> Iterator[FileFinding]:
    scheme = file.store.partition("://")[0]
    if lookup.kind != "topic" and scheme not in STORES[lookup.kind]:
        known = next((kind for kind, schemes in STORES.items() if scheme in schemes), None)
        hint = f"write {known}: NAME" if known else "a Redis cluster has no lookups: its rows lie on other servers"
        what = f"is of {_IN_WORDS[lookup.kind]}, but the store is {scheme}"
        yield FileFinding((*path, lookup.kind), what, hint, (("store",), (*path, lookup.kind)))
    if lookup.lock is not None and lookup.kind != "table":
        hint = "leave it out: the transaction of the store has its own promise"
        yield FileFinding((*path, "lock"), "is for tables", hint, (path,))
    for limit in ("max_rows", "max_table_bytes"):
        if lookup.kind != "topic" and limit in lookup.model_fields_set:
            yield FileFinding((*path, limit), "is for topics, which are kept in memory", "leave it out", (path,))


def _of_source(lookup: LookupModel, path: Path) -> Iterator[FileFinding]:
    if lookup.table is not None and not re.fullmatch(TABLE, lookup.table):
        yield FileFinding((*path, "table"), "is not the name of a table", "write TABLE, or SCHEMA.TABLE")
    if lookup.hash is not None and lookup.hash.count(PLACEHOLDER) != 1:
        hint = "write {key} once in it, as in hash: 'customer:{key}'"
        yield FileFinding((*path, "hash"), "does not say where the key stands", hint)
    without = {
        "hash": "does not apply to a hash: its name has the key",
        "topic": "is not for a topic, whose records have keys",
    }
    if lookup.kind in without and lookup.column is not None:
        yield FileFinding((*path, "column"), without[lookup.kind], "leave it out", (path,))
    if lookup.kind not in without and lookup.column is None:
        hint = "write the column that is compared with `key`, such as column: id"
        yield FileFinding((*path, "column"), "is missing", hint, (path,))
    for at, name in [("column", lookup.column or "id"), *(("fields", field) for field in lookup.fields)]:
        if (
            not re.fullmatch(COLUMN, name)
            if lookup.kind == "table"
            else not name or (name.startswith("$") and lookup.kind != "topic")
        ):
            yield FileFinding((*path, at), f"has {printable(name)}, which is not the name of a column", "correct it")
    if lookup.missing.then == "wait" and lookup.missing.wait <= 0:
        yield FileFinding((*path, "missing"), "has no time to wait for", "write {wait: 30s}")


def _of_name(agent: "AgentModel", name: str, path: Path) -> Iterator[FileFinding]:
    """The name becomes a field of the output, so nothing else may have it."""
    from sluicegate.streams.aggregation.results import REVISED
    from sluicegate.streams.config.sections.models_groups import RESERVED as FIXED

    fixed = (*RESERVED, *(FIXED if agent.aggregate is not None else ()))
    if agent.aggregate is not None and agent.aggregate.window is not None:
        fixed = (*fixed, "window")
    fixed = (*fixed, *(REVISED if agent.emit is not None else ()))
    taken: dict[str, Mapping[str, object]] = {
        "let": agent.let or {},
        "aggregate.compute": agent.aggregate.compute if agent.aggregate else {},
    }
    if agent.correlate is not None:
        taken = {"correlate.legs": agent.correlate.legs}
    if not is_name(name) or name in fixed:
        hint = "use letters, digits and _, beginning with a letter, and no word of the language"
        yield FileFinding(path, "is not a name that an expression can write", hint, (path,))
    for where in [where for where, names in taken.items() if name in names]:
        what = "has the name of a leg" if agent.correlate else f"has the name of a computed field ({where})"
        yield FileFinding(path, what, "give one of the two another name", (path, (*path[:2], where.partition(".")[0])))


def _of_key(agent: "AgentModel", lookup: LookupModel, path: Path) -> Iterator[FileFinding]:
    at = (*path, "key")
    try:
        names = roots(parse(str(lookup.key)))
    except ExpressionError as error:
        what, _, hint = error.problem.partition("; ")
        yield FileFinding(at, what, hint or "write a field, such as customer.id", (at,), error.column)
        return
    for name in sorted(names & {*(agent.lookup or {})}) if agent.forwards else ():
        hint = "give the lookup another name than the field"
        yield FileFinding(at, f"names {name}, which the row replaces in the message", hint, (at, path))
    if agent.aggregate is not None:
        from sluicegate.streams.aggregation.results import fixed_fields

        fixed = fixed_fields(agent.aggregate.window is not None, agent.emit is not None)
        known = [*fixed, *agent.aggregate.compute]
        for name in sorted(names - {*known}):
            needs = (at, (*path[:2], "aggregate"))
            yield FileFinding(at, f"names {name}, which is not a field of the result", did_you_mean(name, known), needs)


def _named_before(agent: "AgentModel", path: Path) -> Iterator[FileFinding]:
    """Expressions that name a lookup too early. A lookup adds to outputs, so nothing that is decided before the commit
    can name it. The legs of a correlation have fields of their own."""
    if agent.correlate is not None:
        return
    whole, rule = path[:-1], agent.aggregate
    texts: dict[Path, str | None] = {(*whole, "where"): agent.where}
    texts |= {(*whole, "let", own): text for own, text in (agent.let or {}).items()}
    fields: dict[Path, str | None] = {(*whole, "key"): agent.key.field if agent.key else None}
    if agent.forwards:  # it is re-keyed after the rows were added to the record
        del fields[*whole, "key"]
    fields[*whole, "dedupe", "id"] = agent.dedupe.id.field if agent.dedupe else None
    if rule is not None:
        until = (*whole, "aggregate", "until")
        texts[until], fields[until] = (rule.until, None) if isinstance(rule.until, str) else (None, None)
        fields |= {(*whole, "aggregate", "compute", name): reducer.field for name, reducer in rule.compute.items()}
        texts |= {(*whole, "aggregate", "timeout", name): text for name, text in deadlines.texts(rule.timeout)}
    named = {at: _roots(text) for at, text in texts.items() if text}
    named |= {at: {field.partition(".")[0]} for at, field in fields.items() if field}
    for at, names in named.items():
        for name in sorted(names & {*(agent.lookup or {})}):
            what = f"names the lookup {name}, whose row is read only when the result is written"
            hint = (
                "use it under to, or in having; to use it here, let another agent write the enriched records to a topic"
            )
            yield FileFinding(at, what, hint, (at, path))


def _roots(text: str) -> set[str]:
    try:
        return {*roots(parse(str(text)))}
    except ExpressionError:
        return set()
