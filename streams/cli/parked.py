"""`sluicegate parked`: the items whose handler failed for good, where the file says `then: park`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.cli.opening.changing import AgentName, By, Why, opened, person
from sluicegate.streams.cli.terminal.commands import Commands
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json, print_list
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.parking import Parked

parked = Commands("parked", "List or retry messages and groups whose handler failed (`then: park`).")


@parked.command()
def ls(file: FileArgument, name: AgentName, json: AsJson = False) -> int:
    """List the parked messages and groups. Reads only."""
    with _opened(file, name) as (_, items):
        print_list(
            json, "parked", [_document(item) for item in items], ("place!", "kind", "key!", ">attempts", "error")
        )
    return DONE


@parked.command()
def retry(
    file: FileArgument,
    name: AgentName,
    places: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="The ids. Without any, all of them.")
    ] = None,
    why: Why = "",
    by: By = "",
    json: AsJson = False,
) -> int:
    """Retry parked items. Their attempts begin again, and later items of their keys follow."""
    from sluicegate.streams.operations import parking

    with _opened(file, name) as (store, items):
        unknown = set(places or ()) - {_place(item) for item in items}
        if unknown:
            raise ConfigurationError(
                f"nothing is parked at {', '.join(sorted(unknown))}; `sluicegate parked ls` lists the parked items"
            )
        chosen = [item for item in items if not places or _place(item) in places]
        for partition in sorted({row.partition for row in chosen}):
            numbers = [item.number for item in chosen if item.partition == partition]
            parking.retry(store, partition, numbers, person(why, by))
    print_json({"retried": [_place(item) for item in chosen]}) if json else print(
        f"{counted(len(chosen), 'item')} will be retried"
    )
    return DONE


@contextmanager
def _opened(file: str, name: str) -> Iterator[tuple["Store", list["Parked"]]]:
    """The store and its parked items."""
    from sluicegate.streams.operations import parking

    with opened(file, name) as (app, agent, store):
        yield store, parking.parked(store, app.name, agent)


def _place(item: "Parked") -> str:
    return f"{item.partition.topic}/{item.partition.number}/{item.offset}"


def _document(item: "Parked") -> dict[str, object]:
    key = item.key.decode(errors="replace")
    return {"place": _place(item), "kind": item.kind, "key": key, "attempts": item.attempts, "error": item.error}
