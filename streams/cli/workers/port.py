"""Connects the console and the state API with the connectors, for `run`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from sluicegate.connectors import open_store
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.groups import history_outputs
from sluicegate.streams.cli.letters import BrokerTopics
from sluicegate.streams.cli.opening import registry
from sluicegate.streams.contracts.stores import OutputFacts, Store
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.http import NO_CALLS, HttpCalls

MoreCalls = Callable[[HttpCalls, Board], HttpCalls]
"""Adds calls to those of the console."""


class RunSystems:
    """The systems of a run, with the present secrets of `fresh`. `read` reads the file again. `started` holds the app
    of the workers once they may start: with the address of an embedded broker. Satisfies
    sluicegate.streams.console.systems.ConsoleSystems."""

    def __init__(
        self, fresh: Callable[[App], App], read: Callable[[], App] | None = None, started: Sequence[App] = ()
    ) -> None:
        self._fresh, self._read, self._started = fresh, read, started

    def read_file(self) -> App:
        if self._read is None:
            raise ConfigurationError("the app is a program, not a file; `sluicegate plan` compares it")
        return self._read()

    def open_store(self, app: App) -> Store:
        if app.store.startswith("memory:"):
            raise ConfigurationError("the state is in the memory of the worker: only what it reports can be shown")
        if app.registry is not None:
            registry.use(app)
        return open_store(self._fresh(app).store, app.folder, app=app.name)

    def open_topics(self, app: App) -> BrokerTopics:
        now = self._fresh(app)
        if now.embedded and self._started:
            now = replace(now, kafka=self._started[0].kafka, clusters=self._started[0].clusters)
        return BrokerTopics(now)

    def open_outputs(self, app: App, agent: Agent) -> AbstractContextManager[OutputFacts | None]:
        return history_outputs(self._fresh(app), agent)


def made(
    app: App,
    fresh: Callable[[App], App],
    read: Callable[[], App] | None,
    started: Sequence[App],
    more: MoreCalls | None,
    board: Board,
) -> tuple[HttpCalls, Callable[[], None]]:
    """The calls of the HTTP port that the file enables, and a function that closes their systems."""
    systems, calls, opened = RunSystems(fresh, read, started), NO_CALLS, ExitStack()
    if app.http is not None and app.http.console:
        from sluicegate.streams.console import calls as console

        calls, close = console.calls(app, board, systems)
        calls = more(calls, board) if more else calls
        opened.callback(close)
    if app.http is not None and app.http.state:
        from sluicegate.streams.serving.calls import resources

        answers, close = resources(app, lambda: systems.open_store(app))
        calls = calls._replace(resources=answers)
        opened.callback(close)
    return calls, opened.close
