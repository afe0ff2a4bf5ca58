"""`sluicegate asyncapi`: what the file reads and writes, for tools that know AsyncAPI."""

from typing import Annotated

import typer

from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError


def asyncapi(
    file: FileArgument,
    version: Annotated[str, typer.Option("--app-version", help="The version of the app, for the document.")] = "0.0.0",
    json: AsJson = False,
) -> int:
    """Print the AsyncAPI 3.0 document of the file: topics, agents, and the schemas of messages."""
    import yaml

    from sluicegate.streams.asyncapi import document

    try:
        content = document(loaded(file), version)
    except ValueError as error:
        raise ConfigurationError(f"{file}: an output {error}") from error
    if json:
        print_json(content)
    else:
        print(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120), end="")
    return DONE
