"""Output for people and for programs. rich obeys `NO_COLOR` and the width of the terminal."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluicegate.streams.wording import in_one_line, printable


def age(seconds: float) -> str:
    """`42 s`, `12 min`, `3.5 h`, `2.0 d`."""
    for most, length, unit, digits in ((120.0, 1.0, "s", 0), (7_200.0, 60.0, "min", 0), (172_800.0, 3_600.0, "h", 1)):
        if abs(seconds) < most:
            return f"{round(seconds / length, digits) + 0.0:.{digits}f} {unit}"
    return f"{seconds / 86_400.0:.1f} d"


def due(seconds: float) -> str:
    """The time until a deadline, or how long it has passed: `42 s`, `2 s overdue`."""
    return age(seconds) if seconds > -0.5 else f"{age(-seconds)} overdue"


def print_json(document: Any) -> None:
    """One line."""
    print(json.dumps(document, ensure_ascii=False), flush=True)


def table(columns: Sequence[str], **options: Any) -> Any:
    """A rich table without rows; columns named `>x` are aligned to the right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, **options)
    for column in columns:
        right = column.startswith(">")
        made.add_column(column.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    return made


def console() -> Any:
    """As wide as the terminal; elsewhere wide enough for the lines. Text that it renders is made printable."""
    from rich.console import Console
    from rich.segment import Segment

    class Screen(Console):
        def render(self, *args: Any, **options: Any) -> Any:
            for part in super().render(*args, **options):
                yield part if part.control else Segment(printable(part.text), part.style)

    return Screen(file=sys.stdout, width=None if sys.stdout.isatty() else 240, highlight=False)


def print_table(columns: Sequence[str], rows: Iterable[Iterable[object]], title: str | None = None) -> None:
    """A cell of None is empty."""
    from rich.text import Text

    made = table(columns, title=title, title_justify="left")
    for row in rows:
        made.add_row(*(Text("" if cell is None else in_one_line(str(cell))) for cell in row))
    console().print(made)


def print_list(
    as_json: bool,
    name: str,
    documents: Sequence[Mapping[str, object]],
    columns: Sequence[str],
    rows: Iterable[Iterable[object]] | None = None,
) -> None:
    """The documents as a JSON list called `name`, or as a table of `rows`: the values of the documents unless given."""
    if as_json:
        print_json({name: documents})
    else:
        print_table(columns, [each.values() for each in documents] if rows is None else rows)
