"""The schema registry of a file: its client for a command, and its answers."""

from collections.abc import Iterator, Sequence

from sluicegate.connectors import open_registry
from sluicegate.schemas import SchemaOptions
from sluicegate.schemas import registry as schemas
from sluicegate.schemas.codecs import Unavailable
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.checking import versions
from sluicegate.streams.cli.terminal.finding import SystemFinding
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.ownership.registered import RegisteredSchemas


def use(app: App) -> None:
    """Makes this process use the app's registry. Raises ConfigurationError."""
    if app.registry is not None:
        schemas.table(",".join(app.registry.urls)).ask = open_registry(app.registry)


def recall(agent: Agent, app: str, store: Store) -> None:
    """Makes this process know the schemas in the rows of the agent's partitions. Raises the errors of the store."""
    known = RegisteredSchemas(agent)
    if known.table is None:
        return
    for partition in store.partitions(app):
        if partition.agent != agent.name:
            continue
        view = store.read(partition)
        if view is not None and view.claim.source is not None:
            known.table.learn(view.claim.source.schemas)


def findings(app: App) -> list[SystemFinding]:
    """Whether the registry answers, and whether it accepts each schema of the outputs."""
    if app.registry is None:
        return []
    client, place = open_registry(app.registry), ", ".join(app.registry.urls)
    try:
        client.answers()
        answers = [SystemFinding("registry", True, f"{place} answers")]
        for avro in _written(app.agents):
            subject = schemas.subject_of(avro)
            try:
                if avro.register:
                    client.fits(subject, avro.schema, avro.kind)
                    answers.append(SystemFinding("registry", True, f"subject {subject} takes the schema"))
                else:
                    id = client.id(subject, avro.schema, False, avro.kind)
                    answers.append(SystemFinding("registry", True, f"subject {subject} has the schema as id {id}"))
            except schemas.SubjectRefused as error:
                text, _, hint = str(error).rpartition("; ")
                answers.append(SystemFinding("registry", False, text, hint))
        return [*answers, *versions.findings(app.agents, client)]
    except Unavailable as error:
        return [SystemFinding("registry", False, str(error), "start it, or correct `schema_registry.url`")]


def refusals(agents: Sequence[Agent]) -> Iterator[str]:
    """The reasons why the registry refuses schemas of these agents. Accepted schemas are registered, if the file asks
    for it. A registry that does not answer refuses nothing."""
    for avro in _written(agents):
        try:
            schemas.written_id(avro)
        except schemas.SubjectRefused as error:
            yield str(error)
        except Unavailable:
            return
    for agent in agents:
        yield from _of_version(agent)


def _of_version(agent: Agent) -> Iterator[str]:
    """The reason why the agent cannot read with the version of the subject that it names."""
    options = agent.schema
    if options is None or not options.pinned:
        return
    try:
        schema = schemas.table(options.registry).schema(options.pinned, options.kind)
    except schemas.UnknownId as error:
        yield f"agent {agent.name}: the schema {options.pinned} is not known: {error}"
    except Unavailable:
        return
    else:
        yield from (f"{text}; {hint}" for text, hint in versions.mistyped(agent, schema))


def _written(agents: Sequence[Agent]) -> list[SchemaOptions]:
    written = [output.schema for agent in agents for output in agent.outputs if output.schema is not None]
    return [options for options in dict.fromkeys(written) if options.registry and options.subject]
