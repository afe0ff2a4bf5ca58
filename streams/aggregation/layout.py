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
STALE = 10_000  # deadlines of groups that ended may lie in a heap, beyond two for each open group
DEADLINE = -1  # of a rule with a deadline from the data: seconds since DEADLINE_SINCE, None for no deadline
DEADLINE_SINCE = -2  # owner's time from which the deadline counts; None: since 1970
ROWS = -1  # of a group of a table: the rows that it has. COUNT has the changes so far
ROW_KEY = -2  # of a row of a table: the key of the group that has it
ROW = -1  # of a row of a table: the row as it was added
DEADLINE_SLOTS = 2
"""At the end of the state, so that a state without them is one of a rule without such a deadline."""


def merges(aggregation: Aggregation) -> bool:
    """Whether groups of this rule are merged (merging.py)."""
    return aggregation.window is not None and aggregation.window.windower.merged


def fit_deadline(state: GroupState, width: int, from_data: bool) -> None:
    """Give the state slots for a deadline from the data, or take them away, if it was written under a rule that differs
    in nothing else. `width` is that of the rule now."""
    if from_data and len(state) == width - DEADLINE_SLOTS:
        state += [None] * DEADLINE_SLOTS
    elif not from_data and len(state) == width + DEADLINE_SLOTS and _deadline(state):
        del state[-DEADLINE_SLOTS:]


def _deadline(state: GroupState) -> bool:
    """Whether the last slots may hold a deadline."""
    return all(isinstance(part, float | int | None) for part in (state[DEADLINE], state[DEADLINE_SINCE]))


def sound(state: GroupState, width: int, from_data: bool = False) -> bool:
    """Whether the fixed columns of a state may have been written by Sluicegate, and its deadline from the data."""
    count, first, last, opened, seen, trace, size = state[:COLUMNS]
    numbers = type(count) is type(first) is type(last) is type(size) is int
    times = isinstance(opened, float | int) and isfinite(opened) and isinstance(seen, float | int | None)
    whole = len(state) == width and (not from_data or _deadline(state))
    return numbers and times and whole and isinstance(trace, str | None)
