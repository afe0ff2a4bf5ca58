"""`schema: SUBJECT:latest`: the version of the subject with which records are read.

A deployment chooses the newest version of that time. The number is then part of the rule in the store, so a restart
keeps it, also while the registry is down.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from sluicegate.connectors import open_registry
from sluicegate.schemas import SchemaOptions
from sluicegate.schemas.codecs import Unavailable
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.files import connected
from sluicegate.streams.contracts.registry import SchemaRegistry
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.operations.deploying import settled_app
from sluicegate.streams.versions import catalogue


def is_open(app: App, names: Sequence[str]) -> bool:
    """Whether the version of one of these agents must still be chosen."""
    return any(agent.schema is not None and not agent.schema.is_chosen for agent in app.agents if agent.name in names)


def deployed(app: App, names: Sequence[str]) -> App:
    """The app with the versions that its deployments chose. Raises the errors of the store."""
    if not is_open(app, names) or app.store.startswith("memory:"):
        return app
    with connected(app) as store:
        return settled_app(app, catalogue.read(store, app.name))


def chosen(app: App, names: Sequence[str]) -> App:
    """The app with the newest version where none is chosen yet. Raises SystemNotReady while the registry does not give
    it."""
    if not is_open(app, names) or app.registry is None:
        return app
    client = open_registry(app.registry)
    try:
        of_subject = cache(lambda subject: newest(client, subject))
        agents = [_chosen(agent, of_subject) if agent.name in names else agent for agent in app.agents]
    except Unavailable as error:
        raise SystemNotReady(str(error)) from error
    return replace(app, agents=tuple(agents))


def newest(client: SchemaRegistry, subject: str) -> str:
    """The newest version as `SUBJECT:VERSION`. Raises Unavailable, and SystemNotReady for a subject without a
    version."""
    versions = client.versions(subject)
    if not versions:
        raise SystemNotReady(
            f"the schema registry has no version of the subject {subject}: register a schema, or write schema: FILE"
        )
    return f"{subject}:{max(versions)}"


def _chosen(agent: Agent, of_subject: Callable[[str], str]) -> Agent:
    options: SchemaOptions | None = agent.schema
    if options is None or options.is_chosen:
        return agent
    return replace(agent, schema=replace(options, pinned=of_subject(options.subject_read)))
