"""`sluicegate audit`: changes by operators in the store."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.changing import chosen
from sluicegate.streams.cli.outcome import DONE, complain
from sluicegate.streams.cli.output import print_list
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.aggregation.entry import Amendment
    from sluicegate.streams.contracts.stores import Store

ChangePlace = tuple[str | None, str | None, int | None]
"""Agent, topic and partition of a change; None where the change has none."""
OF_AGENTS = ("groups ", "dead retry")
COLUMNS = ("at", "agent", "topic", ">partition", "who", "what", "key", "why")


def audit(
    file: FileArgument,
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="In the state of this agent only.")] = None,
    json: AsJson = False,
) -> int:
    """Who changed what within the last 30 days, when, and why; claims nothing."""
    changes = sorted(_changes(file, agent), key=lambda each: each[0].at)
    print_list(json, "changes", [_document(*each) for each in changes], COLUMNS)
    return DONE


def _changes(file: str, name: str | None) -> "Iterator[tuple[Amendment, ChangePlace]]":
    """Changes in the state of this agent, or of all agents, and those in the app's journal."""
    with chosen(file, name) as (app, agents, store):
        for agent in agents:
            try:
                yield from list(_amended(app, agent, store))
            except (ChangelogIncomplete, ConfigurationError) as error:
                if name is not None:
                    raise
                complain(f"sluicegate: what was changed in the state of {agent.name} cannot be read: {error}")
        yield from (each for each in _noted(app, store) if name in (None, each[1][0]))


def _amended(app: App, agent: Agent, store: "Store") -> "Iterator[tuple[Amendment, ChangePlace]]":
    from sluicegate.streams.operations.open_groups import partitions

    return ((change, held.partition[1:]) for held in partitions(store, app.name, agent) for change in held.amended)


def _noted(app: App, store: "Store") -> "Iterator[tuple[Amendment, ChangePlace]]":
    """The notes of the journal. A note about an agent begins with its name, which has no space."""
    from msgspec.structs import replace

    from sluicegate.streams.journal.journal import notes
    from sluicegate.streams.ownership.halted import ACCEPTED

    names = {agent.name for agent in app.agents}
    for note in notes(store, app.name):
        agent, _, key = note.key.partition(" ")
        if key and agent in names and note.what.startswith(OF_AGENTS):
            yield replace(note, key=key), (agent, None, None)
        elif note.what != ACCEPTED:
            yield note, (None, None, None)


def _document(change: "Amendment", place: ChangePlace) -> dict[str, object]:
    at = datetime.fromtimestamp(change.at, UTC).isoformat(timespec="seconds")
    where = dict(zip(("agent", "topic", "partition"), place, strict=True))
    return {"at": at, **where, "who": change.who, "what": change.what, "key": change.key, "why": change.why}
