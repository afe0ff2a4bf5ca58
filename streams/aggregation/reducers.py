"""Compiles `compute`: each reducer is a set of slots in the group's state, or a bag beside it.

Reducers of one numeric field share one accumulator (sum, min, max and count). One update per record serves all of them,
so more reducers of a field cost almost nothing (see accept.py). User reducers get and return JSON values. Their
accumulator is kept encoded, so that calls cannot share it or change it halfway.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas.codecs import base64_text
from sluicegate.schemas.json import encode, same
from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.layout import COLUMNS, COUNT, LAST, Bags, GroupState
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.importing import loaded, waits, yields

Getter = Callable[[Any], Any]
Add = Callable[[GroupState, Any], None]
ReadReducer = Callable[[GroupState, Bags], Any]
Kept = Callable[[Any, bytes], bytes] | None
STATS = ("sum", "min", "max", "mean")
BAGS = ("collect", "distinct")

_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.decode


class Bag(NamedTuple):
    """One bag. `item(record, value)` is the item to keep of a record, or None; `field` is the same of the record alone,
    where that is enough. `unique` keeps equal items once. `weight` is the number of bytes that an item adds to its
    group; `whole` means that this is the record's own length."""

    item: Callable[[Any, bytes], Any]
    unique: bool
    whole: bool
    weight: Callable[[Any], int]
    field: Getter | None = None


class Fold(NamedTuple):
    """A user reducer: `function(accumulator or None, message) -> accumulator`, and its slot in the state."""

    slot: int
    function: Callable[[Any, Any], Any]


class Plan(NamedTuple):
    """All reducers of a rule. `adders` are all of them that are not bags and not the user's. The hot loop makes at most
    one call for these: `inline` is the slot of the accumulator of the only required number, which it updates itself
    (sum there, min in the next slot, max in the one after), 0 if there is none; `also` adds all else."""

    blank: tuple[Any, ...]
    inline: int
    also: Add | None
    adders: tuple[Add, ...]
    bags: tuple[Bag, ...]
    folds: tuple[Fold, ...]
    reads: tuple[tuple[str, ReadReducer], ...]

    def empty_bags(self) -> Bags:
        """The bags of a group without records."""
        return [{} if bag.unique else [] for bag in self.bags]


def plan(
    compute: Sequence[Reducer],
    getters: dict[str, Getter],
    lenient: bool,
    shown: Callable[[bytes], Any],
    kept: Kept = None,
    merged: bool = False,
) -> Plan:
    """Compile the reducers. `getters` read the fields. With `lenient` (on_missing: ignore) a field may be missing.
    `shown` makes the result's part of a collected message. `kept` is the kept form of a message; None: its bytes. With
    `merged` (merging.py) each first and last value has the offset of its record in the next slot."""
    blank: list[Any] = []
    adders: dict[int, Add] = {}  # by slot
    bags: list[Bag] = []
    folds: list[Fold] = []
    reads: list[tuple[str, ReadReducer]] = []
    stats: dict[str, int] = {}
    for reducer in sorted(compute, key=lambda r: r.name):  # the order of the file may change under open groups
        slot = COLUMNS + len(blank)
        get = getters.get(reducer.field or "", _nothing)
        if reducer.kind == "count":
            reads.append((reducer.name, _count))
        elif reducer.kind in STATS:
            if stats.setdefault(str(reducer.field), slot) == slot:
                blank += [0, None, None, 0] if lenient else [0, None, None]
                adders[slot] = _lenient_stats(slot, get) if lenient else _stats(slot, get)
            reads.append((reducer.name, _stat(reducer.kind, stats[str(reducer.field)], lenient)))
        elif reducer.kind in ("first", "last"):
            blank += [None, -1] if merged else [None]
            adders[slot] = (_first if reducer.kind == "first" else _last)(slot, get, merged)
            reads.append((reducer.name, _slot(slot)))
        elif reducer.kind == "reduce":
            blank.append(b"\xc0")
            folds.append(Fold(slot, of_reduce(str(reducer.function))))
            reads.append((reducer.name, _accumulator(slot)))
        else:
            reads.append((reducer.name, _bag(reducer, len(bags), shown)))
            bags.append(_items(reducer, get, shown, kept))
    inline = next(iter(stats.values())) if len(stats) == 1 and not lenient else 0
    return Plan(tuple(blank), *_added(adders, inline), tuple(bags), tuple(folds), _in_order_of_the_file(compute, reads))


def _added(adders: Mapping[int, Add], inline: int) -> tuple[int, Add | None, tuple[Add, ...]]:
    """The fields `inline`, `also` and `adders` of the plan."""
    return inline, together([add for slot, add in adders.items() if slot != inline]), tuple(adders.values())


class KeptPlaces(NamedTuple):
    """Where `plan` keeps the parts of each reducer: its slots, and the index of its bag. Reducers that keep the same
    have the same name here (`kept_as`), but places of their own, except the numbers of a field."""

    slots: list[tuple[object, range]]
    bags: list[tuple[object, int]]


def places(compute: Sequence[Reducer], lenient: bool, merged: bool = False) -> KeptPlaces:
    slots: list[tuple[object, range]] = []
    bags: list[tuple[object, int]] = []
    end, numbers = COLUMNS, set[object]()
    for reducer in sorted(compute, key=lambda r: r.name):
        name = kept_as(reducer)
        if reducer.kind == "count" or name in numbers:
            continue
        if reducer.kind in BAGS:
            bags.append((name, len(bags)))
            continue
        if reducer.kind in STATS:
            numbers.add(name)
        width = (4 if lenient else 3) if reducer.kind in STATS else 1 + (merged and reducer.kind != "reduce")
        slots.append((name, range(end, end + width)))
        end += width
    return KeptPlaces(slots, bags)


def kept_as(reducer: Reducer) -> object:
    """What the reducer keeps of a group."""
    return ("numbers", reducer.field) if reducer.kind in STATS else (reducer.kind, reducer.field, reducer.function)


def together(adders: Sequence[Add]) -> Add | None:
    """One function for all of them; None: there is none."""
    if len(adders) < 2:
        return adders[0] if adders else None
    if len(adders) == 2:
        one, other = adders

        def both(state: GroupState, record: Any) -> None:
            one(state, record)
            other(state, record)

        return both

    def each(state: GroupState, record: Any) -> None:
        for add in adders:
            add(state, record)

    return each


def _in_order_of_the_file(
    compute: Sequence[Reducer], reads: list[tuple[str, ReadReducer]]
) -> tuple[tuple[str, ReadReducer], ...]:
    order = {reducer.name: i for i, reducer in enumerate(compute)}
    return tuple(sorted(reads, key=lambda read: order[read[0]]))


def imported(path: str) -> Callable[..., Any]:
    """Import the function at `module:function`. Raises ConfigurationError."""
    found = loaded(path)
    if not callable(found):
        raise ConfigurationError(f"{path}: is not a function")
    return found  # type: ignore[no-any-return]


def of_reduce(path: str) -> Callable[[Any, Any], Any]:
    """The function of a `reduce`. Raises ConfigurationError for one whose call gives no accumulator."""
    function = imported(path)
    if yields(function) or waits(function):
        kind = "a generator" if yields(function) else "async"
        raise ConfigurationError(
            f"{path}: is {kind}, so a call gives no accumulator; write a plain function: return it"
        )
    return function


def apply(fold: Fold, state: GroupState, message: Any) -> bytes:
    """The encoded accumulator after this message. Raises the exceptions of the user's function."""
    return _pack(fold.function(_unpack(state[fold.slot]), message))


def plus(total: Any, value: Any) -> float:
    """The sum of an integer beyond the range of floats and a float."""
    return _as_float(total) + _as_float(value)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _nothing(record: Any) -> Any:
    return None


def _count(state: GroupState, bags: Bags) -> Any:
    return state[COUNT]


def _slot(slot: int) -> ReadReducer:
    return lambda state, bags: state[slot]


def _accumulator(slot: int) -> ReadReducer:
    return lambda state, bags: _unpack(state[slot])


def _stats(slot: int, get: Getter) -> Add:
    low, high = slot + 1, slot + 2

    def add(state: GroupState, record: Any) -> None:
        value = get(record)
        try:
            state[slot] += value
        except OverflowError:
            state[slot] = plus(state[slot], value)
        if state[low] is None or value < state[low]:
            state[low] = value
        if state[high] is None or value > state[high]:
            state[high] = value

    return add


def _lenient_stats(slot: int, get: Getter) -> Add:
    """The accumulator of an optional number, which is anything. Slot + 3 counts the records that had it."""
    low, high, many = slot + 1, slot + 2, slot + 3

    def add(state: GroupState, record: Any) -> None:
        value = get(record)
        kind = type(value)  # of JSON: a boolean's is bool
        if kind is not int and kind is not float:
            return
        try:
            state[slot] += value
        except OverflowError:
            state[slot] = plus(state[slot], value)
        if state[many] == 0:
            state[low] = state[high] = value
        elif value < state[low]:
            state[low] = value
        elif value > state[high]:
            state[high] = value
        state[many] += 1

    return add


def _stat(kind: str, slot: int, lenient: bool) -> ReadReducer:
    if kind != "mean":
        at = slot + STATS.index(kind)
        return lambda state, bags: state[at]
    many = slot + 3 if lenient else COUNT
    return lambda state, bags: _mean(state[slot], state[many]) if state[many] else None


def _mean(total: Any, many: int) -> float:
    try:
        return float(total / many)
    except OverflowError:
        return _as_float(total)


def _first(slot: int, get: Getter, merged: bool) -> Add:
    def add(state: GroupState, record: Any) -> None:
        if state[slot] is None:
            state[slot] = get(record)

    def add_with_offset(state: GroupState, record: Any) -> None:
        if state[slot] is None and (value := get(record)) is not None:
            state[slot : slot + 2] = value, state[LAST]

    return add_with_offset if merged else add


def _last(slot: int, get: Getter, merged: bool) -> Add:
    def add(state: GroupState, record: Any) -> None:
        value = get(record)
        if value is not None:
            state[slot] = value

    def add_with_offset(state: GroupState, record: Any) -> None:
        if (value := get(record)) is not None:
            state[slot : slot + 2] = value, state[LAST]

    return add_with_offset if merged else add


def _items(reducer: Reducer, get: Getter, shown: Callable[[bytes], Any], kept: Kept) -> Bag:
    if reducer.kind == "distinct":
        return Bag(lambda record, value: None if (found := get(record)) is None else same(found), True, False, len)
    if reducer.field is None and kept is not None:
        return Bag(kept, False, False, len)
    if reducer.field is None:
        encoded = shown is base64_text
        return Bag(lambda record, value: value, False, not encoded, _base64_length if encoded else len)
    return Bag(lambda record, value: get(record), False, False, lambda item: len(encode(item)), get)


def _base64_length(item: bytes) -> int:
    return (len(item) + 2) // 3 * 4


def _bag(reducer: Reducer, index: int, shown: Callable[[bytes], Any]) -> ReadReducer:
    if reducer.kind == "distinct":
        return lambda state, bags: len(bags[index])
    if reducer.field is not None:
        return lambda state, bags: bags[index]
    return lambda state, bags: [shown(item) for item in bags[index]]
