"""Groups of commands. Each command ends with an exit code, and help texts are never cut off."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup
from typer.models import CommandFunctionType

from sluicegate.streams.cli.terminal.outcome import ending

WHOLE = 10_000  # characters of a help text: no text is that long


class Listing(TyperGroup):
    """Lists its commands, each with the whole first paragraph of its help text."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(WHOLE))
                    for name, command in commands
                    if command and not command.hidden
                ]
            )


class Commands(typer.Typer):
    """A group of commands; without one of them it shows its help. A command returns its exit code; see `ending`."""

    def __init__(self, name: str, help: str, **options: Any) -> None:
        super().__init__(name=name, cls=Listing, help=help, no_args_is_help=True, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        register = super().command(name, **options)

        def add(command: CommandFunctionType) -> CommandFunctionType:
            register(ending(command))
            return command

        return add
