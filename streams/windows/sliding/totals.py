"""The values of the reducers for a window, while records enter and leave it. Pure.

Each record has a state of its own, as a group with only this record would have. A total adds such states and removes
them again, so a result does not need the other records of the window. A reducer without such a total merges the states
of the whole window for each result.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.layout import BYTES, COLUMNS, COUNT, FIRST, OPENED, TRACE, GroupState
from sluicegate.streams.aggregation.reducers import places
from sluicegate.streams.reducers import parts_of
from sluicegate.streams.reduction import Place
from sluicegate.streams.windows.sliding.sums import ExactSum

TimedState = tuple[Any, ...]
"""A record of a window: its time in milliseconds since 1970, its offset, the owner's time when it was read, its
`traceparent`, the bytes of its bags, and the slots of the reducers. They are ordered by time, then by offset."""
READ_AT, HEADS = 2, 5
"""The index of the owner's time, and the number of values before the slots of the reducers."""
SHIFT = COLUMNS - HEADS
"""A slot of a state has this index less in a TimedState."""
AT = -1
"""The last slot of a state: the time of the record, in milliseconds since 1970."""
Worse = Callable[[TimedState, TimedState], bool]
"""Whether the first record is not needed while the second one, which leaves later, is in the window."""


def timed(state: GroupState) -> TimedState:
    """The record of this state."""
    return state[AT], state[FIRST], state[OPENED], state[TRACE], state[BYTES], *state[COLUMNS:AT]


def state_of(entry: TimedState) -> GroupState:
    """The state of a group with only this record."""
    time, offset, opened, trace, size, *slots = entry
    return [1, offset, offset, opened, None, trace, size, *slots, time]


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


class SumTotal:
    """Sum of one field, and the number of records that have it. Only an optional field needs this number."""

    __slots__ = ("_at", "_lenient", "_slot", "many", "sum")

    def __init__(self, place: Place) -> None:
        self._at, self._slot, self._lenient, self.many = place.at, place.at + 1 - SHIFT, place.lenient, 0
        self.sum = ExactSum()

    def append(self, entry: TimedState) -> None:
        value = entry[self._slot]
        if value is not None:
            self.many += self._lenient
            self.sum.add(value)

    insert = append

    def remove(self, entry: TimedState) -> None:
        value = entry[self._slot]
        if value is not None:
            self.many -= self._lenient
            self.sum.remove(value)

    def put(self, state: GroupState) -> None:
        state[self._at] = self.sum.value
        if self._lenient:
            state[self._at + 3] = self.many


class BestTotal:
    """One value of the window. `best` has its record, then the record with this value once that one has left, and so
    on."""

    __slots__ = ("_own", "_slots", "best")

    def __init__(self, at: int, size: int) -> None:
        """`at`: the first of its slots in a state. `size`: their number."""
        self._slots, self._own = slice(at, at + size), slice(at - SHIFT, at - SHIFT + size)
        self.best = deque[TimedState]()

    def _counts(self, entry: TimedState) -> bool:
        """Whether the record has a value."""
        raise NotImplementedError

    def worse(self, one: TimedState, other: TimedState) -> bool:
        """As in Worse."""
        raise NotImplementedError

    def append(self, entry: TimedState) -> None:
        if self._counts(entry):
            best = self.best
            while best and self.worse(best[-1], entry):
                best.pop()
            best.append(entry)

    def insert(self, entry: TimedState) -> None:
        if self._counts(entry):
            inserted(self.best, entry, self.worse)

    def remove(self, entry: TimedState) -> None:
        if self.best and self.best[0] is entry:
            self.best.popleft()

    def put(self, state: GroupState) -> None:
        if self.best:
            state[self._slots] = self.best[0][self._own]
        else:
            self._blank(state)

    def _blank(self, state: GroupState) -> None:
        """Write that the window has no value."""
        state[self._slots] = [None]


class Least(BestTotal):
    """The least value of a field."""

    __slots__ = ("_slot",)
    number = 1  # of its slot in the place

    def __init__(self, place: Place) -> None:
        self._slot = place.at + self.number - SHIFT
        super().__init__(place.at + self.number, 1)

    def _counts(self, entry: TimedState) -> bool:
        return entry[self._slot] is not None

    def worse(self, one: TimedState, other: TimedState) -> bool:
        return bool(one[self._slot] >= other[self._slot])


class Greatest(Least):
    """The greatest value of a field."""

    __slots__ = ()
    number = 2

    def worse(self, one: TimedState, other: TimedState) -> bool:
        return bool(one[self._slot] <= other[self._slot])


class Earliest(BestTotal):
    """The value with the lowest offset."""

    __slots__ = ("_offset",)

    def __init__(self, place: Place) -> None:
        self._offset = place.at + 1 - SHIFT
        super().__init__(place.at, 2)

    def _counts(self, entry: TimedState) -> bool:
        return bool(entry[self._offset] >= 0)

    def _blank(self, state: GroupState) -> None:
        state[self._slots] = [None, -1]

    def worse(self, one: TimedState, other: TimedState) -> bool:
        return after(one, other)


class Latest(Earliest):
    """The value with the highest offset."""

    __slots__ = ()

    def worse(self, one: TimedState, other: TimedState) -> bool:
        return bool(one[1] < other[1])


def after(one: TimedState, other: TimedState) -> bool:
    """Whether the first entry is later in the log."""
    return bool(one[1] > other[1])


class Merged:
    """The total of a reducer whose states cannot be subtracted."""

    __slots__ = ("_blank", "_entries", "_merge", "_slots")

    def __init__(self, place: Place) -> None:
        slots = parts_of(place.reducer, merged=True).slots
        assert slots is not None
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
        for entry in sorted(self._entries, key=offset_of):
            self._merge(state, state_of(entry))


TOTALS: Mapping[str, Callable[[Place], FieldTotal]] = {
    "sum": SumTotal,
    "mean": SumTotal,
    "min": Least,
    "max": Greatest,
    "first": Earliest,
    "last": Latest,
}
"""The totals of reducers whose states need not be merged."""


class WindowTotals:
    """The totals of all reducers, the number of records, and the first record."""

    __slots__ = ("first", "many", "parts")

    def __init__(self, parts: Sequence[FieldTotal]) -> None:
        self.parts, self.first, self.many = parts, deque[TimedState](), 0

    def append(self, entry: TimedState) -> None:
        """As in FieldTotal."""
        self.many += 1
        self.first.append(entry)
        for part in self.parts:
            part.append(entry)

    def insert(self, entry: TimedState) -> None:
        """As in FieldTotal."""
        self.many += 1
        inserted(self.first, entry, after)
        for part in self.parts:
            part.insert(entry)

    def remove(self, entry: TimedState) -> None:
        """As in FieldTotal."""
        self.many -= 1
        if self.first[0] is entry:
            self.first.popleft()
        for part in self.parts:
            part.remove(entry)

    def state(self, entry: TimedState) -> GroupState:
        """The state of the window that ends with this record, which is the last one in the log. It does not count the
        bytes of the bags."""
        state, first = state_of(entry), self.first[0]
        state[COUNT], state[FIRST], state[OPENED] = self.many, first[1], first[READ_AT]
        for part in self.parts:
            part.put(state)
        return state


class PlacedTotal(NamedTuple):
    """A total, and the first reducer that it serves. `kind` is None if it merges states; otherwise the class of the
    total."""

    place: Place
    kind: Callable[[Place], FieldTotal] | None


def placed_totals(compute: Sequence[Reducer], lenient: bool) -> list[PlacedTotal]:
    """The totals of these reducers, in one order. Reducers of one field share them."""
    made: dict[tuple[int, object], PlacedTotal] = {}
    for place in places(compute, lenient, merged=True):
        kind = TOTALS.get(place.reducer.kind)
        if kind is not None or (place.own and parts_of(place.reducer, merged=True).slots is not None):
            made.setdefault((place.at, kind), PlacedTotal(place, kind))
    return [*made.values()]


def totals(compute: Sequence[Reducer], lenient: bool) -> Callable[[Iterable[TimedState]], WindowTotals]:
    """A function that computes the totals of entries."""
    parts = [partial(kind or Merged, place) for place, kind in placed_totals(compute, lenient)]

    def made(entries: Iterable[TimedState]) -> WindowTotals:
        whole = WindowTotals([part() for part in parts])
        for entry in entries:
            whole.insert(entry)
        return whole

    return made


def offset_of(entry: TimedState) -> int:
    offset: int = entry[1]
    return offset
