"""Reads the file of a command, and opens its store. It imports other modules only when they are needed."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.terminal.outcome import USAGE, complain
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.config import Loaded
    from sluicegate.streams.contracts.stores import Store


def loaded(file: str) -> App:
    """The App of the file. Prints every problem and ends the command with exit code 2 when there are any."""
    from sluicegate.streams.config import load

    return app_of(load(file, os.environ))


def app_of(file_: "Loaded") -> App:
    """Same as `loaded`, for a file that was read already."""
    for problem in file_.problems:
        complain(str(problem))
    if file_.app is None:
        raise typer.Exit(USAGE)
    return file_.app


def read_again(file: str, app: App) -> App:
    """The App with the present secrets of the file. The same App when the file cannot be used now."""
    from sluicegate.streams.config import load
    from sluicegate.streams.config.text.secrets import rotated

    fresh = load(file, os.environ).app
    return app if fresh is None else rotated(app, fresh)


def read_now(file: str) -> App:
    """The App of the present file. Raises ConfigurationError for a file with problems."""
    from sluicegate.streams.config import load

    read = load(file, os.environ)
    if read.app is None:
        raise ConfigurationError("; ".join(map(str, read.problems)))
    return read.app


def agent_of(app: App, name: str) -> Agent:
    """Raises ConfigurationError for an agent that is not in the file."""
    for agent in app.agents:
        if agent.name == name:
            return agent
    raise ConfigurationError(
        f"there is no agent {name!r}; the file has {', '.join(agent.name for agent in app.agents)}"
    )


@contextmanager
def connected(app: App) -> Iterator["Store"]:
    """The store of the app, closed at the end."""
    from sluicegate.connectors import open_store

    if app.registry is not None:
        from sluicegate.streams.cli.opening import registry

        registry.use(app)
    with closing(open_store(app.store, app.folder, app=app.name)) as store:
        yield store


@contextmanager
def shared_store(app: App) -> Iterator["Store"]:
    """Same as `connected`. Raises ConfigurationError for a store in the memory of another process."""
    if app.store.startswith("memory:"):
        raise ConfigurationError("the state is in the memory of `sluicegate run`: no other process can reach it")
    with connected(app) as store:
        yield store
