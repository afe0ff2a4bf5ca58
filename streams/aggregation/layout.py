"""The columns of an open group's state: a flat list, which the changelog stores as it is.

Reducers own the slots from `COLUMNS` on, windows those behind them. Parts that grow with the group (collected items,
distinct values) are in bags beside the state, so that a changelog entry holds only new items.
"""

from math import isfinite
from typing import Any

from sluicegate.streams.agent import Aggregation

GroupState = list[Any]
Bags = list[Any]

COUNT = 0  # records so far
FIRST = 1  # offset of the first record: the group's identity
LAST = 2  # offset of the newest record
OPENED = 3  # owner's time of the first record
SEEN = 4  # owner's time of the newest record, kept only for timeouts since the last one
TRACE = 5  # traceparent of the first record, or None
BYTES = 6  # bytes in the bags
COLUMNS = 7


def merges(aggregation: Aggregation) -> bool:
    """Whether groups of this rule are merged (merging.py)."""
    return aggregation.window is not None and aggregation.window.windower.merged


def sound(state: GroupState, width: int) -> bool:
    """Whether the fixed columns of a state may have been written by Sluicegate."""
    count, first, last, opened, seen, trace, size = state[:COLUMNS]
    numbers = type(count) is type(first) is type(last) is type(size) is int
    times = isinstance(opened, float | int) and isfinite(opened) and isinstance(seen, float | int | None)
    return numbers and times and len(state) == width and isinstance(trace, str | None)
