"""`sluicegate dead`: what failed for good. Rows that the broker never took, in the store, and dead letters, in
Kafka."""

import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sluicegate.streams.cli.changing import AgentName, By, Why, confirm, opened, person, store_of
from sluicegate.streams.cli.listing import listing
from sluicegate.streams.cli.outcome import DONE, DONE_BEFORE, SYSTEM, complain, ending
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError, SystemNotReady

if TYPE_CHECKING:
    from sluicegate.streams.agent import App
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.dead_letters import Letter
    from sluicegate.streams.operations.dead_rows import DeadOutput

dead = listing("dead", "Dead letters, and rows that the broker never took: list, show, retry.")
DeadIdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `ls` shows it.", show_default=False)]
PerPartitionLimit = Annotated[
    int, typer.Option("--limit", min=1, help="Of each partition of dead letters, look at the newest so many.")
]
COLUMNS = ("id", "kind", "agent", "stage", "reason", ">attempts", ">age", "error")
NEWEST, PAGE = 10_000, 1000


class DeadListing(NamedTuple):
    """What there is; `missing` says why there are no letters, `older` how many records were not looked at."""

    rows: "list[DeadOutput]"
    letters: "list[Letter]"
    missing: str
    older: int


@dead.command("ls")
@ending
def ls(
    file: FileArgument,
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Of this agent only.", show_default=False)
    ] = None,
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Oldest first; claims nothing. A letter's id is the place of its record, a row's id is its own."""
    from sluicegate.streams.cli.output import print_json, print_table

    with _opened(file, agent) as (app, agents, store):
        seen = _look(app, agents, store, limit)
    documents = [*map(_of_row, seen.rows), *map(_of_letter, seen.letters)]
    if json:
        print_json({"dead": documents, "unreachable": seen.missing or None, "older": seen.older})
    else:
        print_table(COLUMNS, [_shown(each) for each in documents])
        _hint(seen)
    return SYSTEM if seen.missing else DONE


@dead.command("show")
@ending
def show(
    file: FileArgument,
    agent: AgentName,
    id: DeadIdArgument,
    payload: Annotated[bool, typer.Option("--payload", help="Its key and value, too.")] = False,
    limit: PerPartitionLimit = NEWEST,
    json: AsJson = False,
) -> int:
    """Everything about one, with its headers."""
    from sluicegate.streams.cli.output import print_json, print_table

    with _opened(file, agent) as (app, agents, store):
        seen = _look(app, agents, store, limit)
    rows, letters = _named(seen, [id])
    both = [(_of_row(each), each.row.key, each.row.value, each.row.headers) for each in rows]
    document, key, value, its = [*both, *((_of_letter(each), each.key, each.value, each.headers) for each in letters)][
        0
    ]
    more = {"key": _text(key), "value": _text(value)} if payload else {}
    headers = [{"name": name, "value": _text(content)} for name, content in its]
    if json:
        print_json({**document, **more, "headers": headers})
        return DONE
    fields = {**document, "age": _age(document["age"]), **more}  # type: ignore[arg-type]
    print_table(("field", "value"), [[name, _text(value)] for name, value in fields.items()])
    print_table(("header", "value"), [[str(each["name"]), str(each["value"])] for each in headers])
    return DONE


@dead.command("retry")
@ending
def retry(
    file: FileArgument,
    agent: AgentName,
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
    with _opened(file, agent) as (app, agents, store):
        seen = _look(app, agents, store, limit)
        done = _requeued_before(app, agent, store) if set(ids or ()) - _known(seen) else set()
        rows, letters = (
            _named(seen, ids, done) if ids else (seen.rows, [each for each in seen.letters if not each.whole])
        )
        if seen.missing and (all or letters):
            raise SystemNotReady(f"dead letters cannot be read: {seen.missing}")
        if letters and not yes:
            _ask(app, letters)
        requeued = _requeued(store, rows, why, by)
        said = {"rows": requeued, **_resent(app, store, letters, why, by, again)}
        said["refused"] += [id for id in ids or () if id in done and id not in {each.row.id for each in rows}]
    return _told(said, json)


def _told(said: dict[str, Any], json: bool) -> int:
    from sluicegate.streams.cli.output import print_json
    from sluicegate.streams.wording import counted

    if json:
        print_json(said)
    else:
        rows, records = counted(said["rows"], "row"), counted(said["sent"], "record")
        print(f"{rows} in the outbox again, {records} sent, {said['found']} had been sent before this command")
        for place in said["refused"]:
            complain(
                f"sluicegate: {place} was retried before: `sluicegate audit` says when; --again sends a record once "
                "more"
            )
    return DONE_BEFORE if said["refused"] else DONE


def _ask(app: "App", letters: "Sequence[Letter]") -> None:
    """Agents of ours pass over what is retried for another one. Others do not: a person decides. Raises
    ConfigurationError."""
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.ownership.checks import maker_of
    from sluicegate.streams.wording import counted

    topics = sorted({letter.topic for letter in letters})
    names, what = ", ".join(topics), counted(len(letters), "record")
    try:
        found = BrokerTopics(app).readers(topics)
    except SystemNotReady as error:
        said = f"whether consumer groups that are no agents of Sluicegate read {names} cannot be told ({error})"
    else:
        groups = [group for group, metadata in found.items() if maker_of(metadata) is None]
        if not groups:
            return
        said = f"{names} is also read by {', '.join(groups)}, no agent of Sluicegate: it sees {what} again"
    confirm(f"{said}. Send?", yes=False)


@contextmanager
def _opened(file: str, agent: str | None) -> "Iterator[tuple[App, list[str], Store]]":
    """The app, the agents that are meant, and its store."""
    from sluicegate.streams.cli.files import loaded

    if agent is not None:
        with opened(file, agent) as (app, its, store):
            yield app, [its.name], store
        return
    app = loaded(file)
    with store_of(app) as store:
        yield app, [each.name for each in app.agents], store


def _look(app: "App", agents: Sequence[str], store: "Store", limit: int) -> DeadListing:
    from sluicegate.streams.cli.letters import BrokerTopics, found
    from sluicegate.streams.operations.dead_rows import dead_rows

    rows = list(dead_rows(store, app.name, agents, limit))
    try:
        letters, older = found(app, BrokerTopics(app), agents, limit)
    except (ConfigurationError, SystemNotReady) as error:
        return DeadListing(rows, [], str(error), 0)
    return DeadListing(rows, letters, "", older)


def _known(seen: DeadListing) -> set[str]:
    return {each.row.id for each in seen.rows} | {name for each in seen.letters for name in (each.place, each.id)}


def _requeued_before(app: "App", agent: str, store: "Store") -> set[str]:
    """Ids of rows, so that a command that was killed may be given once more as it was."""
    from sluicegate.streams.operations.dead_rows import WHAT
    from sluicegate.streams.operations.open_groups import partitions

    [its] = [each for each in app.agents if each.name == agent]
    return {said.key for held in partitions(store, app.name, its) for said in held.amended if said.what == WHAT}


def _named(seen: DeadListing, ids: Sequence[str], done: Container[str] = ()) -> "tuple[list[DeadOutput], list[Letter]]":
    """Those of these ids. Raises ConfigurationError for one that is not there and was not `done`."""
    rows = [each for each in seen.rows if each.row.id in ids]
    letters = [each for each in seen.letters if each.place in ids or each.id in ids]
    for id in ids:
        if id not in _known(seen) and id not in done:
            why = (
                f"; dead letters cannot be read: {seen.missing}"
                if seen.missing
                else "; `sluicegate dead ls` lists what is there"
            )
            raise ConfigurationError(f"nothing dead has the id {id}{why}")
    return rows, letters


def _requeued(store: "Store", rows: "Sequence[DeadOutput]", why: str, by: str) -> int:
    from sluicegate.streams.operations.dead_rows import requeue

    count = 0
    for partition in sorted({each.partition for each in rows}):
        ids = {each.row.id for each in rows if each.partition == partition}
        count += requeue(store, partition, lambda row, ids=ids: row.id in ids, person(why, by))  # type: ignore[misc]
    return count


def _resent(app: "App", store: "Store", letters: "Sequence[Letter]", why: str, by: str, again: bool) -> dict[str, Any]:
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.operations import dead_letters

    sent, found, refused = 0, 0, list[str]()
    for at in range(0, len(letters), PAGE):
        page = letters[at : at + PAGE]
        did = dead_letters.retry(store, app.name, BrokerTopics(app), page, person(why, by), again, _Waiting().wait)
        sent, found, refused = sent + did.sent, found + did.found, refused + did.refused
    return {"sent": sent, "found": found, "refused": refused}


class _Waiting:
    """Waits for another command that changes the same journal, and says so once the wait is long."""

    said = False

    def wait(self, seconds: float) -> None:
        from sluicegate.streams.operations.dead_letters import LOOK_EVERY

        if seconds >= LOOK_EVERY and not self.said:
            complain(
                "sluicegate: another retry of the same records began less than 20 s ago: waiting until it has ended"
            )
            self.said = True
        time.sleep(seconds)


def _of_row(found: "DeadOutput") -> dict[str, object]:
    place = found.partition
    return {
        "id": found.row.id,
        "kind": "row",
        "agent": place.agent,
        "topic": place.topic,
        "partition": place.number,
        "offset": None,
        "to": found.row.topic,
        "stage": "produce",
        "reason": "rejected",
        "attempts": str(found.attempts),
        "age": None,
        "error": found.reason,
    }


def _of_letter(found: "Letter") -> dict[str, object]:
    kind = "group" if found.whole else "record" if found.item is None else "item"
    return {
        "id": found.place,
        "kind": kind,
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


def _shown(document: dict[str, Any]) -> list[str]:
    row = {**document, "age": _age(document["age"])}
    return [str(row[name]) for name in ("id", "kind", "agent", "stage", "reason", "attempts", "age", "error")]


def _age(seconds: float | None) -> str:
    from sluicegate.streams.cli.output import age

    return "" if seconds is None else age(seconds)


def _hint(seen: DeadListing) -> None:
    from sluicegate.streams.wording import counted

    if seen.missing:
        complain(f"sluicegate: dead letters cannot be read: {seen.missing}")
    if seen.older:
        complain(f"sluicegate: not looked at: {counted(seen.older, 'older record')}; --limit looks at more")


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)
