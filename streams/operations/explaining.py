"""Finds the input records of one output: from its headers, and by applying the rule to its part of the input again.

Pure: the caller reads the topics. Nothing is claimed or written.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation import layout
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events import GroupEnded
from sluicegate.streams.aggregation.events_read import as_read
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import taken
from sluicegate.streams.contracts.headers import (
    AGENT,
    COUNT,
    DEAD_AGENT,
    DEAD_OFFSET,
    FIRE,
    FIRST,
    ID,
    LAST,
    REASON,
    WINDOW,
    MessageHeaders,
    UnreadableHeader,
    by_name,
)
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.formats import reads
from sluicegate.streams.outbox.rows import timestamp
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.reading.gate import RecordGate
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.windows.opening import time_of, window_of


class OffsetSpan(NamedTuple):
    """Offsets of the input partition `source`, both inclusive. `last` None: unknown."""

    source: TopicPartition
    first: int
    last: int | None


class ExplainedOutput(NamedTuple):
    """The headers of an output. `place` is its topic/partition/offset. `proven`: a process of the app wrote it, or the
    app has no keys. `span` None: the headers do not name it, because a message of a handler has only the fire id.
    `window` is the start and end of the group's window in milliseconds since 1970."""

    place: str
    id: str
    fire: str
    agent: str
    reason: str
    counted: int | None
    key: bytes | None
    span: OffsetSpan | None
    window: tuple[int, int] | None = None
    proven: bool = True


class Explained(NamedTuple):
    """`offsets` of the input partition, ascending. `notes` are sentences about missing or uncertain parts. `left_out`
    counts the records of the key between the first and the last offset that `where` left out; None: the agent has no
    `where`, or the records were not read."""

    offsets: list[int]
    notes: list[str]
    left_out: int | None = None


def output(records: Iterable[Record], id: str, mac: Mac | None = None) -> ExplainedOutput | None:
    """The first record with this output id, or, when there is none, with this fire id. Records that a process of the
    app wrote come before all others."""
    matches: dict[tuple[bool, str], ExplainedOutput] = {}
    for record in records:
        named = by_name(headers(record))
        name = next((header for header in (ID, FIRE) if named.text(header) == id), None)
        if name is None:
            continue
        proven = mac is None or mac.proves(record)
        made = matches.setdefault((proven, name), _output(record, named)._replace(proven=proven))
        if proven and name == ID:
            return made
    order = ((proven, name) for proven in (True, False) for name in (ID, FIRE))
    return next((matches[place] for place in order if place in matches), None)


def handler_message(sent: ExplainedOutput, history: Iterable[Record], mac: Mac | None = None) -> ExplainedOutput:
    """The message that a handler sent about a group, with the records that the history names for the group."""
    group = output(history, sent.fire, mac)
    return (
        sent
        if group is None or group.proven < sent.proven
        else sent._replace(counted=group.counted, key=group.key, span=group.span, window=group.window)
    )


def _output(record: Record, named: MessageHeaders) -> ExplainedOutput:
    place = f"{record.topic()}/{record.partition()}/{record.offset()}"
    known = named.text(ID), named.text(FIRE)
    first, last = named.place(FIRST), named.place(LAST)
    if first is None and DEAD_OFFSET in named:
        dead = named.dead_place()
        span = None if dead is None else OffsetSpan(dead[:2], dead[2], dead[2])
        return ExplainedOutput(place, *known, named.text(DEAD_AGENT), "dead-letter", 1, record.key(), span)
    span = OffsetSpan(first[:2], first[2], last[2]) if first and last else None
    try:
        number = named.integer(COUNT) if COUNT in named else None
        window = named.window() if WINDOW in named else None
    except UnreadableHeader:
        number = window = None
    return ExplainedOutput(
        place, *known, named.text(AGENT), named.text(REASON) or "sent", number, record.key(), span, window
    )


def first_of(fire: str, partition: Partition, topic_id: str, low: int, high: int) -> int | None:
    """The offset from `low` to `high` (excluded) whose fire has this id. Each offset takes a few microseconds."""
    identify = fire_ids(partition, topic_id)
    return next((offset for offset in range(high - 1, low - 1, -1) if identify(offset) == fire), None)


def explained(
    app: str,
    agent: Agent,
    entry: ExplainedOutput,
    span: OffsetSpan,
    records: Iterable[Record],
    low: int,
    proof: HeaderProof | None = None,
) -> Explained:
    """The input offsets of an output. `records` are the records of its span, and earlier ones where the agent drops
    repeats. `low` is the first offset that its partition has now, `proof` the proof under which its worker believed
    records."""
    (topic, number), first, last = span
    if first == last:
        return Explained([first], [])
    key = None if low <= first else entry.key
    reader = GroupHistory(Partition(app, agent.name, topic, number), agent, first, key, entry.window, proof)
    offsets = reader.newest([record.offset() for record in records if reader.takes(record)])
    notes = []
    if low > first:
        notes.append(f"retention took offsets {first} to {min(low - 1, last or 0)} of {topic}/{number}")
    elif entry.counted is not None and not agent.over_table and (len(offsets), offsets[-1:]) != (entry.counted, [last]):
        notes.append(
            f"the result counts {entry.counted} records up to {last}, the rule as it is now finds {len(offsets)} up to "
            f"{(offsets or [first])[-1]}: it was changed since, or duplicates of records that are gone are among them"
        )
    return Explained(offsets, notes, reader.left_out if agent.where else None)


def looks_back(agent: Agent) -> bool:
    """Whether the agent drops records because of earlier records."""
    return agent.dedupe is not None or bool(agent.receive)


class GroupHistory:
    """Applies the rule from the group's first record on, for one key (None: the key of the first record). `left_out`
    counts the records of that key that `where` left out since then. `window` is as in ExplainedOutput."""

    def __init__(
        self,
        partition: Partition,
        agent: Agent,
        first: int,
        key: bytes | None,
        window: tuple[int, int] | None = None,
        proof: HeaderProof | None = None,
    ) -> None:
        codec = reads(agent)
        self._rule = Rule(agent, codec)
        self._groups = Groups(self._rule, True)
        self._window_of, self._time_of = window_of(self._rule, window), time_of(self._rule)
        self._times = dict[int, int]()  # by offset, of windows that have so many records
        self._start: int | None = None
        ids = IdRule(agent, codec) if agent.dedupe else None
        self._gate = RecordGate(partition, agent, ids, HeaderProof() if proof is None else proof)
        self._key, self._first, self._opens = key, first, key is None
        self.left_out = 0

    def takes(self, record: Record) -> bool:
        """Whether the record is part of the group."""
        now = timestamp(record)
        fresh = self._gate.fresh([record], now)
        groups = Groups(self._rule)
        if not fresh or not (seen := as_read(groups, fresh)):
            return False
        [record] = seen
        if not taken(groups, [record]):
            # a record for which `where` has no answer becomes a dead letter and is not counted
            if groups.outcomes["where", "false"] and record.offset() > self._first and self._key is not None:
                key = record.key() if self._rule.key_of is None else self._key_of(record)
                self.left_out += key == self._key
            return False
        if self._gate.dedupe is None:
            return self._accept(record)
        scratch, is_new = Groups(self._rule), False
        for run in self._gate.dedupe.runs([record], now, scratch):
            accept(scratch, run, 0.0)  # refused records do not count as seen
            is_new = True
        return is_new and self._accept(record)

    def newest(self, offsets: list[int]) -> list[int]:
        """The newest of these records, for a window that keeps only so many."""
        last = self._rule.aggregation.window.last if self._rule.aggregation.window is not None else 0
        in_time = sorted(offsets, key=lambda offset: (self._times.get(offset, 0), offset))
        return sorted(in_time[-last:]) if last else offsets

    def _accept(self, record: Record) -> bool:
        if record.offset() < self._first:
            return False
        key, start = self._key_of(record), self._window_of(record)
        if record.offset() == self._first:
            self._start = start
        if start != self._start:
            return False
        if self._key is None and record.offset() == self._first:
            self._key = key
        if key is None or key != self._key:
            return False
        if self._time_of is not None:
            self._times[record.offset()] = self._time_of(record)
        accept(self._groups, [record], 0.0)
        fired = [event.fire for event in self._groups.drain() if isinstance(event, GroupEnded)]
        state = self._groups.states.get(key)
        ends = [(fire.first, fire.last) for fire in fired] + (
            [(state[layout.FIRST], state[layout.LAST])] if state is not None else []
        )
        return any(last == record.offset() and (first == self._first or not self._opens) for first, last in ends)

    def _key_of(self, record: Record) -> bytes | None:
        """The key of the record; None when the rule cannot read it."""
        if self._rule.aggregation.table:
            return record.key()
        try:
            read = self._rule.reader.read(record)
            return record.key() if self._rule.key_of is None else self._rule.key_of(read)
        except Exception:
            return None
