"""The variance and the standard deviation of a field, by Welford's method: one pass, without a difference of large
sums.

Two parts are merged by the formula of Chan, Golub and LeVeque. A group stores the number of values, the first value,
the mean of the differences from it, and the sum of the squared distances from that mean. So values that are far from
zero and close to each other lose no digits.
"""

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

from sluicegate.streams.reduction import (
    Accumulator,
    Add,
    Getter,
    Merge,
    Place,
    ReadReducer,
    Shown,
    StateSlots,
    as_float,
)


def _added(place: Place, get: Getter) -> Add:
    lenient, count, origin, mean, squares = place.lenient, *_slots(place)

    def add(state: StateSlots, record: Any) -> None:
        value = get(record)
        if lenient and type(value) is not int and type(value) is not float:  # of JSON: a boolean's is bool
            return
        many = state[count] = state[count] + 1
        if many == 1:
            state[origin] = value
            return
        known = state[mean]
        value = _difference(value, state[origin])
        distance = value - known
        known = state[mean] = known + distance / many
        state[squares] += distance * (value - known)

    return add


def _merged(place: Place) -> Merge:
    count, origin, mean, squares = _slots(place)
    end = squares + 1

    def merge(state: StateSlots, other: StateSlots) -> None:
        one, two = state[count], other[count]
        if not one or not two:
            state[count:end] = other[count:end] if two else state[count:end]
            return
        distance, many = _difference(other[origin], state[origin]) + other[mean] - state[mean], one + two
        state[squares] += other[squares] + distance * distance * (one * two / many)
        state[mean] += distance * (two / many)
        state[count] = many

    return merge


def _slots(place: Place) -> tuple[int, int, int, int]:
    return place.at, place.at + 1, place.at + 2, place.at + 3


def _difference(value: Any, origin: Any) -> float:
    """The difference. It is exact for integers before it is converted to a double."""
    try:
        return as_float(value - origin)
    except OverflowError:  # of an integer and a double
        return as_float(value) - as_float(origin)


def variance(place: Place, shown: Shown) -> ReadReducer:
    """The sample variance. None for fewer than two values."""
    return _of_squares(place, lambda squares: squares)


def deviation(place: Place, shown: Shown) -> ReadReducer:
    """The square root of the variance."""
    return _of_squares(place, sqrt)


def _of_squares(place: Place, finished: Callable[[float], float]) -> ReadReducer:
    count, _, _, squares = _slots(place)
    return lambda state, bags: finished(state[squares] / (state[count] - 1)) if state[count] > 1 else None


MOMENTS = Accumulator(lambda place: [0, None, 0.0, 0.0], _added, _merged, "moments")


# -- rows that can be subtracted ---------------------------------------------------------------------------------------
#
# A sum of doubles, less one of them, is another double than the sum of the rest. So the sums of rows are exact: each
# double is an integer divided by a power of two, and so is each sum of them. What is left after a row was taken back is
# the sum of the rows that are left, to the last bit, and a result is rounded once.


def _exact_total(place: Place, get: Getter, sign: int) -> Add:
    """Slots: the numerator, the power of two of the denominator, the number of doubles, and with `lenient` the number
    of values."""
    at, doubles, many = place.at, place.at + 2, place.at + 3 if place.lenient else 0

    def move(state: StateSlots, record: Any) -> None:
        value = get(record)
        if type(value) is float:
            state[doubles] += sign
        elif type(value) is not int:  # of JSON: a boolean's is bool
            return
        _sum_up(state, at, sign, *value.as_integer_ratio())
        if many:
            state[many] += sign
        if not state[doubles]:
            state[at], state[at + 1] = state[at] >> state[at + 1], 0

    return move


def _exact_squares(place: Place, get: Getter, sign: int) -> Add:
    """Slots: the sum of the values in two slots, the sum of their squares in two, and the number of values."""
    at, many = place.at, place.at + 4

    def move(state: StateSlots, record: Any) -> None:
        value = get(record)
        if type(value) is not int and type(value) is not float:
            return
        numerator, denominator = value.as_integer_ratio()
        _sum_up(state, at, sign, numerator, denominator)
        _sum_up(state, at + 2, sign, numerator * numerator, denominator * denominator)
        state[many] += sign
        if not state[many]:
            state[at : at + 4] = 0, 0, 0, 0

    return move


def _sum_up(state: StateSlots, at: int, sign: int, numerator: int, denominator: int) -> None:
    """Add a fraction whose denominator is a power of two."""
    power, known = denominator.bit_length() - 1, state[at + 1]
    if power > known:
        state[at], state[at + 1] = state[at] << power - known, power
    else:
        numerator <<= known - power
    state[at] += sign * numerator


def _ratio(numerator: int, denominator: int) -> float:
    """The quotient, rounded once."""
    try:
        return numerator / denominator
    except OverflowError:
        return inf if numerator > 0 else -inf


def sum_of_rows(place: Place, shown: Shown) -> ReadReducer:
    at, power, doubles = place.at, place.at + 1, place.at + 2
    return lambda state, bags: _ratio(state[at], 1 << state[power]) if state[doubles] else state[at]


def mean_of_rows(place: Place, shown: Shown) -> ReadReducer:
    at, power, many = place.at, place.at + 1, place.at + 3 if place.lenient else place.records
    return lambda state, bags: _ratio(state[at], state[many] << state[power]) if state[many] else None


def variance_of_rows(place: Place, shown: Shown) -> ReadReducer:
    """The sample variance, rounded once. None for fewer than two values."""
    at = place.at

    def read(state: StateSlots, bags: list[Any]) -> float | None:
        total, power, squares, squared, many = state[at : at + 5]
        if many < 2:
            return None
        return _ratio(
            (many * squares << 2 * power) - (total * total << squared), many * (many - 1) << squared + 2 * power
        )

    return read


def deviation_of_rows(place: Place, shown: Shown) -> ReadReducer:
    variance = variance_of_rows(place, shown)
    return lambda state, bags: None if (value := variance(state, bags)) is None else sqrt(value)


TOTALS = Accumulator(
    lambda place: [0, 0, 0, 0] if place.lenient else [0, 0, 0],
    lambda place, get: _exact_total(place, get, 1),
    None,
    "totals",
    lambda place, get: _exact_total(place, get, -1),
)
SQUARES = Accumulator(
    lambda place: [0, 0, 0, 0, 0],
    lambda place, get: _exact_squares(place, get, 1),
    None,
    "squares",
    lambda place, get: _exact_squares(place, get, -1),
)
