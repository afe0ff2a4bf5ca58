"""The columns of an open group's state: a flat list, which the changelog stores unchanged.

Reducers use the slots from `COLUMNS` on. Windows use the slots after them. Parts that grow with the group (collected
items, distinct values) are in bags beside the state, so a changelog entry holds only the new items.
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
ROWS = -1  # of a group of a table: its number of rows. COUNT is the number of changes
ROW_KEY = -2  # of a row of a table: the key of its group
ROW = -1  # of a row of a table: the row as it was added
TIMES = (float, int)
DEADLINE_SLOTS = 2
"""The slots of a deadline from the data are at the end of the state. A state without them has the layout of a rule
without such deadlines."""


def merges(aggregation: Aggregation) -> bool:
    """Whether groups of this rule are merged (merging.py)."""
    return aggregation.window is not None and aggregation.window.windower.merged


def fit_deadline(state: GroupState, width: int, from_data: bool) -> None:
    """Add or remove the slots of a deadline from the data, if the state was written under a rule that differs only in
    them. `width` is the width under the current rule."""
    if from_data and len(state) == width - DEADLINE_SLOTS:
        state += [None] * DEADLINE_SLOTS
    elif not from_data and len(state) == width + DEADLINE_SLOTS and _deadline(state):
        del state[-DEADLINE_SLOTS:]


def _deadline(state: GroupState) -> bool:
    """Whether the last slots can be a deadline."""
    return all(isinstance(part, float | int | None) for part in (state[DEADLINE], state[DEADLINE_SINCE]))


def sound(state: GroupState, width: int, from_data: bool = False) -> bool:
    """Whether the fixed columns of a state, and its deadline from the data, have valid types and values."""
    if len(state) != width:
        return False
    count, first, last, opened, seen, trace, size = state[:COLUMNS]
    numbers = type(count) is type(first) is type(last) is type(size) is int
    times = isinstance(opened, TIMES) and isfinite(opened) and (seen is None or isinstance(seen, TIMES))
    return numbers and times and (trace is None or isinstance(trace, str)) and (not from_data or _deadline(state))
