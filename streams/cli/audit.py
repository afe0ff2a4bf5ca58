"""`sluicegate audit`: what people changed."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.cli.changing import opened, store_of
from sluicegate.streams.cli.outcome import DONE, complain, ending
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.agent import Agent, App
    from sluicegate.streams.aggregation.entry import Amendment
    from sluicegate.streams.contracts.stores import Store

AuditFilter = tuple[str | None, str | None, int | None]
"""Agent, topic, partition, as far as a change has them."""
OF_AGENTS = ("groups ", "dead retry")
COLUMNS = ("at", "agent", "topic", ">partition", "who", "what", "key", "why")


@ending
def audit(
    file: FileArgument,
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="In the state of this agent only.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> int:
    """Who changed what within the last 30 days, when, and why; claims nothing."""
    from sluicegate.streams.cli.output import print_json, print_table

    rows = [_row(said, place) for said, place in sorted(_changes(file, agent), key=lambda each: each[0].at)]
    if json:
        print_json({"changes": rows})
        return DONE
    print_table(COLUMNS, [["" if value is None else str(value) for value in row.values()] for row in rows])
    return DONE


def _changes(file: str, agent: str | None) -> "Iterator[tuple[Amendment, AuditFilter]]":
    """Also what is written down in the app's journal, of no partition or even of no agent."""
    from sluicegate.streams.cli.files import loaded

    if agent is not None:
        with opened(file, agent) as (app, its, store):
            yield from _amended(app, its, store)
            yield from (each for each in _noted(app, store) if each[1][0] == agent)
        return
    app = loaded(file)
    with store_of(app) as store:
        for its in app.agents:
            try:
                yield from list(_amended(app, its, store))
            except (ChangelogIncomplete, ConfigurationError) as error:  # what the others say is wanted all the more
                complain(f"sluicegate: what was changed in the state of {its.name} cannot be read: {error}")
        yield from _noted(app, store)


def _amended(app: "App", agent: "Agent", store: "Store") -> "Iterator[tuple[Amendment, AuditFilter]]":
    from sluicegate.streams.operations.open_groups import partitions

    return ((said, held.partition[1:]) for held in partitions(store, app.name, agent) for said in held.amended)


def _noted(app: "App", store: "Store") -> "Iterator[tuple[Amendment, AuditFilter]]":
    """What the journal has. A note about an agent begins with its name, which has no space."""
    from msgspec.structs import replace

    from sluicegate.streams.journal.journal import notes
    from sluicegate.streams.ownership.halted import ACCEPTED

    names = {agent.name for agent in app.agents}
    for said in notes(store, app.name):
        agent, _, key = said.key.partition(" ")
        if key and agent in names and said.what.startswith(OF_AGENTS):
            yield replace(said, key=key), (agent, None, None)
        elif said.what != ACCEPTED:
            yield said, (None, None, None)


def _row(said: "Amendment", place: "AuditFilter") -> dict[str, object]:
    at = datetime.fromtimestamp(said.at, UTC).isoformat(timespec="seconds")
    where = dict(zip(("agent", "topic", "partition"), place, strict=True))
    return {"at": at, **where, "who": said.who, "what": said.what, "key": said.key, "why": said.why}
