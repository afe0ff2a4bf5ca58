"""Help texts that are never cut off: the first paragraph of each command is wrapped below its name."""

from typing import Any

import typer
from typer.core import TyperGroup

ALL = 10_000  # characters of a help text that may be shown


class Listing(TyperGroup):
    """A list of commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(ALL))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def listing(name: str, help: str) -> typer.Typer:
    """A group of commands; without one of them it shows its help."""
    return typer.Typer(name=name, cls=Listing, help=help, no_args_is_help=True)
