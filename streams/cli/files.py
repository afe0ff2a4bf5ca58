"""Reading the file for a command."""

import os

import typer

from sluicegate.streams.agent import App
from sluicegate.streams.cli.outcome import USAGE, complain
from sluicegate.streams.config import load
from sluicegate.streams.config.secrets import rotated


def loaded(file: str) -> App:
    """The App of the file. Prints every problem and ends the command with 2 when there are any."""
    found = load(file, os.environ)
    for problem in found.problems:
        complain(str(problem))
    if found.app is None:
        raise typer.Exit(USAGE)
    return found.app


def read_again(file: str, app: App) -> App:
    """The App with the secrets that the file names now; as it is, when the file cannot be used now."""
    found = load(file, os.environ).app
    return app if found is None else rotated(app, found)
