"""`sluicegate version` and `sluicegate --version`."""

from typing import Annotated

import typer

from sluicegate.streams.cli.outcome import DONE, ending


@ending
def version() -> int:
    """The version of Sluicegate."""
    _show()
    return DONE


def _show() -> None:
    import importlib.metadata

    print(f"sluicegate {importlib.metadata.version('sluicegate')}")


def _asked(yes: bool) -> None:
    if yes:
        _show()
        raise typer.Exit(DONE)


def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_asked, is_eager=True)
    ] = False,
) -> None:
    """Options of `sluicegate` itself, before the name of a command."""
