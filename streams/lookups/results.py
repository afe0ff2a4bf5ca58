"""Adds the rows of lookups to the results of completed groups."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.clauses import ClauseFailed, clause
from sluicegate.streams.aggregation.events import MERGED, Event, Fire, Unhandled
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.results import ResultFields, Results, document, of_result
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.handlers.engine_faults import engine_faults
from sluicegate.streams.handlers.processor import Aggregating, Item
from sluicegate.streams.lookups.rows import Keys, LookedUp, Lookups, WaitsForRows, as_key, says


class ResultKeys:
    """Reads the keys of the lookups from a result."""

    def __init__(self, agent: Agent) -> None:
        """Raises ConfigurationError."""
        clauses = [clause(f"lookup.{lookup.name}", lookup.key) for lookup in agent.lookups]
        self._read = [of_result(clause) for clause in clauses]

    def of(self, result: ResultFields) -> Keys:
        """The keys of a result. Raises ClauseFailed."""
        return tuple(as_key(read(result)) for read in self._read)


class LookingResults(Aggregating):
    """Evaluates `having` and the routes on the result with its rows, in the transaction in which the rows were read."""

    session = True

    def __init__(self, agent: Agent, lookups: Lookups, clock: Callable[[], float]) -> None:
        """Raises ConfigurationError."""
        self._waits = WaitsForRows(clock)
        self._lookups, self._keys, self._results = lookups, ResultKeys(agent), Results(agent)
        self._outcomes: Counter[tuple[str, str]] = Counter()

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> Sequence[Event]:
        """Raises LookupFailed, ExpressionStopped, and HandlerFailed while a group waits for its row."""
        asked: list[Keys | None] = []
        for item in items:
            with engine_faults(item):
                asked.append(self._result_keys(item))
        looked_up = self._lookups.read(session, [keys for keys in asked if keys is not None])
        self._outcomes = Counter()
        events: list[Event] = []
        for item, keys in zip(items, asked, strict=True):
            if keys is None or not isinstance(item, Fire):
                events.append(item)  # type: ignore[arg-type]  # an aggregation yields no messages
            else:
                with engine_faults(item):
                    events += self._enriched(item, keys, looked_up, place)
        return events

    def committed(self, items: Sequence[Item], identify: Identify, place: TopicPartition) -> None:
        self._waits.committed(place, items)

    def forget(self, place: TopicPartition) -> None:
        self._waits.forget(place)

    def counted(self, groups: Groups) -> None:
        groups.outcomes.update(self._outcomes)
        self._outcomes = Counter()

    def _result_keys(self, item: Item) -> Keys | None:
        """The keys of a result. None for any other item."""
        if not isinstance(item, Fire):
            return None
        try:
            return self._keys.of(document(item))
        except ClauseFailed:
            return (None,) * len(self._lookups.lookups)

    def _enriched(self, fire: Fire, keys: Keys, looked_up: LookedUp, place: TopicPartition) -> Sequence[Event]:
        if fire.reason == MERGED:
            return [self._results.whole(fire)]
        fields, missing = looked_up.rows_of(keys)
        if missing is not None and fire.goes_on:  # omitted: the last result will report it
            return []
        if missing is None:
            return list(self._results.events(fire, self._outcomes, document(fire) | {**fields}))
        if missing.missing == "wait":
            self._waits.over(place, fire, missing)
        return [Unhandled(fire, says(missing), 1, "lookup-missing", stage="lookup")]
