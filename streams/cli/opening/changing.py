"""Functions shared by commands that read or change the state of agents."""

import getpass
import socket
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.files import agent_of, loaded, shared_store
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.journal.amending import Person

AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="The agent.")]
AgentAndId = Annotated[
    list[str], typer.Argument(metavar="[AGENT] ID", help="The id; before it the agent, if only its records count.")
]
Why = Annotated[str, typer.Option(help="Kept with the change, for `sluicegate audit`.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
By = Annotated[str, typer.Option(help="The name of the operator, for the audit. By default this user at this machine.")]


def named(words: Sequence[str]) -> tuple[str | None, str]:
    """The agent, if one is named, and the id of `AgentAndId`. Raises ConfigurationError."""
    if len(words) > 2:
        raise ConfigurationError("write one id, and before it one agent or none")
    return (words[0] if len(words) == 2 else None), words[-1]


@contextmanager
def opened(file: str, name: str) -> Iterator[tuple[App, Agent, "Store"]]:
    """The app, this agent and the store. Raises ConfigurationError for an agent that is not in the file, and for a
    store in the memory of another process."""
    with chosen(file, name) as (app, agents, store):
        yield app, agents[0], store


@contextmanager
def reread(file: str, name: str) -> Iterator[tuple[App, Agent, "Store"]]:
    """Same as `opened`, for a command that reads records again: with the topics that patterns match now, and with the
    schemas in the store, so that the schema registry is only asked for others. Also raises the errors of the store, and
    SystemNotReady."""
    from sluicegate.streams.cli.opening.matching import with_matches

    with opened(file, name) as (app, agent, store):
        app = with_matches(app)
        agent = agent_of(app, name)
        if app.registry is not None:
            from sluicegate.streams.cli.opening import registry
            from sluicegate.streams.operations.deploying import settled_app
            from sluicegate.streams.versions import catalogue

            app = settled_app(app, catalogue.read(store, app.name))
            agent = agent_of(app, name)
            registry.recall(agent, app.name, store)
        yield app, agent, store


@contextmanager
def chosen(file: str, name: str | None) -> Iterator[tuple[App, Sequence[Agent], "Store"]]:
    """Same as `opened`; `name` None means all agents."""
    app = loaded(file)
    agents = app.agents if name is None else [agent_of(app, name)]
    with shared_store(app) as store:
        yield app, agents, store


@contextmanager
def noted(file: str, what: str, keys: Sequence[str], why: str, by: str) -> Iterator["Store"]:
    """Writes a note to the journal that this operator does `what` to `keys`. Returns the store."""
    from sluicegate.streams.journal.journal import note

    app = loaded(file)
    with shared_store(app) as store:
        note(store, app.name, person(why, by), what, *keys)
        yield store


def confirm(question: str, yes: bool) -> None:
    """Asks at the terminal unless `yes`. Raises ConfigurationError for any other answer, and without a terminal."""
    if yes:
        return
    if not terminal():
        raise ConfigurationError(f"{question} Nothing was changed: there is no terminal to ask at; add --yes")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise ConfigurationError("nothing was changed")


def terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def person(why: str, by: str = "") -> "Person":
    """`by`, or the user of this process."""
    from sluicegate.streams.journal.amending import Person

    if not by:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container's user without a name
            user = "unknown"
        by = f"{user}@{socket.gethostname()}"
    return Person(by, why, uuid.uuid4().hex)
