"""`sluicegate outbox`: the rows that applications, timeouts and buffers have written to be sent."""

from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.cli.changing import By, Why, Yes, confirm, noted, rows_of
from sluicegate.streams.cli.listing import listing
from sluicegate.streams.cli.outcome import DONE, ending
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.contracts.messages import StoredMessage

outbox = listing("outbox", "Rows to be sent that are no agent's own: list, show, retry, drop.")
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="Ids of rows, as `ls` shows them.", show_default=False)]
RowLimit = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
COLUMNS = ("id", "state", "topic", "key", ">lane", ">attempts", "created", "next attempt", "reason")


@outbox.command("ls")
@ending
def ls(
    file: FileArgument,
    state: Annotated[str | None, typer.Option("--state", help="pending, dispatched or dead.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Of this topic only.")] = None,
    limit: RowLimit = 1000,
    json: AsJson = False,
) -> int:
    """Oldest first; dispatched rows are kept for the retention of the file."""
    from sluicegate.streams.cli.output import print_json, print_table

    if state not in (None, "pending", "dispatched", "dead"):
        raise ConfigurationError(f"--state {state}: is none; write pending, dispatched or dead")
    with rows_of(file) as store:
        found = store.outbox.find(state, topic, limit)
    if json:
        print_json({"rows": [_document(each) for each in found]})
        return DONE
    print_table(COLUMNS, [_row(each) for each in found])
    return DONE


@outbox.command("show")
@ending
def show(
    file: FileArgument,
    id: Annotated[str, typer.Argument(metavar="ID", help="The row's id.", show_default=False)],
    payload: Annotated[bool, typer.Option("--payload", help="Its value, too.")] = False,
    json: AsJson = False,
) -> int:
    """A row, its headers, and what became of each attempt."""
    from sluicegate.streams.cli.output import print_json, print_table

    with rows_of(file) as store:
        row = store.outbox.get(id)
        if row is None:
            raise ConfigurationError(f"the outbox has no row {id}; `sluicegate outbox ls` lists what it has")
        attempts = store.outbox.attempts_of(id)
    said = [{"attempt": n.number, "at": _time(n.at), "outcome": n.outcome, "error": n.error} for n in attempts]
    headers = {name: _text(value) for name, value in row.message.headers}
    more = {"value": _text(row.message.value)} if payload else {}
    if json:
        print_json({**_document(row), "headers": headers, **more, "history": said})
        return DONE
    print_table(
        ("field", "value"), [[name, str(value)] for name, value in {**_document(row), **headers, **more}.items()]
    )
    print_table((">attempt", "at", "outcome", "error"), [[str(value) for value in each.values()] for each in said])
    return DONE


@outbox.command("retry")
@ending
def retry(
    file: FileArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="All dead rows unless named.")] = None,
    why: Why = "",
    by: By = "",
) -> int:
    """Dead rows are pending again, with no attempts."""
    with noted(file, "outbox retry", ids or ["all dead rows"], why, by) as store:
        print(f"{store.outbox.requeue(ids)} pending again")
    return DONE


@outbox.command("drop")
@ending
def drop(file: FileArgument, ids: Ids, yes: Yes = False, why: Why = "", by: By = "") -> int:
    """Delete rows that are pending or dead: they are never sent."""
    from sluicegate.streams.wording import counted

    confirm(f"delete {counted(len(ids), 'row')} unsent?", yes)
    with noted(file, "outbox drop", ids, why, by) as store:
        print(f"{store.outbox.drop(ids)} dropped")
    return DONE


def _document(row: "StoredMessage") -> dict[str, object]:
    message = row.message
    return {
        "id": message.id,
        "state": row.state,
        "topic": message.topic,
        "key": _text(message.key),
        "lane": row.lane,
        "attempts": row.attempts,
        "created_at": _time(row.created_at),
        "dispatched_at": _time(row.dispatched_at),
        "next_attempt_at": _time(row.next_attempt_at),
        "reason": row.reason,
    }


def _row(row: "StoredMessage") -> list[str]:
    said = _document(row)
    wanted = ("id", "state", "topic", "key", "lane", "attempts", "created_at", "next_attempt_at", "reason")
    return ["" if said[name] is None else str(said[name]) for name in wanted]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _time(at: object) -> str | None:
    from datetime import datetime

    return at.isoformat(timespec="milliseconds") if isinstance(at, datetime) else None
