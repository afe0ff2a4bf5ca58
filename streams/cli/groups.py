"""`sluicegate groups`: the open groups of an agent, whether it runs or not."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.changing import AgentName, By, Why, Yes, confirm, opened, person
from sluicegate.streams.cli.terminal.commands import Commands
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import age, due, print_json, print_list, print_table, print_text
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import OutputFacts, Store
    from sluicegate.streams.operations.groups.open_groups import OpenGroup

groups = Commands("groups", "List, show, explain, fire or drop the open groups of an agent.")
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The group's key; `base64:...` for one that is not text.")
]
PartitionOption = Annotated[
    str | None, typer.Option(metavar="TOPIC/NUMBER", help="The partition, if the key has groups in several.")
]
WindowOption = Annotated[
    str | None, typer.Option(metavar="START", help="The start of the window, as `groups ls` shows it.")
]
COLUMNS = ("key!", "topic!", ">partition", ">count", ">age", ">fires in", ">bytes", "owner!")


@groups.command()
def ls(file: FileArgument, name: AgentName, json: AsJson = False) -> int:
    """List the open groups, oldest first within a partition. Reads only."""
    from sluicegate.streams.operations.groups import group_changes

    with _opened(file, name) as (app, agent, store):
        listed = group_changes.every(app.name, agent, store, time.time())
    columns = _columns(agent)
    print_list(
        json, "groups", [group_changes.document(group) for group in listed], columns, [_row(group) for group in listed]
    )
    return DONE


@groups.command()
def show(
    file: FileArgument, name: AgentName, key: KeyArgument, window: WindowOption = None, json: AsJson = False
) -> int:
    """Show what a group has computed so far, with values of the application. Reads only."""
    from sluicegate.streams.handlers.values import plain
    from sluicegate.streams.operations.groups import group_changes

    with _opened(file, name) as (app, agent, store):
        shown = [(group, plain(group.values)) for group in _named(app, agent, store, key, window)]
        columns = _columns(agent)
    if json:
        print_json({"groups": [{**group_changes.document(group), "values": values} for group, values in shown]})
        return DONE
    for group, values in shown:
        print_table(columns, [_row(group)])
        print_table(("field", "value"), [[name, str(value)] for name, value in values.items()])
    return DONE


@groups.command()
def why(
    file: FileArgument, name: AgentName, key: KeyArgument, window: WindowOption = None, json: AsJson = False
) -> int:
    """Explain what a group waits for. Reads only."""
    from sluicegate.streams.operations.groups import group_changes, open_groups

    with _opened(file, name) as (app, agent, store):
        agent, note = group_changes.under_deployed(app.name, agent, store)
        reasons = [(group, open_groups.why(group, agent)) for group in _named(app, agent, store, key, window)]
    if json:
        shown = [{**group_changes.document(group), "why": words} for group, words in reasons]
        print_json({"groups": shown} | ({"note": note} if note else {}))
        return DONE
    print_text(*(f"{group_changes.where(group)}: {words}" for group, words in reasons), *([note] if note else []))
    return DONE


@groups.command()
def fire(
    file: FileArgument,
    name: AgentName,
    key: KeyArgument,
    partition: PartitionOption = None,
    window: WindowOption = None,
    why: Why = "",
    by: By = "",
    json: AsJson = False,
) -> int:
    """Complete a group now, with the reason `manual`. The group of a stopped agent fires when the agent starts."""
    from sluicegate.streams.operations.groups import group_changes

    with _opened(file, name) as (app, agent, store):
        group = _one(app, agent, store, key, partition, window)
        group_changes.fire(store, agent, group, key, person(why, by))
    many = "in all its windows" if group_changes.overlap(group) else f"with {counted(group.records, 'record')} or more"
    text = f"{group_changes.where(group)}: {key} fires {many} as soon as a worker runs"
    print_json({"fire": group_changes.document(group)}) if json else print_text(text)
    return DONE


@groups.command()
def drop(
    file: FileArgument,
    name: AgentName,
    key: KeyArgument,
    partition: PartitionOption = None,
    window: WindowOption = None,
    why: Why = "",
    by: By = "",
    yes: Yes = False,
    json: AsJson = False,
) -> int:
    """Drop a group and its records. It never has a result."""
    from sluicegate.streams.operations.groups import group_changes

    with _opened(file, name) as (app, agent, store):
        group = _one(app, agent, store, key, partition, window)
        many = "all windows" if group_changes.overlap(group) else counted(group.records, "record")
        confirm(f"{group_changes.where(group)}: forget {many} of {key}?", yes)
        with history_outputs(app, agent) as outputs:
            group_changes.drop(store, agent, group, key, person(why, by), outputs)
    print_json({"drop": group_changes.document(group)}) if json else print_text(
        f"{group_changes.where(group)}: {key} is dropped"
    )
    return DONE


@contextmanager
def _opened(file: str, name: str) -> Iterator[tuple[App, Agent, "Store"]]:
    """Same as `opened`. Raises ConfigurationError for an agent that never has a group."""
    from sluicegate.streams.operations.groups.group_changes import require_groups

    with opened(file, name) as (app, agent, store):
        require_groups(agent)
        yield app, agent, store


@contextmanager
def history_outputs(app: App, agent: Agent) -> Iterator["OutputFacts | None"]:
    """The description of the topics of an agent with `history`; None: it is not needed, or no broker answers."""

    if not agent.history or app.embedded:
        yield None
        return
    from sluicegate.connectors.kafka.clusters.routed import open_producer

    with closing(open_producer(app.brokers)) as producer:
        yield producer


def _named(app: App, agent: Agent, store: "Store", key: str, window: str | None = None) -> list["OpenGroup"]:
    from sluicegate.streams.operations.groups.group_changes import named

    return named(app.name, agent, store, time.time(), key, window)


def _one(app: App, agent: Agent, store: "Store", key: str, place: str | None, window: str | None = None) -> "OpenGroup":
    from sluicegate.streams.operations.groups.group_changes import only

    return only(_named(app, agent, store, key, window), key, place)


def _columns(agent: Agent) -> tuple[str, ...]:
    return (*COLUMNS, "window!") if agent.windowed else COLUMNS


def _row(group: "OpenGroup") -> tuple[object, ...]:
    from sluicegate.streams.operations.groups import group_changes

    fires = "-" if group.fires_in is None else due(group.fires_in)
    where = group.partition.topic, group.partition.number
    text = group.key.decode(errors="replace")
    row = text, *where, group.records, age(group.age), fires, group.bytes, group.owner or "-"
    return row if group.window is None else (*row, group_changes.document(group)["window"])
