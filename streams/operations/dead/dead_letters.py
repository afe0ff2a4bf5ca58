"""Reads dead letters, and sends their records back to their topics, each once.

The journal (sluicegate.streams.journal.journal) records retries. A first note, with the end of the source partition,
announces the record. A second note records that Kafka has it. An announcement is a commit under a claim, so only one
retry at a time can write one. A second retry that finds an announcement without the second note waits as long as the
first retry may still send. Then it looks for the record behind the announced end of the partition, and sends the record
only if it is not there. So two retries at the same time send a record once, and a retry that was killed is finished and
not repeated.
"""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.durable.entry import Amendment
from sluicegate.streams.contracts.headers import (
    DEAD,
    DEAD_AGENT,
    DEAD_APP,
    DEAD_ATTEMPTS,
    DEAD_CUT,
    DEAD_DIGEST,
    DEAD_ERROR,
    DEAD_ITEM,
    DEAD_READ,
    DEAD_REASON,
    DEAD_REKEYED_BY,
    DEAD_SIZE,
    DEAD_STAGE,
    FIRST,
    ID,
    NEEDED_OF_LETTERS,
    NOT_RETRIED,
    RETRIED_FOR,
    RETRIED_FROM,
    by_name,
    others,
    renamed,
    restored,
)
from sluicegate.streams.contracts.ids import retry_id
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Headers, Record, headers
from sluicegate.streams.contracts.stores import Store, TopicPartition
from sluicegate.streams.contracts.values import Claim, OutboxRow
from sluicegate.streams.errors import Fenced, SystemNotReady
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.outbox.rows import timestamp
from sluicegate.streams.outbox.sizes import digest
from sluicegate.streams.reading.addressed import addressee
from sluicegate.streams.versions import mac_keys

ASKED, SENT, DROPPED = "dead retry", "dead retry sent", "dead drop"
PROVEN = "proven"


class Letter(NamedTuple):
    """A dead letter. `topic`, `partition`, `offset`, `key` and `value` belong to the failed record, `headers` to the
    dead letter. `whole`: the letter stands for a completed group, which begins at this offset. `at`: seconds since
    1970. For a re-keyed record, `read` is TOPIC/PARTITION/OFFSET of the record that the agent read, and `rekeyed_by`
    the agent that re-keyed it. `proven`: the letter has a MAC of the app, or the app has no keys."""

    id: str
    agent: str
    topic: str
    partition: int
    offset: int
    item: int | None
    whole: bool
    stage: str
    reason: str
    error: str
    attempts: str
    at: float
    key: bytes | None
    value: bytes | None
    headers: Headers
    read: str = ""
    rekeyed_by: str = ""
    proven: bool = True

    @property
    def source(self) -> TopicPartition:
        """The partition that the agent read."""
        if not self.read:
            return self.topic, self.partition
        topic, number, _ = self.read.rsplit("/", 2)
        return topic, int(number)

    @property
    def place(self) -> str:
        item = "" if self.item is None else f"#{self.item}"
        return f"{self.topic}/{self.partition}/{self.offset}{item}"


SENDING = 15.0  # seconds that a retry may take to send what it announced
IN_FLIGHT = 5.0  # seconds after which a record that was handed to a producer has arrived or never will
LOOK_EVERY = 0.5  # seconds


class LeftOut(NamedTuple):
    """A letter that cannot be retried, and the reason."""

    id: str
    why: str


class Unrepairable(Exception):
    """The reason why the group of a letter cannot be made again."""


class RecordGone(Exception):
    """The letter has only the beginning of its record, and the topic of the record no longer holds it."""


class RetryTopics(Protocol):
    """The topics that records go back to."""

    def places(self, topics: Iterable[str]) -> Sequence[TopicPartition]:
        """The partitions of the topics that exist. Raises SystemNotReady."""

    def ends(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offset of each partition. Raises SystemNotReady."""

    def since(self, starts: Mapping[TopicPartition, int]) -> Iterable[Record]:
        """The records of each partition from this offset on. Raises SystemNotReady."""

    def send(self, rows: Sequence[OutboxRow]) -> None:
        """Sends the rows, and returns when all are acknowledged, within SENDING. Raises SystemNotReady when one may not
        be."""


def letters(records: Iterable[Record], app: str, agents: Sequence[str], mac: Mac | None = None) -> Iterator[Letter]:
    """The letters of these agents in their order, each once, however often it was sent. A letter with a MAC takes
    precedence over one without, because the id of a letter can be forged."""
    known = set()
    for record in records:
        letter = _letter(record, app, mac)
        if letter is not None and letter.agent in agents and (letter.id, letter.proven) not in known:
            known.add((letter.id, letter.proven))
            yield letter


def _letter(record: Record, app: str, mac: Mac | None) -> Letter | None:
    """The letter; None: the record is not a dead letter of this app."""
    pairs = headers(record)
    named = by_name(pairs)
    place, item = named.dead_place(), named.get(DEAD_ITEM)
    if place is None or not named.keys() >= NEEDED_OF_LETTERS or named.text(DEAD_APP) != app:
        return None
    if DEAD_READ in named and named.place(DEAD_READ) is None:
        return None
    try:
        index = None if item is None else int(item)
    except ValueError:
        return None
    why = named.text(DEAD_STAGE), named.text(DEAD_REASON), named.text(DEAD_ERROR), named.text(DEAD_ATTEMPTS)
    content = record.key(), record.value(), pairs
    rekeyed = named.text(DEAD_READ), named.text(DEAD_REKEYED_BY)
    proven = mac is None or mac.proves(record)
    id, agent, whole = named.text(ID), named.text(DEAD_AGENT), index is None and FIRST in named
    return Letter(id, agent, *place, index, whole, *why, timestamp(record), *content, *rekeyed, proven)


def original(letter: Letter, app: str, number: int, partition: int) -> OutboxRow:
    """The original record as row `number` for this partition, with its own id, addressed to its agent alone."""
    mine: Headers = [
        (ID, retry_id(letter.id, number).encode()),
        (RETRIED_FROM, letter.place.encode("utf-8")),
        (RETRIED_FOR, addressee(app, letter.rekeyed_by or letter.agent)),
    ]
    kept = [header for header in restored(_its_own(letter)) if header[0] not in NOT_RETRIED]
    return OutboxRow(
        number, "", retry_id(letter.id, number), letter.topic, partition, letter.key, letter.value, [*kept, *mine]
    )


def _its_own(letter: Letter) -> Headers:
    """The record's own headers, which precede the headers that explain the letter. None for an item of a group: it
    carries the group's headers, and its own are unknown."""
    if letter.item is not None:
        return []
    before = takewhile(lambda header: not header[0].startswith(DEAD), letter.headers)
    return others(list(before))


def completed(letter: Letter, source: RetryTopics) -> Letter:
    """The letter with the whole record. Where the letter has only its beginning, the record is read from its topic.
    Raises RecordGone and SystemNotReady."""
    named = by_name(letter.headers)
    if DEAD_CUT not in named:
        return letter
    place = letter.topic, letter.partition
    record = next(iter(source.since({place: letter.offset})), None)
    if record is None or record.offset() != letter.offset or digest(record.value()) != named.get(DEAD_DIGEST):
        what = f"the letter has only the beginning of the record ({named.text(DEAD_SIZE)} bytes)"
        raise RecordGone(f"{what}, and the record is gone from its topic: it cannot be sent")
    return letter._replace(key=record.key(), value=record.value(), headers=renamed(headers(record)))


class Retried(NamedTuple):
    """The result of a retry: how many records were sent, how many an earlier retry had sent without a note, the letters
    that were retried before, and the letters that cannot be sent."""

    sent: int
    sent_before: int
    refused: list[str]
    left_out: Sequence[LeftOut] = ()


def retry(
    store: Store,
    app: str,
    source: RetryTopics,
    wanted: Sequence[Letter],
    person: Person,
    again: bool = False,
    wait: Callable[[float], object] = time.sleep,
) -> Retried:
    """Sends these records back to their topics, once each (`again`: once more). `wait` sleeps for a number of seconds.
    While another retry of the same letters is running, this one looks again every LOOK_EVERY seconds. Raises
    SystemNotReady and PersistenceError: the same call finishes the retry."""
    mac = mac_keys.read_or_make(store, app, lambda: f"{person.token}-keys")
    for attempt in range(journal.ATTEMPTS):
        _wait_for_others(store, app, wanted, person, wait)
        ends = source.ends(sorted({(letter.topic, letter.partition) for letter in wanted}))
        claim = journal.begun(store, app, person._replace(token=f"{person.token}-{attempt}"))
        history = by_letter(journal.notes(store, app))
        if _under_way(history, wanted, person, claim.store_time):
            continue
        try:
            return _retried(store, mac, source, wanted, person, again, claim, history, ends)
        except Fenced:  # another command claimed the journal first: nothing was sent, or what was sent is found
            journal.back_off(attempt, wait)
    raise SystemNotReady(
        "other commands keep writing to the audit journal of the app; run this one again, it finishes what is not done"
    )


def _wait_for_others(
    store: Store, app: str, wanted: Sequence[Letter], person: Person, wait: Callable[[float], object]
) -> None:
    """Return when no other retry of these letters may still send."""
    while True:
        view = store.read(journal.place(app))
        if view is None or not _under_way(by_letter(journal.notes(store, app)), wanted, person, view.claim.store_time):
            return
        wait(LOOK_EVERY)


def _under_way(history: "NotesByKey", wanted: Sequence[Letter], person: Person, now: float) -> bool:
    """Whether another command announced one of these letters so recently that it may still be sending it."""
    notes = (note for letter in wanted for note in _unfinished(letter, history.get(_name(letter), ())))
    return any(now < note.at + SENDING + IN_FLIGHT and note.detail.split()[3:] != [person.token] for note in notes)


def _unfinished(letter: Letter, notes: Sequence[Amendment]) -> list[Amendment]:
    """The announcements of this letter without a note that it was sent."""
    tries = [note for note in notes if note.detail.split()[0] == letter.id]
    sent = {note.detail.split()[1] for note in tries if note.what == SENT}
    return [note for note in tries if note.what == ASKED and note.detail.split()[1] not in sent]


def _retried(
    store: Store,
    mac: Mac,
    source: RetryTopics,
    wanted: Sequence[Letter],
    person: Person,
    again: bool,
    claim: Claim,
    history: "NotesByKey",
    ends: Mapping[TopicPartition, int],
) -> Retried:
    """One attempt to retry. `ends` was read before `claim`, because reading takes long and a claim is held as short as
    possible. Raises Fenced when another command claimed the journal since `claim`."""
    plan = [_planned(letter, history, again) for letter in wanted]
    refused = [letter.place for letter, number in zip(wanted, plan, strict=True) if number is None]
    chosen = [(letter, number) for letter, number in zip(wanted, plan, strict=True) if number is not None]
    there = _arrived(source, mac, chosen, history)
    lacking, gone = _lacking(source, mac.app, chosen, there)
    chosen = [letter for letter in chosen if letter[0].id not in gone]
    asked = [
        _note(letter, number, ASKED, f"{ends[letter.topic, letter.partition]} {person.token}", person)
        for letter, number in chosen
        if retry_id(letter.id, number) not in there
    ]
    if asked:
        claim = _announce_and_send(store, claim, source, asked, mac.signed(lacking))
    if chosen:
        # The records are in Kafka, so a lost claim does not matter for these notes.
        done = [_note(letter, number, SENT, "", person) for letter, number in chosen]
        journal.written(store, mac.app, person._replace(token=f"{person.token}-sent"), done, claim)
    return Retried(len(lacking), len(there), refused, (*gone.values(),))


def _lacking(
    source: RetryTopics, app: str, chosen: Sequence[tuple[Letter, int]], there: Container[str]
) -> tuple[list[OutboxRow], dict[str, LeftOut]]:
    """The rows that are not `there` yet, and by letter id the letters whose row cannot be made."""
    rows: list[OutboxRow] = []
    gone: dict[str, LeftOut] = {}
    for letter, number in chosen:
        if retry_id(letter.id, number) not in there:
            try:
                rows.append(original(completed(letter, source), app, number, letter.partition))
            except RecordGone as error:
                gone[letter.id] = LeftOut(letter.place, str(error))
    return rows, gone


def _announce_and_send(
    store: Store, claim: Claim, source: RetryTopics, asked: Sequence[Amendment], rows: Sequence[OutboxRow]
) -> Claim:
    """Raises Fenced only before anything was sent."""
    began = time.monotonic()
    claim = journal.appended(store, claim, asked)
    failpoints.hit("retry-asked")
    if time.monotonic() - began > IN_FLIGHT:
        raise SystemNotReady(
            "the store took so long that another retry may send the records by now; run this one again"
        )
    source.send(rows)
    failpoints.hit("retry-sent")
    return claim


def _name(letter: Letter) -> str:
    return f"{letter.agent} {letter.place}"


def _note(letter: Letter, number: int, what: str, detail: str, person: Person) -> Amendment:
    return Amendment(0.0, person.who, what, _name(letter), person.why, f"{letter.id} {number} {detail}".strip())


def noted(letter: Letter, what: str, person: Person, number: int = 0) -> Amendment:
    """A note about this retry of a completed group."""
    return _note(letter, number, what, "", person)


class Tries(NamedTuple):
    """The retries of a letter in the journal: whether there are any, and the number of the next one. `open`: this
    number began and may not have ended."""

    known: bool
    number: int
    open: bool


def tries(letter: Letter, notes: "NotesByKey") -> Tries:
    its = [note for note in notes.get(_name(letter), ()) if note.detail.split()[0] == letter.id]
    sent = sum(note.what == SENT for note in its)
    return Tries(bool(its), sent, any(note.what == ASKED and int(note.detail.split()[1]) >= sent for note in its))


def retried(notes: Iterable[Amendment]) -> frozenset[str]:
    """The ids of the letters that were retried."""
    return frozenset(note.detail.split()[0] for note in notes if note.what == SENT)


def dropped(notes: Iterable[Amendment]) -> frozenset[tuple[str, bool]]:
    """The ids of dropped letters, and whether each letter was proven. A letter with a forged id does not count as the
    genuine one."""
    words = [note.detail.split() for note in notes if note.what == DROPPED]
    return frozenset((id, proof == PROVEN) for id, _, proof in words)


def drop_note(letter: Letter, person: Person) -> Amendment:
    return _note(letter, 0, DROPPED, PROVEN if letter.proven else "unproven", person)


NotesByKey = dict[str, list[Amendment]]
"""The notes about retries, by agent and place of the letter."""


def by_letter(notes: Iterable[Amendment]) -> NotesByKey:
    groups: dict[str, list[Amendment]] = {}
    for note in notes:
        if note.what in (ASKED, SENT):
            groups.setdefault(note.key, []).append(note)
    return groups


def _planned(letter: Letter, notes: NotesByKey, again: bool) -> int | None:
    """The number of the retry to make or finish; None: the letter was retried."""
    tried = tries(letter, notes)
    return tried.number if tried.open or again or not tried.number else None


def _arrived(
    source: RetryTopics, mac: Mac, chosen: Sequence[tuple[Letter, int]], history: Mapping[str, Sequence[Amendment]]
) -> set[str]:
    """The ids of records that an earlier retry announced and that are in their topics. Any writer of the topic can
    forge such an id, so only a record that the app signed counts."""
    starts: dict[TopicPartition, int] = {}
    ids = set()
    for letter, number in chosen:
        asked = [note.detail.split() for note in history.get(_name(letter), ()) if note.what == ASKED]
        for end in (int(words[2]) for words in asked if words[:2] == [letter.id, str(number)]):
            place = letter.topic, letter.partition
            starts[place] = min(end, starts.get(place, end))
            ids.add(retry_id(letter.id, number))
    if not ids:
        return set()
    came = (
        value.decode("ascii", "replace")
        for record in filter(mac.proves, source.since(starts))
        for name, value in headers(record)
        if name == ID and value
    )
    return ids.intersection(came)
