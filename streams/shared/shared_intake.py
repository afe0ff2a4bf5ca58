"""The first half of `scope: shared`: a partition owner inserts its records into the buffer that all workers share.

The insert moves the source's position in its own transaction, before the owner's commit moves the offset. Records that
are read again after a crash are below the position and are left out, whichever worker reads them.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.events import Event
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.leased import BufferIntake
from sluicegate.streams.contracts.leased_values import PositionMove
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import WatermarkMoved
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.shared.shared_early import SharedEarly
from sluicegate.streams.shared.shared_fires import SharedFires
from sluicegate.streams.shared.shared_leases import MOST
from sluicegate.streams.shared.shared_records import RecordRun, no_records
from sluicegate.streams.shared.shared_runs import Runs, parts
from sluicegate.streams.shared.shared_size import SharedSize


class SourceProgress(NamedTuple):
    """The topic id (sluicegate.streams.contracts.values.Source.name) and position of a partition, as this process
    knows them. `identify` makes the ids under the current claim."""

    identify: Identify
    topic_id: str
    position: int


class SharedIntake(RecordProcessor):
    """`source_of` reads from the store the topic id of a partition; ids are derived from it. `least` is a number of
    records: fewer records complete no group. A commit takes at most `most` records. These are two inserts, and complete
    no more batches than a worker may lease. `held` counts the bytes read since it was set to 0."""

    batches = False

    def __init__(
        self,
        name: str,
        least: float,
        buffer: BufferIntake,
        runs: Runs,
        fires: SharedFires,
        source_of: Callable[[TopicPartition], str],
        size: SharedSize,
        early: SharedEarly | None = None,
    ) -> None:
        self._size, self._early = size, early
        self._name, self._least, self._buffer, self._runs, self.fires = name, least, buffer, runs, fires
        self._source_of, self.at_once = source_of, runs.at_once
        self._sources: dict[TopicPartition, SourceProgress] = {}
        self.most, self.read_bytes = int(min(2 * runs.at_once, MOST * least)), 0

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """All records as one message with a RecordRun as its `value`. Refused records are in the groups' events."""
        run = self._runs.read(groups, records)
        self.read_bytes += self._runs.size(run)
        return [Message(run, records[-1])] if run.items else []

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> list[Event]:
        """Insert the records into the buffer. Returns the items that are not messages: refused records, and groups that
        fired when the scope changed. Raises PersistenceError, SystemNotReady, and the Halt of a batch."""
        if self.fires.halt is not None:
            raise self.fires.halt
        whole = no_records()
        columns: Sequence[Any] = whole
        for item in items:
            if isinstance(item, Message):
                for column, more in zip(columns, item.value, strict=True):
                    column.extend(more)
        for part in parts(whole, self._runs, self._least):
            self._put(place, part, identify)
        return [item for item in items if not isinstance(item, Message)]

    def _put(self, place: TopicPartition, run: RecordRun, identify: Identify) -> None:
        _, topic_id, stands = self._source(place, identify)
        while (fresh := run if run.offsets[0] >= stands else run.part(bisect_left(run.offsets, stands))).offsets:
            moves = PositionMove(topic_id, place[1], stands, fresh.offsets[-1] + 1)
            try:
                batches = self._runs.insert(fresh, place[0], moves)
            except WatermarkMoved as moved:
                stands = moved.next
                continue
            stands = moves.next
            failpoints.hit("shared-inserted")
            self.fires.leases.take(batches)
        self._sources[place] = SourceProgress(identify, topic_id, stands)

    def _source(self, place: TopicPartition, identify: Identify) -> SourceProgress:
        known = self._sources.get(place)
        if known is None or known.identify is not identify:
            topic_id = self._source_of(place)
            stands = self._buffer.position(self._name, topic_id, place[1])
            known = self._sources[place] = SourceProgress(identify, topic_id, stands)
        return known

    def holds(self, place: TopicPartition, offset: int, identify: Identify) -> bool:
        return offset < self._buffer.position(self._name, self._source(place, identify).topic_id, place[1])

    def forget(self, place: TopicPartition) -> None:
        self._sources.pop(place, None)

    @property
    def full(self) -> bool:
        return self.fires.leases.full

    @property
    def busy(self) -> bool:
        return self.fires.leases.busy

    def turn(self, now: float) -> None:
        self.fires.turn(now)
        if self._early is not None and self.fires.halt is None:
            self._early.turn(now)

    def measure(self, now: float, first: bool) -> None:
        self._size.turn(now, first)

    def stop(self) -> None:
        if self._early is not None:
            self._early.stop()
        self.fires.stop()

    def finish(self) -> None:
        if self._early is not None:
            self._early.finish()
        self.fires.finish()
