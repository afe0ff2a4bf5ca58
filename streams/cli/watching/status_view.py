"""The table of `sluicegate status`: the totals of each agent, and its partitions."""

from collections.abc import Callable, Sequence
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
ENDLESS = 10_000  # columns
AROUND = 8  # lines for the title, the column heads, the total and a prompt


def view(status: Status, screen: Any, height: int | None = None) -> Any:
    """For this console. Where it is too narrow for the names of the owners, it shows numbers and a list of the names.
    Partitions with the least lag are left out, with a note, when there are more than `height` lines."""
    from rich.console import Group
    from rich.text import Text

    notes = [f"{row.topic}/{row.partition} of {row.agent}: {row.note}" for row in status.partitions if row.note]
    notes += [f"{row.topic}/{row.partition} of {row.agent}: {row.note}" for row in status.left_behind]
    others = AROUND + len(status.agents) + len(notes) + len({row.owner for row in status.partitions if row.owner})
    shown = status.partitions if height is None else _fitting(status.partitions, height - others)
    if hidden := len(status.partitions) - len(shown):
        notes.append(f"no room on this screen for {counted(hidden, 'partition')} more; --agent NAME shows one agent")
    owners = {name: name for name in sorted({row.owner for row in shown if row.owner})}
    made = _table(status, shown, owners)
    if owners and screen.measure(made, options=screen.options.update(width=ENDLESS)).maximum > screen.width:
        notes = [*(f"owner {number}: {name}" for number, name in enumerate(owners, 1)), *notes]
        made = _table(status, shown, {name: str(number) for number, name in enumerate(owners, 1)})
    return Group(Text(_title(status)), made, *map(Text, notes))


def _title(status: Status) -> str:
    reasons = "".join(f"; {reason}" for reason in status.level.reasons)
    sent = f"; transactional: {', '.join(status.transactional)}" if status.transactional else ""
    return f"{status.app}, store {status.store}, level {status.level.name}{reasons}{sent}"


def _fitting(rows: Sequence[PartitionProgress], room: int) -> Sequence[PartitionProgress]:
    """At most `room` partitions, in their order: first those with a note, then those with the most lag."""
    chosen = sorted(range(len(rows)), key=lambda at: (rows[at].note is None, -(rows[at].lag or 0)))[: max(room, 0)]
    return [rows[at] for at in sorted(chosen)]


def _table(status: Status, shown: Sequence[PartitionProgress], owners: dict[str, str]) -> Any:
    made = table(COLUMNS, show_edge=False, collapse_padding=True)
    for column in made.columns[1:]:
        column.no_wrap = True
    for agent in status.agents:
        made.add_row(agent.agent, "", "", *_numbers(agent), style="bold")
        for row in (row for row in shown if row.agent == agent.agent):
            owner = owners[row.owner] if row.owner else "-"
            made.add_row(f"  {row.topic}/{row.partition}", owner, _known(row.offset), *_numbers(row))
    if len(status.agents) > 1:
        made.add_row("total", "", "", *_numbers(total(None, status.agents)), style="bold")
    return made


def _numbers(of: PartitionProgress | Total) -> list[str]:
    groups = [_known(of.lag), _known(of.open_groups), _known(of.oldest, age), _known(of.next_deadline, due)]
    return [*groups, str(of.unsent), _known(of.dead)]


def _known(value: float | None, text: Callable[[float], str] = str) -> str:
    return "-" if value is None else text(value)
