"""Finds registered versions of an agent's schema that lack a field which the agent uses."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sluicegate.schemas import SchemaOptions
from sluicegate.schemas.codecs import SCHEMA_FORMATS
from sluicegate.schemas.registry import UnknownId
from sluicegate.streams.agent import Agent, Until
from sluicegate.streams.cli.terminal.finding import SystemFinding
from sluicegate.streams.config.checking.typed import judged_agent
from sluicegate.streams.config.formats.schemas import ROOMS
from sluicegate.streams.config.text.problems import dotted
from sluicegate.streams.contracts.registry import SchemaRegistry
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import roots
from sluicegate.streams.topic_names import topics

SPECIAL = ("message", "group")
FILE = "write schema: FILE"
HINT = "give the field a default in the schema that is read with, or read that topic with another agent"


def findings(agents: Sequence[Agent], client: SchemaRegistry) -> Iterator[SystemFinding]:
    """Raises Unavailable."""
    for agent in agents:
        options = agent.schema
        if options is None or not options.registry or agent.rekeys:
            continue
        try:
            read = client.schema(options.pinned, options.kind) if options.pinned else options.schema
        except UnknownId as error:
            hint = "correct schema: SUBJECT:VERSION, or register the missing schema"
            yield SystemFinding("registry", False, f"agent {agent.name}: {error}", hint)
            continue
        yield from (SystemFinding("registry", False, text, hint) for text, hint in mistyped(agent, read))
        wanted = used(agent).difference(_always_present(options, read))
        # the subject of the usual strategy, and the subject that the file names
        named = [options.subject_read] if options.pinned else []
        for subject in dict.fromkeys((*named, *(f"{topic}-value" for topic in topics(agent.topics)))):
            yield from _of_subject(agent, options, subject, wanted, client)


def mistyped(agent: Agent, schema: str) -> Iterator[tuple[str, str]]:
    """Contradictions between the types of the pinned schema and the agent's expressions, as a text and a hint. Schema
    files are judged with the file."""
    if agent.schema is None or not agent.schema.pinned:
        return
    options = agent.schema
    try:
        problems = [*judged_agent(replace(agent, schema=replace(options, schema=schema)))]
    except ValueError as error:  # no record can be read with it
        text, _, hint = str(error).partition("; ")
        yield f"agent {agent.name}: the schema {options.pinned} of the registry {text}", hint or FILE
        return
    for problem in problems:
        if not problem.is_warning:
            yield f"{dotted(problem.finding.path)}: {problem.finding.message}", problem.finding.hint


def _of_subject(
    agent: Agent, options: SchemaOptions, subject: str, wanted: set[str], client: SchemaRegistry
) -> Iterator[SystemFinding]:
    for version in client.versions(subject):
        try:
            has = _fields(options, client.schema(f"{subject}:{version}", options.kind))
        except UnknownId:
            continue  # of another format: its records are undecodable
        if has is not None and (lacks := sorted(wanted.difference(has))):
            what = f"subject {subject} version {version} lacks {', '.join(lacks)}, which agent {agent.name} uses"
            yield SystemFinding("registry", False, what, HINT)


def _always_present(options: SchemaOptions, schema: str) -> set[str]:
    """The fields of the reader's schema that exist even if the record lacks them: fields with a default in Avro, and
    fields that are not required in Protobuf, where an older record looks like one that leaves the field out."""
    free = options.kind in ("AVRO", "PROTOBUF")
    return {name for name, default in (_fields(options, schema) or {}).items() if default and free}


def _fields(options: SchemaOptions, schema: str) -> dict[str, bool] | None:
    name = next(name for name, fields in SCHEMA_FORMATS.items() if fields.kind == options.kind)
    return ROOMS[name].fields(replace(options, schema=schema, pinned=""))


def used(agent: Agent) -> set[str]:
    """The top-level fields of a record that key, compute, until, timeout, dedupe, let and where use."""
    rule = agent.aggregation
    paths = [] if rule is None else [rule.key, *(reducer.field for reducer in rule.compute)]
    texts = [agent.where, *(let.expression for let in agent.let)]
    until = None if rule is None else rule.until
    if isinstance(until, Until):
        paths.append(until.field)
    elif until is not None:
        texts.append(until)
    if rule is not None and (deadline := rule.deadline) is not None:
        texts += [deadline.at or deadline.after, deadline.cancel]
    if agent.dedupe is not None and agent.dedupe.by == "field":
        paths.append(agent.dedupe.name)
    names = {path.partition(".")[0] for path in paths if path}
    for text in texts:
        names |= set(roots(parse(text))) if text else set()
    return names.difference(SPECIAL, (let.name for let in agent.let))
