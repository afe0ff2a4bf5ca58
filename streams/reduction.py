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


class BagForm(Protocol):
    """How a bag holds its items. What a bag holds follows from its items and their order alone: the changelog has the
    items, and a bag that gets the items of another one holds what both hold."""

    def empty(self) -> Any:
        """A bag without items. It has `copy()` and a length."""

    def growth(self, bag: Any, item: Any) -> int:
        """By how many bytes at most the bag would grow with the item. None is an empty bag. Negative where it would
        shrink."""

    def freed(self, bag: Any, item: Any) -> int:
        """The bytes of the items that would leave the bag for this one: the growth is without them."""
        return 0

    def put(self, bag: Any, item: Any) -> int | None:
        """Add the item. Returns by how many bytes the bag grew. None: it holds the same as before."""

    def items(self, bag: Any) -> list[Any]:
        """Items that make an equal bag of an empty one."""

    def without(self, item: Any) -> Any:
        """The item that takes this one back. None: the bag gives nothing back."""
        return None

    def extend(self, bag: Any, items: Any) -> None:
        """Add the items, in this order. Raises TypeError for what is not an item of this form."""
        for item in items:
            self.put(bag, item)


class Bag(NamedTuple):
    """One bag. `item(record, value, offset)` is the item to keep of a record, or None. `of_field` is the same of the
    value of the field and the offset; None: the loop has code of its own. `whole` means that an item has the
    bytes of the record."""

    form: BagForm
    item: Callable[[Any, bytes, int], Any]
    of_field: Callable[[Any, int], Any] | None = None
    whole: bool = False


def bag_of_field(form: BagForm, get: Getter, item: Callable[[Any, int], Any]) -> Bag:
    """A bag whose items are made of the value of the field and of the offset. A record without the field has none."""
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
    """Slots of a state. `blank` gives their values in a group without records. `merge` None: no two can be merged.
    Reducers of one field whose accumulators have the same `name` share one. `take` takes a value back that was added;
    None: that cannot be done exactly."""

    blank: Callable[[Place], list[Any]]
    add: Callable[[Place, Getter], Add] | None
    merge: Callable[[Place], Merge] | None
    name: str = ""
    take: Callable[[Place, Getter], Add] | None = None


class OfRows(NamedTuple):
    """What a reducer keeps of the rows of a table, which may be taken back: `slots` with `take`, or a `bag` whose form
    has `without`. `read` and `shares` are as in ReducerKind."""

    read: Callable[[Place, Shown], ReadReducer]
    slots: Accumulator | None = None
    bag: Callable[[Place, Getter, Shown, Kept], Bag] | None = None
    shares: str = ""

    @property
    def accumulator(self) -> str:
        """As of ReducerKind."""
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
