"""`sluicegate dead`: outbox rows that the broker refused for good, and dead letters in Kafka."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.changing import AgentAndId, AgentName, By, Why, chosen, confirm, named, opened, person
from sluicegate.streams.cli.commands import Commands
from sluicegate.streams.cli.outcome import DONE, DONE_BEFORE, NOT_ACCEPTED, SYSTEM, complain
from sluicegate.streams.cli.output import age, print_json, print_table
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.dead_changes import DeadListing, OpenTopics

dead = Commands("dead", "Dead letters, and rows that the broker never took: list, show, retry.")
PerPartitionLimit = Annotated[
    int, typer.Option(min=1, help="Of each partition of dead letters, look at the newest so many.")
]
FIELDS = ("id", "kind", "agent", "stage", "reason", "attempts", "age", "retried", "error")
COLUMNS = ("id!", "kind", "agent", "stage", "reason", ">attempts", ">age", "retried", "error")
NEWEST = 10_000


@dead.command()
def ls(
    file: FileArgument,
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Of this agent only.")] = None,
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Oldest first; claims nothing. A letter's id is the place of its record, a row's id is its own."""
    from sluicegate.streams.operations.dead_changes import of_letter, of_row

    with chosen(file, agent) as (app, agents, store):
        seen = _look(app, agents, store, limit)
    documents = [*map(of_row, seen.rows), *(of_letter(letter, seen.retried) for letter in seen.letters)]
    if json:
        print_json({"dead": documents, "unreachable": seen.missing or None, "older": seen.older})
    else:
        print_table(COLUMNS, [[_cells(document)[name] for name in FIELDS] for document in documents])
        _hint(seen)
    return SYSTEM if seen.missing else DONE


@dead.command()
def show(
    file: FileArgument,
    words: AgentAndId,
    payload: Annotated[bool, typer.Option("--payload", help="Its key and value, too.")] = False,
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Everything about one, with its headers. The id is as `ls` shows it."""
    from sluicegate.streams.operations import dead_changes

    name, id = named(words)
    with chosen(file, name) as (app, agents, store):
        seen = _look(app, agents, store, limit)
        rows, letters = dead_changes.named(seen, [id])
    document = dead_changes.of_row(rows[0]) if rows else dead_changes.of_letter(letters[0], seen.retried)
    more = dead_changes.payload(rows, letters)
    headers = more.pop("headers")
    more = more if payload else {}
    if json:
        print_json({**document, **more, "headers": headers})
        return DONE
    print_table(("field", "value"), {**_cells(document), **more}.items())
    print_table(("header", "value"), [header.values() for header in headers])
    return DONE


@dead.command()
def retry(
    file: FileArgument,
    name: AgentName,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="As `ls` shows them; or --all.")] = None,
    all: Annotated[bool, typer.Option("--all", help="All that `ls` shows of this agent.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Letters that were retried before, too.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask when consumer groups that are not ours read the topic.")
    ] = False,
    unproven: Annotated[
        bool,
        typer.Option("--unproven", help="Letters without a MAC of the app, too, such as those of an earlier release."),
    ] = False,
    why: Why = "",
    by: By = "",
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Rows go into their outbox again; the records of letters go to their topic again, each once; the handler is called
    again for completed groups.

    Of the agents that read the topic only this one takes them again. Exit code 4: something cannot be retried. Exit
    code 5: something was retried before, and was not retried again.
    """
    from sluicegate.streams.operations import dead_changes

    if bool(ids) == all:
        raise ConfigurationError("name what to retry, or write --all")
    with opened(file, name) as (app, agent, store):
        seen = _look(app, [agent], store, limit)
        rows, letters, done = dead_changes.chosen(app, agent, store, seen, ids or ())
        topics = _topics(app)
        if letters and not yes and (text := dead_changes.question(topics(), letters)):
            confirm(f"{text}. Send?", yes=False)
        result = dead_changes.retry(
            app, agent, store, topics, rows, letters, lambda: person(why, by), again, lambda: _Waiting().wait, unproven
        )
        result["refused"] += [id for id in ids or () if id in done and id not in {row.row.id for row in rows}]
    return _report(result, json)


def _report(result: dict[str, Any], json: bool) -> int:
    if json:
        print_json(result)
    else:
        rows, records = counted(result["rows"], "row"), counted(result["sent"], "record")
        groups = f"{counted(result['groups'], 'group')} to be handled again, " if result["groups"] else ""
        print(
            f"{rows} in the outbox again, {records} sent, {groups}{result['found']} had been sent before this command"
        )
        for place in result["refused"]:
            complain(
                f"sluicegate: {place} was retried before: `sluicegate audit` says when; --again sends a record once "
                "more"
            )
        for letter in result["left_out"]:
            complain(f"sluicegate: {letter['id']} was left out: {letter['why']}")
    return NOT_ACCEPTED if result["left_out"] else DONE_BEFORE if result["refused"] else DONE


def _look(app: App, agents: Sequence[Agent], store: "Store", limit: int) -> "DeadListing":
    from sluicegate.streams.operations.dead_changes import listing

    return listing(app, agents, store, _topics(app), limit)


def _topics(app: App) -> "OpenTopics":
    from sluicegate.streams.cli.letters import BrokerTopics

    return lambda: BrokerTopics(app)


class _Waiting:
    """Waits for another command that changes the same journal. Says so once the wait is long."""

    said = False

    def wait(self, seconds: float) -> None:
        from sluicegate.streams.operations.dead_letters import LOOK_EVERY

        if seconds >= LOOK_EVERY and not self.said:
            complain(
                "sluicegate: another retry of the same records began less than 20 s ago: waiting until it has ended"
            )
            self.said = True
        time.sleep(seconds)


def _cells(document: dict[str, Any]) -> dict[str, Any]:
    """The cells for a reader: the age with its unit, `yes` for a letter that was retried."""
    shown = {**document, "retried": "yes" if document["retried"] else None}
    return shown if document["age"] is None else {**shown, "age": age(document["age"])}


def _hint(seen: "DeadListing") -> None:
    if seen.missing:
        complain(f"sluicegate: dead letters cannot be read: {seen.missing}")
    if seen.older:
        complain(f"sluicegate: not looked at: {counted(seen.older, 'older record')}; --limit looks at more")
