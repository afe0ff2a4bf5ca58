"""`sluicegate version` and `sluicegate --version`."""

from typing import Annotated

import typer

from sluicegate.streams import release
from sluicegate.streams.cli.outcome import DONE


def version() -> int:
    """The version of Sluicegate."""
    print(f"sluicegate {release.version()}")
    return DONE


def _show(yes: bool) -> None:
    if yes:
        raise typer.Exit(version())


def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show, is_eager=True)
    ] = False,
) -> None:
    """Options of `sluicegate` itself, before the name of a command."""
