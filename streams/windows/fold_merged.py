"""The hot loop of windows over a repartitioned topic.

As fold.py. But the watermark is the least of the times of the origins, so a record's own time does not tell whether it
closes a window. The clock hears of each record, and the windows that the watermark passes are closed here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sluicegate.streams.aggregation.groups import LONGEST_KEY
from sluicegate.streams.aggregation.layout import COUNT, LAST, GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.clock import NEVER
from sluicegate.streams.windows.fold import refuses
from sluicegate.streams.windows.marks import origin_and_time
from sluicegate.streams.windows.tumbling import name

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups


def fold_merged(windows: "WindowGroups", records: Sequence[Record], now: float) -> None:
    """As `fold`, for windows with origins."""
    rule, clock, touched, get = windows.rule, windows.merged, windows.touched, windows.states.get
    decode, key_of, largest, adders = rule.decode, rule.key_of, rule.max_record_bytes, rule.plan.adders
    limit, until, prefix, begin, end, closes = rule.completion.most, rule.until, b"", 0, 0, 0
    assert clock is not None
    ends = _ends(windows)
    for record in records:
        try:
            read = decode(value := record.value())  # type: ignore[arg-type]
            key: Any = record.key() if key_of is None else key_of(read)
            clock.reading, time = origin_and_time(record)
            plain = len(value) <= largest and len(key) <= LONGEST_KEY  # type: ignore[arg-type]
        except Exception:  # the careful way finds the reason
            plain = False
        if not plain:
            windows.take(record, now)
            end, ends = 0, _ends(windows)
            continue
        if clock.read(time) and clock.watermark >= ends:
            windows.close_passed(now)
            end, ends = 0, _ends(windows)
        if not begin <= time < end:
            prefix, closes, begin, end = _span(windows, time, ends)
        state = None
        if begin <= time < end and closes > clock.watermark and (state := get(group := prefix + key)) is None:
            state, ends = _opened(windows, group, record, now), min(ends, closes)
        if state is None:
            windows.count(record, key, time, read, [], now)
            end, ends = 0, _ends(windows)
            continue
        state[COUNT] = count = state[COUNT] + 1
        state[LAST] = record.offset()
        for add in adders:
            add(state, read)
        touched[group] = state
        if count >= limit or (until is not None and until(read)):
            windows.complete(group, state, read, now)
            end, ends = 0, _ends(windows)


def _ends(windows: "WindowGroups") -> float:
    """The watermark at which the next group ends. NEVER if each record must be judged: a closed window waits for its
    result, or a group takes no more records."""
    ends = windows.next_end()
    return NEVER if windows.full or ends <= windows.event.watermark else ends


def _span(windows: "WindowGroups", time: int, ends: float) -> tuple[bytes, int, int, int]:
    """The groups of this time: how their names begin, when their first window closes, and which times take the hot
    loop."""
    kind = windows.tumbling
    start = kind.start(time)
    hot = ends != NEVER and start not in windows.cut
    return name(start, b""), kind.first_closes(start), max(start, 0), start + kind.every if hot else 0


def _opened(windows: "WindowGroups", group: bytes, record: Record, now: float) -> GroupState | None:
    """A new group of a window that is open. None if there is no room for it."""
    return None if len(group) > LONGEST_KEY or refuses(windows) else windows.open(group, record, now)
