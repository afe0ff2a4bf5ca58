"""Inserts the records that the shared intake reads from a partition: as packs, or with `dedupe` one by one with their
ids."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from math import inf

from sluicegate.streams.aggregation.accept import parsed, refuse
from sluicegate.streams.aggregation.deadline import CANCELLED
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.leased import AggregatorBuffer
from sluicegate.streams.contracts.leased_values import Entry, EntryDue, Gate, PositionMove, SealedBatch
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.shared.shared_records import (
    LONGEST_KEY,
    Common,
    RecordRun,
    encode_item,
    group_of,
    no_records,
    packed,
    packs,
)

AT_ONCE = 1_000  # records per insert with ids: a larger insert blocks a store that runs one script at a time
INSERT_BYTES = 8 * 1024 * 1024  # in one insert
INSERT_PACKS = 2_500  # packs per insert: a pack takes a store as long as ten records
NAMES = 50_000  # number of keys whose group names are cached


class Packing:
    """Inserts records without ids. `time` returns seconds since 1970. It only records the time of the insert and
    affects no decision."""

    def __init__(self, name: str, gate: Gate, buffer: AggregatorBuffer, time: Callable[[], float]) -> None:
        self._name, self._gate, self._buffer, self._time = name, gate, buffer, time
        self._names: dict[bytes | None, str] = {}
        self.at_once = buffer.at_once

    def read(self, groups: Groups, records: Sequence[Record]) -> RecordRun:
        run, rule, known = no_records(), groups.rule, self._names.get
        decode, key_of, largest = rule.reader.decode, rule.key_of, rule.max_record_bytes
        careful = rule.plan.bags or rule.reader.lets or may_end(rule)
        add_offset, add_group, add_item = run.offsets.append, run.groups.append, run.items.append
        for record in records:
            key, value = record.key(), record.value()
            try:
                if careful:
                    name = _keyed(groups, record, run)
                else:
                    read = decode(value)  # type: ignore[arg-type]
                    name = key if key_of is None else key_of(read)
                    if len(value) > largest:  # type: ignore[arg-type]
                        raise OverflowError
            except Exception as error:
                refuse(groups, record, error)
                continue
            if (group := known(name)) is None and (group := self._named(groups, record, name)) is None:
                continue
            offset = record.offset()
            add_offset(offset)
            add_group(group)
            add_item(encode_item((offset, key, value, headers(record) or None, record.timestamp())))
        return run

    def _named(self, groups: Groups, record: Record, key: bytes | None) -> str | None:
        if (group := _group(groups, record, key)) is not None:
            if len(self._names) >= NAMES:
                self._names.clear()
            self._names[key] = group
        return group

    def size(self, run: RecordRun) -> int:
        return sum(map(len, run.items))

    def insert(self, run: RecordRun, topic: str, moves: PositionMove) -> Sequence[SealedBatch]:
        common = Common(topic, moves.topic_id, moves.partition, self._time())
        return self._buffer.insert_packs(self._name, packs(run, common, self._gate.count or inf), self._gate, moves)


class Identified:
    """Inserts records with ids, which reveal repeats. Each record is a separate entry."""

    at_once = AT_ONCE

    def __init__(
        self, name: str, gate: Gate, buffer: AggregatorBuffer, ids: IdRule, meter: Meter, time: Callable[[], float]
    ) -> None:
        self._name, self._gate, self._buffer, self._ids, self._meter, self._time = name, gate, buffer, ids, meter, time
        self._keep = timedelta(seconds=ids.setting.horizon)

    def read(self, groups: Groups, records: Sequence[Record]) -> RecordRun:
        run = no_records()
        for record in records:
            try:
                key = _keyed(groups, record, run)
                identity = self._ids.identity(record)
            except Exception as error:
                refuse(groups, record, error)
                continue
            if (group := _group(groups, record, key)) is None:
                continue
            if identity is None and self._ids.refuses(record):
                self._ids.refuse(groups, record)
                continue
            run.offsets.append(record.offset())
            run.groups.append((group, identity))
            run.items.append(record)
        return run

    def size(self, run: RecordRun) -> int:
        return sum(len(record.value() or b"") for record in run.items)

    def insert(self, run: RecordRun, topic: str, moves: PositionMove) -> Sequence[SealedBatch]:
        entries = list(self._entries(run, moves.topic_id))
        filled = self._buffer.insert_and_seal(self._name, entries, self._gate, moves, self._keep)
        if filled.result.duplicates:
            self._meter.count("records_duplicate", filled.result.duplicates)
        return filled.batches

    def _entries(self, run: RecordRun, topic_id: str) -> Iterator[Entry]:
        now, ends, dues = self._time(), frozenset(run.ends), dict(run.dues)
        for offset, (group, identity), record in zip(*run[:3], strict=True):
            where = f"{record.topic()}/{record.partition()}/{offset}"
            key = f"{topic_id}/{record.partition()}/{offset}" if identity is None else f"id/{identity.hex()}"
            data = packed(record, topic_id, now)
            yield Entry(key, where, "", data, (), group, ends=offset in ends, due=dues.get(offset))


Runs = Packing | Identified
"""`read` refuses records that cannot be used. `size` is in bytes. An insert accepts `at_once` records and raises
WatermarkMoved and PersistenceError."""


def may_end(rule: Rule) -> bool:
    """Whether a record may end its group: by `until`, or by a deadline that has passed."""
    return rule.until is not None or rule.ending is not None or rule.deadline is not None


def _keyed(groups: Groups, record: Record, run: RecordRun) -> bytes | None:
    """The record's key. `run` notes whether the record ends its group, and the deadline that it gives. `refuse`
    explains every error that it raises. A record without a key is refused before `until` is evaluated."""
    rule = groups.rule
    key, read, _ = parsed(groups, record)
    due = _due(rule, record)
    if key is None:
        return None
    ends = rule.until is not None and rule.until(read)
    if rule.ending is not None:
        ends = rule.ending.holds_alone(record)
        groups.outcomes[rule.ending.name, "true" if ends else "false"] += 1
    if ends:
        run.ends.append(record.offset())
    if due is not None:
        run.dues.append((record.offset(), due))
    return key


def _due(rule: Rule, record: Record) -> EntryDue | None:
    """The deadline that the record gives its group. Raises ClauseFailed, and the errors of decoders."""
    deadline = rule.aggregation.deadline
    seconds = None if rule.deadline is None else rule.deadline.evaluate(record)
    if deadline is None or seconds is None:
        return None
    return EntryDue("never") if seconds == CANCELLED else EntryDue(deadline.begin, round(seconds * 1_000_000))


def _group(groups: Groups, record: Record, key: bytes | None) -> str | None:
    """The name of the record's group. None: the record was refused."""
    group = None if key is None else group_of(key)
    if group is None or len(group) > LONGEST_KEY:
        groups.refuse_key(record, key, LONGEST_KEY)
        return None
    return group


def parts(run: RecordRun, runs: Runs, most: float) -> Iterator[RecordRun]:
    """Cut the run into inserts. Each has one record, or at most `at_once` records within the limits of bytes and of
    packs of `most` records."""
    for at in range(0, len(run.items), runs.at_once):
        yield from _halves(run.part(at, at + runs.at_once), runs, most)


def _halves(run: RecordRun, runs: Runs, most: float) -> Iterator[RecordRun]:
    middle = len(run.items) // 2
    if middle and (len(set(run.groups)) + len(run.items) // most > INSERT_PACKS or runs.size(run) > INSERT_BYTES):
        yield from _halves(run.part(0, middle), runs, most)
        yield from _halves(run.part(middle), runs, most)
    else:
        yield run
