"""Cold groups of windows with fixed starts. The key of a row is the name of its group, and begins with the start of its
window. So the rows are in the order in which their windows close."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any

from sluicegate.streams.aggregation.durable.cold import ColdKeys, RowReads, is_closed, row_width
from sluicegate.streams.aggregation.durable.entry import unpacked_state
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import ColdGroup
from sluicegate.streams.errors import ChangelogIncomplete
from sluicegate.streams.windows.clock import NEVER
from sluicegate.streams.windows.tumbling import name, start_of

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups

MOST_STARTS = 1_000  # windows that have cold groups: each commit that makes groups cold or hot writes their starts
CLOSED = 1 << 62  # no window begins so late


def window_of(start: int) -> int:
    """The start of the window whose cold groups `starts` counts under this number."""
    return start % CLOSED


class ColdWindows(ColdKeys):
    """As ColdKeys. The deadline of a row is that of its group on the owner's clock. `starts` tells when it closes.

    A group that stays after its result (closed.py) may be cold, too, while no late record waits for a result. In
    `starts` it counts under CLOSED + the start of its window. Its row has no deadline, and the watermark ends it
    without a result. `_read` is the key up to which the rows of closed windows were read: none before it has a group
    that waits to close. `_reach` is the highest watermark that the records of the batch may have caused so far.
    """

    __slots__ = ("_reach", "_read")
    times_out = False
    groups: "WindowGroups"

    def __init__(self, groups: Any) -> None:
        super().__init__(groups)
        self._read: bytes = b""
        self._reach: float = NEVER

    def may_evict(self, name: bytes) -> bool:
        """As in ColdKeys. At most MOST_STARTS windows have cold groups. A group whose window has closed fires first,
        and one that stays after its result waits for late records."""
        groups, starts, start = self.groups, self.starts, start_of(name)
        if not super().may_evict(name) or start < 0:
            return False
        state, closed = groups.states[name], groups.closed.get(name)
        if closed is None:
            waits, counted = groups.closes(name, state) > groups.event.watermark, start
        else:
            waits, counted = closed[1] is None and groups.leaves(name, state) > groups.event.watermark, CLOSED + start
        return waits and (counted in starts or len(starts) < MOST_STARTS)

    def starts_in(self, row: bytes, contents: GroupState) -> Sequence[int | None]:
        return (start_of(row) + CLOSED * is_closed(contents, row_width(self.groups)),)

    def of_key(self, key: bytes) -> Sequence[bytes]:
        return list(dict.fromkeys(name(window_of(start), key) for start in self.starts))

    def of_record(self, record: Record, key: bytes, read: Any) -> Sequence[bytes]:
        """As in ColdKeys. With `late`, a record may come to a window that has closed and still waits for its result.
        Then this result is sent before the record counts, and those of earlier windows of its key are sent before it
        (WindowGroups.put_late). So their groups are needed, too."""
        groups, closes = self.groups, self.groups.tumbling.closes
        time = groups.event_time(record, read)
        names = [name for name in groups.groups_of(record, key, time) if not groups.passed(start_of(name))]
        if not groups.keep:
            return names
        self._reach = max(self._reach, time)
        late = max((start for start in map(start_of, names) if closes(start) <= self._reach), default=-1)
        return [*names, *(name(start, key) for start in takewhile(lambda start: start < late, self.starts))]

    def begin(self) -> None:
        self._reach = self.groups.event.reach()

    def pass_over(self, record: Record) -> None:
        if self.groups.keep:
            self._reach = max(self._reach, self.groups.moves_to(record))

    # -- deadlines

    def row_due(self, name: bytes) -> float:
        return inf if name in self.groups.closed else super().row_due(name)

    @property
    def ends(self) -> tuple[float, ...]:
        return (self.groups.at_most,)

    # -- closes

    def _closed(self, watermark: float) -> list[int]:
        """The starts of the windows that have groups which fire at this watermark."""
        closes = self.groups.tumbling.closes
        return list(takewhile(lambda start: start < CLOSED and closes(start) <= watermark, self.starts))

    def _ended(self, watermark: float) -> list[int]:
        """The starts of the windows that have closed groups which this watermark ends."""
        closes, stays = self.groups.tumbling.closes, self.groups.after.stays_for
        kept = (window_of(start) for start in self.starts if start >= CLOSED)
        return list(takewhile(lambda start: closes(start) + stays <= watermark, kept))

    def closing(self) -> bool:
        watermark = self.groups.event.watermark
        return bool(self._closed(watermark) or self._ended(watermark))

    def close(self, reads: RowReads) -> Iterator[Sequence[ColdGroup]]:
        """As in ColdKeys. If no group waits to close, those that end."""
        watermark = self.groups.event.watermark
        if closed := self._closed(watermark):
            many, rows = sum(self.starts[start] for start in closed), self._unread(reads, closed[0], closed[-1])
        else:
            ended = self._ended(watermark)
            many = sum(self.starts[CLOSED + start] for start in ended)
            rows = reads.before(name(ended[-1] + 1, b""), reads.most + len(self.groups.touched))
        if not rows:
            raise ChangelogIncomplete(f"{many} rows of cold groups are missing in the store")
        yield [row for row in rows if self.is_cold(row.key, reads.gone)][: reads.most]

    def _unread(self, reads: RowReads, first: int, last: int) -> Sequence[ColdGroup]:
        """The next cold groups of windows that begin from `first` to `last`. A row that was read is not read again: its
        group has had its result, and may be cold again."""
        end = name(last + 1, b"")
        self._read = max(self._read, _before(first))
        while rows := [row for row in reads.page(reads.most, self._read) if row.key < end]:
            self._read = rows[-1].key
            if any(self.is_cold(row.key, reads.gone) for row in rows):
                break
        return rows

    def next_close(self) -> float:
        first = next(iter(self.starts), CLOSED)
        return inf if first >= CLOSED else self.groups.tumbling.closes(first)

    def closes_by(self, watermark: float) -> Iterable[int]:
        return map(self.groups.tumbling.closes, self._closed(watermark))

    def leaving(self, watermark: float) -> int:
        closes, stays = self.groups.tumbling.closes, self.groups.after.stays_for
        return sum(count for start, count in self.starts.items() if closes(window_of(start)) + stays <= watermark)

    # -- room

    def first(self, reads: RowReads) -> Iterator[Callable[[int], Sequence[ColdGroup]]]:
        """As in ColdKeys: the groups whose windows close first. Groups that stay after their result do not fire."""
        if (first := next(iter(self.starts), CLOSED)) < CLOSED:
            yield partial(self._waiting, reads, first)

    def _waiting(self, reads: RowReads, first: int, limit: int) -> Sequence[ColdGroup]:
        """The first rows of windows that begin from `first` on, without those of groups that stay."""
        rows, after = list[ColdGroup](), _before(first)
        while len(rows) < limit and (page := reads.page(limit, after)):
            rows += [row for row in page if not self._stays(row)]
            after = page[-1].key
        return rows[:limit]

    def _stays(self, row: ColdGroup) -> bool:
        counted = CLOSED + start_of(row.key)
        return counted in self.starts and counted in self.starts_in(row.key, unpacked_state(row.state))


def _before(start: int) -> bytes:
    """A key before the rows of the window that begins then, and behind those of the window before it."""
    return name(start - 1, b"") if start else b""
