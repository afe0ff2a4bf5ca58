"""`sluicegate dead`: outbox rows that the broker refused for good, and dead letters in Kafka."""

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.changing import (
    AgentAndId,
    AgentName,
    By,
    Why,
    Yes,
    chosen,
    confirm,
    named,
    opened,
    person,
)
from sluicegate.streams.cli.terminal.commands import Commands
from sluicegate.streams.cli.terminal.outcome import DONE, DONE_BEFORE, NOT_ACCEPTED, SYSTEM, complain
from sluicegate.streams.cli.terminal.output import age, print_json, print_table
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.dead.dead_changes import DeadListing, OpenTopics
    from sluicegate.streams.operations.dead.dead_letters import Letter
    from sluicegate.streams.operations.dead.dead_rows import DeadOutput

dead = Commands("dead", "List, show, retry, archive or drop dead letters, and rows that the broker refused.")
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="The ids, as `ls` shows them.")]
All = Annotated[bool, typer.Option("--all", help="All dead letters and rows of this agent that were not dropped.")]
CauseOption = Annotated[
    str | None, typer.Option("--cause", metavar="CAUSE", help="Only those of this cause, as `ls --by cause` shows it.")
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="EXPRESSION",
        help="Only those for which this expression is true, such as 'reason == \"handler-failed\" && age > 3600.0'.",
    ),
]
PerPartitionLimit = Annotated[
    int, typer.Option(min=1, help="Read at most this many of the newest letters of each partition.")
]
CAUSES = ("cause!", ">count", "agent!", "stage", "reason", ">oldest", ">newest", "id!", "error")
FIELDS = ("id", "kind", "agent", "stage", "reason", "attempts", "age", "retried", "error")
COLUMNS = ("id!", "kind", "agent!", "stage", "reason", ">attempts", ">age", "retried", "error")
NEWEST = 10_000


class ListedBy(StrEnum):
    id = "id"
    cause = "cause"


@dead.command()
def ls(
    file: FileArgument,
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only those of this agent.")] = None,
    by: Annotated[
        ListedBy, typer.Option("--by", help="Print a line for each of them, or for each cause.")
    ] = ListedBy.id,
    cause: CauseOption = None,
    where: WhereOption = None,
    all: Annotated[bool, typer.Option("--all", help="Include letters that were retried or dropped.")] = False,
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """List the open ones, oldest first. Reads only. The id of a letter is topic, partition and offset of its record."""
    from sluicegate.streams.operations.dead import dead_causes

    with chosen(file, agent) as (app, agents, store):
        seen = _look(app, agents, store, limit)
    items, unanswered = dead_causes.select(seen.whole if all else seen.open, cause, where)
    rest = {"unreachable": seen.missing or None, "older": seen.older}
    if by == ListedBy.cause:
        causes = [summary._asdict() for summary in dead_causes.causes(items)]
        if json:
            print_json({"causes": causes, **rest})
        else:
            print_table(CAUSES, [_cause_cells(summary) for summary in causes])
    elif json:
        print_json({"dead": [{**item.shown, "cause": item.cause} for item in items], **rest})
    else:
        columns = {name: field for name, field in zip(COLUMNS, FIELDS, strict=True) if all or field != "retried"}
        cells = [_cells(item.shown) for item in items]
        print_table(tuple(columns), [[row[field] for field in columns.values()] for row in cells])
    _hint(seen, unanswered)
    return SYSTEM if seen.missing else DONE


@dead.command()
def show(
    file: FileArgument,
    words: AgentAndId,
    payload: Annotated[bool, typer.Option("--payload", help="Show its key and value.")] = False,
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Show one of them with its headers. The id is as `ls` shows it."""
    from sluicegate.streams.operations.dead import dead_changes, dead_documents

    name, id = named(words)
    with chosen(file, name) as (app, agents, store):
        seen = _look(app, agents, store, limit)
        rows, letters = dead_changes.select_ids(seen, [id])
    document = dead_documents.of_row(rows[0]) if rows else dead_documents.of_letter(letters[0], seen.retried)
    more = dead_documents.payload(rows, letters)
    headers = more.pop("headers")
    more = more if payload else {}
    if json:
        print_json({**document, **more, "headers": headers})
        return DONE
    print_table(("field", "value"), {**_cells(document), **more}.items())
    print_table(("header!", "value"), [header.values() for header in headers])
    return DONE


@dead.command()
def retry(
    file: FileArgument,
    name: AgentName,
    ids: Ids = None,
    all: All = False,
    cause: CauseOption = None,
    where: WhereOption = None,
    again: Annotated[bool, typer.Option("--again", help="Include letters that were retried before.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask when consumer groups of other programs read the topic.")
    ] = False,
    unproven: Annotated[
        bool,
        typer.Option("--unproven", help="Include letters without a MAC of the app, such as of an earlier release."),
    ] = False,
    why: Why = "",
    by: By = "",
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Send them again: rows from their outbox, and the record of each letter to its topic, once. For completed groups
    the handler is called again.

    Only this agent processes the records again, not the other agents of the topic. Exit code 4: an item cannot be
    retried. Exit code 5: one of the ids was retried before, and was not retried again; `--all` leaves it out.
    """
    from sluicegate.streams.operations.dead import dead_changes

    with opened(file, name) as (app, agent, store):
        seen = _look(app, [agent], store, limit)
        seen = seen if ids or again else seen.open
        rows, letters, done = _selected(app, agent, store, seen, DeadSelection(ids or (), all, cause, where))
        topics = _topics(app)
        if letters and not yes and (text := dead_changes.question(topics(), letters)):
            confirm(f"{text}. Send?", yes=False)
        result = dead_changes.retry(
            app, agent, store, topics, rows, letters, lambda: person(why, by), again, lambda: _Waiting().wait, unproven
        )
        result["refused"] += [id for id in ids or () if id in done and id not in {row.row.id for row in rows}]
    return _report(result, json)


@dead.command()
def archive(
    file: FileArgument,
    name: AgentName,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="A new file, one JSON document a line.")],
    ids: Ids = None,
    all: All = False,
    cause: CauseOption = None,
    where: WhereOption = None,
    why: Why = "",
    by: By = "",
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Write them to a file, with key, value and headers in Base64, and drop them."""
    from sluicegate.streams.operations.dead import dead_changes
    from sluicegate.streams.operations.dead.dead_archive import write_archive

    with opened(file, name) as (app, agent, store):
        seen = _look(app, [agent], store, limit)
        rows, letters, _ = _selected(app, agent, store, seen, DeadSelection(ids or (), all, cause, where))
        write_archive(to, rows, letters, seen.retried)
        result = dead_changes.drop(app, store, rows, letters, lambda: person(why, by))
    return _report_drop({**result, "file": str(to)}, f"archived in {to}", json)


@dead.command()
def drop(
    file: FileArgument,
    name: AgentName,
    ids: Ids = None,
    all: All = False,
    cause: CauseOption = None,
    where: WhereOption = None,
    yes: Yes = False,
    why: Why = "",
    by: By = "",
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Drop them. Rows are deleted and never sent. Letters stay in their topic, but `ls`, `status` and the console leave
    them out for 30 days, as long as changes are kept."""
    from sluicegate.streams.operations.dead import dead_changes

    with opened(file, name) as (app, agent, store):
        seen = _look(app, [agent], store, limit)
        rows, letters, _ = _selected(app, agent, store, seen, DeadSelection(ids or (), all, cause, where))
        what = f"{counted(len(rows), 'row')} and {counted(len(letters), 'letter')}"
        confirm(f"{what} of {name} will be dropped. Drop?", yes)
        result = dead_changes.drop(app, store, rows, letters, lambda: person(why, by))
    return _report_drop(result, "dropped", json)


class DeadSelection(NamedTuple):
    """The selection of a command: these ids, all, or the items with this cause that match this expression."""

    ids: Sequence[str]
    all: bool
    cause: str | None
    where: str | None


def _selected(
    app: App, agent: Agent, store: "Store", seen: "DeadListing", selection: DeadSelection
) -> "tuple[list[DeadOutput], list[Letter], set[str]]":
    """The rows, the letters, and the ids of rows that were retried before. Raises ConfigurationError and
    SystemNotReady."""
    from sluicegate.streams.operations.dead import dead_causes, dead_changes

    ids, all, cause, where = selection
    if [bool(ids), all, cause is not None or where is not None].count(True) != 1:
        raise ConfigurationError("name what to change: ids, or --all, or --cause and --where")
    if cause is None and where is None:
        return dead_changes.select(app, agent, store, seen, ids)
    if seen.missing:
        raise SystemNotReady(f"dead letters cannot be read: {seen.missing}")
    items, unanswered = dead_causes.select(seen, cause, where)
    _hint(seen, unanswered)
    return *dead_causes.divided(items), set()


def _report_drop(result: Mapping[str, Any], what: str, json: bool) -> int:
    if json:
        print_json(result)
    else:
        print(f"{counted(result['rows'], 'row')} and {counted(result['letters'], 'letter')} {what}")
    return DONE


def _report(result: dict[str, Any], json: bool) -> int:
    if json:
        print_json(result)
    else:
        outcomes = (
            ("rows", "row", "in the outbox again"),
            ("sent", "record", "sent"),
            ("groups", "group", "to be handled again"),
            ("found", "record", "sent before by a command that did not end"),
        )
        done = [f"{counted(result[name], noun)} {what}" for name, noun, what in outcomes if result[name]]
        print(", ".join(done) or "nothing was sent")
        for place in result["refused"]:
            complain(
                f"sluicegate: {place} was retried before: `sluicegate audit` says when; --again sends a record once "
                "more"
            )
        for letter in result["left_out"]:
            complain(f"sluicegate: {letter['id']} was left out: {letter['why']}")
    return NOT_ACCEPTED if result["left_out"] else DONE_BEFORE if result["refused"] else DONE


def _look(app: App, agents: Sequence[Agent], store: "Store", limit: int) -> "DeadListing":
    from sluicegate.streams.operations.dead.dead_changes import listing

    return listing(app, agents, store, _topics(app), limit)


def _topics(app: App) -> "OpenTopics":
    from sluicegate.streams.cli.letters import BrokerTopics

    return lambda: BrokerTopics(app)


class _Waiting:
    """Waits for another command that changes the same journal, and prints a line when the wait is long."""

    reported = False

    def wait(self, seconds: float) -> None:
        from sluicegate.streams.operations.dead.dead_letters import LOOK_EVERY

        if seconds >= LOOK_EVERY and not self.reported:
            complain(
                "sluicegate: another retry of the same records began less than 20 s ago: waiting until it has ended"
            )
            self.reported = True
        time.sleep(seconds)


def _cells(document: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of the table: the age with its unit, `yes` for a letter that was retried."""
    shown = {**document, "retried": "yes" if document["retried"] else None}
    return shown if document["age"] is None else {**shown, "age": age(document["age"])}


def _cause_cells(summary: dict[str, Any]) -> list[Any]:
    ages = {name: None if summary[name] is None else age(summary[name]) for name in ("oldest", "newest")}
    shown = {**summary, **ages, "count": summary["size"]}
    return [shown[name.strip("!>")] for name in CAUSES]


def _hint(seen: "DeadListing", unanswered: int = 0) -> None:
    if unanswered:
        complain(f"sluicegate: left out, because the expression has no answer for them: {unanswered}")
    if seen.missing:
        complain(f"sluicegate: dead letters cannot be read: {seen.missing}")
    if seen.older:
        complain(f"sluicegate: not looked at: {counted(seen.older, 'older record')}; --limit looks at more")
