"""`sluicegate groups`: the open groups of an agent, whether it runs or not."""

import base64
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.changing import AgentName, By, Why, Yes, confirm, opened, person
from sluicegate.streams.cli.commands import Commands
from sluicegate.streams.cli.outcome import DONE
from sluicegate.streams.cli.output import age, print_json, print_list, print_table
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.units import moment
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.contracts.leased_values import SealedBatch
    from sluicegate.streams.contracts.stores import OutputFacts, Store
    from sluicegate.streams.journal.amending import Person
    from sluicegate.streams.operations.open_groups import OpenGroup

groups = Commands("groups", "The open groups of an agent: what they hold and wait for; fire or drop.")
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The group's key; `base64:...` for one that is no text.")
]
PartitionOption = Annotated[
    str | None, typer.Option(metavar="TOPIC/NUMBER", help="Where the key has a group in several partitions.")
]
WindowOption = Annotated[
    str | None, typer.Option(metavar="START", help="The begin of the window, as `groups ls` shows it.")
]
COLUMNS = ("key", "topic", ">partition", ">count", ">age", ">fires in", ">bytes", "owner")


@groups.command()
def ls(file: FileArgument, name: AgentName, json: AsJson = False) -> int:
    """All of them, oldest first within a partition; claims nothing."""
    with _opened(file, name) as (app, agent, store):
        found = _found(app, agent, store)
    columns = _columns(agent)
    print_list(json, "groups", [_document(each) for each in found], columns, [_row(each) for each in found])
    return DONE


@groups.command()
def show(
    file: FileArgument, name: AgentName, key: KeyArgument, window: WindowOption = None, json: AsJson = False
) -> int:
    """What a group has computed so far: values of the application; claims nothing."""
    from sluicegate.streams.handlers.values import plain

    with _opened(file, name) as (app, agent, store):
        found = [(each, plain(each.values)) for each in _named(app, agent, store, key, window)]
        columns = _columns(agent)
    if json:
        print_json({"groups": [{**_document(each), "values": values} for each, values in found]})
        return DONE
    for each, values in found:
        print_table(columns, [_row(each)])
        print_table(("field", "value"), [[name, str(value)] for name, value in values.items()])
    return DONE


@groups.command()
def why(
    file: FileArgument, name: AgentName, key: KeyArgument, window: WindowOption = None, json: AsJson = False
) -> int:
    """What a group waits for, in words; claims nothing."""
    from sluicegate.streams.operations import open_groups

    with _opened(file, name) as (app, agent, store):
        found = [(each, open_groups.why(each, agent)) for each in _named(app, agent, store, key, window)]
    if json:
        print_json({"groups": [{**_document(each), "why": words} for each, words in found]})
        return DONE
    for each, words in found:
        print(f"{_where(each)}: {words}")
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
    """Have its owner complete the group now, with reason `manual`; on a stopped agent, when it starts."""
    from sluicegate.streams.operations import open_groups, shared_groups

    with _opened(file, name) as (app, agent, store):
        group = _one(app, agent, store, key, partition, window)
        if agent.scope == "shared":
            batch = _sealed(app, agent, store, group.key, "groups fire", f"{agent.name} {key}", person(why, by))
            shared_groups.fire(store.buffer, app.name, agent, batch)
        else:
            open_groups.fire(store, group, person(why, by))
    text = f"{_where(group)}: {key} fires with {counted(group.records, 'record')} or more as soon as a worker runs"
    print_json({"fire": _document(group)}) if json else print(text)
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
    """Forget a group and its records: nothing of it is ever sent."""
    from sluicegate.streams.operations import open_groups, shared_groups

    with _opened(file, name) as (app, agent, store):
        group = _one(app, agent, store, key, partition, window)
        confirm(f"{_where(group)}: forget {counted(group.records, 'record')} of {key}?", yes)
        if agent.scope == "shared":
            batch = _sealed(app, agent, store, group.key, "groups drop", f"{agent.name} {key}", person(why, by))
            shared_groups.drop(store.buffer, app.name, agent, batch)
        else:
            with _outputs(app, agent) as outputs:
                open_groups.drop(store, group, agent, person(why, by), outputs)
    print_json({"drop": _document(group)}) if json else print(f"{_where(group)}: {key} is forgotten")
    return DONE


def _sealed(app: App, agent: Agent, store: "Store", key: bytes, what: str, noted: str, who: "Person") -> "SealedBatch":
    """The group's batch of the shared buffer, no longer open. A note in the journal says what is done to it."""
    from sluicegate.streams.journal.journal import note
    from sluicegate.streams.operations import shared_groups

    batch = shared_groups.sealed(store.buffer, app.name, agent, key)
    note(store, app.name, who, what, noted)
    return batch


@contextmanager
def _opened(file: str, name: str) -> Iterator[tuple[App, Agent, "Store"]]:
    """As `opened`. Raises ConfigurationError for an agent that never has a group."""
    with opened(file, name) as (app, agent, store):
        if not agent.grouped:
            does = "forwards each record" if agent.forwards else "hands each record to its handler"
            does = "copies each record under another key" if agent.rekeys else does
            raise ConfigurationError(
                f"agent {name} has no groups: it {does}; only an agent with `aggregate` has groups"
            )
        yield app, agent, store


@contextmanager
def _outputs(app: App, agent: Agent) -> Iterator["OutputFacts | None"]:
    """What describes the topics of an agent with `history`; None where it is not needed, or no broker answers."""
    from sluicegate.streams.config.kafka import EMBEDDED

    if not agent.history or app.kafka["bootstrap.servers"] == EMBEDDED:
        yield None
        return
    from sluicegate.connectors.kafka.producer import open_producer

    with closing(open_producer(app.kafka)) as producer:
        yield producer


def _found(app: App, agent: Agent, store: "Store", key: bytes | None = None) -> list["OpenGroup"]:
    from sluicegate.streams.operations.open_groups import open_groups
    from sluicegate.streams.operations.shared_groups import shared_groups

    if agent.scope == "shared":
        return shared_groups(store.buffer, app.name, agent, time.time(), key)
    return open_groups(store, app.name, agent, key)


def _named(app: App, agent: Agent, store: "Store", key: str, window: str | None = None) -> list["OpenGroup"]:
    """The groups of this key, of one window or of all. Raises ConfigurationError when there is none."""
    encoded = key.removeprefix("base64:")
    try:
        name = key.encode() if encoded == key else base64.b64decode(encoded, validate=True)
    except ValueError:
        raise ConfigurationError(f"{key} is no base64") from None
    found = _found(app, agent, store, name)
    if window is not None:
        found = [each for each in found if each.window is not None and each.window.start == _begin(window)]
    if not found:
        raise ConfigurationError(
            f"agent {agent.name} has no open group {key}; `sluicegate groups ls` lists what is open"
        )
    return found


def _begin(window: str) -> int:
    """In milliseconds since 1970. Raises ConfigurationError."""
    seconds = moment(window)
    if seconds is None:
        raise ConfigurationError(f"--window {window} is no time; write one such as 2026-01-31T08:05:00Z")
    return round(1000 * seconds)


def _one(app: App, agent: Agent, store: "Store", key: str, place: str | None, window: str | None = None) -> "OpenGroup":
    found = [each for each in _named(app, agent, store, key, window) if place in (None, _where(each))]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigurationError(f"there is no open group {key} in {place}")
    if len({each.partition for each in found}) == 1:
        starts = ", ".join(str(_document(each)["window"]) for each in found)
        raise ConfigurationError(f"{key} is open in the windows {starts}: choose one with --window")
    raise ConfigurationError(f"{key} is open in {', '.join(map(_where, found))}: choose one with --partition")


def _where(group: "OpenGroup") -> str:
    return f"{group.partition.topic}/{group.partition.number}"


def _columns(agent: Agent) -> tuple[str, ...]:
    return (*COLUMNS, "window") if agent.windowed else COLUMNS


def _row(group: "OpenGroup") -> tuple[object, ...]:
    due = "-" if group.fires_in is None else age(group.fires_in)
    where = group.partition.topic, group.partition.number
    text = group.key.decode(errors="replace")
    row = text, *where, group.records, age(group.age), due, group.bytes, group.owner or "-"
    return row if group.window is None else (*row, _document(group)["window"])


def _document(group: "OpenGroup") -> dict[str, object]:
    from sluicegate.streams.aggregation.results import rfc3339

    try:
        made: dict[str, object] = {"key": group.key.decode()}
    except UnicodeDecodeError:
        made = {"key_base64": base64.b64encode(group.key).decode()}
    made |= {"topic": group.partition.topic, "partition": group.partition.number, "owner": group.owner or None}
    made["count"] = group.records
    if group.window is not None:
        made["window"] = rfc3339(group.window.start / 1000)
    return made | {name: getattr(group, name) for name in ("first", "last", "bytes", "age", "fires_in")}
