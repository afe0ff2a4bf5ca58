"""`format: avro` in the file: its schema files, the schemas that agents of the file take from each other, and the
problems with them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import Any

from sluicegate.schemas import Avro
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.config import registry
from sluicegate.streams.config.document import Unreadable, read
from sluicegate.streams.config.models import AgentModel, DestinationModel, FileModel
from sluicegate.streams.config.problems import FileFinding, Path, printable

KEYS = {name: name for name in ("writer_schema", "writer_schemas", "framing", "schema_id", "subject")}
KEYS |= {"schema": "schema_", "register": "register_"}
Unreadability = Callable[[FilePath, str], str | None]
FIXED = ("key", "key_base64", "count", "reason", "opened_at", "closed_at")


def findings(file: FileModel, folder: FilePath, unreadable: Unreadability) -> Iterator[FileFinding]:
    """The problems of single keys, and schema files that cannot be read."""
    for name, agent in file.agents.items():
        path: Path = ("agents", name)
        form: Path = (*path, "format") if agent.format == "avro" else (*path, "to", "format")
        if "avro" in (agent.format, *(to.format for to in agent.outputs.values())) and not installed():
            yield FileFinding(form, "the Avro library is not installed", 'pip install "sluicegate[avro]"', (form,))
            continue
        asked = file.schema_registry is not None
        yield from _of(agent, path, folder, unreadable, asked)
        if asked and agent.framing == "confluent":
            yield from _of_registry(agent, path)
        for at, to in agent.outputs.items():
            yield from _of(to, (*path, *at), folder, unreadable, asked)
            yield from _of_output(to, (*path, *at), asked)


def installed() -> bool:
    """Whether both libraries are installed: the one that reads and writes, and the one that compares schemas."""
    return all(find_spec(name) is not None for name in ("fastavro", "avro"))


def _of_output(to: DestinationModel, path: Path, asked: bool) -> Iterator[FileFinding]:
    needs = ((*path, "framing"), (*path, "schema_id"), registry.AT)
    if to.framing == "confluent" and to.schema_id is None and not asked:
        hint = "write schema_id: NUMBER beside it, or schema_registry: {url: URL} in the file"
        yield FileFinding(needs[0], "needs schema_id: what the registry calls the schema", hint, needs)
    for key in [key for key in ("subject", "register") if getattr(to, KEYS[key]) is not None]:
        at = (*path, key)
        if not asked or to.framing != "confluent":
            hint = "write schema_registry: {url: URL} in the file, and framing: confluent beside it, or leave it out"
            yield FileFinding(at, "has no meaning without a schema registry", hint, (at, *needs))
        elif to.schema_id is not None:
            yield FileFinding(at, "excludes schema_id", "keep one of them", (at, *needs))


def _of_registry(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """What a registry does not serve."""
    if agent.writer_schema is not None:
        at = (*path, "writer_schema")
        yield FileFinding(at, "excludes schema_registry, which knows it", "leave it out", (at, registry.AT))
    if agent.scope == "shared":
        at = (*path, "scope")
        what = "cannot be shared with a schema registry: another worker could lack the schema of a record"
        yield FileFinding(at, what, "write scope: partition", (at, registry.AT))


def _of(
    model: AgentModel | DestinationModel, path: Path, folder: FilePath, unreadable: Unreadability, asked: bool
) -> Iterator[FileFinding]:
    given = {key: value for key, field in KEYS.items() if (value := getattr(model, field, None)) is not None}
    if model.format != "avro":
        for key in given:
            what, needs = (
                f"belongs to format: avro, but the format is {model.format}",
                ((*path, key), (*path, "format")),
            )
            yield FileFinding((*path, key), what, "write format: avro, or leave it out", needs)
        return
    for key in ("schema", "writer_schema"):
        if key in given and (why := unreadable(folder, str(given[key]))):
            yield FileFinding(
                (*path, key), why, "name a schema file (.avsc), relative to the folder of this file", ((*path, key),)
            )
    if "writer_schemas" in given:
        yield from _of_writers(given, path, folder, asked)
    for key, other in (("writer_schema", "schema"), ("schema_id", "framing")):
        if key in given and other not in given:
            yield FileFinding(
                (*path, key),
                f"has no meaning without {other}",
                f"add {other}, or leave it out",
                ((*path, key), (*path, other)),
            )


def _of_writers(given: dict[str, object], path: Path, folder: FilePath, asked: bool) -> Iterator[FileFinding]:
    at = (*path, "writer_schemas")
    if not (folder / str(given["writer_schemas"])).is_dir():
        yield FileFinding(
            at,
            "is no folder",
            "name the folder of the schema files (ID.avsc), relative to the folder of this file",
            (at,),
        )
    wanted = ("schema",) if asked else ("schema", "schema_id")
    for key in [key for key in wanted if key not in given] + ["framing"] * (given.get("framing") != "confluent"):
        hint = {"schema_id": "write schema_id: NUMBER, the id of `schema`", "framing": "write framing: confluent"}
        yield FileFinding(
            at,
            f"needs {key}",
            hint.get(key, "write schema: FILE.avsc, what all records are read as"),
            (at, (*path, key)),
        )
    if "writer_schema" in given:
        yield FileFinding(at, "excludes writer_schema", "keep one of them", (at, (*path, "writer_schema")))


def unreadable(folder: FilePath, name: str) -> str | None:
    """Why this file cannot be read. None when it can."""
    try:
        read(folder / name)
    except Unreadable as error:
        return error.message
    return None


def given(model: AgentModel | DestinationModel, folder: FilePath, asked: str = "") -> Avro | None:
    """The schema as the file gives it. Without a schema file: None, or (for an output with a frame) an empty schema."""
    if model.format != "avro" or (model.schema_ is None and model.framing is None):
        return None
    writer = getattr(model, "writer_schema", None)
    writers = getattr(model, "writer_schemas", None)
    known = None if writers is None else str((folder / writers).absolute())
    found = Avro(
        _text(folder, model.schema_) or "", _text(folder, writer), model.framing or "none", model.schema_id, known
    )
    if not asked or found.framing != "confluent":
        return found
    if isinstance(model, AgentModel):
        return replace(found, registry=asked)
    if model.schema_id is not None:
        return found
    subject = registry.SUBJECTS[model.subject or "topic"].replace("{topic}", model.topic)
    return replace(found, registry=asked, subject=subject, register=bool(model.register_))


def _text(folder: FilePath, name: str | None) -> str | None:
    """The text of the file. Empty when it cannot be read: that is a finding already, or depends on an unset
    variable."""
    if name is None:
        return None
    try:
        return read(folder / name)
    except Unreadable:
        return ""


def connected(agents: tuple[Agent, ...]) -> tuple[Agent, ...]:
    """The agents with the schemas that need no file: those of results, and of inputs that other agents of the file
    write."""
    for _ in agents:
        agents = tuple(_with_results(_with_input(agent, agents)) for agent in agents)
    return agents


def _with_results(agent: Agent) -> Agent:
    if agent.to is None or agent.to.format != "avro" or (agent.to.avro is not None and agent.to.avro.schema):
        return agent
    if agent.format == "avro" and agent.avro is None:
        return agent
    try:
        return replace(agent, to=replace(agent.to, avro=formats.destination(agent)))
    except (ValueError, ImportError):
        return agent


def _with_input(agent: Agent, agents: tuple[Agent, ...]) -> Agent:
    """What agents of the file write is read as they write it; the agent's own schema is then the one it is read
    with."""
    own = agent.avro
    known = own is not None and (own.writer_schema is not None or own.writers is not None or own.registry)
    if agent.format != "avro" or known:
        return agent
    written = {known for topic in agent.topics for known in _written(topic, agents)}
    first = written.pop() if len(written) == 1 else None
    if first is None:
        return agent
    if own is None or own.schema in ("", first.schema):
        return replace(agent, avro=first)
    return replace(agent, avro=replace(own, writer_schema=first.schema))


def _written(topic: str, agents: tuple[Agent, ...]) -> list[Avro | None]:
    """How agents of the file write this topic; [None] where none does. What is re-keyed or forwarded is as it was
    read."""
    writers = [(agent, to) for agent in agents for to in agent.outputs if to.topic == topic]
    passed_on = [agent.rekeys or agent.forwards_unchanged(to) for agent, to in writers]
    return [agent.avro if same else to.avro for same, (agent, to) in zip(passed_on, writers, strict=True)] or [None]


def judged(agent: Agent, path: Path) -> Iterator[FileFinding]:
    """The problems of schemas that are invalid or that do not fit each other."""
    if agent.format == "avro" and not agent.rekeys:
        yield from _compiled(lambda: formats.reads(agent), agent.avro, path, (*path, "schema"))
    if agent.to is not None and agent.to.format == "avro":
        to = (*path, "to")
        yield from _compiled(lambda: formats.writes(agent), agent.to.avro, to, (*to, "schema"))
        if agent.to.avro is not None and agent.handler is None:
            yield from _result(agent, agent.to.avro, (*to, "schema"))


def _compiled(make: Callable[[], object], avro: Avro | None, path: Path, at: Path) -> Iterator[FileFinding]:
    try:
        make()
    except ValueError as error:
        what, _, hint = printable(str(error)).partition("; ")
        yield FileFinding(at if avro is not None else path, what, hint or "correct the schema")
        return
    if avro is not None:
        from sluicegate.schemas.avro_check import incompatible, strict

        for key, text in (("schema", avro.schema), ("writer_schema", avro.writer_schema)):
            if text and (why := strict(text)):
                yield FileFinding((*path, key), f"is no valid schema: {printable(why)}", "correct the schema")
                return
        for why in incompatible(avro.schema, avro.writer_schema) if avro.writer_schema else ():
            hint = "give the field a default, or another type; or keep the schemas equal"
            yield FileFinding((*path, "writer_schema"), f"cannot be read with `schema`: {printable(why)}", hint)
        for file in sorted(FilePath(avro.writers).glob("*.avsc")) if avro.writers else ():
            for why in _misfits(avro.schema, file):
                what = f"{printable(file.name)} cannot be read with `schema`: {printable(why)}"
                yield FileFinding(
                    (*path, "writer_schemas"),
                    what,
                    "correct that file, or `schema`; records of its id cannot be decoded",
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


def _result(agent: Agent, avro: Avro, path: Path) -> Iterator[FileFinding]:
    """Whether a result fits into the user's schema."""
    from sluicegate.schemas.avro import parsed

    try:
        schema: Any = parsed(avro.schema)
    except ValueError:
        return
    if agent.aggregation is None or not isinstance(schema, dict) or schema["type"] != "record":
        return
    made = {*FIXED, *(reducer.name for reducer in agent.aggregation.compute)}
    has = {field["name"] for field in schema["fields"]}
    unknown = sorted({field["name"] for field in schema["fields"] if "default" not in field} - made)
    hint = "correct it, or leave `schema` out: check --json shows the schema that is then made"
    if lacks := sorted(made - has - {"key_base64"}):
        yield FileFinding(path, f"lacks {', '.join(lacks)}: fields of the result", hint)
    if unknown:
        yield FileFinding(path, f"has {', '.join(unknown)} without a default, which no result has", hint)
