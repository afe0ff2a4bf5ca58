"""The table of `sluicegate status`: the totals of each agent, and its partitions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.streams.cli.terminal.output import age, due, table
from sluicegate.streams.cli.watching.progress import PartitionProgress, Status, Total, total
from sluicegate.streams.wording import counted

COLUMNS = (
    "agent, partition",
    "owner",
    ">offset",
    ">lag",
    ">open\ngroups",
    ">oldest",
    ">next\ndeadline",
    ">unsent",
    ">dead",
)
StatusRow = tuple[list[str], str]
"""The cells of a line, and its style."""
ENDLESS = 10_000  # columns
AROUND = 8  # lines for the title, the column heads, the total and a prompt


def view(status: Status, screen: Any, height: int | None = None) -> Any:
    """The view for this console. If it is too narrow for the names of the owners, it shows numbers and a list of the
    names. If it is too narrow for the names of the partitions, each name has its own line above its numbers. When there
    are more than `height` lines, the partitions with the least lag are left out, with a note."""
    from rich.console import Group
    from rich.text import Text

    notes = [f"{row.topic}/{row.partition} of {row.agent}: {row.note}" for row in status.partitions if row.note]
    notes += [f"{row.topic}/{row.partition} of {row.agent}: {row.note}" for row in status.left_behind]
    others = AROUND + len(status.agents) + len(notes) + len({row.owner for row in status.partitions if row.owner})
    shown = status.partitions if height is None else _fitting(status.partitions, height - others)
    numbered = {name: str(number) for number, name in enumerate(sorted({row.owner for row in shown if row.owner}), 1)}
    rows = _rows(status, shown, {name: name for name in numbered})
    narrow = not _fits(_table(rows), screen)
    if numbered and narrow:
        rows = _rows(status, shown, numbered)
        narrow = not _fits(_table(rows), screen)
        notes = [*(f"owner {number}: {name}" for name, number in numbered.items()), *notes]
    if narrow and height is not None:
        shown = _fitting(shown, (height - others - len(status.agents)) // 2)
        rows = _rows(status, shown, numbered)
    if hidden := len(status.partitions) - len(shown):
        notes.append(f"no room on this screen for {counted(hidden, 'partition')} more; --agent NAME shows one agent")
    parts = _below_names(rows, screen) if narrow else [_table(rows)]
    reasons = "".join(f"; {reason}" for reason in status.level.reasons)
    sent = f"; transactional: {', '.join(status.transactional)}" if status.transactional else ""
    return Group(
        Text(f"{status.app}, store {status.store}, level {status.level.name}{reasons}{sent}"), *parts, *map(Text, notes)
    )


def _fits(made: Any, screen: Any) -> bool:
    return bool(screen.measure(made, options=screen.options.update(width=ENDLESS)).maximum <= screen.width)


def _below_names(rows: Sequence[StatusRow], screen: Any) -> list[Any]:
    """The table without its first column. Each name is on the line above its numbers."""
    from rich.segment import Segment, Segments
    from rich.text import Text

    made = _table([(cells[1:], style) for cells, style in rows], COLUMNS[1:])
    lines = [Segments([*line, Segment.line()]) for line in screen.render_lines(made, pad=False)]
    head = lines[: len(lines) - len(rows)]
    named = zip(rows, lines[len(head) :], strict=True)
    return [*head, *(part for (cells, style), line in named for part in (Text(cells[0], style=style), line))]


def _fitting(rows: Sequence[PartitionProgress], room: int) -> Sequence[PartitionProgress]:
    """At most `room` partitions, in their order: first partitions with a note, then those with the most lag."""
    chosen = sorted(range(len(rows)), key=lambda at: (rows[at].note is None, -(rows[at].lag or 0)))[: max(room, 0)]
    return [rows[at] for at in sorted(chosen)]


def _rows(status: Status, shown: Sequence[PartitionProgress], owners: Mapping[str, str]) -> list[StatusRow]:
    rows: list[StatusRow] = []
    for agent in status.agents:
        rows.append(([agent.agent or "", "", "", *_numbers(agent)], "bold"))
        for row in (row for row in shown if row.agent == agent.agent):
            owner = owners[row.owner] if row.owner else "-"
            rows.append(([f"  {row.topic}/{row.partition}", owner, _known(row.offset), *_numbers(row)], ""))
    if len(status.agents) > 1:
        rows.append((["total", "", "", *_numbers(total(None, status.agents))], "bold"))
    return rows


def _table(rows: Sequence[StatusRow], columns: Sequence[str] = COLUMNS) -> Any:
    made = table(columns, show_edge=False, collapse_padding=True)
    for column in made.columns:
        column.no_wrap = True
    for cells, style in rows:
        made.add_row(*cells, style=style)
    return made


def _numbers(of: PartitionProgress | Total) -> list[str]:
    groups = [_known(of.lag), _known(of.open_groups), _known(of.oldest, age), _known(of.next_deadline, due)]
    return [*groups, str(of.unsent), _known(of.dead)]


def _known(value: float | None, text: Callable[[float], str] = str) -> str:
    return "-" if value is None else text(value)
