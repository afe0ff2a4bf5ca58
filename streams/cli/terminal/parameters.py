"""Parameters that several commands share."""

from enum import StrEnum
from typing import Annotated

import typer

from sluicegate.streams.hints import name_file


def _named(file: str) -> str:
    name_file(file)
    return file


FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The declarative file (YAML).", callback=_named)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for machines.")]
OpenPolicy = StrEnum("OpenPolicy", ["finish", "convert", "rewind", "flush", "drop"])
"""What happens to the groups that are open when a rule changes."""
