"""Merges the state of one group into another: for windows whose groups become one, or are parts of a window."""

from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.layout import COUNT, FIRST, LAST, OPENED, SEEN, GroupState
from sluicegate.streams.aggregation.reducers import places, plus

Merge = Callable[[GroupState, GroupState], None]
"""Adds what the second state holds to the first one."""


def merging(compute: Sequence[Reducer], lenient: bool) -> Merge:
    """The function that merges states of these reducers (`plan` with `merged`). It leaves the bags to the caller."""
    slots = places(compute, lenient, merged=True).slots
    numbers = [each.start for name, each in slots if isinstance(name, tuple) and name[0] == "numbers"]
    firsts = [each.start for name, each in slots if isinstance(name, tuple) and name[0] == "first"]
    lasts = [each.start for name, each in slots if isinstance(name, tuple) and name[0] == "last"]

    def merge(state: GroupState, other: GroupState) -> None:
        state[COUNT] += other[COUNT]
        state[FIRST] = min(state[FIRST], other[FIRST])
        state[LAST] = max(state[LAST], other[LAST])
        state[OPENED] = min(state[OPENED], other[OPENED])
        state[SEEN] = _of_both(max, state[SEEN], other[SEEN])
        for slot in numbers:
            _merge_numbers(state, other, slot)
            if lenient:
                state[slot + 3] += other[slot + 3]
        for slot in firsts:
            if other[slot + 1] >= 0 and not 0 <= state[slot + 1] < other[slot + 1]:
                state[slot : slot + 2] = other[slot : slot + 2]
        for slot in lasts:
            if other[slot + 1] > state[slot + 1]:
                state[slot : slot + 2] = other[slot : slot + 2]

    return merge


def _merge_numbers(state: GroupState, other: GroupState, slot: int) -> None:
    """The sum, the least and the greatest."""
    try:
        state[slot] += other[slot]
    except OverflowError:
        state[slot] = plus(state[slot], other[slot])
    state[slot + 1] = _of_both(min, state[slot + 1], other[slot + 1])
    state[slot + 2] = _of_both(max, state[slot + 2], other[slot + 2])


def _of_both(better: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """None is no value."""
    return other if one is None else one if other is None else better(one, other)
