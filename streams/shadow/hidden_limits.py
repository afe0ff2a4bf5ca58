"""Windows that a limit of the partition may have ended without a message.

With `on_full: fire-oldest`, a record that opens a window beyond the limit ends the window that closes next. A published
result shows this end, but not a result that `having` or the routes omit. It is then also unknown whether silence had
already closed a window, so that there was room. The replay opens at least the windows that the owner had open: as long
as they are within the limits, or the window that had to end has a published result, no end is hidden.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation.layout import BYTES, FIRST, GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.groups import WindowGroups


class CutWindow(NamedTuple):
    """A window that a limit ended at an unknown record behind its own records. Its result is published."""

    closes: float
    first: int
    size: int


class HiddenLimits:
    """Decides whether the limits of the partition may have ended a window without a message."""

    def __init__(self, windows: WindowGroups, limits: Aggregation) -> None:
        self._windows, self._limits = windows, limits
        window = windows.window
        self._of_record = round(window.size / window.every) if window.every else 1  # windows that a record may open
        self._cut: list[CutWindow] = []

    def cut(self, name: bytes, state: GroupState) -> None:
        """Note a window that ends by a limit. It may have been open for some more records of other windows."""
        heappush(self._cut, CutWindow(self._windows.closes(name, state), state[FIRST], state[BYTES]))

    def parts(self, records: Sequence[Record]) -> Sequence[Sequence[Record]]:
        """The records in parts: `hides` is asked behind each. One record each, if a limit is near."""
        size = sum(len(record.value() or b"") for record in records)
        return [[record] for record in records] if self._exceeds(self._of_record * len(records), size) else [records]

    def hides(self, offset: int) -> bool:
        """Whether the record at this offset may have ended an open window without a message."""
        while self._cut and self._cut[0].closes <= self._windows.event.watermark:
            heappop(self._cut)
        while self._exceeds():
            if not self._cut or self._cut[0][:2] > self._nearest(offset):
                return True
            heappop(self._cut)  # this window gave way
        return False

    def _exceeds(self, windows: int = 0, size: int = 0) -> bool:
        """Whether the open windows, with so many more of this size, exceed a limit."""
        windows += self._windows.number + len(self._cut)
        size += self._windows.bytes + sum(cut.size for cut in self._cut)
        return windows > self._limits.max_groups or size > self._limits.max_buffered_bytes

    def _nearest(self, offset: int) -> tuple[float, int]:
        """The close and the first record of the window that closes next, of those that were open before this record."""
        windows = self._windows
        earlier = ((name, state) for name, state in windows.states.items() if state[FIRST] < offset)
        return min(((windows.closes(name, state), state[FIRST]) for name, state in earlier), default=(inf, 0))
