"""Where things stand in the state of one open group: a flat list, so that it is written to the changelog as it is.

Reducers own the slots from `COLUMNS` on. What grows with the group (collected items, distinct values) lies beside it in
bags, so that a changelog entry holds only the new items.
"""

from typing import Any

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
