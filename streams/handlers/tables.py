"""An agent that stores the rows of a table, and writes the changes of the table's groups.

Its records are change events, under the primary key. For each key it stores the row that was last added to a group. A
later change subtracts exactly this row, even if the change event names another old row. A change that leaves the row
as it is has no effect. A row that moves to another group produces two records, because the groups may be in different
partitions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from sluicegate.schemas import Codec, change_events
from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.events import Event, Refused, Sent
from sluicegate.streams.aggregation.events_read import one_as_read
from sluicegate.streams.aggregation.groups import LONGEST_KEY, Groups
from sluicegate.streams.aggregation.layout import BYTES, COUNT, LAST, ROW, ROW_KEY, TRACE
from sluicegate.streams.aggregation.record_view import RecordView
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.headers import passed_on
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.handlers.values import OVERHEAD, Message

KeyedRow = tuple[bytes, bytes]
"""The key of the group that contains the row, and the row."""
GroupChange = tuple[bytes, bytes]
"""The key of a group, and the change of its rows, encoded as a record's value."""


class KeepingRows(RecordProcessor):
    """The groups of this agent are rows: the name of each group is a primary key."""

    batches = False

    def __init__(self, agent: Agent, reads: Codec, most: int) -> None:
        """A message may have at most `most` bytes. Raises ConfigurationError."""
        self._topic, self._most = agent.outputs[0].topic, most
        self._rule = Rule(of_rows(agent), reads)

    def decoded(self, rule: Rule, record: Record) -> object:
        row = change_events.row_after(record.value() or b"")
        return None if row is None else self._keyed(RecordView(record, row, record.headers()), row)

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records that change a group, with the values to write, and refused records. Raises Halt."""
        items: list[Item] = []
        for record in records:
            if record.error() is None and (outputs := self._changed(groups, record)):
                items.append(Message(tuple(outputs), record))
            refusals = [event for event in groups.events if isinstance(event, Refused)]
            groups.events = [event for event in groups.events if not isinstance(event, Refused)]
            items += refusals
        return items

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> list[Event]:
        return [event for item in items for event in self._events(item, identify)]

    def _events(self, item: Item, identify: Identify) -> list[Event]:
        if not isinstance(item, Message):
            return [item]
        identity, kept = identify(item.record.offset()), passed_on(item.record)
        return [
            Sent(identity, index, self._topic, key, value, kept, None) for index, (key, value) in enumerate(item.value)
        ]

    def _changed(self, groups: Groups, record: Record) -> list[GroupChange]:
        """Replace the stored row by the row after the change. Returns the changes of both groups."""
        name = record.key()
        if name is None or len(name) > LONGEST_KEY:
            _refuse_key(groups, record, name)
            return []
        state = groups.states.get(name)
        before: KeyedRow | None = None if state is None else (state[ROW_KEY], state[ROW])
        try:
            after = self._after(groups, record, before)
        except Exception as error:
            refuse(groups, record, error)
            return []
        if before == after:
            return []
        _keep(groups, name, record, after)
        # one change if both rows are in the same group, otherwise one for each row
        if before is not None and after is not None and before[0] == after[0]:
            return [(before[0], change_events.change(before[1], after[1]))]
        gone = [] if before is None else [(before[0], change_events.change(before[1], None))]
        return gone if after is None else [*gone, (after[0], change_events.change(None, after[1]))]

    def _after(self, groups: Groups, record: Record, before: KeyedRow | None) -> KeyedRow | None:
        """The row after the change and the key of its group; None if it is in no group. A row that no group can hold is
        refused, and the stored row is subtracted. Raises Halt, and DecodeError for a value that is not a change of a
        row."""
        value = record.value()
        row = None if value is None else change_events.row_after(value, None if before is None else before[1])
        if row is None:
            return None
        try:
            keyed = self._keyed(RecordView(record, row, record.headers()), row)
        except Exception as error:
            refuse(groups, record, error)
            return None
        if self._rule.where is not None:
            groups.outcomes["where", "false" if keyed is None else "true"] += 1
        return keyed

    def _keyed(self, record: Record, row: bytes) -> KeyedRow | None:
        """The row with its group's key. None: `where` is false. Raises ClauseFailed, OverflowError, and the errors of
        decoders."""
        rule = self._rule
        if len(row) > rule.max_record_bytes:
            raise OverflowError
        if rule.where is not None and not rule.where.takes(record, rule.where.value(record)):
            return None
        assert rule.key_of is not None
        key = rule.key_of(rule.reader.read(record))
        size = sum(len(name) + len(content or b"") for name, content in passed_on(record))
        if 2 * len(row) + len(key) + size + OVERHEAD > self._most or len(key) > LONGEST_KEY:
            raise msgspec.DecodeError(f"is a row of {len(row)} bytes: a change of it is more than a message may have")
        return key, row


def of_rows(agent: Agent) -> Agent:
    """The agent in a form that reads plain rows."""
    known = agent.aggregation or Aggregation()
    keyed = Aggregation(key=agent.key, on_missing=known.on_missing, on_null=known.on_null)
    return replace(agent, aggregation=keyed, changes=(), rekeys="", dedupe=None)


def row_of(rule: Rule, record: Record) -> Record | None:
    """The row after a change, for either agent of a table; None if there is none. Raises DecodeError."""
    value = one_as_read(rule, record).value()
    if rule.agent.keeps_rows:
        row = None if value is None else change_events.row_after(value)
    else:
        row = change_events.rows(value or b"")[1]
    return None if row is None else RecordView(record, row, record.headers())


def _refuse_key(groups: Groups, record: Record, name: bytes | None) -> None:
    """Refuse a record without a key, or with a key that is too long. An event that is about no row, such as a TRUNCATE,
    has no key: it is refused for what it is. Raises Halt."""
    value = record.value()
    try:
        if name is None and value is not None:
            change_events.row_after(value)
    except Exception as error:
        refuse(groups, record, error)
    else:
        groups.refuse_key(record, name, LONGEST_KEY)


def _keep(groups: Groups, name: bytes, record: Record, after: KeyedRow | None) -> None:
    """Store the row after the change, or delete the stored row. Raises BufferFull."""
    now = max(0, record.timestamp()[1]) / 1000
    state = groups.states.get(name)
    if after is None:
        groups.drop(name)
        return
    if state is None:
        state = groups.open(name, record, now)
        assert state is not None, "a table stops where it is full"
        state[TRACE] = None
    size = len(after[0]) + len(after[1])
    groups.bytes += size - state[BYTES]
    state[BYTES], state[LAST], state[ROW_KEY], state[ROW] = size, record.offset(), *after
    state[COUNT] += 1
    groups.touched[name] = state
    if groups.bytes > groups.most_bytes:
        groups.relieve(record, now, f"max_buffered_bytes {groups.rule.aggregation.max_buffered_bytes}")
