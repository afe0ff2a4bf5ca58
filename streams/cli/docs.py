"""`sluicegate docs`: the meaning of a key of the file."""

from collections.abc import Sequence
from textwrap import fill, indent
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import console, print_json, print_table
from sluicegate.streams.cli.terminal.parameters import AsJson
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.config.reference import KeyReference

WIDTH = 110
_NAMES = {"agents": "baskets"}
"""What stands for a name of one's own in an example; elsewhere it is NAME."""


def docs(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Such as agents.*.aggregate.window.grace, or its end.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Explain a key of the file: its meaning, type, default and an example. Without KEY, list the keys."""
    from sluicegate.streams.config.reference import matching, near, references

    entries = [*references().values()] if key is None else matching(key)
    if not entries:
        meant = " or ".join(near(key or ""))
        hint = f"did you mean {meant}?" if meant else "`sluicegate docs` lists all keys"
        raise ConfigurationError(f"{key} is not a key of the file; {hint}")
    if json:
        print_json({"keys": [_document(entry) for entry in entries]})
    elif len(entries) == 1:
        _print_one(entries[0])
    else:
        own = (
            entries
            if key is not None
            else [entry for entry in entries if entry.path[0] != "kafka" or len(entry.path) == 1]
        )
        print_table(["key!", "meaning"], [(key.name, key.description) for key in own])
    return DONE


def _document(key: "KeyReference") -> dict[str, Any]:
    return {
        "key": key.name,
        "description": key.description,
        "types": key.kinds,
        "required": key.required,
        "default": key.default,
        "example": key.example,
    }


def _print_one(key: "KeyReference") -> None:
    """Prints the key, in colours where the terminal has them."""
    from rich.syntax import Syntax
    from rich.text import Text

    from sluicegate.streams.config.reference import below

    out = console()
    out.print(Text(key.name, style="bold"))
    width = min(out.width, WIDTH)
    out.print(Text(fill(key.description, width, initial_indent="  ", subsequent_indent="  ") + "\n"))
    facts = {"type": ", ".join(key.kinds), "required": "yes" if key.required else "no"}
    if key.default is not None:
        facts["default"] = _written(key.default)
    for name, value in facts.items():
        out.print(Text.assemble("  ", (f"{name + ':':<10}", "dim"), value))
    out.print(Text.assemble("  ", ("example:", "dim")))
    text = indent(_example(key.path, key.example), "    ")
    out.print(Syntax("", "yaml", background_color="default").highlight(text), end="")
    names = [inner.path[-1] for inner in below(key)]
    if names:
        joined = ", ".join(dict.fromkeys(names))
        out.print(Text(fill(f"keys:     {joined}", width, initial_indent="  ", subsequent_indent=" " * 12)))


def _written(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def _example(path: Sequence[str], value: Any) -> str:
    """The example at its position in a file."""
    import yaml

    from sluicegate.streams.config.reference import ANY

    for depth in range(len(path) - 1, -1, -1):
        name = path[depth] if path[depth] != ANY else _NAMES.get(path[depth - 1], "NAME")
        value = {name: [value] if path[0] == "tests" and depth == 1 else value}
    text: str = yaml.safe_dump(value, sort_keys=False, width=100, allow_unicode=True)
    return text.rstrip("\n")
