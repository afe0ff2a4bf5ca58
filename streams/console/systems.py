"""What the console needs of the surroundings. The room that joins the connectors makes it."""

from contextlib import AbstractContextManager
from typing import Protocol

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import OutputFacts, Store
from sluicegate.streams.operations.dead.dead_changes import LetterTopics


class ConsoleSystems(Protocol):
    """The systems of one app."""

    def read_file(self) -> App:
        """The app of the run's file as it is now. Raises ConfigurationError for a file that is wrong, and where the app
        has no file."""

    def open_store(self, app: App) -> Store:
        """Raises ConfigurationError for a store that no other process can reach, and what `open_store` raises."""

    def open_topics(self, app: App) -> LetterTopics:
        """Raises ConfigurationError for a broker that no other process can reach."""

    def open_outputs(self, app: App, agent: Agent) -> AbstractContextManager[OutputFacts | None]:
        """What describes the topics of an agent with `history`; None where it is not needed."""
