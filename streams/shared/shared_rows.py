"""Looks up rows for the completed groups of a shared buffer when a batch fires, in a separate transaction."""

from collections import Counter
from collections.abc import Sequence
from threading import Lock

from sluicegate.streams.aggregation.events import Event, Fire
from sluicegate.streams.lookups.handled import ItemRows, RowsByName
from sluicegate.streams.shared.shared_records import RecordOrigin


class SharedRows:
    """Thread-safe."""

    def __init__(self, rows: ItemRows) -> None:
        self._rows = rows
        self._one_at_a_time = Lock()  # an expression may be used by one thread at a time

    def of(self, fire: Fire, first: RecordOrigin, outcomes: Counter[tuple[str, str]]) -> RowsByName | Sequence[Event]:
        """The rows of a group for its handler, or the events that replace the call. Raises LookupFailed, and
        HandlerFailed while the group waits for its row."""
        place = first.topic, first.partition
        with self._one_at_a_time:
            keys = self._rows.keys_of(fire) or ()
            answer = self._rows.lookups.read_apart([keys]).rows_of(keys)
            self._rows.outcomes = Counter()
            decided = self._rows.decided(place, fire, answer)
            outcomes.update(self._rows.outcomes)
            self._rows.waits.ended(place, [fire.number])
        return decided

    def forget(self, origins: Sequence[RecordOrigin]) -> None:
        """Forget the groups that begin with these records: another worker has them."""
        with self._one_at_a_time:
            for origin in origins:
                self._rows.waits.ended((origin.topic, origin.partition), [origin.offset])
