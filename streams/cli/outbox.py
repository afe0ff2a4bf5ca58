"""`sluicegate outbox`: the rows that applications, timeouts and buffers wrote into the store's outbox."""

from typing import Annotated

import typer

from sluicegate.streams.cli.opening.changing import By, Why, Yes, confirm, noted
from sluicegate.streams.cli.opening.files import loaded, shared_store
from sluicegate.streams.cli.terminal.commands import Commands
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json, print_list, print_table
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.wording import counted

outbox = Commands("outbox", "List, show, retry or drop messages of applications, timeouts and buffers.")
COLUMNS = ("id!", "state", "topic!", "key!", ">lane", ">attempts", "created!", "next attempt!", "reason")
FIELDS = ("id", "state", "topic", "key", "lane", "attempts", "created_at", "next_attempt_at", "reason")


@outbox.command()
def ls(
    file: FileArgument,
    state: Annotated[str | None, typer.Option(help="Only rows in this state: pending, dispatched or dead.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only rows of this topic.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 1000,
    json: AsJson = False,
) -> int:
    """List the rows, oldest first. Dispatched rows are kept for the retention of the file."""
    from sluicegate.streams.operations.stored_messages import message_document

    if state not in (None, "pending", "dispatched", "dead"):
        raise ConfigurationError(f"--state {state}: no such state; write pending, dispatched or dead")
    with shared_store(loaded(file)) as store:
        documents = [message_document(message) for message in store.outbox.find(state, topic, limit)]
    print_list(json, "rows", documents, COLUMNS, [[document[field] for field in FIELDS] for document in documents])
    return DONE


@outbox.command()
def show(
    file: FileArgument,
    id: Annotated[str, typer.Argument(metavar="ID", help="The row's id.")],
    payload: Annotated[bool, typer.Option("--payload", help="Show its value, too.")] = False,
    json: AsJson = False,
) -> int:
    """Show a row, its headers, and the outcome of each attempt."""
    from sluicegate.streams.operations.stored_messages import message_document, text_of, time_text

    with shared_store(loaded(file)) as store:
        row = store.outbox.get(id)
        if row is None:
            raise ConfigurationError(f"the outbox has no row {id}; `sluicegate outbox ls` lists its rows")
        attempts = store.outbox.attempts_of(id)
    history = [{"attempt": n.number, "at": time_text(n.at), "outcome": n.outcome, "error": n.error} for n in attempts]
    headers = {name: text_of(value) for name, value in row.message.headers}
    more = {"value": text_of(row.message.value)} if payload else {}
    if json:
        print_json({**message_document(row), "headers": headers, **more, "history": history})
        return DONE
    print_table(("field", "value"), {**message_document(row), **headers, **more}.items())
    print_table((">attempt", "at!", "outcome", "error"), [attempt.values() for attempt in history])
    return DONE


@outbox.command()
def retry(
    file: FileArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="The ids. Without any, all dead rows.")] = None,
    why: Why = "",
    by: By = "",
    json: AsJson = False,
) -> int:
    """Make dead rows pending again. Their attempts begin again."""
    with noted(file, "outbox retry", ids or ["all dead rows"], why, by) as store:
        count = store.outbox.requeue(ids)
    print_json({"pending": count}) if json else print(f"{count} pending again")
    return DONE


@outbox.command()
def drop(
    file: FileArgument,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of rows, as `ls` shows them.")],
    yes: Yes = False,
    why: Why = "",
    by: By = "",
    json: AsJson = False,
) -> int:
    """Delete rows that are pending or dead: they are never sent."""
    confirm(f"delete {counted(len(ids), 'row')} unsent?", yes)
    with noted(file, "outbox drop", ids, why, by) as store:
        count = store.outbox.drop(ids)
    print_json({"dropped": count}) if json else print(f"{count} dropped")
    return DONE
