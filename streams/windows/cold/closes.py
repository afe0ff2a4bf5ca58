"""Cold groups whose windows have no fixed starts. The deadline of a row is the watermark that closes its group. A row
is deleted when its group becomes hot. A deadline on the owner's clock is a row of its own (durable/alarms.py)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from math import floor, inf
from typing import TYPE_CHECKING, Any

from sluicegate.streams.aggregation.durable import alarms
from sluicegate.streams.aggregation.durable.alarms import GROUP, alarm, is_alarm, row_of, since_of
from sluicegate.streams.aggregation.durable.cold import EVER, ColdKeys, DueRows, RowReads
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import COLD_KEY, ColdGroup
from sluicegate.streams.errors import ChangelogIncomplete
from sluicegate.streams.windows.tumbling import key_of

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups
NEVER = 1e12  # the time of an alarm, in seconds, that never rings
MOST_ABSENT = 10_000  # rows that are known to be absent, beyond two for each hot group


class ColdByClose(ColdKeys):
    """As ColdKeys. `closes`: no cold group closes at an earlier watermark; infinity if none is cold."""

    __slots__ = ("closes",)
    times_out = False
    groups: "WindowGroups"

    def __init__(self, groups: Any) -> None:
        super().__init__(groups)
        self.closes = inf

    def restore(self, count: int, starts: dict[int, int]) -> None:
        super().restore(count, starts)
        self.closes = 0 if count else inf

    # -- keys

    def is_cold(self, row: bytes, gone: Collection[bytes]) -> bool:
        return row not in gone and not is_alarm(row)

    def replaced(self, row: bytes, names: Sequence[bytes], rings: float | None) -> Sequence[bytes]:
        return row, alarm(row, self._since(names) if rings is None else rings)

    def _since(self, names: Sequence[bytes]) -> float:
        """The owner's time from which the age of the oldest of these groups is measured."""
        return min(self.groups.since(self.groups.states[name]) for name in names)

    def to_ask(self, rows: Sequence[bytes]) -> Sequence[bytes]:
        """As in ColdKeys. The name of a hot group is not the key of its row, so `absent` keeps the keys of earlier
        batches: the store is asked once. Only the owner writes rows, and an eviction removes their keys."""
        absent = self.absent
        if absent is None or len(absent) > 2 * self.groups.number + MOST_ABSENT:
            absent = self.absent = set()
        return [row for row in rows if row not in absent]

    def removed(self, name: bytes) -> Sequence[bytes]:
        return self.replaced(self.row_key(name), self.members(name), self.rings(name))

    def left(self, name: bytes) -> Sequence[bytes]:
        return ()

    # -- deadlines

    def row_due(self, name: bytes) -> float:
        return self.groups.closes(name, self.groups.states[name])

    def alarms(self, name: bytes) -> Sequence[ColdGroup]:
        key = self.removed(name)[1]
        return (ColdGroup(key, None, b""),) if self._rung(key) < inf else ()

    def rings(self, name: bytes) -> float | None:
        """As in ColdKeys. With early results by time, an alarm is for the first of two deadlines."""
        groups = self.groups
        if groups.early.every == inf:
            return None
        return min(groups.since(groups.states[name]) + groups.at_most, groups.early.due_at(name), NEVER)

    def nearest(self, evicted: Sequence[ColdGroup]) -> float:
        self.closes = min(self.closes, super().nearest(evicted))
        return min((self._rung(row.key) for row in evicted if is_alarm(row.key)), default=inf)

    def due(self, reads: RowReads, now: float) -> DueRows:
        rows = [row for row in reads.before(GROUP, reads.most + 1 + len(reads.gone)) if row.key not in reads.gone]
        late = [row for row in rows[: reads.most] if self._rung(row.key) <= now]
        due = reads.rows([row_of(row.key) for row in late])
        return DueRows(due, late, self._rung(rows[len(late)].key) if len(late) < len(rows) else inf)

    def _rung(self, key: bytes) -> float:
        """The moment of this alarm, on the owner's clock; infinity for never. The key has the moment itself, or the
        time from which `at_most` is measured."""
        at = since_of(key)
        return at + self.groups.at_most if self.groups.early.every == inf else at if at < NEVER else inf

    @property
    def ends(self) -> tuple[float, ...]:
        return self.groups.at_most, self.groups.window.grace

    # -- closes

    def _until(self) -> float:
        """The highest watermark that closes cold groups now."""
        return self.groups.closes_until() if self.count else -inf

    def closing(self) -> bool:
        return self.closes <= self._until()

    def close(self, reads: RowReads) -> Iterator[Sequence[ColdGroup]]:
        """As in ColdKeys. Then find the next close. It is exact at the end of the partition, where silence may close
        it."""
        until = self._until()
        rows = reads.due(until, reads.most + len(reads.gone))
        rows = [row for row in rows if self.is_cold(row.key, reads.gone)][: reads.most]
        yield rows
        self.closes = inf
        if len(rows) == reads.most:
            self.closes = rows[-1].due or 0.0
        elif self.count and self.groups.at_end:
            later = reads.due(EVER, 1 + len(reads.gone))
            self.closes = min((row.due or 0.0 for row in later if self.is_cold(row.key, reads.gone)), default=inf)
        elif self.count and not self.leaving(until):
            self.closes = floor(until) + 1
        if self.count and self.closes == inf:
            raise ChangelogIncomplete(f"{self.count} rows of cold groups are missing in the store")

    def next_close(self) -> float:
        return self.closes if self.count else inf

    # -- room

    def needs(self, records: int, unknown: int) -> int:
        return records

    def first(self, reads: RowReads) -> Iterator[Callable[[int], Sequence[ColdGroup]]]:
        """As in ColdKeys: the groups that close first."""
        yield partial(reads.due, EVER)


class ColdByKey(ColdByClose):
    """As ColdByClose. A key has one row."""

    __slots__ = ()

    def may_evict(self, name: bytes) -> bool:
        """As in ColdKeys. A closed group fires first."""
        return len(key_of(name)) <= COLD_KEY - alarms.NAMING and self.row_due(name) > self.groups.event.watermark

    def row_key(self, name: bytes) -> bytes:
        return self._row(key_of(name))

    def _row(self, key: bytes) -> bytes:
        return alarms.row_key(0, key)

    def rows_of(self, name: bytes) -> Sequence[bytes]:
        return self.of_key(key_of(name))

    def of_key(self, key: bytes) -> Sequence[bytes]:
        return (self._row(key),)

    def of_record(self, record: Record, key: bytes, read: Any) -> Sequence[bytes]:
        return self.of_key(key)

    def unasked(self, name: bytes) -> bool:
        return self.absent is not None and self.row_key(name) not in self.absent
