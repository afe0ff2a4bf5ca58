"""Merges the state of one group into another, for windows that merge or that consist of panes."""

from collections.abc import Sequence

from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.layout import COUNT, FIRST, LAST, OPENED, SEEN, Bags, GroupState
from sluicegate.streams.aggregation.reducers import places
from sluicegate.streams.reducers import of_both, parts_of
from sluicegate.streams.reduction import Bag, Merge


def pour(kinds: Sequence[Bag], bags: Bags, other: Bags) -> None:
    """Add the items of `other` to `bags`. Both have the bags of the same reducers, of these kinds."""
    for kind, into, bag in zip(kinds, bags, other, strict=True):
        kind.form.extend(into, kind.form.items(bag))


def merging(compute: Sequence[Reducer], lenient: bool) -> Merge:
    """The function that merges states of these reducers (`plan` with `merged`). It leaves the bags to the caller."""
    own = [
        (place, parts_of(place.reducer, merged=True).slots)
        for place in places(compute, lenient, merged=True)
        if place.own
    ]
    merges = [slots.merge(place) for place, slots in own if slots is not None and slots.merge is not None]

    def merge(state: GroupState, other: GroupState) -> None:
        state[COUNT] += other[COUNT]
        state[FIRST] = min(state[FIRST], other[FIRST])
        state[LAST] = max(state[LAST], other[LAST])
        state[OPENED] = min(state[OPENED], other[OPENED])
        state[SEEN] = of_both(max, state[SEEN], other[SEEN])
        for of_reducer in merges:
            of_reducer(state, other)

    return merge
