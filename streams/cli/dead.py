"""`sluicegate dead`: outbox rows that the broker refused for good, and dead letters in Kafka."""

import time
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.changing import AgentName, By, Why, chosen, confirm, opened, person
from sluicegate.streams.cli.commands import Commands
from sluicegate.streams.cli.outcome import DONE, DONE_BEFORE, SYSTEM, complain
from sluicegate.streams.cli.output import age, print_json, print_table
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.contracts.values import OutboxRow
    from sluicegate.streams.operations.dead_letters import Letter
    from sluicegate.streams.operations.dead_rows import DeadOutput

dead = Commands("dead", "Dead letters, and rows that the broker never took: list, show, retry.")
DeadIdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `ls` shows it.")]
PerPartitionLimit = Annotated[
    int, typer.Option(min=1, help="Of each partition of dead letters, look at the newest so many.")
]
FIELDS = ("id", "kind", "agent", "stage", "reason", "attempts", "age", "error")
COLUMNS = ("id", "kind", "agent", "stage", "reason", ">attempts", ">age", "error")
NEWEST, PAGE = 10_000, 1000


class DeadListing(NamedTuple):
    """Dead rows and dead letters. `missing` says why there are no letters, `older` counts the older records of the
    dead-letter topics, which were not read."""

    rows: "list[DeadOutput]"
    letters: "list[Letter]"
    missing: str
    older: int


@dead.command()
def ls(
    file: FileArgument,
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Of this agent only.")] = None,
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Oldest first; claims nothing. A letter's id is the place of its record, a row's id is its own."""
    with chosen(file, agent) as (app, agents, store):
        seen = _look(app, agents, store, limit)
    documents = [*map(_of_row, seen.rows), *map(_of_letter, seen.letters)]
    if json:
        print_json({"dead": documents, "unreachable": seen.missing or None, "older": seen.older})
    else:
        print_table(COLUMNS, [[_cells(each)[name] for name in FIELDS] for each in documents])
        _hint(seen)
    return SYSTEM if seen.missing else DONE


@dead.command()
def show(
    file: FileArgument,
    name: AgentName,
    id: DeadIdArgument,
    payload: Annotated[bool, typer.Option("--payload", help="Its key and value, too.")] = False,
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Everything about one, with its headers."""
    with chosen(file, name) as (app, agents, store):
        rows, letters = _named(_look(app, agents, store, limit), [id])
    document = _of_row(rows[0]) if rows else _of_letter(letters[0])
    record: OutboxRow | Letter = rows[0].row if rows else letters[0]
    more = {"key": _text(record.key), "value": _text(record.value)} if payload else {}
    headers = [{"name": name, "value": _text(content)} for name, content in record.headers]
    if json:
        print_json({**document, **more, "headers": headers})
        return DONE
    print_table(("field", "value"), {**_cells(document), **more}.items())
    print_table(("header", "value"), [each.values() for each in headers])
    return DONE


@dead.command()
def retry(
    file: FileArgument,
    name: AgentName,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="As `ls` shows them; or --all.")] = None,
    all: Annotated[
        bool, typer.Option("--all", help="All that `ls` shows of this agent, but completed groups.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Letters that were retried before, too.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask when consumer groups that are not ours read the topic.")
    ] = False,
    why: Why = "",
    by: By = "",
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Rows go into their outbox again; the records of letters go to their topic again, each once.

    Of the agents that read the topic only this one takes them again. Exit code 5: something was retried before, and was
    not retried again.
    """
    if bool(ids) == all:
        raise ConfigurationError("name what to retry, or write --all")
    with opened(file, name) as (app, agent, store):
        seen = _look(app, [agent], store, limit)
        done = _requeued_before(app, agent, store) if set(ids or ()) - _known(seen) else set()
        if ids:
            rows, letters = _named(seen, ids, done)
        else:
            rows, letters = seen.rows, [each for each in seen.letters if not each.whole]
        if seen.missing and (all or letters):
            raise SystemNotReady(f"dead letters cannot be read: {seen.missing}")
        if letters and not yes:
            _ask(app, letters)
        requeued = _requeued(store, rows, why, by)
        result = {"rows": requeued, **_resent(app, store, letters, why, by, again)}
        result["refused"] += [id for id in ids or () if id in done and id not in {each.row.id for each in rows}]
    return _report(result, json)


def _report(result: dict[str, Any], json: bool) -> int:
    if json:
        print_json(result)
    else:
        rows, records = counted(result["rows"], "row"), counted(result["sent"], "record")
        print(f"{rows} in the outbox again, {records} sent, {result['found']} had been sent before this command")
        for place in result["refused"]:
            complain(
                f"sluicegate: {place} was retried before: `sluicegate audit` says when; --again sends a record once "
                "more"
            )
    return DONE_BEFORE if result["refused"] else DONE


def _ask(app: App, letters: "Sequence[Letter]") -> None:
    """Ask before records go to a topic that other consumer groups read: only agents of Sluicegate pass over a record
    that is retried for another agent. Raises ConfigurationError."""
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.ownership.checks import maker_of

    topics = sorted({letter.topic for letter in letters})
    names = ", ".join(topics)
    try:
        readers = BrokerTopics(app).readers(topics)
    except SystemNotReady as error:
        text = f"whether consumer groups that are no agents of Sluicegate read {names} cannot be told ({error})"
    else:
        groups = [group for group, metadata in readers.items() if maker_of(metadata) is None]
        if not groups:
            return
        again = counted(len(letters), "record")
        text = f"{names} is also read by {', '.join(groups)}, no agent of Sluicegate: it sees {again} again"
    confirm(f"{text}. Send?", yes=False)


def _look(app: App, agents: Sequence[Agent], store: "Store", limit: int) -> DeadListing:
    from sluicegate.streams.cli.letters import BrokerTopics, found
    from sluicegate.streams.operations.dead_rows import dead_rows

    names = [agent.name for agent in agents]
    rows = list(dead_rows(store, app.name, names, limit))
    try:
        letters, older = found(app, BrokerTopics(app), names, limit)
    except (ConfigurationError, SystemNotReady) as error:
        return DeadListing(rows, [], str(error), 0)
    return DeadListing(rows, letters, "", older)


def _known(seen: DeadListing) -> set[str]:
    return {each.row.id for each in seen.rows} | {name for each in seen.letters for name in (each.place, each.id)}


def _requeued_before(app: App, agent: Agent, store: "Store") -> set[str]:
    """Ids of rows that were retried before: a command that was killed may be run again as it was."""
    from sluicegate.streams.operations.dead_rows import WHAT
    from sluicegate.streams.operations.open_groups import partitions

    changes = (change for held in partitions(store, app.name, agent) for change in held.amended)
    return {change.key for change in changes if change.what == WHAT}


def _named(seen: DeadListing, ids: Sequence[str], done: Container[str] = ()) -> "tuple[list[DeadOutput], list[Letter]]":
    """The rows and letters of these ids. Raises ConfigurationError for an id that is not there and not in `done`."""
    for id in ids:
        if id not in _known(seen) and id not in done:
            missing = f"dead letters cannot be read: {seen.missing}"
            hint = missing if seen.missing else "`sluicegate dead ls` lists what is there"
            raise ConfigurationError(f"nothing dead has the id {id}; {hint}")
    rows = [each for each in seen.rows if each.row.id in ids]
    return rows, [each for each in seen.letters if each.place in ids or each.id in ids]


def _requeued(store: "Store", rows: "Sequence[DeadOutput]", why: str, by: str) -> int:
    from sluicegate.streams.operations.dead_rows import requeue

    count = 0
    for partition in sorted({each.partition for each in rows}):
        ids = {each.row.id for each in rows if each.partition == partition}
        count += requeue(store, partition, lambda row, ids=ids: row.id in ids, person(why, by))  # type: ignore[misc]
    return count


def _resent(app: App, store: "Store", letters: "Sequence[Letter]", why: str, by: str, again: bool) -> dict[str, Any]:
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.operations import dead_letters

    sent, found, refused = 0, 0, list[str]()
    for at in range(0, len(letters), PAGE):
        page = letters[at : at + PAGE]
        did = dead_letters.retry(store, app.name, BrokerTopics(app), page, person(why, by), again, _Waiting().wait)
        sent, found, refused = sent + did.sent, found + did.found, refused + did.refused
    return {"sent": sent, "found": found, "refused": refused}


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


def _of_row(found: "DeadOutput") -> dict[str, Any]:
    return {
        "id": found.row.id,
        "kind": "row",
        "agent": found.partition.agent,
        "topic": found.partition.topic,
        "partition": found.partition.number,
        "offset": None,
        "to": found.row.topic,
        "stage": "produce",
        "reason": "rejected",
        "attempts": str(found.attempts),
        "age": None,
        "error": found.reason,
    }


def _of_letter(found: "Letter") -> dict[str, Any]:
    return {
        "id": found.place,
        "kind": "group" if found.whole else "record" if found.item is None else "item",
        "agent": found.agent,
        "topic": found.topic,
        "partition": found.partition,
        "offset": found.offset,
        "letter": found.id,
        "stage": found.stage,
        "reason": found.reason,
        "attempts": found.attempts,
        "age": round(max(0.0, time.time() - found.at), 1),
        "error": found.error,
    }


def _cells(document: dict[str, Any]) -> dict[str, Any]:
    """The cells for a reader: the age with its unit."""
    return document if document["age"] is None else {**document, "age": age(document["age"])}


def _hint(seen: DeadListing) -> None:
    if seen.missing:
        complain(f"sluicegate: dead letters cannot be read: {seen.missing}")
    if seen.older:
        complain(f"sluicegate: not looked at: {counted(seen.older, 'older record')}; --limit looks at more")


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
