"""The hot loop of windows, for records that close no window and are not late.

The records of the group that was used last lie from `begin` to `end`. `end` is no later than the next close of an open
window, so the watermark stays below it, and no record of an open group is late. All records of a group take the careful
way if the watermark closed a window of the group. It takes five times as long for a record.
"""

from collections.abc import Callable, Sequence
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple

from sluicegate.streams.aggregation.groups import LONGEST_KEY
from sluicegate.streams.aggregation.layout import COUNT, LAST, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.reducers import Add
from sluicegate.streams.windows.times import LATEST, NO_TIMESTAMP, milliseconds
from sluicegate.streams.windows.tumbling import name

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups


def folds(rule: Rule) -> bool:
    """Whether the loop knows all that this rule may ask for."""
    plan = rule.plan
    return not (plan.folds or plan.bags or rule.lets or rule.ending)


class LoopParts(NamedTuple):
    """What a loop needs at each record. `latest` is the last event time that is not too far ahead, `limit` the number
    of records at which a group ends. `total`, `low` and `high` are the slots of the numbers that are added inline;
    `total` 0: none are."""

    decode: Callable[[bytes], Any]
    key_of: Callable[[Any], bytes] | None
    time_of: Callable[[Any], int] | None
    largest: int
    latest: int
    limit: float
    until: Callable[[Any], bool] | None
    total: int
    low: int
    high: int
    also: Add | None


def loop_parts(windows: "WindowGroups", now: float) -> LoopParts:
    rule, plan = windows.rule, windows.rule.plan
    latest = floor(min(LATEST, (now + windows.window.max_ahead) * 1000))
    numbers = plan.inline, plan.inline + 1, plan.inline + 2
    read = rule.decode, rule.key_of, time_function(windows), rule.max_record_bytes
    return LoopParts(*read, latest, rule.completion.most, rule.until, *numbers, plan.also)


def fold(windows: "WindowGroups", records: Sequence[Record], now: float) -> None:
    """`windows.take` for each record, with the same result."""
    decode, key_of, time_of, largest, latest, limit, until, total, low, high, also = loop_parts(windows, now)
    event, touched, get = windows.event, windows.touched, windows.states.get
    bound, begin, end, closes, prefix = bound_of(windows, latest), 0, 0, 0, b""
    for record in records:
        state = None
        try:
            read = decode(value := record.value())  # type: ignore[arg-type]
            key: Any = record.key() if key_of is None else key_of(read)
            known, time = record.timestamp() if time_of is None else (1, time_of(read))
            if not begin <= time < end:
                prefix, closes, begin, end = span_of(windows, time, bound)
                known = known if begin <= time < end else NO_TIMESTAMP
            if known and len(value) <= largest:  # type: ignore[arg-type]
                state = get(group := prefix + key)
                if state is None and len(group) <= LONGEST_KEY:
                    state, bound = _opened(windows, group, record, read, now, time), min(bound, closes)
                added = state[total] + read.f0 if total and state is not None else 0
        except Exception:  # the careful way finds the reason
            state = None
        if state is None:
            windows.take(record, now)
            begin, end, bound = 0, 0, bound_of(windows, latest)
            continue
        if time > event.watermark:
            event.watermark = time
        state[COUNT] = count = state[COUNT] + 1
        state[LAST] = record.offset()
        if total:
            state[total], number = added, read.f0
            if number > state[high]:
                state[high] = number
            elif number < state[low]:
                state[low] = number
        if also is not None:
            also(state, read)
        touched[group] = state
        if count >= limit or (until is not None and until(read)):
            end = min(end, bound := complete(windows, group, state, read, now, bound))


def span_of(windows: "WindowGroups", time: int, bound: int) -> tuple[bytes, int, int, int]:
    """The groups of this time: how their names begin, when their first window closes, and which times take the hot
    loop."""
    kind = windows.tumbling
    start = kind.start(time)
    closes = kind.first_closes(start)
    hot = closes > windows.event.watermark and start not in windows.cut
    return name(start, b""), closes, max(start, 0), min(start + kind.every, bound) if hot else 0


def _opened(
    windows: "WindowGroups", group: bytes, record: Record, read: Any, now: float, time: int
) -> GroupState | None:
    """A new group of a window that the watermark, with this record's time, does not close. None if there is no room
    for it."""
    if refuses(windows):
        return None
    windows.event.read(time)
    state = windows.open(group, record, now)
    if (total := windows.rule.plan.inline) and state is not None:
        state[total + 1] = state[total + 2] = read.f0
    return state


def time_function(windows: "WindowGroups") -> Callable[[Any], int] | None:
    """The function that finds the time in what was read of a record; None for Kafka's timestamp."""
    get, unit, path = windows.rule.time_of, windows.window.unit, windows.window.time
    if get is None or path is None:
        return None

    def time(read: Any) -> int:
        value = get(read)
        return value if type(value) is int and unit == "ms" else milliseconds(value, unit, path)

    return time


def bound_of(windows: "WindowGroups", latest: int) -> int:
    """The event time before which a record ends no group and is not too far ahead. 0 while a closed window waits for
    its result, because each record may be late then, and while a group takes no more records."""
    next_end = windows.next_end()
    return 0 if windows.full or next_end <= windows.event.watermark else int(min(latest + 1, next_end))


def complete(windows: "WindowGroups", group: bytes, state: GroupState, read: Any, now: float, bound: int) -> int:
    """The group ends with this record, or takes no more records. Returns the bound from here on."""
    windows.complete(group, state, read, now)
    return 0 if windows.full else bound


def refuses(windows: "WindowGroups") -> bool:
    """Whether a record that opens a group is refused, or stops the partition."""
    return windows.rule.aggregation.on_full != "fire-oldest" and windows.crowded()
