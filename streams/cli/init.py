"""`sluicegate init`: the files of a new app in this folder."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json
from sluicegate.streams.cli.terminal.parameters import AsJson
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.scaffold import NAME, STORES, project

ChosenStore = StrEnum("ChosenStore", [*STORES])  # type: ignore[misc]  # its words are those of STORES
SQLITE = ChosenStore("sqlite")
NameArgument = Annotated[str, typer.Argument(metavar="[NAME]", help="The name of the app and of its file.")]


def init(
    name: NameArgument = "shop",
    store: Annotated[ChosenStore, typer.Option("--store", help="The store of the app.")] = SQLITE,
    json: AsJson = False,
) -> int:
    """Write a new app: NAME.yaml, its handler, its tests, and a docker-compose.yml with its servers."""
    if not re.fullmatch(NAME, name):
        raise ConfigurationError(f"{name!r} is not the name of an app: write a letter, then letters, digits, _ and -")
    files = project(name, store.value)
    there = [file for file in files if Path(file).exists() or Path(file).is_symlink()]
    if there:
        raise ConfigurationError(f"{', '.join(there)}: exists already; choose another name, or an empty folder")
    for file, text in files.items():
        _write(file, text)
    commands = [f"sluicegate test {name}.yaml --crash", "docker compose up --wait"]
    commands += [f"sluicegate topics {name}.yaml --create"]
    commands += [] if store.value == "sqlite" else [f"sluicegate migrate {name}.yaml"]
    commands += [f"sluicegate run {name}.yaml"]
    if json:
        print_json({"files": [*files], "next": commands})
    else:
        print("\n".join([*(f"wrote {file}" for file in files), "", *commands]))
    return DONE


def _write(file: str, text: str) -> None:
    """Writes a file. A file that another process has created meanwhile is an error."""
    try:
        with open(file, "x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be written: {error.strerror or error}") from error
