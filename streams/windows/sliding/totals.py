"""What the reducers give for the records of a window, while records enter it and leave it. Pure.

Each record has a state of its own, as a group with this one record would have it. A total takes such states in and lets
them go again, so a result costs no look at the other records of the window. A reducer without such a total merges the
states of the window for each result.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.layout import COLUMNS, FIRST, LAST, OPENED, GroupState
from sluicegate.streams.aggregation.reducers import places
from sluicegate.streams.reducers import NUMBERS, REDUCERS, parts_of
from sluicegate.streams.reduction import Accumulator, Place
from sluicegate.streams.windows.sliding.sums import ExactSum

TimedState = tuple[int, int, GroupState]
"""A record of a window: its time in milliseconds since 1970, its offset, and its state. Entries are in the order of
their times, equal ones in the order of their offsets."""


AT = -1
"""The last slot of a state: the time of the record, in milliseconds since 1970."""


class FieldTotal(Protocol):
    """The part of one reducer."""

    def add(self, entry: TimedState) -> None: ...

    def remove(self, entry: TimedState) -> None:
        """The first entry in the order of entries leaves."""

    def put(self, state: GroupState) -> None:
        """Write it into the slots of the reducer."""


class Least:
    """The entry with the least rank. An entry is not kept while a later one has a rank as low: it leaves before it."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = deque[tuple[int, int, Any, GroupState]]()

    def add(self, entry: TimedState, rank: Any) -> None:
        kept, (time, offset, state) = self._kept, entry
        made = (time, offset, rank, state)
        if not kept or kept[-1] < made:
            while kept and kept[-1][2] >= rank:
                kept.pop()
            kept.append(made)
            return
        later = [kept.pop()]  # the record is out of order
        while kept and kept[-1] > made:
            later.append(kept.pop())
        if later[-1][2] > rank:
            while kept and kept[-1][2] >= rank:
                kept.pop()
            kept.append(made)
        kept.extend(reversed(later))

    def remove(self, entry: TimedState) -> None:
        if self._kept and self._kept[0][1] == entry[1]:
            self._kept.popleft()

    @property
    def state(self) -> GroupState | None:
        return self._kept[0][3] if self._kept else None


class Numbers:
    """Sum, least and greatest of one field."""

    __slots__ = ("_at", "_greatest", "_least", "_lenient", "_many", "_sum")

    def __init__(self, place: Place) -> None:
        self._at, self._lenient, self._many = place.at, place.lenient, 0
        self._sum, self._least, self._greatest = ExactSum(), Least(), Least()

    def add(self, entry: TimedState) -> None:
        value = entry[2][self._at + 1]
        if value is not None:
            self._many += 1
            self._sum.add(value)
            self._least.add(entry, value)
            self._greatest.add(entry, -value)

    def remove(self, entry: TimedState) -> None:
        value = entry[2][self._at + 1]
        if value is not None:
            self._many -= 1
            self._sum.remove(value)
            self._least.remove(entry)
            self._greatest.remove(entry)

    def put(self, state: GroupState) -> None:
        at, least, greatest = self._at, self._least.state, self._greatest.state
        state[at] = self._sum.value
        state[at + 1] = None if least is None else least[at + 1]
        state[at + 2] = None if greatest is None else greatest[at + 1]
        if self._lenient:
            state[at + 3] = self._many


class Earliest:
    """The value with the least offset."""

    __slots__ = ("_at", "_entries")
    sign = 1

    def __init__(self, place: Place) -> None:
        self._at, self._entries = place.at, Least()

    def add(self, entry: TimedState) -> None:
        if entry[2][self._at + 1] >= 0:
            self._entries.add(entry, self.sign * entry[1])

    def remove(self, entry: TimedState) -> None:
        self._entries.remove(entry)

    def put(self, state: GroupState) -> None:
        at, source = self._at, self._entries.state
        state[at : at + 2] = (None, -1) if source is None else source[at : at + 2]


class Latest(Earliest):
    """The value with the greatest offset."""

    __slots__ = ()
    sign = -1


class Merged:
    """Of a reducer whose part of a record cannot be taken out again."""

    __slots__ = ("_blank", "_entries", "_merge", "_slots")

    def __init__(self, place: Place, slots: Accumulator) -> None:
        assert slots.merge is not None
        self._slots, self._blank, self._merge = place.slots, slots.blank(place), slots.merge(place)
        self._entries = list[TimedState]()

    def add(self, entry: TimedState) -> None:
        insort(self._entries, entry)

    def remove(self, entry: TimedState) -> None:
        self._entries.pop(0)

    def put(self, state: GroupState) -> None:
        for slot, value in zip(self._slots, self._blank, strict=True):
            state[slot] = value
        for _, _, other in sorted(self._entries, key=_offset):
            self._merge(state, other)


_TOTALS: Mapping[Accumulator | None, Callable[[Place], FieldTotal]] = {
    NUMBERS: Numbers,
    REDUCERS["first"].slots: Earliest,
    REDUCERS["last"].slots: Latest,
}


class WindowTotals:
    """The totals of all reducers, the number of records and the first one of them."""

    __slots__ = ("_blank", "_first", "_many", "_parts")

    def __init__(self, parts: Sequence[FieldTotal], blank: Sequence[Any]) -> None:
        self._parts, self._blank, self._first, self._many = parts, blank, Least(), 0

    def add(self, entry: TimedState) -> None:
        self._many += 1
        self._first.add(entry, entry[1])
        for part in self._parts:
            part.add(entry)

    def remove(self, entry: TimedState) -> None:
        """The first entry in the order of entries leaves."""
        self._many -= 1
        self._first.remove(entry)
        for part in self._parts:
            part.remove(entry)

    def state(self, entry: TimedState) -> GroupState:
        """The state of the window at this record, which has the greatest offset. Its bags are not counted."""
        first, own = self._first.state, entry[2]
        assert first is not None
        state = [self._many, first[FIRST], own[LAST], first[OPENED], *own[OPENED + 1 : COLUMNS], *self._blank]
        state[AT] = entry[0]
        for part in self._parts:
            part.put(state)
        return state


def totals(
    compute: Sequence[Reducer], lenient: bool, blank: Sequence[Any]
) -> Callable[[Iterable[TimedState]], WindowTotals]:
    """The function that makes the totals of entries. `blank` is what a state without records has behind COLUMNS."""
    own = [(place, parts_of(place.reducer, merged=True).slots) for place in places(compute, lenient, merged=True)]
    kept = [(place, slots) for place, slots in own if place.own and slots is not None]

    def made(entries: Iterable[TimedState]) -> WindowTotals:
        parts = [_TOTALS[slots](place) if slots in _TOTALS else Merged(place, slots) for place, slots in kept]
        whole = WindowTotals(parts, blank)
        for entry in entries:
            whole.add(entry)
        return whole

    return made


def _offset(entry: TimedState) -> int:
    return entry[1]
