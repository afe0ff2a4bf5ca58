"""The table of `sluicegate status`: the totals of each agent, and its partitions."""

from collections.abc import Sequence
from typing import Any

from sluicegate.streams.cli.output import age
from sluicegate.streams.cli.progress import PartitionProgress, Status, Total, total
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
ENDLESS = 10_000  # columns
AROUND = 8  # lines for the title, the column heads, the total and a prompt


def view(found: Status, screen: Any, height: int | None = None) -> Any:
    """For this console. Where it is too narrow for the names of the owners, it shows numbers and a list of the names.
    Partitions with the least lag are left out, with a note, when there are more than `height` lines."""
    from rich.console import Group
    from rich.text import Text

    notes = [f"{row.topic}/{row.partition} of {row.agent}: {row.note}" for row in found.partitions if row.note]
    others = AROUND + len(found.agents) + len(notes) + len({row.owner for row in found.partitions if row.owner})
    shown = found.partitions if height is None else _fitting(found.partitions, height - others)
    if left := len(found.partitions) - len(shown):
        notes.append(f"no room on this screen for {counted(left, 'partition')} more; --agent NAME shows one agent")
    owners = {name: name for name in sorted({row.owner for row in shown if row.owner})}
    table = _table(found, shown, owners)
    if owners and screen.measure(table, options=screen.options.update(width=ENDLESS)).maximum > screen.width:
        notes = [*(f"owner {number}: {name}" for number, name in enumerate(owners, 1)), *notes]
        table = _table(found, shown, {name: str(number) for number, name in enumerate(owners, 1)})
    return Group(Text(_title(found)), table, *map(Text, notes))


def _title(found: Status) -> str:
    reasons = "".join(f"; {reason}" for reason in found.level.reasons)
    sent = f"; transactional: {', '.join(found.transactional)}" if found.transactional else ""
    return f"{found.app}, store {found.store}, level {found.level.name}{reasons}{sent}"


def _fitting(rows: Sequence[PartitionProgress], room: int) -> Sequence[PartitionProgress]:
    """At most `room` partitions, in their order: first those with a note, then those with the most lag."""
    chosen = sorted(range(len(rows)), key=lambda at: (rows[at].note is None, -(rows[at].lag or 0)))[: max(room, 0)]
    return [rows[at] for at in sorted(chosen)]


def _table(found: Status, shown: Sequence[PartitionProgress], owners: dict[str, str]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for number, column in enumerate(COLUMNS):
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", no_wrap=number > 0, overflow="fold"
        )
    for agent in found.agents:
        table.add_row(agent.agent, "", "", *_numbers(agent), style="bold")
        for row in (row for row in shown if row.agent == agent.agent):
            owner = owners[row.owner] if row.owner else "-"
            table.add_row(f"  {row.topic}/{row.partition}", owner, _number(row.offset), *_numbers(row))
    if len(found.agents) > 1:
        table.add_row("total", "", "", *_numbers(total(None, found.agents)), style="bold")
    return table


def _numbers(of: PartitionProgress | Total) -> list[str]:
    groups = [_number(of.lag), _number(of.open_groups), _age(of.oldest), _age(of.next_deadline)]
    return [*groups, str(of.unsent), _number(of.dead)]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else age(seconds)
