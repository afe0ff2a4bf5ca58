"""`sluicegate version` and `sluicegate --version`."""

from typing import Annotated

import typer

from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json
from sluicegate.streams.cli.terminal.parameters import AsJson
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.observe import release


def version(json: AsJson = False) -> int:
    """Show the version of Sluicegate, and the code that reads plain Avro records."""
    from sluicegate.schemas.native import kernel

    try:
        chosen = kernel().name
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if json:
        print_json({"version": release.version(), "kernel": chosen})
    else:
        print(f"sluicegate {release.version()}\nkernel: {chosen}")
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
