"""Checks whether a record that would close groups will be refused. The check runs before they close.

A refused record does not move the watermark, and groups that have ended cannot be opened again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sluicegate.streams.aggregation.accept import NotAdded, addition
from sluicegate.streams.aggregation.layout import BYTES, GroupState
from sluicegate.streams.contracts.record import Record

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups


def expected(
    windows: "WindowGroups", names: Sequence[bytes], record: Record, time: int, read: Any, items: list[Any], now: float
) -> bool:
    """Whether all these groups will accept the record after the watermark has moved to `time` and closed other groups.
    If not, the record is refused here. Raises Halt."""
    sizes = [windows.growth(group, items) for group in names]
    added = max(size + windows.freed(group, items) for size, group in zip(sizes, names, strict=True))
    if windows.outgrows(record, added) or not _has_room(windows, names, sizes, record, time, now):
        return False
    rule = windows.rule
    if rule.ending is None and not rule.plan.folds:
        return True
    try:
        for group, size in zip(names, sizes, strict=True):
            state = _with_room(windows, group, size)
            if state is None:
                bags, tried = rule.plan.empty_bags(), _blank(windows, record, now)
            else:
                bags, tried = windows.bags.get(group, []), state.copy()
            addition(windows, bags, tried, record, read, items)
    except NotAdded as refusal:
        refusal.refuse()
        return False
    return True


def _with_room(windows: "WindowGroups", group: bytes, size: int) -> GroupState | None:
    """The state of the open group. None: the group is not open, or fires to make room for `size` more bytes."""
    state = windows.states.get(group)
    outgrown = state is not None and state[BYTES] + size > windows.rule.aggregation.max_bytes
    return None if outgrown and windows.rule.parts else state


def _blank(windows: "WindowGroups", record: Record, now: float) -> GroupState:
    return [0, record.offset(), record.offset(), now, None, None, 0, *windows.rule.plan.blank]


def _has_room(
    windows: "WindowGroups", names: Sequence[bytes], sizes: Sequence[int], record: Record, time: int, now: float
) -> bool:
    """Whether the limits allow the record. If not, it is refused here. Raises Halt."""
    aggregation, opened, larger = windows.rule.aggregation, 0, windows.bytes - windows.most_bytes
    if aggregation.on_full == "fire-oldest":
        return True
    for group, size in zip(names, sizes, strict=True):
        state = windows.states.get(group)
        if group in windows.full:
            return windows.deny(record, f"max_items {aggregation.max_items}")
        own = 0 if state is None else int(state[BYTES])
        if own + size > aggregation.max_bytes and not windows.rule.parts:
            return windows.deny(record, f"max_bytes {aggregation.max_bytes}")
        opened += state is None
        larger += size - (own if own + size > aggregation.max_bytes else 0)
    cold = windows.cold.count - windows.cold.leaving(time) if windows.cold.count else 0
    elders = sum(len(elder.states) for elder in windows.elders)
    more = len(windows.states) + cold + elders + opened - aggregation.max_groups
    for name, group_state in windows.states.items() if more > 0 or larger > 0 else ():
        if windows.leaves(name, group_state) <= time:
            more, larger = more - 1, larger - group_state[BYTES]
            if more <= 0 and larger <= 0:
                break
    if more > 0 and opened:
        return windows.relieve(record, now, f"max_groups {aggregation.max_groups}")
    if larger > 0:
        return windows.relieve(record, now, f"max_buffered_bytes {aggregation.max_buffered_bytes}")
    return True
