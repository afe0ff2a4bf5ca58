"""Parameters of several commands."""

from typing import Annotated

import typer

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The declarative file (YAML).")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for machines.")]
