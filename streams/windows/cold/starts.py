"""Cold groups of windows with fixed starts. The key of a row is the name of its group, and begins with the start of its
window. So the rows are in the order in which their windows close."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any

from sluicegate.streams.aggregation.durable.cold import ColdKeys, RowReads
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import ColdGroup
from sluicegate.streams.errors import ChangelogIncomplete
from sluicegate.streams.windows.tumbling import name, start_of

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups

MOST_STARTS = 1_000  # windows that have cold groups: each commit that makes groups cold or hot writes their starts
EVERY = b"\xff"  # no name of a cold group is greater


class ColdWindows(ColdKeys):
    """As ColdKeys. The deadline of a row is that of its group on the owner's clock. `starts` tells when it closes."""

    __slots__ = ()
    groups: "WindowGroups"

    def may_evict(self, name: bytes) -> bool:
        """As in ColdKeys. At most MOST_STARTS windows have cold groups, and a group of a closed window fires first."""
        groups = self.groups
        if not super().may_evict(name) or groups.closed:
            return False
        start, starts = start_of(name), self.starts
        open_ = start >= 0 and groups.tumbling.closes(start) > groups.event.watermark
        return open_ and (start in starts or len(starts) < MOST_STARTS)

    def starts_in(self, row: bytes, contents: GroupState) -> Sequence[int | None]:
        return (start_of(row),)

    def of_key(self, key: bytes) -> Sequence[bytes]:
        return [name(start, key) for start in self.starts]

    def of_record(self, record: Record, key: bytes, read: Any) -> Sequence[bytes]:
        groups = self.groups
        names = groups.groups_of(record, key, groups.event_time(record, read))
        return [name for name in names if groups.tumbling.closes(start_of(name)) > groups.event.watermark]

    @property
    def ends(self) -> tuple[float, ...]:
        return (self.groups.at_most,)

    # -- closes

    def _closed(self, watermark: float) -> dict[int, int]:
        """The number of cold groups by the start of their window, if this watermark closes the window."""
        closes = self.groups.tumbling.closes
        return dict(takewhile(lambda item: closes(item[0]) <= watermark, self.starts.items()))

    def closing(self) -> bool:
        return self.waiting() > 0

    def close(self, reads: RowReads) -> Iterator[Sequence[ColdGroup]]:
        end = name(max(self._closed(self.groups.event.watermark)) + 1, b"")
        rows = reads.before(end, reads.most)
        if not rows:
            raise ChangelogIncomplete(f"{self.waiting()} rows of cold groups are missing in the store")
        yield rows

    def next_close(self) -> float:
        first = next(iter(self.starts), None)
        return inf if first is None else self.groups.tumbling.closes(first)

    def closes_by(self, watermark: float) -> Iterable[int]:
        return map(self.groups.tumbling.closes, self._closed(watermark))

    def leaving(self, watermark: float) -> int:
        return sum(self._closed(watermark).values())

    # -- room

    def first(self, reads: RowReads) -> Iterator[Callable[[int], Sequence[ColdGroup]]]:
        """As in ColdKeys: the groups whose windows close first."""
        yield partial(reads.before, EVERY)
