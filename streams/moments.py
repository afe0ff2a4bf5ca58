"""The variance and the standard deviation of a field, by Welford's method: one pass, and no difference of large sums.

Two parts are merged by the formula of Chan, Golub and LeVeque. A group keeps the number of values, the first value, the
mean of the differences from it, and the sum of the squares of the distances from that mean. So values that are far from
zero and near to each other lose no digits.
"""

from collections.abc import Callable
from math import sqrt
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
    """Exact for integers, before it becomes a double."""
    try:
        return as_float(value - origin)
    except OverflowError:  # of an integer and a double
        return as_float(value) - as_float(origin)


def variance(place: Place, shown: Shown) -> ReadReducer:
    """Of a sample. None for fewer than two values."""
    return _of_squares(place, lambda squares: squares)


def deviation(place: Place, shown: Shown) -> ReadReducer:
    """The square root of the variance."""
    return _of_squares(place, sqrt)


def _of_squares(place: Place, finished: Callable[[float], float]) -> ReadReducer:
    count, _, _, squares = _slots(place)
    return lambda state, bags: finished(state[squares] / (state[count] - 1)) if state[count] > 1 else None


MOMENTS = Accumulator(lambda place: [0, None, 0.0, 0.0], _added, _merged, "moments")
