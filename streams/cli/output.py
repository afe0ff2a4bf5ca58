"""Printing for people and for machines. `NO_COLOR` and narrow terminals are rich's affair."""

import sys
from collections.abc import Sequence
from typing import Any


def print_json(document: Any) -> None:
    """One line."""
    import json

    print(json.dumps(document, ensure_ascii=False), flush=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Any:
    """A rich table; columns named `>x` are aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def console() -> Any:
    """On a terminal as wide as it is; elsewhere as wide as its lines."""
    from rich.console import Console

    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 240, highlight=False)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    console().print(table(columns, rows, title))
