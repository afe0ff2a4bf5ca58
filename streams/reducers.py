"""The reducers: one entry for each, with all facts that other modules need.

A reducer stores its part of a group in slots of the group's state, or in a bag beside it. Reducers of one numeric field
share one accumulator (sum, min, max and count). One update per record serves all of them, so more reducers of a field
cost almost nothing.
"""

from collections.abc import Callable, Iterable
from functools import partial
from math import isfinite
from typing import Any

import msgspec

from sluicegate.schemas.codecs import base64_text
from sluicegate.schemas.json import document, same
from sluicegate.streams.agent import Reducer
from sluicegate.streams.bags import SET, ListForm, encoded_length
from sluicegate.streams.cardinality import cardinality, registered
from sluicegate.streams.causes import Cause, cause
from sluicegate.streams.counting import (
    best_of_rows,
    collected_rows,
    counted,
    counts,
    distinct_of_rows,
    list_of_rows,
    number_of_values,
    numbers_of_rows,
)
from sluicegate.streams.ends import NUMBER, first_values, last_values, values_of
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.frequent import TOP, ranked, ranking
from sluicegate.streams.importing import imported, waits, yields
from sluicegate.streams.moments import (
    MOMENTS,
    SQUARES,
    TOTALS,
    deviation,
    deviation_of_rows,
    mean_of_rows,
    sum_of_rows,
    variance,
    variance_of_rows,
)
from sluicegate.streams.quantiles import PERCENTILE, bucketed, percentile
from sluicegate.streams.reduction import (
    Accumulator,
    Add,
    Bag,
    ComputedField,
    Getter,
    Kept,
    Merge,
    OfRows,
    Place,
    ReadReducer,
    ReducerKind,
    Shown,
    StateSlots,
    as_float,
)
from sluicegate.streams.windowers import Windower

# -- numbers -----------------------------------------------------------------------------------------------------------

MOST_DIGITS = 4_300
"""The maximum of digits in an integer. Python converts no longer text, and the JSON decoder accepts none either."""
BEYOND = f"beyond the range of a double or of {MOST_DIGITS:,} digits"
_MOST = 10**MOST_DIGITS
_LEAST = -_MOST


def plus(total: Any, value: Any) -> float:
    """The sum of an integer beyond the range of floats and a float."""
    return as_float(total) + as_float(value)


def _stats(place: Place, get: Getter) -> Add:
    if place.lenient:
        return _lenient_stats(place.at, get)
    slot, low, high = place.at, place.at + 1, place.at + 2

    def add(state: StateSlots, record: Any) -> None:
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
    """The accumulator of an optional field of any type. Slot + 3 counts the records with a number."""
    low, high, many = slot + 1, slot + 2, slot + 3

    def add(state: StateSlots, record: Any) -> None:
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


def _merged_stats(place: Place) -> Merge:
    """Merge the sum, the minimum and the maximum."""
    slot, low, high, many = place.at, place.at + 1, place.at + 2, place.at + 3 if place.lenient else 0

    def merge(state: StateSlots, other: StateSlots) -> None:
        try:
            state[slot] += other[slot]
        except OverflowError:
            state[slot] = plus(state[slot], other[slot])
        state[low] = of_both(min, state[low], other[low])
        state[high] = of_both(max, state[high], other[high])
        if many:
            state[many] += other[many]

    return merge


def of_both(better: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """The better of two values. None is not a value."""
    return other if one is None else one if other is None else better(one, other)


def _stat(number: int) -> Callable[[Place, Shown], ReadReducer]:
    """Read the value of this slot of the reducer."""

    def read(place: Place, shown: Shown) -> ReadReducer:
        slot = place.at + number
        return lambda state, bags: state[slot]

    return read


def _count(place: Place, shown: Shown) -> ReadReducer:
    slot = place.records
    return lambda state, bags: state[slot]


def _mean_of(place: Place, shown: Shown) -> ReadReducer:
    slot, many = place.at, place.at + 3 if place.lenient else place.records
    return lambda state, bags: _mean(state[slot], state[many]) if state[many] else None


def _mean(total: Any, many: int) -> float:
    try:
        return float(total / many)
    except OverflowError:
        return as_float(total)


def unwritable(value: Any) -> bool:
    """Whether it is a number that a result cannot represent."""
    return not isfinite(value) if isinstance(value, float) else isinstance(value, int) and not _LEAST < value < _MOST


NUMBERS = Accumulator(
    lambda place: [0, None, None, 0] if place.lenient else [0, None, None], _stats, _merged_stats, "numbers"
)
"""The hot loop updates it directly if it is the only accumulator."""

# -- the first and the last value --------------------------------------------------------------------------------------


def _blank_value(place: Place) -> list[Any]:
    """The blank slots. With `merged` the next slot has the offset of the value's record."""
    return [None, -1] if place.merged else [None]


def _first(place: Place, get: Getter) -> Add:
    slot, end, last = place.at, place.at + 2, place.newest

    def add(state: StateSlots, record: Any) -> None:
        if state[slot] is None:
            state[slot] = get(record)

    def add_with_offset(state: StateSlots, record: Any) -> None:
        if state[slot] is None and (value := get(record)) is not None:
            state[slot:end] = value, state[last]

    return add_with_offset if place.merged else add


def _last(place: Place, get: Getter) -> Add:
    slot, end, last = place.at, place.at + 2, place.newest

    def add(state: StateSlots, record: Any) -> None:
        value = get(record)
        if value is not None:
            state[slot] = value

    def add_with_offset(state: StateSlots, record: Any) -> None:
        if (value := get(record)) is not None:
            state[slot:end] = value, state[last]

    return add_with_offset if place.merged else add


def _earlier(place: Place) -> Merge:
    slot, offset, end = place.at, place.at + 1, place.at + 2

    def merge(state: StateSlots, other: StateSlots) -> None:
        if other[offset] >= 0 and not 0 <= state[offset] < other[offset]:
            state[slot:end] = other[slot:end]

    return merge


def _later(place: Place) -> Merge:
    slot, offset, end = place.at, place.at + 1, place.at + 2

    def merge(state: StateSlots, other: StateSlots) -> None:
        if other[offset] > state[offset]:
            state[slot:end] = other[slot:end]

    return merge


# -- bags --------------------------------------------------------------------------------------------------------------


def _distinct(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return Bag(SET, lambda record, value, offset: None if (item := get(record)) is None else same(item))


def _collect(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    if place.reducer.field is not None:
        return Bag(ListForm(encoded_length), lambda record, value, offset: get(record))
    if kept is not None:
        return Bag(ListForm(len), lambda record, value, offset: kept(record, value))
    encoded = shown is base64_text
    form = ListForm(_base64_length if encoded else len)
    return Bag(form, lambda record, value, offset: value, whole=not encoded)


def _base64_length(item: bytes) -> int:
    return (len(item) + 2) // 3 * 4


def _list(place: Place, shown: Shown) -> ReadReducer:
    index = place.bag
    if place.reducer.field is not None:
        return lambda state, bags: bags[index]
    return lambda state, bags: [shown(item) for item in bags[index]]


# -- the user's function -----------------------------------------------------------------------------------------------


class ReducerFailed(Exception):
    """A user reducer raised an error for a completed group. The text quotes no payload."""

    def __init__(self, name: str, raised: Cause) -> None:
        super().__init__(f"the reducer {name} raised {raised.text}")
        self.where = raised.where


def of_reduce(path: str) -> Callable[[Any, Any], Any]:
    """The function of a `reduce`. Raises ConfigurationError if its call returns no accumulator."""
    function = imported(path)
    if yields(function) or waits(function):
        kind = "a generator" if yields(function) else "async"
        raise ConfigurationError(
            f"{path}: is {kind}, so a call gives no accumulator; write a plain function: return it"
        )
    return function


def _reduced(place: Place, shown: Shown) -> ReadReducer:
    """The accumulator is stored encoded, so calls cannot share it or change it halfway. Merged groups store their
    messages, which are reduced for the result; an error then raises ReducerFailed."""
    slot, index, name = place.at, place.bag, place.reducer.name
    if not place.in_bag:
        return lambda state, bags: msgspec.msgpack.decode(state[slot])
    function, message = of_reduce(str(place.reducer.function)), _message_of(shown)

    def read(state: StateSlots, bags: list[Any]) -> Any:
        value: Any = None
        for item in bags[index]:
            content = message(item)
            try:
                value = msgspec.msgpack.decode(msgspec.msgpack.encode(function(value, content)))
            except Exception as error:
                raise ReducerFailed(name, cause(error)) from error
        return value

    return read


def _message_of(shown: Shown) -> Callable[[bytes], Any]:
    """A function that converts an item to a message: JSON values, or bytes for a format without fields."""
    if shown is base64_text:
        return lambda item: item
    return document if shown is msgspec.Raw else shown


_number = partial(ReducerKind, takes="number", slots=NUMBERS, until="groups")
_ends = partial(ReducerKind, result="list", keeps_values=True)
_spread = partial(ReducerKind, result="double", takes="number", slots=MOMENTS, until="groups", total=True)
_value = partial(ReducerKind, until="legs", keeps_values=True)
_FIRST, _LAST = Accumulator(_blank_value, _first, _earlier), Accumulator(_blank_value, _last, _later)
_FOLD = Accumulator(lambda place: [b"\xc0"], None, None)
_DISTINCT = "The number of different values of the field."
_COLLECT = "A list of the values of the field. The word alone lists the records."
_REDUCE = "A function of your own, as `module:function`: it gets the value so far and a message, and returns the value."
_ENDS_OF_ROWS = partial(OfRows, bag=numbers_of_rows, shares="numbers of rows")
ENTRIES = (
    ReducerKind(
        "count",
        "",
        "",
        "integer",
        _count,
        takes="nothing",
        alone="how many records",
        until="groups",
        of_rows=OfRows(_count),
    ),
    _number(
        "sum",
        "The sum of the field.",
        "the sum of {}",
        "number",
        _stat(0),
        total=True,
        others=("total",),
        of_rows=OfRows(sum_of_rows, TOTALS),
    ),
    _number(
        "min",
        "The least value of the field.",
        "the least {}",
        "number",
        _stat(1),
        others=("minimum", "least"),
        of_rows=_ENDS_OF_ROWS(best_of_rows(min)),
    ),
    _number(
        "max",
        "The greatest value of the field.",
        "the greatest {}",
        "number",
        _stat(2),
        others=("maximum", "greatest"),
        of_rows=_ENDS_OF_ROWS(best_of_rows(max)),
    ),
    _number(
        "mean",
        "The mean of the field.",
        "the mean of {}",
        "double",
        _mean_of,
        total=True,
        others=("avg", "average"),
        of_rows=OfRows(mean_of_rows, TOTALS),
    ),
    _spread(
        "variance",
        "The variance of the field: of a sample, divided by the number of records less 1.",
        "the variance of {}",
        read=variance,
        others=("var", "var_samp", "variance_samp"),
        of_rows=OfRows(variance_of_rows, SQUARES),
    ),
    _spread(
        "stddev",
        "The standard deviation of the field: the square root of `variance`.",
        "the standard deviation of {}",
        read=deviation,
        others=("std", "stdev", "stddev_samp", "standard_deviation"),
        of_rows=OfRows(deviation_of_rows, SQUARES),
    ),
    _value("first", "The field of the first record.", "the first {}", "field", _stat(0), slots=_FIRST),
    _value("last", "The field of the last record.", "the last {}", "field", _stat(0), slots=_LAST, others=("latest",)),
    _ends(
        "first_n",
        "The field of the first records: a list of up to `n`.",
        "the first {option} of {}",
        read=values_of,
        bag=first_values,
        option=NUMBER,
        others=("head",),
    ),
    _ends(
        "last_n",
        "The field of the last records: a list of up to `n`.",
        "the last {option} of {}",
        read=values_of,
        bag=last_values,
        option=NUMBER,
        others=("tail", "latest_n"),
    ),
    ReducerKind(
        "count_by",
        "The number of records for each value of the field.",
        "how many records have each {}",
        "counts",
        counts,
        bag=counted,
        others=("value_counts", "histogram", "count_values"),
        of_rows=OfRows(counts, bag=counted),
    ),
    ReducerKind(
        "percentile",
        "The percentile `p` of the field, up to 0.8 % nearer to zero.",
        "percentile {option} of {}",
        "double",
        percentile,
        takes="number",
        bag=bucketed,
        shares="buckets",
        option=PERCENTILE,
        total=True,
        others=("quantile", "median", "approx_percentile"),
    ),
    ReducerKind(
        "approx_distinct",
        "The approximate number of different values of the field, with a standard error of 1.6 %.",
        "about how many different values of {}",
        "integer",
        cardinality,
        bag=registered,
        others=("approx_count_distinct", "hyperloglog", "cardinality"),
    ),
    ReducerKind(
        "top",
        "The most frequent values of the field: a list of up to `n` with their numbers of records.",
        "the {option} most frequent values of {}",
        "ranking",
        ranking,
        bag=ranked,
        option=TOP,
        others=("top_n", "top_k", "topk", "most_common"),
    ),
    ReducerKind(
        "distinct",
        _DISTINCT,
        "how many different values of {}",
        "integer",
        number_of_values,
        bag=_distinct,
        until="groups",
        others=("unique", "count_distinct"),
        of_rows=OfRows(number_of_values, bag=distinct_of_rows),
    ),
    ReducerKind(
        "collect",
        _COLLECT,
        "every {}, in order",
        "list",
        _list,
        bag=_collect,
        alone="the whole messages, in order",
        keeps_values=True,
        others=("list", "array_agg"),
        of_rows=OfRows(list_of_rows, bag=collected_rows),
    ),
    ReducerKind(
        "reduce",
        _REDUCE,
        "computed by {}",
        "any",
        _reduced,
        takes="function",
        slots=_FOLD,
        apart=_collect,
        others=("fold",),
    ),
)
REDUCERS = {entry.name: entry for entry in ENTRIES}


def kind_of(reducer: Reducer) -> ReducerKind:
    return REDUCERS[reducer.kind]


def written(reducer: Reducer) -> Any:
    """The reducer in the form of the file."""
    if reducer.argument is None:
        return reducer.kind
    option = REDUCERS[reducer.kind].option if reducer.kind in REDUCERS else None
    argument = reducer.argument if option is None else {"field": reducer.argument, option.name: reducer.option}
    return {reducer.kind: argument}


def kept_as(windower: Windower, kinds: Iterable[str], ends: bool, revised: bool) -> str:
    """The kind of windows with reducers of these kinds. Windows are stored as shared panes if none of them `ends`
    early, none has an additional or `revised` result, and each is the sum of its panes. Then a record is added once;
    otherwise it is added once for each window."""
    slots = [REDUCERS[kind].slots for kind in kinds if kind in REDUCERS]
    shares = not (ends or revised) and all(parts is None or parts.merge is not None for parts in slots)
    return windower.name if shares or not windower.apart else windower.apart


def parts_of(reducer: Reducer, merged: bool, table: bool = False) -> ReducerKind:
    """The reducer with its storage in a group: `slots` or `bag`, which can be merged if groups are merged, and from
    which rows of a table can be subtracted. Raises ConfigurationError if this is not possible."""
    kind = kind_of(reducer)
    if table:
        rows = kind.of_rows
        if rows is None:
            raise ConfigurationError(f"{kind.name} cannot take back a row of a table")
        return kind._replace(read=rows.read, slots=rows.slots, bag=rows.bag, shares=rows.shares)
    if merged and kind.slots is not None and kind.slots.merge is None:
        return kind._replace(slots=None, bag=kind.apart)
    return kind


def keeps_messages(reducer: ComputedField) -> bool:
    """Whether the reducer stores whole messages in its bag."""
    return REDUCERS[reducer.kind].bag is not None and reducer.field is None


def reads_messages(reducer: Reducer) -> bool:
    """Whether the reducer reads whole messages."""
    return kind_of(reducer).takes == "function" or keeps_messages(reducer)
