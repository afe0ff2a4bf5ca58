"""The values of the reducers for a window, while records enter and leave it. Pure.

Each record has a state of its own, as a group with only this record would have. A total adds such states and removes
them again, so a result does not need the other records of the window. A reducer without such a total merges the states
of the whole window for each result.

Where `having` decides whether a record has a result, only the totals that it reads have all records of the newest
window. The other ones are late: they get the records that they lack when a result needs them.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.contents import AT_KEY
from sluicegate.streams.aggregation.layout import BYTES, COUNT, FIRST, OPENED, GroupState
from sluicegate.streams.aggregation.reducers import places
from sluicegate.streams.reducers import NUMBERS, kind_of, parts_of
from sluicegate.streams.reduction import Place
from sluicegate.streams.windows.sliding.sums import ExactSum

TimedState = tuple[Any, ...]
"""A record of a window: its time in milliseconds since 1970, its offset, the owner's time when it was read, the bytes
of its bags, its key, and the values of the reducers (EntryLayout). They are ordered by time, then by offset."""
READ_AT, SIZE, KEY, HEADS = 2, 3, AT_KEY, 5
"""The indexes of the owner's time, of the bytes and of the key, and the number of parts before the values."""
AT = -1
"""The last slot of a state: the time of the record, in milliseconds since 1970."""
Worse = Callable[[TimedState, TimedState], bool]
"""Whether the first record is not needed while the second one, which leaves later, is in the window."""
_NAMED = frozenset(("first", "last"))
_TYPES = (int, int, float, int, bytes)
USUAL = 10**100
"""Sums and variances of numbers up to this one, in both directions, are numbers that a result can represent."""


class EntryLayout:
    """How a TimedState has the state of a group with only this record. Numbers, and the first and the last value of a
    field, are one value in it, and None if the record has none; other reducers have their slots. `at` is the index of
    the first value of a reducer, by the first of its slots in a state."""

    def __init__(self, compute: Sequence[Reducer], lenient: bool) -> None:
        self.at: dict[int, int] = {}
        self._blank, self._parts, width = list[Any](), list[tuple[int, int, Place, str]](), HEADS
        for place in places(compute, lenient, merged=True):
            slots = parts_of(place.reducer, merged=True).slots
            if not place.own or slots is None:
                continue
            form = "number" if slots is NUMBERS else "value" if place.reducer.kind in _NAMED else ""
            end = width + (1 if form else place.size)
            self._blank += slots.blank(place)
            self._parts.append((width, end, place, form))
            self.at[place.at], width = width, end
        self._width = width

    def entry(self, key: bytes, state: GroupState) -> TimedState:
        """The record of this state."""
        values = list[Any]()
        for _, _, place, form in self._parts:
            at = place.at
            values += state[at + 2 : at + 3] if form == "number" else state[at : at + (1 if form else place.size)]
        return state[AT], state[FIRST], state[OPENED], state[BYTES], key, *values

    def state_of(self, entry: TimedState) -> GroupState:
        """The state of the record. It does not have the traceparent."""
        time, offset, opened, size = entry[:KEY]
        state: GroupState = [1, offset, offset, opened, None, None, size, *self._blank, time]
        for start, end, place, form in self._parts:
            value, at = entry[start], place.at
            if form == "":
                state[at : at + place.size] = entry[start:end]
            elif value is not None and form == "value":
                state[at : at + 2] = value, offset
            elif value is not None:
                state[at : at + 3] = 0 + value, value, value
                state[at + 3 : at + place.size] = [1] * (place.size - 3)
        return state

    def checked(self, record: Sequence[Any]) -> TimedState:
        """The record of a changelog entry. Raises ValueError if it does not have the values of these reducers."""
        opened = record[READ_AT]
        parts = (*record[:READ_AT], float(opened), *record[SIZE:HEADS])
        if len(record) != self._width or tuple(map(type, parts)) != _TYPES:
            raise ValueError("the record of a sliding window has other values")
        return tuple(record)


class FieldTotal(Protocol):
    """The total of one reducer. `inner` is what the compiled loop uses of it."""

    @property
    def inner(self) -> Any: ...

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

    __slots__ = ("_lenient", "_place", "_slot", "many", "sum")

    def __init__(self, place: Place, slot: int) -> None:
        self._place, self._slot, self._lenient, self.many = place.at, slot, place.lenient, 0
        self.sum = ExactSum()

    @property
    def inner(self) -> Any:
        return self if self._lenient else self.sum

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
        state[self._place] = self.sum.value
        if self._lenient:
            state[self._place + 3] = self.many


class BestTotal:
    """One value of the window. `best` has its record, then the record with this value once that one has left, and so
    on. `_slot` is the index of the value in a TimedState."""

    __slots__ = ("_place", "_slot", "best")

    def __init__(self, place: Place, slot: int) -> None:
        self._place, self._slot = place.at, slot
        self.best = deque[TimedState]()

    @property
    def inner(self) -> Any:
        return self.best

    def worse(self, one: TimedState, other: TimedState) -> bool:
        """As in Worse."""
        raise NotImplementedError

    def put(self, state: GroupState) -> None:
        """As in FieldTotal."""
        raise NotImplementedError

    def append(self, entry: TimedState) -> None:
        if entry[self._slot] is not None:
            best = self.best
            while best and self.worse(best[-1], entry):
                best.pop()
            best.append(entry)

    def insert(self, entry: TimedState) -> None:
        if entry[self._slot] is not None:
            inserted(self.best, entry, self.worse)

    def remove(self, entry: TimedState) -> None:
        if self.best and self.best[0] is entry:
            self.best.popleft()


class Least(BestTotal):
    """The least value of a field."""

    __slots__ = ()
    number = 1  # of its slot in the place

    def put(self, state: GroupState) -> None:
        state[self._place + self.number] = self.best[0][self._slot] if self.best else None

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

    __slots__ = ()

    def put(self, state: GroupState) -> None:
        value = (self.best[0][self._slot], self.best[0][1]) if self.best else (None, -1)
        state[self._place : self._place + 2] = value

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

    __slots__ = ("_blank", "_entries", "_merge", "_slots", "_state_of")

    def __init__(self, place: Place, state_of: Callable[[TimedState], GroupState]) -> None:
        slots = parts_of(place.reducer, merged=True).slots
        assert slots is not None
        assert slots.merge is not None
        self._slots, self._blank, self._merge = place.slots, slots.blank(place), slots.merge(place)
        self._entries, self._state_of = list[TimedState](), state_of

    @property
    def inner(self) -> Any:
        return self

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
            self._merge(state, self._state_of(entry))


TOTALS: Mapping[str, Callable[[Place, int], FieldTotal]] = {
    "sum": SumTotal,
    "mean": SumTotal,
    "min": Least,
    "max": Greatest,
    "first": Earliest,
    "last": Latest,
}
"""The totals of reducers whose states need not be merged."""


class WindowTotals:
    """The totals of all reducers: `parts`, and the `late` ones. `first` has the record with the lowest offset, then the
    one with the lowest offset once that one has left, and so on; None while the entries were added in the order of
    their offsets, because it is the first entry of the window then. `inner` and `late_inner` are what the compiled loop
    uses of each total. A late total may be no number that a result can represent only if the window has an entry with a
    number beyond USUAL at one of the indexes `bounded`."""

    __slots__ = ("_layout", "bounded", "first", "inner", "late", "late_inner", "parts")

    def __init__(
        self, parts: Sequence[FieldTotal], late: Sequence[FieldTotal], bounded: Sequence[int], layout: EntryLayout
    ) -> None:
        self.parts, self.late, self.bounded, self._layout = parts, late, bounded, layout
        self.first: deque[TimedState] | None = None
        self.inner, self.late_inner = tuple(part.inner for part in parts), tuple(part.inner for part in late)

    def append(self, entry: TimedState) -> None:
        """As in FieldTotal, without the late totals."""
        if self.first is not None:
            self.first.append(entry)
        for part in self.parts:
            part.append(entry)

    def insert(self, entry: TimedState, window: Iterable[TimedState]) -> None:
        """As in FieldTotal. `window` has the other entries, ordered by time."""
        if self.first is None:
            self.first = deque(window)
        inserted(self.first, entry, after)
        for part in (*self.parts, *self.late):
            part.insert(entry)

    def remove(self, entry: TimedState) -> None:
        """As in FieldTotal, without the late totals."""
        if self.first is not None and self.first[0] is entry:
            self.first.popleft()
        for part in self.parts:
            part.remove(entry)

    def catch_up(self, gone: Sequence[TimedState], new: Sequence[TimedState]) -> None:
        """Remove the first entries from the late totals, and append new ones."""
        for part in self.late:
            for entry in gone:
                part.remove(entry)
            for entry in new:
                part.append(entry)

    def unusual(self, entry: TimedState) -> bool:
        """Whether the entry has a number beyond USUAL of a late total."""
        numbers = (entry[at] for at in self.bounded)
        return not all(number is None or -USUAL < number < USUAL for number in numbers)

    def state(self, entry: TimedState, many: int, first: TimedState) -> GroupState:
        """The state of the window that ends with this record, which is the last one in the log, and has so many
        records. The late totals have them, too. `first` is the first one by time. The state does not count the bytes of
        the bags."""
        state, opener = self._layout.state_of(entry), self.first[0] if self.first is not None else first
        state[COUNT], state[FIRST], state[OPENED] = many, opener[1], opener[READ_AT]
        for part in (*self.parts, *self.late):
            part.put(state)
        return state


class PlacedTotal(NamedTuple):
    """A total, and the first reducer that it serves. `kind` is None if it merges states; otherwise the class of the
    total. `slot` is the index of the first value of the reducer in a TimedState. `late`: only results need the
    total."""

    place: Place
    kind: Callable[[Place, int], FieldTotal] | None
    slot: int
    late: bool = True

    @property
    def bounded(self) -> Sequence[int]:
        """The indexes, in a TimedState, of the numbers that `unusual` looks at. Empty if no result is lost because of
        their size."""
        if not self.late or not kind_of(self.place.reducer).total:
            return ()
        return range(self.slot, self.slot + (1 if self.kind is not None else self.place.size))


def placed_totals(
    compute: Sequence[Reducer], lenient: bool, layout: EntryLayout, decisive: Collection[str]
) -> list[PlacedTotal]:
    """The totals of these reducers, in one order. Reducers of one field share them. Those that serve none of the
    `decisive` fields are late."""
    made: dict[tuple[int, object], PlacedTotal] = {}
    for place in places(compute, lenient, merged=True):
        kind = TOTALS.get(place.reducer.kind)
        if kind is not None or (place.own and parts_of(place.reducer, merged=True).slots is not None):
            total = made.get((place.at, kind)) or PlacedTotal(place, kind, layout.at[place.at])
            made[place.at, kind] = total._replace(late=total.late and place.reducer.name not in decisive)
    return [*made.values()]


def totals(layout: EntryLayout, placed: Sequence[PlacedTotal]) -> Callable[[Sequence[TimedState]], WindowTotals]:
    """A function that computes the totals of entries, ordered by time."""

    def part(total: PlacedTotal) -> FieldTotal:
        return Merged(total.place, layout.state_of) if total.kind is None else total.kind(total.place, total.slot)

    bounded = [at for total in placed for at in total.bounded]

    def made(entries: Sequence[TimedState]) -> WindowTotals:
        own, late = ([part(total) for total in placed if total.late is late] for late in (False, True))
        whole = WindowTotals(own, late, bounded, layout)
        if any(later[1] < earlier[1] for earlier, later in pairwise(entries)):
            whole.first = deque()
        for entry in entries:
            if whole.first is None:
                whole.append(entry)
            else:
                whole.insert(entry, ())
        if whole.first is None:
            whole.catch_up((), entries)
        return whole

    return made


def offset_of(entry: TimedState) -> int:
    offset: int = entry[1]
    return offset
