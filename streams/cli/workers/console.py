"""Joins the console with the connectors, for `run`."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from sluicegate.connectors import open_store
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.groups import history_outputs
from sluicegate.streams.cli.letters import BrokerTopics
from sluicegate.streams.cli.opening import registry
from sluicegate.streams.console.calls import calls
from sluicegate.streams.contracts.stores import OutputFacts, Store
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.http import HttpCalls


class RunSystems:
    """The systems of a run, with the secrets as `fresh` reads them. Satisfies
    sluicegate.streams.console.systems.ConsoleSystems."""

    def __init__(self, fresh: Callable[[App], App]) -> None:
        self._fresh = fresh

    def open_store(self, app: App) -> Store:
        if app.store.startswith("memory:"):
            raise ConfigurationError("the state is in the memory of the worker: only what it reports can be shown")
        if app.registry is not None:
            registry.use(app)
        return open_store(self._fresh(app).store, app.folder, app=app.name)

    def open_topics(self, app: App) -> BrokerTopics:
        return BrokerTopics(self._fresh(app))

    def open_outputs(self, app: App, agent: Agent) -> AbstractContextManager[OutputFacts | None]:
        return history_outputs(self._fresh(app), agent)


def made(app: App, fresh: Callable[[App], App], board: Board) -> tuple[HttpCalls, Callable[[], None]]:
    """The console's calls, and a function that closes what they opened."""
    return calls(app, board, RunSystems(fresh))
