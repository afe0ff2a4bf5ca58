"""What a kind of server says of itself. A new one is a frozen dataclass of these attributes and methods."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Unavailable(Exception):
    """The server cannot be had on this machine; the text says why and what would help."""


@dataclass(frozen=True)
class Place:
    """Where one server lives: its own folder, the port its clients use, and a second port for itself."""

    root: Path
    port: int
    inner_port: int

    @property
    def data(self) -> Path:
        return self.root / "data"


@dataclass(frozen=True)
class Image:
    """How a container of the server is started; it listens on the place's port, inside as outside."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]


class Program(Protocol):
    """`variable` names the URL for people (`make servers`) and, prefixed SLUICEGATE_TEST_, the one that tests take."""

    name: str
    variable: str
    address: str
    """A URL with `{port}` in it."""
    end_signal: signal.Signals
    """The quickest end that leaves nothing behind."""

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        """Write what the first start needs; returns commands to run before it. Raises Unavailable."""

    def command(self, place: Place) -> Sequence[str]:
        """The server in the foreground. Raises Unavailable."""

    def probe(self, url: str) -> None:
        """Return when a real request was answered, else raise anything."""

    def image(self, place: Place) -> Image:
        """The same server for a Docker engine."""
