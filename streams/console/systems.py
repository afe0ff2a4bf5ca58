"""The systems that the console needs. The room that joins the connectors implements it."""

from contextlib import AbstractContextManager
from typing import Protocol

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import OutputFacts, Store
from sluicegate.streams.operations.dead.dead_changes import LetterTopics


class ConsoleSystems(Protocol):
    """The systems of one app."""

    def read_file(self) -> App:
        """The app of the run's file, read now. Raises ConfigurationError for an invalid file, and if the app has no
        file."""

    def open_store(self, app: App) -> Store:
        """Raises ConfigurationError for a store that no other process can reach, and the errors of `open_store`."""

    def open_topics(self, app: App) -> LetterTopics:
        """Raises ConfigurationError for a broker that no other process can reach."""

    def open_outputs(self, app: App, agent: Agent) -> AbstractContextManager[OutputFacts | None]:
        """The description of the output topics of an agent with `history`; None if it is not needed."""
