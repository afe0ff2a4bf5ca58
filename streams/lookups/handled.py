"""Handlers that get the rows that were looked up, in the transaction that read them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Handler
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.clauses import ClauseFailed
from sluicegate.streams.aggregation.events import Event, Fire, Refused, Unhandled
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.results import Results, document
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import RowFields, TopicPartition
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.handlers.failures import Failures, Policy
from sluicegate.streams.handlers.handling import Handling, number_of
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.values import Message, OutputTarget
from sluicegate.streams.lookups.records import RecordKeys
from sluicegate.streams.lookups.results import ResultKeys
from sluicegate.streams.lookups.rows import Keys, Lookups, WaitsForRows, says


class LookingHandling(Handling):
    """`found` has the rows of the messages or groups of the commit under way, by their numbers."""

    def __init__(
        self,
        agent: Agent,
        handler: Handler,
        rule: Rule,
        codec: Codec,
        outputs: OutputTarget,
        policy: Policy,
        pool: Pool,
        lookups: Lookups,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(agent, handler, rule, codec, outputs, policy, pool)
        self.session = True  # the rows are read there, also where the handler does not get it
        self._lookups, self._waits = lookups, WaitsForRows(clock)
        self._of_record = None if self.batches else RecordKeys(agent, codec)
        self._of_result = ResultKeys(agent) if self.batches else None
        self._results = Results(agent) if self.batches and agent.having else None
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._found: dict[GroupNumber, Mapping[str, RowFields | None]] = {}
        self.rows_of = lambda item: self._found[number_of(item)]

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """As Handling.read. The keys may name fields that the type of the handler's `value` leaves out."""
        if self._of_record is None:
            return super().read(groups, records)
        items: list[Item] = []
        for record in records:
            try:
                self._of_record.check(record)
            except Exception as error:
                refuse(groups, record, error)
                items += [event for event in groups.drain() if isinstance(event, Refused)]
            else:
                items += super().read(groups, (record,))
        return items

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> list[Event]:
        """As Handling.run. A message or group without its row may be a dead letter, or wait; the others are handled.
        Raises LookupFailed as well."""
        asked = [self._asked(item) for item in items]
        looked_up = self._lookups.read(session, [keys for keys in asked if keys is not None])
        failures = self._failures.setdefault(place, Failures())
        kept: list[Item] = []
        self._found, self._outcomes = {}, Counter()
        for item, keys in zip(items, asked, strict=True):
            if keys is None or not isinstance(item, Message | Fire):
                kept.append(item)
                continue
            rows, missing = looked_up.of(keys)
            if missing is None:
                self._found[number_of(item)] = rows
                kept += [item] if isinstance(item, Message) else self._having(item, rows)
                continue
            if missing.missing == "wait":
                self._waits.over(place, item, missing, failures)
            if isinstance(item, Fire):
                kept.append(Unhandled(item, says(missing), 1, "lookup-missing", stage="lookup"))
                continue
            kept.append(Refused(item.record, "lookup", "lookup-missing", says(missing), looked_up=True))
        return super().run(kept, identify, session, place)

    def committed(self, items: Sequence[Item], identify: Identify, place: TopicPartition) -> None:
        super().committed(items, identify, place)
        self._waits.committed(place, items)

    def forget(self, place: TopicPartition) -> None:
        super().forget(place)
        self._waits.forget(place)

    def counted(self, groups: Groups) -> None:
        super().counted(groups)
        groups.outcomes.update(self._outcomes)
        self._outcomes = Counter()

    def _having(self, fire: Fire, rows: Mapping[str, RowFields | None]) -> list[Item]:
        """The group if `having` takes its result with the rows, or its dead letter."""
        if self._results is None:
            return [fire]
        decided = self._results.events(fire, self._outcomes, document(fire) | {**rows})
        return [each if isinstance(each, Unhandled) else fire for each in decided]

    def _asked(self, item: Item) -> Keys | None:
        """None for an item that is decided already."""
        try:
            if isinstance(item, Fire) and self._of_result is not None:
                return self._of_result.of(document(item))
            if isinstance(item, Message) and self._of_record is not None:
                return self._of_record.of(item.record, item.record.value() or b"")
        except ClauseFailed:
            return (None,) * len(self._lookups.lookups)
        return None
