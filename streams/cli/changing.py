"""What commands share that look into an agent's state, and change it."""

import getpass
import socket
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.agent import Agent, App
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.journal.amending import Person

AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="The agent.", show_default=False)]
Why = Annotated[str, typer.Option("--why", help="Kept with the change, for `sluicegate audit`.")]

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
By = Annotated[
    str,
    typer.Option(
        "--by", help="Who changes it, for the audit; this user at this machine unless given.", show_default=False
    ),
]


@contextmanager
def opened(file: str, name: str) -> Iterator[tuple["App", "Agent", "Store"]]:
    """Raises ConfigurationError for an agent that is not in the file, and for state that nobody else can reach."""
    from sluicegate.streams.cli.files import loaded

    app = loaded(file)
    agent = next((each for each in app.agents if each.name == name), None)
    if agent is None:
        raise ConfigurationError(
            f"there is no agent {name!r}; the file has {', '.join(each.name for each in app.agents)}"
        )
    with store_of(app) as store:
        yield app, agent, store


@contextmanager
def store_of(app: "App") -> Iterator["Store"]:
    """Raises ConfigurationError for state that nobody else can reach."""
    from sluicegate.connectors import open_store

    if app.store.startswith("memory:"):
        raise ConfigurationError("the state is in the memory of `sluicegate run`: nobody else can reach it")
    store = open_store(app.store, app.folder)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def noted(file: str, what: str, keys: Sequence[str], why: str, by: str) -> Iterator["Store"]:
    """The store of the file, after it was written down there that somebody does `what` to these."""
    from sluicegate.streams.cli.files import loaded
    from sluicegate.streams.journal.journal import note

    app = loaded(file)
    with store_of(app) as store:
        note(store, app.name, person(why, by), what, *keys)
        yield store


def rows_of(file: str) -> AbstractContextManager["Store"]:
    """The store of the file, for what belongs to no agent."""
    from sluicegate.streams.cli.files import loaded

    return store_of(loaded(file))


def confirm(question: str, yes: bool) -> None:
    """Ask at the terminal unless `yes`. Raises ConfigurationError for any other answer, and where there is no
    terminal."""
    if yes:
        return
    if not terminal():
        raise ConfigurationError(f"{question} Nothing was changed: there is no terminal to ask at; add --yes to do it")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise ConfigurationError("nothing was changed")


def terminal() -> bool:
    """Can a person be asked?"""
    return sys.stdin.isatty()


def person(why: str, by: str = "") -> "Person":
    """Who runs this command, or says to be `by`."""
    from sluicegate.streams.journal.amending import Person

    if by:
        return Person(by, why, uuid.uuid4().hex)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "unknown"
    return Person(f"{user}@{socket.gethostname()}", why, uuid.uuid4().hex)
