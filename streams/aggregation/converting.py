"""Open groups under another rule that keeps the same of its records, or less: their states, rearranged.

A field can be added if it is computed from what the groups hold: a count, or another statistic of a field that has one
(sluicegate.streams.rules.classes.KEPT).
"""

from collections.abc import Sequence
from typing import Any

from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import BYTES, COLUMNS, MERGED, Bags, GroupState
from sluicegate.streams.aggregation.reducers import BAGS, STATS, kept_as, places
from sluicegate.streams.errors import ConfigurationError


class Conversion:
    """From the layout of `old` to the one of `new`. Raises ConfigurationError for a field that the groups cannot
    give."""

    def __init__(self, old: Groups, new: Groups) -> None:
        self._old, self._new = old, new
        before, after = old.rule.aggregation, new.rule.aggregation
        merged = before.window is not None and before.window.kind in MERGED
        held = places(before.compute, before.on_missing == "ignore", merged)
        self._end = COLUMNS + sum(len(each) for _, each in held.slots)  # what windows keep beside the reducers follows
        slots, bags = dict(held.slots), dict(held.bags)
        try:
            self._slots = [slot for each in _owners(after.compute, bags=False) for slot in slots[kept_as(each)]]
            self._bags = [bags[kept_as(each)] for each in _owners(after.compute, bags=True)]
        except LookupError as missing:
            raise ConfigurationError(f"the open groups cannot be converted: they do not hold {missing}") from missing

    def move(self, key: bytes) -> int:
        """Take the group out of the old ones and put it into the new ones. Returns its size in bytes."""
        closed = self._old.closed.get(key)
        state, bags = self._old.drop(key)
        kept: Bags = [bags[index].copy() for index in self._bags]
        moved: GroupState = [*state[:COLUMNS], *(state[slot] for slot in self._slots), *state[self._end :]]
        moved[BYTES] = sum(_size(bag, made.weight) for bag, made in zip(kept, self._new.rule.plan.bags, strict=True))
        new = self._new
        new.states[key] = new.touched[key] = moved
        if closed is not None:
            new.closed[key] = closed
        if kept:
            new.bags[key] = kept
            new.added[key] = [list(bag) for bag in kept]
        new.bytes += moved[BYTES]
        return int(moved[BYTES])


def _owners(compute: Sequence[Reducer], bags: bool) -> list[Reducer]:
    """The reducers that have slots, or bags, of their own, in the order of the plan."""
    found: list[Reducer] = []
    for reducer in sorted(compute, key=lambda r: r.name):
        shared = reducer.kind in STATS and kept_as(reducer) in map(kept_as, found)
        if reducer.kind != "count" and not shared and (reducer.kind in BAGS) == bags:
            found.append(reducer)
    return found


def _size(bag: Any, weight: Any) -> int:
    return sum(map(weight, bag))
