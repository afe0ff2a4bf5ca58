"""What a reducer is: the entry that has everything that other files need to know of it (streams/reducers.py has them).

A reducer keeps its part of a group in slots of the group's state, or in a bag beside it.
"""

from collections.abc import Callable
from math import inf
from typing import Any, Literal, NamedTuple, Protocol

from sluicegate.streams.agent import Reducer

StateSlots = list[Any]
Getter = Callable[[Any], Any]
Add = Callable[[StateSlots, Any], None]
Merge = Callable[[StateSlots, StateSlots], None]
"""Adds what the second state holds to the first one."""
ReadReducer = Callable[[StateSlots, list[Any]], Any]
Shown = Callable[[bytes], Any]
Kept = Callable[[Any, bytes], bytes] | None


class ComputedField(Protocol):
    """A reducer as an agent or as the model of the file has it."""

    @property
    def kind(self) -> str: ...
    @property
    def field(self) -> str | None: ...


class Place(NamedTuple):
    """Where a group keeps the part of a reducer: in `size` slots of its state from `at` on, or in the bag with this
    index. Without `own` it keeps nothing, or an earlier reducer keeps it there.

    `in_bag`: it is in the bag. `records` and `newest` are the slots of the number of records and of the offset of the
    newest one. With `lenient` (on_missing: ignore) a field may be missing. With `merged` groups become one, in any
    order of their records."""

    reducer: Reducer
    own: bool
    at: int
    size: int
    bag: int
    in_bag: bool
    records: int
    newest: int
    lenient: bool
    merged: bool

    @property
    def slots(self) -> range:
        return range(self.at, self.at + self.size)


class Bag(NamedTuple):
    """One bag. `item(record, value)` is the item to keep of a record, or None; `field` is the same of the record alone,
    where that is enough. `unique` keeps equal items once. `weight` is the number of bytes that an item adds to its
    group; `whole` means that this is the record's own length."""

    item: Callable[[Any, bytes], Any]
    unique: bool
    whole: bool
    weight: Callable[[Any], int]
    field: Getter | None = None


class Accumulator(NamedTuple):
    """Slots of a state. `blank` gives their values in a group without records. `merge` None: no two can be merged.
    Reducers of one field whose accumulators have the same `name` share one."""

    blank: Callable[[Place], list[Any]]
    add: Callable[[Place, Getter], Add] | None
    merge: Callable[[Place], Merge] | None
    name: str = ""


class ReducerKind(NamedTuple):
    """A reducer. `meaning` explains its key of the file; `phrase` says in the description of an agent what it computes,
    with the field or function as {}, and `alone` the same without one, if the reducer can be without.

    `result` is the type of the result: an integer, a double, the number type of the field, its type, a list of it, or
    any. `apart` is the bag of groups that are merged, in place of slots that cannot be. `until` names the expressions
    that may ask for the value of an open group. `total`: a result that is `unwritable` is an error. `keeps_values`: a
    group holds values of records as they are. `others` are words of other products for it."""

    name: str
    meaning: str
    phrase: str
    result: Literal["integer", "double", "number", "field", "list", "any"]
    read: Callable[[Place, Shown], ReadReducer]
    takes: Literal["nothing", "number", "field", "function"] = "field"
    slots: Accumulator | None = None
    bag: Callable[[Reducer, Getter, Shown, Kept], Bag] | None = None
    apart: Callable[[Reducer, Getter, Shown, Kept], Bag] | None = None
    alone: str = ""
    until: Literal["groups", "legs", ""] = ""
    total: bool = False
    keeps_values: bool = False
    others: tuple[str, ...] = ()


def as_float(value: Any) -> float:
    """A number as a double: infinity for an integer beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
