"""The description of a reducer: an entry with all facts that other modules need (streams/reducers.py has the entries).

A reducer stores its part of a group in slots of the group's state, or in a bag beside it.
"""

from collections.abc import Callable
from math import inf
from typing import Any, Literal, NamedTuple, Protocol

from sluicegate.streams.agent import Reducer

StateSlots = list[Any]
Getter = Callable[[Any], Any]
Add = Callable[[StateSlots, Any], None]
Merge = Callable[[StateSlots, StateSlots], None]
"""Adds the content of the second state to the first one."""
ReadReducer = Callable[[StateSlots, list[Any]], Any]
Shown = Callable[[bytes], Any]
Kept = Callable[[Any, bytes], bytes] | None


class ComputedField(Protocol):
    """A reducer of an agent or of the model of the file."""

    @property
    def kind(self) -> str: ...
    @property
    def field(self) -> str | None: ...


class Place(NamedTuple):
    """The storage of a reducer in a group: `size` slots of the state from `at` on, or the bag with this index. Without
    `own` it stores nothing, or shares the storage of an earlier reducer.

    `in_bag`: it is stored in the bag. `records` and `newest` are the slots of the number of records and of the offset
    of the newest one. With `lenient` (on_missing: ignore) a field may be missing. With `merged` groups are merged, in
    any order of their records.
    """

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


class BagForm(Protocol):
    """The form in which a bag stores its items. The content of a bag depends only on its items and their order: the
    changelog stores the items, and a bag that gets the items of another one has the content of both."""

    def empty(self) -> Any:
        """A bag without items. It has `copy()` and a length."""

    def growth(self, bag: Any, item: Any) -> int:
        """The maximum number of bytes by which the bag would grow with the item. None is an empty bag. Negative if it
        would shrink."""

    def freed(self, bag: Any, item: Any) -> int:
        """The bytes of the items that would leave the bag for this one. `growth` does not count them."""
        return 0

    def put(self, bag: Any, item: Any) -> int | None:
        """Add the item. Returns the number of bytes by which the bag grew. None: it did not change."""

    def items(self, bag: Any) -> list[Any]:
        """Items from which an equal bag can be built."""

    def without(self, item: Any) -> Any:
        """The item that subtracts this one. None: the bag does not support subtraction."""
        return None

    def extend(self, bag: Any, items: Any) -> None:
        """Add the items, in this order. Raises TypeError for an invalid item."""
        for item in items:
            self.put(bag, item)


class Bag(NamedTuple):
    """One bag. `item(record, value, offset)` returns the item to store for a record, or None. `of_field` is the same
    for the value of the field and the offset; None: the loop has its own code. `whole`: an item is the bytes of the
    record."""

    form: BagForm
    item: Callable[[Any, bytes, int], Any]
    of_field: Callable[[Any, int], Any] | None = None
    whole: bool = False


def bag_of_field(form: BagForm, get: Getter, item: Callable[[Any, int], Any]) -> Bag:
    """A bag with items that are made from the value of the field and the offset. A record without the field has
    none."""
    return Bag(
        form, lambda record, value, offset: None if (field := get(record)) is None else item(field, offset), item
    )


class Option(NamedTuple):
    """A number that a reducer needs beside its field. `whole`: an integer."""

    name: str
    meaning: str
    example: float
    least: int
    most: int
    whole: bool = True


class Accumulator(NamedTuple):
    """Slots of a state. `blank` returns their values in a group without records. `merge` None: they cannot be merged.
    Reducers of one field with accumulators of the same `name` share one. `take` subtracts a value that was added; None:
    this is not possible exactly."""

    blank: Callable[[Place], list[Any]]
    add: Callable[[Place, Getter], Add] | None
    merge: Callable[[Place], Merge] | None
    name: str = ""
    take: Callable[[Place, Getter], Add] | None = None


class OfRows(NamedTuple):
    """The storage of a reducer for the rows of a table, which can be subtracted: `slots` with `take`, or a `bag` whose
    form has `without`. `read` and `shares` are as in ReducerKind."""

    read: Callable[[Place, Shown], ReadReducer]
    slots: Accumulator | None = None
    bag: Callable[[Place, Getter, Shown, Kept], Bag] | None = None
    shares: str = ""

    @property
    def accumulator(self) -> str:
        """As in ReducerKind."""
        return self.slots.name if self.slots is not None else self.shares


class ReducerKind(NamedTuple):
    """A reducer. `meaning` explains its key of the file; `phrase` says in the description of an agent what it computes,
    with the field or function as {}, and `alone` the same without one, if the reducer can be without.

    `result` is the type of the result: an integer, a double, the number type of the field, its type, a list of it, or
    any; `counts` is a map of integers, `ranking` a list of values with their numbers. `apart` is the bag of groups that
    are merged, in place of slots that cannot be. `shares` is the name of a bag that reducers of one field share.
    `until` names the expressions that may ask for the value of an open group. `total`: a result that is `unwritable` is
    an error. `keeps_values`: a group holds values of records as they are. `others` are words of other products for
    it. `of_rows` is what it keeps of the rows of a table; None: no row can be taken back from it."""

    name: str
    meaning: str
    phrase: str
    result: Literal["integer", "double", "number", "field", "list", "counts", "ranking", "any"]
    read: Callable[[Place, Shown], ReadReducer]
    takes: Literal["nothing", "number", "field", "function"] = "field"
    slots: Accumulator | None = None
    bag: Callable[[Place, Getter, Shown, Kept], Bag] | None = None
    apart: Callable[[Place, Getter, Shown, Kept], Bag] | None = None
    shares: str = ""
    option: Option | None = None
    alone: str = ""
    until: Literal["groups", "legs", ""] = ""
    total: bool = False
    keeps_values: bool = False
    others: tuple[str, ...] = ()
    of_rows: OfRows | None = None

    @property
    def accumulator(self) -> str:
        """The name of what reducers of one field share. Empty: none."""
        return self.slots.name if self.slots is not None else self.shares


def as_float(value: Any) -> float:
    """A number as a double: infinity for an integer beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
