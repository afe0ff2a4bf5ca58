"""`sluicegate audit`: changes by operators in the store."""

from typing import Annotated

import typer

from sluicegate.streams.agent import Agent
from sluicegate.streams.cli.opening.changing import chosen
from sluicegate.streams.cli.terminal.outcome import DONE, complain
from sluicegate.streams.cli.terminal.output import print_list
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument

COLUMNS = ("at!", "agent!", "topic!", ">partition", "who!", "what", "key!", "why")


def audit(
    file: FileArgument,
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Only changes in the state of this agent.")
    ] = None,
    json: AsJson = False,
) -> int:
    """List the changes by operators within the last 30 days, with time, operator and reason. Reads only."""
    from sluicegate.streams.operations import auditing

    def unreadable(which: Agent, error: Exception) -> None:
        if agent is not None:
            raise error
        complain(f"sluicegate: what was changed in the state of {which.name} cannot be read: {error}")

    with chosen(file, agent) as (app, _, store):
        changes = sorted(auditing.changes(app, store, agent, unreadable), key=lambda change: change[0].at)
    documents = [auditing.document(*change) for change in changes]
    print_list(json, "changes", documents if json else auditing.merged(documents), COLUMNS)
    return DONE
