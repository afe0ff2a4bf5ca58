"""Compares dead letters with their records, before `dead retry` sends those records.

A user with the right to write to a dead-letter topic can write a letter with any bytes for any topic. A retry would
carry these bytes into a topic that the user may not write to. So a letter must name an input of its agent, and hold the
bytes of the record at that place. The retry then sends the record as it is in its topic. A letter without a record to
compare with needs a MAC of the app.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.headers import DEAD_CUT, DEAD_DIGEST, by_name, renamed
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.operations.dead.dead_letters import LeftOut, Letter, RetryTopics
from sluicegate.streams.outbox.sizes import digest
from sluicegate.streams.topic_names import reads

GAP = 1_000  # records that are read on the way to the next letter; behind more of them reading begins anew
UNPROVEN = (
    "it has no MAC of the app, and no record to compare it with: another program wrote it, or an earlier release; look "
    "at it, and retry it with `sluicegate dead retry --unproven`"
)
OF_A_TABLE = (
    "it is a change of a table, and a newer change of its row may have come since; write the row in the database again"
)
RecordPlace = tuple[str, int, int]


class LettersToRetry(NamedTuple):
    """The letters with the records of their topics, and by the place of the letter the reasons why others cannot be
    retried."""

    letters: list[Letter]
    left_out: list[LeftOut]


def judged(
    app: App, letters: Sequence[Letter], source: Callable[[], RetryTopics], unproven: bool = False
) -> LettersToRetry:
    """Divides the letters into those that may be retried and those that may not. Letters of groups, and of items of
    groups, hold no record of a topic; a record that retention has removed cannot be compared: `unproven` accepts them
    without a MAC. Raises SystemNotReady."""
    letters = [letter._replace(proven=True) for letter in letters] if unproven else letters
    whys = [stray(app, letter) or (None if letter.proven or _is_record(letter) else UNPROVEN) for letter in letters]
    left_out = [LeftOut(letter.place, why) for letter, why in zip(letters, whys, strict=True) if why is not None]
    good = [letter for letter, why in zip(letters, whys, strict=True) if why is None]
    records = [letter for letter in good if _is_record(letter)]
    if not records:
        return LettersToRetry(_unique(good), left_out)
    topics = source()
    there = topics.places({record.topic for record in records})
    ends = topics.ends(there)
    records_read = read(topics, [record for record in records if (record.topic, record.partition) in ends])
    compared = [_compared(letter, ends, records_read) if _is_record(letter) else letter for letter in good]
    left_out += [LeftOut(letter.place, why) for letter, why in zip(good, compared, strict=True) if isinstance(why, str)]
    return LettersToRetry(_unique(letter for letter in compared if not isinstance(letter, str)), left_out)


def _unique(letters: Iterable[Letter]) -> list[Letter]:
    """One letter for each id and place; one with a MAC takes precedence."""
    kept: dict[tuple[str, str], Letter] = {}
    for letter in letters:
        name = letter.id, letter.place
        if name not in kept or not kept[name].proven:
            kept[name] = letter
    return list(kept.values())


def _is_record(letter: Letter) -> bool:
    return not letter.whole and letter.item is None


def _compared(letter: Letter, ends: Mapping[TopicPartition, int], kept: Mapping[RecordPlace, Record]) -> Letter | str:
    """The letter with the record of its topic, or the reason why it cannot be retried."""
    if not 0 <= letter.offset < ends.get((letter.topic, letter.partition), 0):
        return f"{letter.topic} has no such record: no agent wrote this letter"
    record = kept.get(place(letter))
    if record is None:
        return letter if letter.proven else UNPROVEN
    return whole(letter, record) if is_same_record(letter, record) else "the record in its topic has other bytes"


def stray(app: App, letter: Letter) -> str | None:
    """The reason why the letter names no input of its agent; None: it names one."""
    if letter.rekeyed_by and not letter.rekeyed_by.startswith(f"{letter.agent}."):
        return f"{letter.rekeyed_by} re-keys nothing for agent {letter.agent}: no agent wrote this letter"
    reader = letter.rekeyed_by or letter.agent
    if any(agent.name == reader and reads(agent.topics, letter.topic) for agent in app.agents):
        over_table = any(agent.name == reader and agent.over_table for agent in app.agents)
        return OF_A_TABLE if over_table and _is_record(letter) else None
    return f"{letter.topic} is not an input of agent {reader} in the file"


def place(letter: Letter) -> RecordPlace:
    return letter.topic, letter.partition, letter.offset


def read(source: RetryTopics, letters: Sequence[Letter]) -> Mapping[RecordPlace, Record]:
    """The records of these letters that are still in their topics."""
    wanted: dict[TopicPartition, set[int]] = {}
    for letter in letters:
        wanted.setdefault((letter.topic, letter.partition), set()).add(letter.offset)
    return {
        (*where, record.offset()): record
        for where, offsets in wanted.items()
        for record in _of_partition(source, where, deque(sorted(offsets)))
    }


def _of_partition(source: RetryTopics, where: TopicPartition, offsets: deque[int]) -> Iterator[Record]:
    while offsets:
        first = offsets[0]
        for record in source.since({where: first}):
            while offsets and offsets[0] < record.offset():
                offsets.popleft()
            if offsets and offsets[0] == record.offset():
                offsets.popleft()
                yield record
            if not offsets or offsets[0] > record.offset() + GAP:
                break
        if offsets and offsets[0] == first:
            return


def is_same_record(letter: Letter, record: Record) -> bool:
    """Whether the letter holds this record. A letter that was cut holds its digest."""
    named = by_name(letter.headers)
    if DEAD_CUT in named:
        return digest(record.value()) == named.get(DEAD_DIGEST)
    return (letter.key, letter.value) == (record.key(), record.value())


def whole(letter: Letter, record: Record) -> Letter:
    """The letter with key, value and headers of the record."""
    return letter._replace(key=record.key(), value=record.value(), headers=renamed(headers(record)))
