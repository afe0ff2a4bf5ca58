"""Changes by operators that the store records, in the state of agents and in the app's journal."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.aggregation.durable.entry import Amendment
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError
from sluicegate.streams.journal.journal import notes
from sluicegate.streams.operations.groups.contents import PartitionContents, partitions
from sluicegate.streams.ownership.halted import ACCEPTED

ChangePlace = tuple[str | None, str | None, int | None]
"""Agent, topic and partition of a change; None: the change has none."""
PlacedChange = tuple[Amendment, ChangePlace]
TellUnreadable = Callable[[Agent, Exception], object]
"""Called when the state of an agent cannot be read. It may raise."""
OF_AGENTS = ("groups ", "dead ")


def changes(app: App, store: Store, name: str | None, unreadable: TellUnreadable) -> Iterator[PlacedChange]:
    """The changes in the state of this agent (None: of all agents), then the changes in the app's journal. Raises
    PersistenceError, and the errors of `unreadable`."""
    for agent in app.agents if name is None else [agent for agent in app.agents if agent.name == name]:
        try:
            yield from [change for contents in partitions(store, app.name, agent) for change in amended(contents)]
        except (ChangelogIncomplete, ConfigurationError) as error:
            unreadable(agent, error)
    yield from (change for change in noted(app, store) if name in (None, change[1][0]))


def amended(contents: PartitionContents) -> Iterator[PlacedChange]:
    """The changes in the state of one partition."""
    return ((change, contents.partition[1:]) for change in contents.amended)


def noted(app: App, store: Store) -> Iterator[PlacedChange]:
    """The notes of the journal. A note about an agent begins with its name, which has no space."""
    names = {agent.name for agent in app.agents}
    for note in notes(store, app.name):
        agent, _, key = note.key.partition(" ")
        if key and agent in names and note.what.startswith(OF_AGENTS):
            yield replace(note, key=key), (agent, None, None)
        elif note.what != ACCEPTED:
            yield note, (None, None, None)


def document(change: Amendment, place: ChangePlace) -> dict[str, object]:
    """The change as JSON."""
    at = datetime.fromtimestamp(change.at, UTC).isoformat(timespec="seconds")
    where = dict(zip(("agent", "topic", "partition"), place, strict=True))
    return {"at": at, **where, "who": change.who, "what": change.what, "key": change.key, "why": change.why}


def merged(documents: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """The changes for a table. Many dead letters that one command changed in one second share one line: the first key
    and the number of the others."""
    lines: dict[object, list[dict[str, object]]] = {}
    for number, document in enumerate(documents):
        same = {name: value for name, value in document.items() if name != "key"}
        of_many = str(document["what"]).startswith("dead ")
        lines.setdefault(tuple(same.values()) if of_many else number, []).append(document)
    return [
        {**first, "key": f"{first['key']} and {len(more)} more"} if more else first for first, *more in lines.values()
    ]
