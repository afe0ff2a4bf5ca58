"""Rearranges the states of open groups for another rule that stores the same values or fewer.

A field can be added if it can be computed from the stored values: a count, or another statistic of a field that already
has one (sluicegate.streams.rules.classes.KEPT).
"""

from typing import Any

from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import BYTES, COLUMNS, Bags, GroupState, fit_deadline, merges
from sluicegate.streams.aggregation.reducers import kept_as, places
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.reduction import Bag


class Conversion:
    """Converts groups from the layout of `old` to the layout of `new`. Raises ConfigurationError for a field that
    cannot be computed from the stored values."""

    def __init__(self, old: Groups, new: Groups) -> None:
        self._old, self._new = old, new
        before, after = old.rule.aggregation, new.rule.aggregation
        places_before = places(before.compute, before.on_missing == "ignore", merges(before), before.table)
        own = [place for place in places_before if place.own]
        self._end = COLUMNS + sum(place.size for place in own)  # the slots of windows follow the slots of the reducers
        by_name = {kept_as(place.reducer, before.table): place for place in own}
        try:
            places_after = places(after.compute, lenient=False, table=after.table)
            wanted = [by_name[kept_as(place.reducer, after.table)] for place in places_after if place.own]
        except LookupError as missing:
            raise ConfigurationError(f"the open groups cannot be converted: they do not hold {missing}") from missing
        self._slots = [slot for place in wanted for slot in place.slots]
        self._bags = [place.bag for place in wanted if place.in_bag]

    def move(self, key: bytes) -> int:
        """Move the group from the old groups to the new ones. Returns its size in bytes."""
        closed, past = self._old.closed.get(key), self._old.early.past.get(key)
        state, bags = self._old.drop(key)
        kept: Bags = [bags[index].copy() for index in self._bags]
        moved: GroupState = [*state[:COLUMNS], *(state[slot] for slot in self._slots), *state[self._end :]]
        items = self._new.rule.plan.items(kept)
        moved[BYTES] = sum(map(_size, self._new.rule.plan.bags, items))
        new = self._new
        fit_deadline(moved, new.width, new.rule.completion.from_data)
        new.states[key] = new.touched[key] = moved
        if closed is not None:
            new.closed[key] = closed
        if past is not None:
            new.early.past[key] = past
        if kept:
            new.bags[key] = kept
            new.added[key] = items
        new.bytes += moved[BYTES]
        return int(moved[BYTES])


def _size(kind: Bag, items: list[Any]) -> int:
    """The bytes of a bag with these items."""
    bag = kind.form.empty()
    return sum(kind.form.put(bag, item) or 0 for item in items)
