"""`sluicegate timeouts`: the scheduled table."""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID, uuid4

import typer

from sluicegate.streams.cli.opening.changing import By, Why, noted
from sluicegate.streams.cli.opening.files import loaded, shared_store
from sluicegate.streams.cli.terminal.commands import Commands
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json, print_list
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError

timeouts = Commands("timeouts", "List, cancel, reschedule or add scheduled timeouts.")
TimeoutIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The timeout's id, as `ls` shows it.")]
When = Annotated[str, typer.Argument(metavar="WHEN", help="An RFC 3339 time, or a duration from now: 15m.")]


@timeouts.command()
def ls(
    file: FileArgument,
    destination: Annotated[str | None, typer.Option(help="Only those for this topic.")] = None,
    owner: Annotated[
        str | None, typer.Option(help="Only those of this owner (app/agent for what handlers scheduled).")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Only those with this key.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 1000,
    json: AsJson = False,
) -> int:
    """List scheduled timeouts, earliest first. Reads only."""
    from sluicegate.streams.operations.stored_messages import timeout_document

    with shared_store(loaded(file)) as store:
        documents = [timeout_document(row) for row in store.timeouts.find(destination, owner, _bytes(key), limit)]
    print_list(json, "timeouts", documents, ("id!", "due!", "destination!", "key!", "owner!", "every"))
    return DONE


@timeouts.command()
def cancel(file: FileArgument, id: TimeoutIdArgument, why: Why = "", by: By = "", json: AsJson = False) -> int:
    """Cancel a timeout: it will not be sent."""
    wanted = _uuid(id)
    with noted(file, "timeouts cancel", [id], why, by) as store:
        _require(store.timeouts.cancel(wanted), id)
    print_json({"id": str(wanted)}) if json else print(f"{id} is cancelled")
    return DONE


@timeouts.command()
def reschedule(
    file: FileArgument, id: TimeoutIdArgument, when: When, why: Why = "", by: By = "", json: AsJson = False
) -> int:
    """Move a timeout to another time."""
    wanted, due = _uuid(id), _due(when)
    with noted(file, "timeouts reschedule", [f"{id} to {due.isoformat(timespec='seconds')}"], why, by) as store:
        _require(store.timeouts.reschedule(wanted, due), id)
    if json:
        print_json({"id": str(wanted), "due_at": due.isoformat(timespec="milliseconds")})
    else:
        print(f"{id} is due at {due.isoformat(timespec='seconds')}")
    return DONE


@timeouts.command()
def add(
    file: FileArgument,
    destination: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic of the message.")],
    when: Annotated[
        str | None, typer.Argument(metavar="[WHEN]", help="An RFC 3339 time, or a duration from now: 15m.")
    ] = None,
    value: Annotated[str | None, typer.Option(help="The message's value.")] = None,
    null: Annotated[bool, typer.Option("--null", help="Send null as the value.")] = False,
    key: Annotated[str | None, typer.Option(help="The message's key.")] = None,
    owner: Annotated[str | None, typer.Option(help="The owner of the timeout, for `ls --owner`.")] = None,
    every: Annotated[
        str | None,
        typer.Option(help="Repeat it each 15m, or at `0 2 * * mon-fri Europe/Vienna`. WHEN may then be left out."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="A name that is unique in the app, as for a handler's timeout.")
    ] = None,
    why: Why = "",
    by: By = "",
    json: AsJson = False,
) -> int:
    """Schedule a message, once or repeatedly, and print its id."""
    from sluicegate.streams.contracts.ids import named_timeout_id
    from sluicegate.streams.contracts.leased_values import Timeout
    from sluicegate.streams.operations.stored_messages import timeout_document

    if (value is not None) == null:
        raise ConfigurationError(
            "give the message's value with --value TEXT, or send a message without a value with --null"
        )
    app = loaded(file)
    id = uuid4() if name is None else named_timeout_id(app.name, name)
    try:
        timeout = Timeout(id, destination, _first(when, every), _bytes(key), _bytes(value), owner=owner, every=every)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    with noted(file, "timeouts add", [f"{timeout.id} to {destination}"], why, by) as store:
        store.timeouts.insert(timeout)
    print_json(timeout_document(timeout)) if json else print(timeout.id)
    return DONE


def _first(when: str | None, every: str | None) -> datetime:
    """The first due time, by this machine's clock. Raises ConfigurationError, and ValueError for `every`."""
    from sluicegate.streams.contracts.recurring import recurrence

    if when is not None:
        return _due(when)
    if every is None:
        raise ConfigurationError("give WHEN the message is due, or --every")
    now = datetime.now(UTC)
    return recurrence(every).following(now, now)


def _require(exists: bool, id: str) -> None:
    if not exists:
        raise ConfigurationError(f"there is no pending timeout {id}; `sluicegate timeouts ls` lists them")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ConfigurationError(f"{text} is not an id of a timeout (a UUID)") from None


def _due(text: str) -> datetime:
    """The time of an RFC 3339 text, or of a duration from now, by this machine's clock."""
    from sluicegate.streams.units import duration, moment

    if (seconds := duration(text)) is not None:
        return datetime.now(UTC) + timedelta(seconds=seconds)
    if (at := moment(text)) is not None:
        return datetime.fromtimestamp(at, UTC)
    raise ConfigurationError(f"{text} is neither a time (2026-11-21T12:00:00Z) nor a duration (15m)")
