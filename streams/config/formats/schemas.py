"""Formats with schemas in the file: their schema files, the schemas that agents of the file take from each other, and
their problems. The parts of one format are in its own module, which `ROOMS` names."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from typing import NamedTuple, TypeGuard

from sluicegate.schemas import Codec, SchemaOptions
from sluicegate.schemas.codecs import SCHEMA_FORMATS
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Destination
from sluicegate.streams.aggregation.results import fixed_fields
from sluicegate.streams.aggregation.selected_schema import selected_schema
from sluicegate.streams.config.formats import avro, json_schema, protobuf
from sluicegate.streams.config.sections import registry
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_topics import DestinationModel
from sluicegate.streams.config.sections.reading import ReadModel
from sluicegate.streams.config.text.document import Unreadable, read
from sluicegate.streams.config.text.problems import FileFinding, Path, printable
from sluicegate.streams.topic_names import plain, several

KEYS = {name: name for name in ("writer_schema", "writer_schemas", "framing", "schema_id", "subject")}
KEYS |= {"schema": "schema_", "register": "register_", "message": "message", "validate": "validate_"}


class Room(NamedTuple):
    """A format: its keys besides those of every format, whether its library is installed, the text of a schema file,
    and the problems of readable schemas. `fields` are the fields of a record, and whether each may be left out; None:
    unknown."""

    keys: tuple[str, ...]
    installed: Callable[[], bool]
    read: Callable[[FilePath], str]
    findings: Callable[[SchemaOptions, Path], Iterator[FileFinding]]
    fields: Callable[[SchemaOptions], dict[str, bool] | None]


ROOMS = {
    "avro": Room(("writer_schema", "writer_schemas"), avro.installed, read, avro.findings, avro.fields),
    "protobuf": Room(
        ("message", "writer_schemas"), protobuf.installed, protobuf.read, protobuf.findings, protobuf.fields
    ),
    "json-schema": Room(
        ("validate", "writer_schemas"), json_schema.installed, read, json_schema.findings, json_schema.fields
    ),
}
_OF_INPUTS = ("writer_schema", "writer_schemas")
_OF_ALL = ("schema", "framing", "schema_id", "subject", "register")
Unreadability = Callable[[FilePath, str, str], str | None]


def findings(file: FileModel, folder: FilePath, unreadable: Unreadability) -> Iterator[FileFinding]:
    """The problems of single keys, and schema files that cannot be read."""
    for name, agent in file.agents.items():
        path: Path = ("agents", name)
        if lacking := list(_not_installed(agent, path)):
            yield lacking[0]
            continue
        has_registry = file.schema_registry is not None
        for at, read_by in agent.readers.items():
            yield from _of(read_by, (*path, *at), folder, unreadable, has_registry)
            if has_registry and read_by.framing == "confluent":
                yield from _of_registry(read_by, (*path, *at))
        for at, to in agent.outputs.items():
            yield from _of(to, (*path, *at), folder, unreadable, has_registry)
            yield from _of_output(to, (*path, *at), has_registry)


def _not_installed(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    models: dict[Path, ReadModel | DestinationModel] = {**agent.readers, **agent.outputs}
    for at, model in models.items():
        room, form = ROOMS.get(model.format), (*path, *at, "format")
        validates = model.format != "json-schema" or model.validate_
        if room is not None and validates and not room.installed():
            what = f"{SCHEMA_FORMATS[model.format].library} is not installed"
            yield FileFinding(form, what, f'pip install "sluicegate[{model.format}]"', (form,))


def _of_output(to: DestinationModel, path: Path, asked: bool) -> Iterator[FileFinding]:
    needs = ((*path, "framing"), (*path, "schema_id"), registry.AT)
    if to.framing == "confluent" and to.schema_id is None and not asked:
        hint = "write schema_id: NUMBER beside it, or schema_registry: {url: URL} in the file"
        yield FileFinding(needs[0], "needs schema_id: the id of the schema in the registry", hint, needs)
    for key in [key for key in ("subject", "register") if getattr(to, KEYS[key]) is not None]:
        at = (*path, key)
        if not asked or to.framing != "confluent":
            hint = "write schema_registry: {url: URL} in the file, and framing: confluent beside it, or leave it out"
            yield FileFinding(at, "has no meaning without a schema registry", hint, (at, *needs))
        elif to.schema_id is not None:
            yield FileFinding(at, "excludes schema_id", "keep one of them", (at, *needs))


def _of_registry(agent: ReadModel, path: Path) -> Iterator[FileFinding]:
    """Keys that cannot be combined with a registry."""
    if agent.writer_schema is not None:
        at = (*path, "writer_schema")
        yield FileFinding(
            at, "excludes schema_registry, which has the writer's schema", "leave it out", (at, registry.AT)
        )
    if isinstance(agent, AgentModel) and agent.scope == "shared":
        at = (*path, "scope")
        what = "cannot be shared with a schema registry: another worker could lack the schema of a record"
        yield FileFinding(at, what, "write scope: partition", (at, registry.AT))


def _of(
    model: ReadModel | DestinationModel, path: Path, folder: FilePath, unreadable: Unreadability, asked: bool
) -> Iterator[FileFinding]:
    written = {key: value for key, field in KEYS.items() if (value := getattr(model, field, None)) is not None}
    room = ROOMS.get(model.format)
    own = () if room is None else (*_OF_ALL, *room.keys)
    for key in [key for key in written if key not in own]:
        other = next(name for name, room in ROOMS.items() if key in (*_OF_ALL, *room.keys))
        what, needs = f"belongs to format: {other}, but the format is {model.format}", ((*path, key), (*path, "format"))
        yield FileFinding((*path, key), what, f"write format: {other}, or leave it out", needs)
    if room is None:
        return
    form = SCHEMA_FORMATS[model.format].file
    if version_of(model) is not None:
        yield from _of_version(model, path, asked)
        written.pop("schema")
    for key in ("schema", "writer_schema"):
        if key in written and (why := unreadable(folder, str(written[key]), model.format)):
            yield FileFinding(
                (*path, key), why, f"name a schema file ({form}), relative to the folder of this file", ((*path, key),)
            )
    if "writer_schemas" in written:
        yield from _of_writers(written, path, folder, asked, form)
    for key, other in (("writer_schema", "schema"), ("schema_id", "framing")):
        if key in written and other not in written:
            yield FileFinding(
                (*path, key),
                f"has no meaning without {other}",
                f"add {other}, or leave it out",
                ((*path, key), (*path, other)),
            )


def version_of(model: ReadModel | DestinationModel) -> str | None:
    """`SUBJECT:VERSION` or `SUBJECT:latest` if `schema` is one; None: it is a file."""
    name = model.schema_
    return name if name is not None and re.fullmatch(r".+:([1-9][0-9]*|latest)", name) else None


def _of_version(model: ReadModel | DestinationModel, path: Path, asked: bool) -> Iterator[FileFinding]:
    at, needs = (*path, "schema"), ((*path, "schema"), (*path, "framing"), registry.AT)
    if isinstance(model, DestinationModel):
        yield FileFinding(at, "is a version of a subject, but is to be written", "name a schema file", (at,))
    elif not asked or model.framing != "confluent":
        hint = "write schema_registry: {url: URL} in the file and framing: confluent beside it, or name a schema file"
        yield FileFinding(at, "is a version of a subject, which only a schema registry has", hint, needs)


def _of_writers(
    written: dict[str, object], path: Path, folder: FilePath, asked: bool, form: str
) -> Iterator[FileFinding]:
    at = (*path, "writer_schemas")
    if not (folder / str(written["writer_schemas"])).is_dir():
        yield FileFinding(
            at,
            "is not a folder",
            f"name the folder of the schema files (ID{form}), relative to the folder of this file",
            (at,),
        )
    # JSON is read without a schema, and a registry has one for each topic.
    wanted = () if asked or form == ".json" else ("schema", "schema_id")
    for key in [key for key in wanted if key not in written] + ["framing"] * (written.get("framing") != "confluent"):
        hint = {"schema_id": "write schema_id: NUMBER, the id of `schema`", "framing": "write framing: confluent"}
        yield FileFinding(
            at,
            f"needs {key}",
            hint.get(key, f"write schema: FILE{form}, what all records are read as"),
            (at, (*path, key)),
        )
    if "writer_schema" in written:
        yield FileFinding(at, "excludes writer_schema", "keep one of them", (at, (*path, "writer_schema")))


def unreadable(folder: FilePath, name: str, form: str = "avro") -> str | None:
    """The reason why this file cannot be read; None: it can."""
    try:
        ROOMS[form].read(folder / name)
    except Unreadable as error:
        return error.message
    return None


def schema_options(model: ReadModel | DestinationModel, folder: FilePath, asked: str = "") -> SchemaOptions | None:
    """The schema of the file. Without a schema file: None, or (with a frame, and for JSON) an empty schema."""
    room = ROOMS.get(model.format)
    if room is None or (model.schema_ is None and model.framing is None and model.format != "json-schema"):
        return None
    writer = getattr(model, "writer_schema", None)
    writers = getattr(model, "writer_schemas", None)
    known = None if writers is None else str((folder / writers).absolute())
    version = version_of(model)
    options = SchemaOptions(
        _text(room, folder, None if version else model.schema_) or "",
        _text(room, folder, writer),
        model.framing or "none",
        model.schema_id,
        known,
    )
    own = {name: value for name in room.keys if name not in _OF_INPUTS and (value := getattr(model, KEYS[name]))}
    options = replace(options, kind=SCHEMA_FORMATS[model.format].kind, **own)
    if not asked or options.framing != "confluent":
        return options
    if isinstance(model, ReadModel):
        return _pinned(replace(options, registry=asked), version or "")
    if model.schema_id is not None:
        return options
    subject = registry.SUBJECTS[model.subject or "topic"].replace("{topic}", plain(model.topic))
    return replace(options, registry=asked, subject=subject, register=bool(model.register_))


def _pinned(options: SchemaOptions, version: str) -> SchemaOptions:
    return replace(options, pinned=version, latest=version.endswith(":latest"))


def _text(room: Room, folder: FilePath, name: str | None) -> str | None:
    """The text of the file. Empty when it cannot be read: that is a finding already, or depends on an unset
    variable."""
    if name is None:
        return None
    try:
        return room.read(folder / name)
    except Unreadable:
        return ""


def connected(agents: tuple[Agent, ...]) -> tuple[Agent, ...]:
    """The agents with the schemas that need no file: schemas of results, and of inputs that other agents of the file
    write."""
    for _ in agents:
        agents = tuple(_with_results(_with_input(agent, agents)) for agent in agents)
    return agents


def _with_results(agent: Agent) -> Agent:
    if agent.format == "avro" and agent.schema is None:
        return agent
    to = None if agent.to is None else _derived(agent, agent.to)
    return replace(agent, to=to, routes=tuple(_derived(agent, route) for route in agent.routes))


def _derived(agent: Agent, to: Destination) -> Destination:
    """The output with the schema that follows from the agent, if the file names none."""
    if to.format != "avro" or (to.schema is not None and to.schema.schema):
        return to
    try:
        return replace(to, schema=_own(agent, to))
    except (ValueError, ImportError):
        return to


def _own(agent: Agent, to: Destination) -> SchemaOptions | None:
    """The schema of the output. Raises ValueError."""
    if to.select and not (to.schema is not None and to.schema.schema):
        return replace(to.schema or SchemaOptions(""), schema=selected_schema(agent, to))
    return formats.destination(replace(agent, to=to))


def _with_input(agent: Agent, agents: tuple[Agent, ...]) -> Agent:
    """The agent with the schemas under which agents of the file write its inputs. Its own schema is then the reader's
    schema."""
    own = agent.schema
    if _asks_for_schema(own):
        return _with_registered(agent, own, agents)
    known = own is not None and (own.writer_schema is not None or own.writers is not None or own.registry)
    if agent.format not in ROOMS or known:
        return agent
    written = {known for topic in agent.topics for known in _writer_schemas(topic, agents)}
    first = written.pop() if len(written) == 1 else None
    if first is None or (own is not None and first.kind != own.kind):
        return agent
    if own is None or own.schema in ("", first.schema):
        return replace(agent, schema=first)
    return replace(agent, schema=replace(own, writer_schema=first.schema)) if agent.format == "avro" else agent


def _asks_for_schema(own: SchemaOptions | None) -> TypeGuard[SchemaOptions]:
    """Whether records are read by their schema ids and no key gives the reader's schema."""
    return own is not None and own.registry != "" and own.kind != "JSON" and not (own.schema or own.pinned)


def _with_registered(agent: Agent, own: SchemaOptions, agents: tuple[Agent, ...]) -> Agent:
    """The agent with the schema that agents of the file write, or with the newest schema of the topic's subject."""
    written = {known for topic in agent.topics for known in _writer_schemas(topic, agents)}
    first = written.pop() if len(written) == 1 else own
    if first is None and not several(agent.topics):
        return replace(agent, schema=_pinned(own, f"{agent.topics[0]}-value:latest"))
    if first is None or first.kind != own.kind:
        return agent
    message = own.message or first.message
    read = replace(own, schema=first.schema, pinned=first.pinned, latest=first.latest, message=message)
    return replace(agent, schema=read)


def _writer_schemas(topic: str, agents: tuple[Agent, ...]) -> list[SchemaOptions | None]:
    """The schemas under which agents of the file write this topic; [None] where none does. A re-keyed or forwarded
    record keeps its schema."""
    writers = [(agent, to) for agent in agents for to in agent.outputs if to.topic == topic]
    passed_on = [agent.rekeys or agent.forwards_unchanged(to) for agent, to in writers]
    return [agent.schema if same else to.schema for same, (agent, to) in zip(passed_on, writers, strict=True)] or [None]


def judged(agent: Agent, path: Path) -> Iterator[FileFinding]:
    """The problems of schemas that are invalid or that do not fit each other."""
    if _asks_for_schema(agent.schema):
        what = "format of several topics has no schema, and each topic has a subject of its own"
        yield FileFinding(path, what, "write schema: FILE or schema: SUBJECT:latest")
    elif agent.format in ROOMS and (agent.leg or agent.keeps_rows or not agent.rekeys):
        yield from _compiled(lambda: formats.of_records(agent), agent.format, agent.schema, path)
    for number, to in enumerate(agent.outputs):
        if to.format in ROOMS and not agent.forwards_unchanged(to):
            place = (*path, "to", number) if agent.routes else (*path, "to")
            yield from _compiled(partial(_writes, agent, to), to.format, to.schema, place)
            if to.schema is not None and (agent.handler is None or to.select):
                yield from _fits(agent, to, (*place, "schema"))


def _writes(agent: Agent, to: Destination) -> Codec:
    """The codec of the output. Raises ValueError."""
    own = _own(agent, to) if to.format == "avro" else to.schema
    return formats.writes(replace(agent, to=replace(to, schema=own)))


def _of_whole(agent: Agent) -> set[str] | None:
    """The fields of a whole result, or of a whole forwarded record, if a schema names them. None: unknown."""
    rows = {lookup.name for lookup in agent.lookups}
    if agent.forwards:
        known = None if agent.schema is None or agent.events else ROOMS[agent.format].fields(agent.schema)
        return None if known is None else {*known} | rows
    rule = agent.aggregation
    compute, emits = ((), False) if rule is None else (rule.compute, rule.emit is not None)
    return {*fixed_fields(agent.windowed, emits), *(reducer.name for reducer in compute)} | rows


def _compiled(
    make: Callable[[], object], form: str, options: SchemaOptions | None, path: Path
) -> Iterator[FileFinding]:
    try:
        make()
    except ValueError as error:
        what, _, hint = printable(str(error)).partition("; ")
        yield FileFinding((*path, "schema") if options is not None else path, what, hint or "correct the schema")
        return
    if options is not None and not options.pinned:
        yield from ROOMS[form].findings(options, path)


def _fits(agent: Agent, to: Destination, path: Path) -> Iterator[FileFinding]:
    """The problems of a result, a record, or selected fields that do not fit the user's schema."""
    has = None if to.schema is None else ROOMS[to.format].fields(to.schema)
    made = {field.name for field in to.select} or _of_whole(agent)
    if has is None or made is None:
        return
    unknown = sorted({name for name, free in has.items() if not free} - made)
    hint = "correct it"
    if to.format == "avro" and not agent.forwards:
        hint += ", or leave `schema` out: check --json shows the schema that is then made"
    whole = "record" if agent.forwards else "result"
    lacking, foreign = f"fields of the {whole}", f"no {whole} has"
    if to.select:
        lacking, foreign = "selected fields", "`select` does not name"
    if lacks := sorted(made - {*has} - {"key_base64"}):
        yield FileFinding(path, f"lacks {', '.join(lacks)}: {lacking}", hint)
    if unknown:
        yield FileFinding(path, f"has {', '.join(unknown)} without a default, which {foreign}", hint)
