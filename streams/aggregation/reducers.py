"""Compiles `compute`: each reducer gets slots in the group's state, or a bag beside it.

User reducers get and return JSON values. Their accumulator is kept encoded, so that calls cannot share it or change it
halfway.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.layout import COLUMNS, COUNT, LAST, ROWS, Bags, GroupState
from sluicegate.streams.reducers import NUMBERS, of_reduce, parts_of
from sluicegate.streams.reduction import Add, Bag, Getter, Kept, Place, ReadReducer, Shown

_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.decode


class Fold(NamedTuple):
    """A user reducer: `function(accumulator or None, message) -> accumulator`, and its slot in the state."""

    slot: int
    function: Callable[[Any, Any], Any]


class Plan(NamedTuple):
    """All reducers of a rule. `adders` are the reducers that are neither bags nor user functions. The hot loop makes at
    most one call for them: `inline` is the slot of the sum of the only required number (min is in the next slot, max in
    the one after), which the loop updates directly; 0 if there is none. `also` runs all other adders. `takers` subtract
    the values of a row of a table, as `adders` add them."""

    blank: tuple[Any, ...]
    inline: int
    also: Add | None
    adders: tuple[Add, ...]
    bags: tuple[Bag, ...]
    folds: tuple[Fold, ...]
    reads: tuple[tuple[str, ReadReducer], ...]
    takers: tuple[Add, ...] = ()

    def empty_bags(self) -> Bags:
        """The bags of a group without records."""
        return [bag.form.empty() for bag in self.bags]

    def bags_of(self, items: Bags) -> Bags:
        """The bags with these items. Raises TypeError, ValueError, AttributeError and LookupError for invalid ones."""
        bags = self.empty_bags()
        for kind, bag, content in zip(self.bags, bags, items, strict=True):
            kind.form.extend(bag, content)
        return bags

    def items(self, bags: Bags) -> Bags:
        """The items of these bags, in the form of the changelog."""
        return [kind.form.items(bag) for kind, bag in zip(self.bags, bags, strict=True)]


def plan(
    compute: Sequence[Reducer],
    getters: dict[str, Getter],
    lenient: bool,
    shown: Shown,
    kept: Kept = None,
    merged: bool = False,
    table: bool = False,
) -> Plan:
    """Compile the reducers. `getters` read the fields. With `lenient` (on_missing: ignore) a field may be missing.
    `shown` converts a collected message for the result. `kept` converts a message to its stored form; None: its bytes
    are stored. With `merged` (merging.py) the next slot after each first and last value has the offset of its record.
    The groups of a `table` have rows, which can be subtracted."""
    blank: list[Any] = []
    adders: dict[int, Add] = {}  # by slot
    takers: list[Add] = []
    bags: list[Bag] = []
    folds: list[Fold] = []
    numbers: list[int] = []
    reads: dict[str, ReadReducer] = {}
    for place in places(compute, lenient, merged, table):
        reducer = place.reducer
        kind, get = parts_of(reducer, merged, table), getters.get(reducer.field or "", lambda record: None)
        reads[reducer.name] = kind.read(place, shown)
        if place.own and kind.slots is not None:
            blank += kind.slots.blank(place)
            numbers += [place.at] if kind.slots is NUMBERS else []
            if kind.slots.take is not None:
                takers.append(kind.slots.take(place, get))
            if kind.slots.add is not None:
                adders[place.at] = kind.slots.add(place, get)
            else:
                folds.append(Fold(place.at, of_reduce(str(reducer.function))))
        elif place.own and kind.bag is not None:
            bags.append(kind.bag(place, get, shown, kept))
    inline = numbers[0] if len(numbers) == 1 and not lenient else 0
    also = together([add for slot, add in adders.items() if slot != inline])
    in_order_of_the_file = tuple((reducer.name, reads[reducer.name]) for reducer in compute)
    added, taken = tuple(adders.values()), tuple(takers)
    return Plan(tuple(blank), inline, also, added, tuple(bags), tuple(folds), in_order_of_the_file, taken)


def places(compute: Sequence[Reducer], lenient: bool, merged: bool = False, table: bool = False) -> list[Place]:
    """The slots and bags that `plan` gives to each reducer."""
    records = ROWS if table else COUNT
    made: list[Place] = []
    end, bags, shared = COLUMNS, 0, dict[object, Place]()
    for reducer in sorted(compute, key=lambda r: r.name):  # the order of the file may change under open groups
        kind, name = parts_of(reducer, merged, table), kept_as(reducer, table)
        if name in shared:
            made.append(shared[name]._replace(reducer=reducer, own=False))
            continue
        keeps = kind.slots is not None or kind.bag is not None
        place = Place(reducer, keeps, end, 0, bags, kind.bag is not None, records, LAST, lenient, merged)
        if kind.slots is not None:
            place = place._replace(size=len(kind.slots.blank(place)))
        shared |= {name: place} if kind.accumulator else {}
        end, bags = end + place.size, bags + (kind.bag is not None)
        made.append(place)
    return made


def kept_as(reducer: Reducer, table: bool = False) -> object:
    """A key for the stored state of a reducer. Reducers with the same key have separate places, unless they share an
    accumulator."""
    accumulator = parts_of(reducer, False, table).accumulator
    own = (reducer.kind, reducer.field, reducer.function, *(() if reducer.option is None else (reducer.option,)))
    return (accumulator, reducer.field) if accumulator else own


def together(adders: Sequence[Add]) -> Add | None:
    """One function that calls all adders; None if there are none."""
    if len(adders) < 2:
        return adders[0] if adders else None
    if len(adders) == 2:
        one, other = adders

        def both(state: GroupState, record: Any) -> None:
            one(state, record)
            other(state, record)

        return both

    def chain(state: GroupState, record: Any) -> None:
        for add in adders:
            add(state, record)

    return chain


def apply(fold: Fold, state: GroupState, message: Any) -> bytes:
    """Return the encoded accumulator after this message. Raises the exceptions of the user's function."""
    return _pack(fold.function(_unpack(state[fold.slot]), message))
