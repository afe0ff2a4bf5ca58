"""Operations of commands and the console on dead rows and dead letters: list, select by id, and retry."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import Store, TopicPartition
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead import dead_groups, dead_letters, dead_records, dead_rows, dead_shared
from sluicegate.streams.operations.dead.dead_letters import Letter, RetryTopics
from sluicegate.streams.operations.dead.dead_rows import DeadOutput
from sluicegate.streams.operations.groups.contents import partitions
from sluicegate.streams.ownership.checks import maker_of
from sluicegate.streams.versions import mac_keys
from sluicegate.streams.wording import counted

PAGE = 1000


class LetterTopics(RetryTopics, Protocol):
    """The dead-letter topics of an app, and the topics that records go back to."""

    def bounds(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """The first offset and the next offset of each partition. Raises SystemNotReady."""

    def newest(self, topics: Iterable[str], limit: int) -> tuple[Iterable[Record], int]:
        """The newest `limit` records of each partition, and the number of older records that were not read. Raises
        SystemNotReady."""

    def read(self, parts: Mapping[TopicPartition, tuple[int, int]]) -> Iterable[Record]:
        """The records of each partition from the first offset up to the second. Raises SystemNotReady."""

    def readers(self, topics: Iterable[str]) -> dict[str, str]:
        """The consumer groups that read one of the topics, with the metadata of a commit. Raises SystemNotReady."""


OpenTopics = Callable[[], LetterTopics]
"""Raises ConfigurationError where no topic can be read."""


class DeadListing(NamedTuple):
    """Dead rows and dead letters. `missing` is the reason why letters could not be read. `older` counts the older
    records of the dead-letter topics, which were not read. `retried` are the ids of retried letters; `dropped` is the
    result of dead_letters.dropped."""

    rows: list[DeadOutput]
    letters: list[Letter]
    missing: str
    older: int
    retried: frozenset[str] = frozenset()
    dropped: frozenset[tuple[str, bool]] = frozenset()

    @property
    def undropped(self) -> list[Letter]:
        """The letters that were not dropped."""
        return [letter for letter in self.letters if (letter.id, letter.proven) not in self.dropped]

    @property
    def open(self) -> "DeadListing":
        """Without retried and dropped letters."""
        return self._replace(letters=[letter for letter in self.undropped if letter.id not in self.retried])

    @property
    def whole(self) -> "DeadListing":
        """Including dropped letters."""
        return self._replace(dropped=frozenset())

    @property
    def ids(self) -> set[str]:
        """The ids by which an operator may name an item."""
        return {output.row.id for output in self.rows} | {
            name for letter in self.letters for name in (letter.place, letter.id)
        }


def listing(app: App, agents: Sequence[Agent], store: Store, topics: OpenTopics, limit: int) -> DeadListing:
    """The dead rows and letters of these agents: at most `limit` rows of each partition, and those among the newest
    `limit` records of each partition of the dead-letter topics."""
    names = [agent.name for agent in agents]
    rows = list(dead_rows.dead_rows(store, app.name, names, limit))
    try:
        letters, older = newest_letters(app, topics(), names, limit, mac_keys.read(store, app.name))
    except (ConfigurationError, SystemNotReady) as error:
        return DeadListing(rows, [], str(error), 0)
    notes = journal.notes(store, app.name)
    return DeadListing(rows, letters, "", older, dead_letters.retried(notes), dead_letters.dropped(notes))


def settled(store: Store, app: str) -> frozenset[str]:
    """The ids of the dead letters that were retried or dropped. Raises PersistenceError."""
    notes = journal.notes(store, app)
    return dead_letters.retried(notes) | {id for id, proven in dead_letters.dropped(notes) if proven}


def newest_letters(
    app: App, topics: LetterTopics, agents: Sequence[str], limit: int, mac: Mac | None = None
) -> tuple[list[Letter], int]:
    """The dead letters of these agents among the newest `limit` records of each partition, and the number of older
    records."""
    wanted = {agent.dead_letters for agent in app.agents if agent.name in agents}
    records, older = topics.newest(wanted, limit)
    return list(dead_letters.letters(records, app.name, agents, mac)), older


def select_ids(
    seen: DeadListing, ids: Sequence[str], done: Container[str] = ()
) -> tuple[list[DeadOutput], list[Letter]]:
    """The rows and letters of these ids. Raises ConfigurationError for an id that is not there and not in `done`."""
    for id in ids:
        if id not in seen.ids and id not in done:
            missing = f"dead letters cannot be read: {seen.missing}"
            hint = missing if seen.missing else "`sluicegate dead ls` lists what is there"
            raise ConfigurationError(f"no dead letter and no dead row has the id {id}; {hint}")
    rows = [output for output in seen.rows if output.row.id in ids]
    return rows, [letter for letter in seen.letters if letter.place in ids or letter.id in ids]


def select(
    app: App, agent: Agent, store: Store, seen: DeadListing, ids: Sequence[str]
) -> tuple[list[DeadOutput], list[Letter], set[str]]:
    """The rows and letters of these ids (none: all that were not dropped), and the ids of rows that were retried
    before. So a command that was killed can be run again unchanged. Raises as `named`, and SystemNotReady for letters
    that cannot be read."""
    done = _requeued_before(app, agent, store) if set(ids) - seen.ids else set[str]()
    rows, letters = select_ids(seen, ids, done) if ids else (seen.rows, seen.undropped)
    if seen.missing and (not ids or letters):
        raise SystemNotReady(f"dead letters cannot be read: {seen.missing}")
    return rows, letters, done


def _requeued_before(app: App, agent: Agent, store: Store) -> set[str]:
    changes = (change for contents in partitions(store, app.name, agent) for change in contents.amended)
    return {change.key for change in changes if change.what == dead_rows.RETRIED}


def question(topics: LetterTopics, letters: Sequence[Letter]) -> str | None:
    """The question that an operator must answer with yes, because these records go to topics that other consumer groups
    read. Only agents of Sluicegate skip a record that is retried for another agent. None: there is nothing to ask."""
    letters = [letter for letter in letters if not letter.whole]
    if not letters:
        return None
    names = sorted({letter.topic for letter in letters})
    listed = ", ".join(names)
    try:
        readers = topics.readers(names)
    except SystemNotReady as error:
        return f"it is not known whether other consumer groups read {listed} ({error})"
    groups = [group for group, metadata in readers.items() if maker_of(metadata) is None]
    if not groups:
        return None
    again = counted(len(letters), "record")
    return f"{listed} is also read by {', '.join(groups)}, no agent of Sluicegate: it sees {again} again"


def retry(
    app: App,
    agent: Agent,
    store: Store,
    topics: OpenTopics,
    rows: Sequence[DeadOutput],
    letters: Sequence[Letter],
    who: Callable[[], Person],
    again: bool,
    wait: Callable[[], Callable[[float], object]],
    unproven: bool = False,
) -> dict[str, Any]:
    """Puts the rows into their outbox again, sends the records of the letters back, and lets the owners decide again
    about completed groups. `who` returns the operator with a new token. `wait` sleeps between two looks at another
    retry. `unproven` is as in dead_records.judged. Raises the errors of dead_rows.requeue, dead_letters.retry and
    dead_groups.retry."""
    count = 0
    for partition in sorted({entry.partition for entry in rows}):
        ids = {entry.row.id for entry in rows if entry.partition == partition}
        count += dead_rows.requeue(store, partition, lambda row, ids=ids: row.id in ids, who())  # type: ignore[misc]
    judged = dead_records.judged(app, letters, topics, unproven)
    whole = [letter for letter in judged.letters if letter.whole]
    made, rest = dead_groups.groups(app.name, agent, whole, lambda parts: topics().read(parts))
    rest = [*judged.left_out, *rest]
    keep = dead_shared.retry if agent.scope == "shared" else dead_groups.retry
    groups, refused = keep(store, app.name, agent, made, who, again)
    records = [letter for letter in judged.letters if not letter.whole]
    sent, arrivals = 0, 0
    for at in range(0, len(records), PAGE):
        page = records[at : at + PAGE]
        did = dead_letters.retry(store, app.name, topics(), page, who(), again, wait())
        sent, arrivals, refused, rest = (
            sent + did.sent,
            arrivals + did.sent_before,
            refused + did.refused,
            [*rest, *did.left_out],
        )
    more = [letter._asdict() for letter in rest]
    return {"rows": count, "sent": sent, "groups": groups, "found": arrivals, "refused": refused, "left_out": more}


def drop(
    app: App, store: Store, rows: Sequence[DeadOutput], letters: Sequence[Letter], who: Callable[[], Person]
) -> dict[str, int]:
    """Deletes the rows from the store, and notes that the letters are dropped: they stay in their topic and are not
    listed any more. Raises Fenced and PersistenceError: the same call finishes the drop."""
    for at in range(0, len(letters), PAGE):
        person = who()
        notes = [dead_letters.drop_note(letter, person) for letter in letters[at : at + PAGE]]
        journal.written(store, app.name, person, notes)
    dropped = 0
    for partition in sorted({output.partition for output in rows}):
        ids = {output.row.id for output in rows if output.partition == partition}
        dropped += dead_rows.drop(store, partition, lambda row, ids=ids: row.id in ids, who())  # type: ignore[misc]
    return {"rows": dropped, "letters": len(letters)}
