"""The values of the reducers for a window, while records enter and leave it. Pure.

Each record has a state of its own, as a group with only this record would have. A total adds such states and removes
them again, so a result does not need the other records of the window. A reducer without such a total merges the states
of the whole window for each result.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.layout import COUNT, FIRST, OPENED, GroupState
from sluicegate.streams.aggregation.reducers import places
from sluicegate.streams.reducers import NUMBERS, REDUCERS, parts_of
from sluicegate.streams.reduction import Accumulator, Place
from sluicegate.streams.windows.sliding.sums import ExactSum

TimedState = tuple[int, int, GroupState]
"""A record of a window: its time in milliseconds since 1970, its offset, and its state. They are ordered by time, then
by offset."""
AT = -1
"""The last slot of a state: the time of the record, in milliseconds since 1970."""
Worse = Callable[[TimedState, TimedState], bool]
"""Whether the first record is not needed while the second one, which leaves later, is in the window."""


class FieldTotal(Protocol):
    """The total of one reducer."""

    def append(self, entry: TimedState) -> None:
        """Add an entry that is last both by time and in the log."""

    def insert(self, entry: TimedState) -> None:
        """Add an entry that is last in the log, but not by time."""

    def remove(self, entry: TimedState) -> None:
        """Remove the first entry by time."""

    def put(self, state: GroupState) -> None:
        """Write the total into the slots of the reducer."""


def inserted(best: deque[TimedState], entry: TimedState, worse: Worse) -> None:
    """Insert the entry into `best`: the best entry of a window, then the best one after it, and so on."""
    later = list[TimedState]()
    while best and best[-1] > entry:
        later.append(best.pop())
    if not later or not worse(entry, later[-1]):
        while best and worse(best[-1], entry):
            best.pop()
        best.append(entry)
    best.extend(reversed(later))


class Numbers:
    """Sum, minimum and maximum of one field."""

    __slots__ = ("_at", "_greatest", "_least", "_lenient", "_many", "_slot", "_sum")

    def __init__(self, place: Place) -> None:
        self._at, self._slot, self._lenient, self._many = place.at, place.at + 1, place.lenient, 0
        self._sum, self._least, self._greatest = ExactSum(), deque[TimedState](), deque[TimedState]()

    def append(self, entry: TimedState) -> None:
        slot = self._slot
        value = entry[2][slot]
        if value is None:
            return
        self._many += 1
        self._sum.add(value)
        least, greatest = self._least, self._greatest
        while least and least[-1][2][slot] >= value:
            least.pop()
        least.append(entry)
        while greatest and greatest[-1][2][slot] <= value:
            greatest.pop()
        greatest.append(entry)

    def insert(self, entry: TimedState) -> None:
        slot = self._slot
        value = entry[2][slot]
        if value is not None:
            self._many += 1
            self._sum.add(value)
            inserted(self._least, entry, lambda one, other: one[2][slot] >= other[2][slot])
            inserted(self._greatest, entry, lambda one, other: one[2][slot] <= other[2][slot])

    def remove(self, entry: TimedState) -> None:
        value = entry[2][self._slot]
        if value is None:
            return
        self._many -= 1
        self._sum.remove(value)
        if self._least[0] is entry:
            self._least.popleft()
        if self._greatest[0] is entry:
            self._greatest.popleft()

    def put(self, state: GroupState) -> None:
        at, slot = self._at, self._slot
        state[at] = self._sum.value
        state[slot] = self._least[0][2][slot] if self._least else None
        state[slot + 1] = self._greatest[0][2][slot] if self._greatest else None
        if self._lenient:
            state[at + 3] = self._many


class Earliest:
    """The value with the lowest offset."""

    __slots__ = ("_at", "_best")

    def __init__(self, place: Place) -> None:
        self._at, self._best = place.at, deque[TimedState]()

    def append(self, entry: TimedState) -> None:
        if entry[2][self._at + 1] >= 0:
            self._best.append(entry)

    def insert(self, entry: TimedState) -> None:
        if entry[2][self._at + 1] >= 0:
            inserted(self._best, entry, after)

    def remove(self, entry: TimedState) -> None:
        if self._best and self._best[0] is entry:
            self._best.popleft()

    def put(self, state: GroupState) -> None:
        at = self._at
        state[at : at + 2] = self._best[0][2][at : at + 2] if self._best else (None, -1)


class Latest(Earliest):
    """The value with the highest offset."""

    __slots__ = ()

    def append(self, entry: TimedState) -> None:
        if entry[2][self._at + 1] >= 0:
            self._best.clear()
            self._best.append(entry)

    def insert(self, entry: TimedState) -> None:
        if entry[2][self._at + 1] >= 0:
            inserted(self._best, entry, before)


def after(one: TimedState, other: TimedState) -> bool:
    """Whether the first entry is later in the log."""
    return one[1] > other[1]


def before(one: TimedState, other: TimedState) -> bool:
    return one[1] < other[1]


class Merged:
    """The total of a reducer whose states cannot be subtracted."""

    __slots__ = ("_blank", "_entries", "_merge", "_slots")

    def __init__(self, place: Place, slots: Accumulator) -> None:
        assert slots.merge is not None
        self._slots, self._blank, self._merge = place.slots, slots.blank(place), slots.merge(place)
        self._entries = list[TimedState]()

    def append(self, entry: TimedState) -> None:
        self._entries.append(entry)

    def insert(self, entry: TimedState) -> None:
        insort(self._entries, entry)

    def remove(self, entry: TimedState) -> None:
        self._entries.pop(0)

    def put(self, state: GroupState) -> None:
        for slot, value in zip(self._slots, self._blank, strict=True):
            state[slot] = value
        for _, _, other in sorted(self._entries, key=offset_of):
            self._merge(state, other)


_TOTALS: Mapping[Accumulator | None, Callable[[Place], FieldTotal]] = {
    NUMBERS: Numbers,
    REDUCERS["first"].slots: Earliest,
    REDUCERS["last"].slots: Latest,
}


class WindowTotals:
    """The totals of all reducers, the number of records, and the first record."""

    __slots__ = ("_first", "_many", "_parts")

    def __init__(self, parts: Sequence[FieldTotal]) -> None:
        self._parts, self._first, self._many = parts, deque[TimedState](), 0

    def append(self, entry: TimedState) -> None:
        """As in FieldTotal."""
        self._many += 1
        self._first.append(entry)
        for part in self._parts:
            part.append(entry)

    def insert(self, entry: TimedState) -> None:
        """As in FieldTotal."""
        self._many += 1
        inserted(self._first, entry, after)
        for part in self._parts:
            part.insert(entry)

    def remove(self, entry: TimedState) -> None:
        """As in FieldTotal."""
        self._many -= 1
        if self._first[0] is entry:
            self._first.popleft()
        for part in self._parts:
            part.remove(entry)

    def state(self, entry: TimedState) -> GroupState:
        """The state of the window that ends with this record, which is the last one in the log. It does not count the
        bytes of the bags."""
        state, first = entry[2].copy(), self._first[0][2]
        state[COUNT], state[FIRST], state[OPENED] = self._many, first[FIRST], first[OPENED]
        for part in self._parts:
            part.put(state)
        return state


def totals(compute: Sequence[Reducer], lenient: bool) -> Callable[[Iterable[TimedState]], WindowTotals]:
    """A function that computes the totals of entries."""
    own = [(place, parts_of(place.reducer, merged=True).slots) for place in places(compute, lenient, merged=True)]
    kept = [(place, slots) for place, slots in own if place.own and slots is not None]

    def made(entries: Iterable[TimedState]) -> WindowTotals:
        whole = WindowTotals(
            [_TOTALS[slots](place) if slots in _TOTALS else Merged(place, slots) for place, slots in kept]
        )
        for entry in entries:
            whole.insert(entry)
        return whole

    return made


def offset_of(entry: TimedState) -> int:
    return entry[1]
