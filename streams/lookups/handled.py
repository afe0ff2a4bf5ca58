"""Handlers that get the rows of lookups: in the transaction in which they were read, or, with `concurrency`, outside of
it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Handler
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.clauses import ClauseFailed
from sluicegate.streams.aggregation.events import MERGED, Event, Fire, Refused, Unhandled
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.results import Results, document
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import RowFields, TopicPartition
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.errors import HandlerFailed
from sluicegate.streams.handlers.admission import CallAdmission
from sluicegate.streams.handlers.failures import Failures, Policy
from sluicegate.streams.handlers.handling import Handling, number_of
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.sealed import Sealed, SealedItem
from sluicegate.streams.handlers.slow import Slow
from sluicegate.streams.handlers.values import Message, OutputTarget
from sluicegate.streams.lookups.records import RecordKeys
from sluicegate.streams.lookups.results import ResultKeys
from sluicegate.streams.lookups.rows import FoundRows, Keys, Lookups, WaitsForRows, says

RowsByName = Mapping[str, RowFields | None]


class ItemRows:
    """Reads the rows for the messages or completed groups of an agent, and decides the outcome of an item without a
    required row. `outcomes` counts the outcomes of `having` and, without a handler, of the routes."""

    def __init__(self, agent: Agent, codec: Codec, lookups: Lookups, clock: Callable[[], float]) -> None:
        """Raises ConfigurationError."""
        groups = agent.aggregation is not None
        self.lookups, self.waits = lookups, WaitsForRows(clock)
        self.of_record = None if groups else RecordKeys(agent, codec)
        self._of_result = ResultKeys(agent) if groups else None
        self._handled = agent.handler is not None
        self._results = Results(agent) if groups and (agent.having or not self._handled) else None
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def keys_of(self, item: Item) -> Keys | None:
        """The keys of an item. None for an item that is already decided."""
        try:
            if isinstance(item, Fire) and self._of_result is not None:
                return self._of_result.of(document(item))
            if isinstance(item, Message) and self.of_record is not None:
                return self.of_record.of(item.record, item.record.value() or b"")
        except ClauseFailed:
            return (None,) * len(self.lookups.lookups)
        return None

    def decided(
        self, place: TopicPartition, item: Message | Fire, answer: FoundRows, failures: Failures | None = None
    ) -> RowsByName | Sequence[Fire | Unhandled | Refused]:
        """The rows of an item to handle, or the events that replace the call: none if `having` omits it, and without a
        handler its results. Raises HandlerFailed for an item that must wait."""
        rows, missing = answer
        if isinstance(item, Fire) and item.reason == MERGED:  # it has no fields for the keys of lookups
            return rows
        if missing is None:
            return rows if isinstance(item, Message) else self._having(item, rows)
        if isinstance(item, Fire) and item.goes_on:  # omitted: the last result will report it
            return []
        if missing.missing == "wait":
            self.waits.over(place, item, missing, failures)
        if isinstance(item, Fire):
            return [Unhandled(item, says(missing), 1, "lookup-missing", stage="lookup")]
        return [Refused(item.record, "lookup", "lookup-missing", says(missing), looked_up=True)]

    def _having(self, fire: Fire, rows: RowsByName) -> RowsByName | Sequence[Fire | Unhandled]:
        if self._results is None:
            return rows
        decided = [*self._results.events(fire, self.outcomes, document(fire) | {**rows})]
        if not self._handled:
            return decided
        letters = [event for event in decided if isinstance(event, Unhandled)]
        return letters if letters or not decided else rows


class LookingHandling(Handling):
    """`rows` has the rows for the messages or groups of the current commit, by their numbers. With calls outside of the
    commit, LookingSlow has them."""

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
        self.session = not handler.concurrency  # the rows are read in it, even if the handler does not get it
        self.rows = ItemRows(agent, codec, lookups, clock)
        self._rows: dict[GroupNumber, RowsByName] = {}
        self.rows_of = lambda item: self._rows[number_of(item)]

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """As Handling.read. The keys may be fields that the type of the handler's `value` does not have."""
        if self.rows.of_record is None:
            return super().read(groups, records)
        items: list[Item] = []
        for record in records:
            try:
                self.rows.of_record.check(record)
            except Exception as error:
                refuse(groups, record, error)
                items += [event for event in groups.drain() if isinstance(event, Refused)]
            else:
                items += super().read(groups, (record,))
        return items

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> list[Event]:
        """As Handling.run. A message or group without its row may become a dead letter, or wait; the others are
        handled. Also raises LookupFailed."""
        asked = [self.rows.keys_of(item) for item in items]
        looked_up = self.rows.lookups.read(session, [keys for keys in asked if keys is not None])
        failures = self._failures.setdefault(place, Failures())
        kept: list[Item] = []
        self._rows, self.rows.outcomes = {}, Counter()
        for item, keys in zip(items, asked, strict=True):
            if keys is None or not isinstance(item, Message | Fire):
                kept.append(item)
                continue
            decided = self.rows.decided(place, item, looked_up.rows_of(keys), failures)
            if isinstance(decided, Mapping):
                self._rows[number_of(item)] = decided
                kept.append(item)
            else:
                kept += decided
        return super().run(kept, identify, session, place)

    def committed(self, items: Sequence[Item], identify: Identify, place: TopicPartition) -> None:
        super().committed(items, identify, place)
        if self.session:
            self.rows.waits.committed(place, items)

    def forget(self, place: TopicPartition) -> None:
        super().forget(place)
        self.rows.waits.forget(place)

    def counted(self, groups: Groups) -> None:
        super().counted(groups)
        groups.outcomes.update(self.rows.outcomes)
        self.rows.outcomes = Counter()


class LookingSlow(Slow):
    """Calls outside of the loop with rows. The rows are read when a call is about to begin, in a separate transaction.
    An item that waits for its row does not block items of other keys."""

    def __init__(
        self,
        handler: Handler,
        handling: LookingHandling,
        pool: Pool,
        policy: Policy,
        admission: CallAdmission | None = None,
    ) -> None:
        super().__init__(handler, handling, pool, policy, admission)
        self._rows = handling.rows

    def with_rows(
        self, sealed: Sealed, now: float, ready: Sequence[SealedItem]
    ) -> tuple[Sequence[SealedItem], Sequence[Event]]:
        """Raises LookupFailed."""
        asked = [(item, self._rows.keys_of(item.item) or ()) for item in ready]
        if not asked:
            return (), ()
        looked_up = self._rows.lookups.read_apart([keys for _, keys in asked])
        admitted: list[SealedItem] = []
        events: list[Event] = []
        for item, keys in asked:
            try:
                decided = self._rows.decided(sealed.place, item.item, looked_up.rows_of(keys))
            except HandlerFailed as error:
                item.ready_at = now + error.delay
                continue
            self._rows.waits.committed(sealed.place, [item.item])
            if isinstance(decided, Mapping):
                item.rows = decided
                admitted.append(item)
            else:
                events += decided
                sealed.end(item)
        return admitted, events
