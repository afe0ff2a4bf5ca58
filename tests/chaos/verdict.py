"""The judge: folds the input log by itself and compares with what came out. It knows no engine, no store and no fault.

Reads the input, output and dead-letter topics only. A group covers the records of its key from its first to its last
offset; every good record must be covered by exactly one group, every bad one by exactly one dead letter.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.record import Seen

Place = tuple[int, int]


@dataclass
class Verdict:
    """Each list says what was violated, a line each. `copies` are exact copies (same id, shard, number and bytes),
    which are allowed."""

    lost: list[str] = field(default_factory=list)  # an input record without an effect
    duplicate: list[str] = field(default_factory=list)  # an input record whose effect counts twice
    order: list[str] = field(default_factory=list)  # a key's groups out of order, for a receiver that drops repeats
    unseen: list[str] = field(default_factory=list)  # a bad record without its dead letter, or with a changed one
    refused: list[str] = field(default_factory=list)  # a good record among the dead letters
    copies: int = 0
    groups: int = 0

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicate or self.order or self.unseen or self.refused)

    def __str__(self) -> str:
        parts = [f"{self.groups} groups, {self.copies} copies"]
        for name in ("lost", "duplicate", "order", "unseen", "refused"):
            value = getattr(self, name)
            if value:
                parts.append(f"{len(value)} {name}:\n    " + "\n    ".join(value[:12]))
        return "\n  ".join(parts)


def good(record: Seen) -> bool:
    """Must this input record be counted? Else it must be a dead letter."""
    if record.key is None or record.value is None:
        return False
    try:
        document = json.loads(record.value)
    except ValueError:
        return False
    return isinstance(document, dict) and type(document.get("v")) is int


def judge(
    inputs: Sequence[Seen],
    outputs: Sequence[Seen],
    dead: Sequence[Seen],
    poison: frozenset[Place] = frozenset(),
    repeats: bool = False,
) -> Verdict:
    """The verdict over complete logs, each in the order of its partitions. `poison`: good records that must become dead
    letters. After a store went back `repeats` are allowed, the same id may come with more contents: the receiver drops
    by shard and number."""
    verdict = Verdict()
    counted = {record.place: record for record in inputs if good(record) and record.place not in poison}
    refused = {record.place: record for record in inputs if record.place not in counted}
    exact_copies([*outputs, *dead], verdict)
    _groups(counted, distinct(outputs, repeats), verdict)
    _order(outputs, verdict)
    dead_letters(counted, refused, distinct(dead), verdict)
    return verdict


def distinct(records: Iterable[Seen], by_number: bool = False) -> list[Seen]:
    """What a receiver keeps that has a unique key on the id, or on shard and number."""
    first: dict[object, Seen] = {}
    for record in records:
        first.setdefault(record.number if by_number else record.id, record)
    return list(first.values())


def exact_copies(records: Sequence[Seen], verdict: Verdict) -> None:
    """A repeat is an exact copy, in the same partition: else a receiver that drops by id, or by shard and number, is
    deceived."""
    by_id: dict[str, Seen] = {}
    by_number: dict[tuple[str, str], Seen] = {}
    for record in records:
        known, same = by_id.setdefault(record.id, record), by_number.setdefault(record.number, record)
        where = f"{record.topic}/{record.partition}/{record.offset} {record.number}"
        if same.id != record.id:
            verdict.lost.append(f"{where}: number was used for {same.id}, now for {record.id}: receivers drop it")
        if known is record:
            continue
        if known.number != record.number:
            verdict.duplicate.append(f"{where}: id {record.id} came before as {known.number}")
        elif (known.key, known.value, known.headers) != (record.key, record.value, record.headers):
            verdict.duplicate.append(f"{where}: id {record.id} came before with other contents")
        elif (known.topic, known.partition) != (record.topic, record.partition):
            verdict.duplicate.append(f"{where}: id {record.id} came before in {known.topic}/{known.partition}")
        else:
            verdict.copies += 1


def _groups(counted: dict[Place, Seen], fires: Sequence[Seen], verdict: Verdict) -> None:
    by_key: dict[tuple[int, bytes | None], list[Seen]] = {}
    for record in sorted(counted.values(), key=lambda record: record.place):
        by_key.setdefault((record.partition, record.key), []).append(record)
    covered: Counter[Place] = Counter()
    for fire in fires:
        verdict.groups += 1
        partition, first, last = span(fire)
        members = between(by_key.get((partition, fire.key), ()), first, last)
        covered.update(record.place for record in members)
        _contents(fire, members, verdict)
    for place in counted:
        if not covered[place]:
            verdict.lost.append(f"input {place}: key {counted[place].key!r} is in no group")
        elif covered[place] > 1:
            verdict.duplicate.append(f"input {place}: key {counted[place].key!r} is in {covered[place]} groups")


def between(records: Sequence[Seen], first: int, last: int) -> Sequence[Seen]:
    """Of records in the order of their offsets those from `first` to `last`."""
    return records[bisect_left(records, first, key=_offset) : bisect_right(records, last, key=_offset)]


def _offset(record: Seen) -> int:
    return record.offset


def span(fire: Seen) -> tuple[int, int, int]:
    """Input partition, first and last offset of a group."""
    _, partition, first = fire.headers["sluicegate-first"].rsplit("/", 2)
    return int(partition), int(first), int(fire.headers["sluicegate-last"].rsplit("/", 1)[1])


def _contents(fire: Seen, members: Sequence[Seen], verdict: Verdict) -> None:
    """Does the group say of its records what they say themselves?"""
    document: dict[str, Any] = json.loads(fire.value or b"{}")
    values = [json.loads(record.value or b"{}")["v"] for record in members]
    what = f"group {fire.id} of {fire.key!r} {span(fire)}"
    if document["count"] < len(members):
        verdict.lost.append(f"{what} counts {document['count']} of {len(members)} records")
    elif document["count"] > len(members):
        verdict.duplicate.append(f"{what} counts {document['count']} times {len(members)} records")
    elif document["total"] != sum(values) or document.get("all", values) != values:
        verdict.lost.append(f"{what} has the contents of other records")


def _order(outputs: Sequence[Seen], verdict: Verdict) -> None:
    """For each key in each output partition: the groups in order, once repeats are dropped by shard and number."""
    known: set[tuple[str, str]] = set()
    last: dict[tuple[int, int, bytes | None], Seen] = {}
    for fire in sorted(outputs, key=lambda record: record.place):
        if fire.number in known:
            continue
        known.add(fire.number)
        line = (fire.partition, span(fire)[0], fire.key)
        before = last.get(line)
        if before is not None and span(before) >= span(fire):
            verdict.order.append(f"{fire.key!r}: the group {span(fire)} came after {span(before)}")
        last[line] = fire


def dead_letters(
    counted: dict[Place, Seen], refused: dict[Place, Seen], letters: Sequence[Seen], verdict: Verdict
) -> None:
    places: Counter[Place] = Counter()
    for letter in letters:
        place = int(letter.headers["sluicegate-dead-partition"]), int(letter.headers["sluicegate-dead-offset"])
        places[place] += 1
        record = counted.get(place) or refused.get(place)
        if record is None or (record.key, record.value) != (letter.key, letter.value):
            verdict.unseen.append(f"the dead letter of input {place} is not that record")
        if place in counted:
            why = letter.headers.get("sluicegate-dead-reason"), letter.headers.get("sluicegate-dead-error")
            verdict.refused.append(f"input {place}: {why}")
    verdict.unseen += [f"input {place} has no dead letter" for place in refused if not places[place]]
    verdict.duplicate += [f"input {place} has {times} dead letters" for place, times in places.items() if times > 1]


def balance(inputs: Sequence[Seen], outputs: Sequence[Seen], further: Sequence[Seen]) -> Verdict:
    """An agent further down adds up the counts of the groups and lists their totals: each group must be there once, and
    per key the sum must be the number of good input records."""
    verdict = Verdict()
    exact_copies(further, verdict)
    fires = [json.loads(fire.value or b"{}") for fire in distinct(further)]
    verdict.groups = len(fires)
    sent = {(fire.id, json.loads(fire.value or b"{}")["total"]) for fire in outputs}
    came = Counter(total for fire in fires for total in fire["totals"])
    wanted = Counter(total for _, total in sent)
    verdict.lost += [f"the group with total {total} did not arrive further down" for total in wanted - came]
    verdict.duplicate += [
        f"the group with total {total} counted {came[total]} times further down" for total in came - wanted
    ]
    true = sum(map(good, inputs))
    records = sum(fire["records"] for fire in fires)
    if records > true:
        verdict.duplicate.append(f"{true} records arrived as {records} further down")
    elif records < true:
        verdict.lost.append(f"{records} of {true} records arrived further down")
    return verdict
