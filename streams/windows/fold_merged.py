"""The hot loop of windows over a repartitioned topic.

As fold.py. But the watermark is the least of the times of the origins, so a record's own time does not tell whether it
closes a window. The clock gets the time of each record, and the windows that the watermark passes are closed here.
`ends` is no later than the next close of an open window: while the watermark is below it, no record of an open group
is late.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sluicegate.streams.aggregation.groups import LONGEST_KEY
from sluicegate.streams.aggregation.layout import COUNT, LAST, GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.fold import bound_of, refuses, span_of
from sluicegate.streams.windows.marks import origin_and_time
from sluicegate.streams.windows.times import LATEST, latest

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups


def fold_merged(windows: "WindowGroups", records: Sequence[Record], now: float) -> None:
    """As `fold`, for windows with origins."""
    rule, clock, touched, get = windows.rule, windows.merged, windows.touched, windows.states.get
    decode, key_of, largest, adders = rule.decode, rule.key_of, rule.max_record_bytes, rule.plan.adders
    limit, until, prefix, begin, end, closes = rule.completion.most, rule.until, b"", 0, 0, 0
    assert clock is not None
    ends, most = bound_of(windows, LATEST), latest(windows.window, max(now, windows.believed))
    for record in records:
        try:
            read = decode(value := record.value())  # type: ignore[arg-type]
            key: Any = record.key() if key_of is None else key_of(read)
            clock.reading, time = origin_and_time(record)
            plain = time <= most and len(value) <= largest and len(key) <= LONGEST_KEY  # type: ignore[arg-type]
        except Exception:  # the careful way finds the reason
            plain = False
        if not plain:
            windows.take(record, now)
            end, ends = 0, bound_of(windows, LATEST)
            continue
        if clock.read(time) and clock.watermark >= ends:
            windows.close_passed(now)
            end, ends = 0, bound_of(windows, LATEST)
        if not begin <= time < end:
            prefix, closes, begin, end = span_of(windows, time, LATEST + 1 if ends else 0)
        state = None
        if begin <= time < end and (state := get(group := prefix + key)) is None:
            state, ends = _opened(windows, group, record, now), min(ends, closes)
        if state is None:
            windows.count(record, key, time, read, [], now)
            end, ends = 0, bound_of(windows, LATEST)
            continue
        state[COUNT] = count = state[COUNT] + 1
        state[LAST] = record.offset()
        for add in adders:
            add(state, read)
        touched[group] = state
        if count >= limit or (until is not None and until(read)):
            windows.complete(group, state, read, now)
            end, ends = 0, bound_of(windows, LATEST)


def _opened(windows: "WindowGroups", group: bytes, record: Record, now: float) -> GroupState | None:
    """A new group of a window that is open. None if there is no room for it."""
    return None if len(group) > LONGEST_KEY or refuses(windows) else windows.open(group, record, now)
