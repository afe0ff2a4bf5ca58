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
    """The time until a deadline, or since it passed: `42 s`, `2 s overdue`."""
    return age(seconds) if seconds > -0.5 else f"{age(-seconds)} overdue"


def print_json(document: Any) -> None:
    """Prints one line."""
    print(json.dumps(document, ensure_ascii=False), flush=True)


def table(columns: Sequence[str], **options: Any) -> Any:
    """A rich table without rows. Columns named `>x` are aligned to the right; columns named `x!` are never wrapped."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, **options)
    for column in columns:
        right, whole = column.startswith(">"), column.endswith("!")
        made.add_column(column.strip(">!"), justify="right" if right else "left", overflow="fold", no_wrap=whole)
    return made


def console(least: int = 0) -> Any:
    """A console as wide as the terminal, and at least this wide. Without a terminal it is wide enough for the lines.
    Its text is made printable."""
    from rich.console import Console
    from rich.segment import Segment

    class Screen(Console):
        def render(self, *args: Any, **options: Any) -> Any:
            for part in super().render(*args, **options):
                yield part if part.control else Segment(printable(part.text), part.style)

    made = Screen(file=sys.stdout, width=None if terminal() else 240, highlight=False)
    made.width = max(made.width, least)
    return made


NARROW = 12  # characters that a column needs if it may be wrapped
MARGIN = 3  # columns between two columns


def print_table(columns: Sequence[str], rows: Iterable[Iterable[object]], title: str | None = None) -> None:
    """Prints rows. A cell of None is empty. Where the columns that are never wrapped do not fit on the terminal, each
    row is printed as a list of its fields."""
    from rich.text import Text

    cells = [["" if cell is None else in_one_line(str(cell)) for cell in row] for row in rows]
    least = _least(columns, cells)
    if terminal() and least > console().width:
        _print_records([column.strip(">!") for column in columns], cells)
        return
    made = table(columns, title=title, title_justify="left")
    for row in cells:
        made.add_row(*map(Text, row))
    console(0 if terminal() else least).print(made)


def _least(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """The width that a table of these cells needs."""
    from rich.cells import cell_len

    lengths = [max(cell_len(text) for text in texts) for texts in zip(columns, *cells, strict=True)]
    broken = [
        length if column.endswith("!") else min(length, NARROW) for column, length in zip(columns, lengths, strict=True)
    ]
    return sum(broken) + MARGIN * len(columns)


def _print_records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Prints each row as a list of its fields, without empty ones."""
    widest = max(map(len, names)) + 2
    for number, row in enumerate(cells):
        if number:
            print()
        for name, cell in zip(names, row, strict=True):
            if cell:
                print_text(f"{name:<{widest}}{cell}", indent=widest)


def print_text(*lines: str, indent: int = 2) -> None:
    """Prints lines. On a terminal each line is wrapped between words, with an indent that leaves room for the longest
    word."""
    for line in lines:
        print(_broken(line, indent) if terminal() else line)


def _broken(line: str, indent: int) -> str:
    from textwrap import wrap

    width = console().width
    room = width - max(map(len, line.split()), default=0)
    after = " " * max(0, min(len(line) - len(line.lstrip()) + indent, room))
    return "\n".join(wrap(line, width, subsequent_indent=after, break_long_words=False, break_on_hyphens=False)) or line


def terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def print_list(
    as_json: bool,
    name: str,
    documents: Sequence[Mapping[str, object]],
    columns: Sequence[str],
    rows: Iterable[Iterable[object]] | None = None,
) -> None:
    """Prints the documents as a JSON list called `name`, or as a table of `rows` (default: the values of the
    documents)."""
    if as_json:
        print_json({name: documents})
    else:
        print_table(columns, [document.values() for document in documents] if rows is None else rows)
