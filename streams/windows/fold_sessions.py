"""The hot loop of sessions, for records of a key that has one open session or none.

Such a record joins the session, or opens one. No record here closes a session: event time stays below `bound`, the next
close of an open session. So no open session is late. All other records take the careful way: those that lie between
two sessions, or begin another one beside an open one, and those that close sessions or are late.
"""

from collections.abc import Sequence
from math import floor
from typing import TYPE_CHECKING, Any

from sluicegate.streams.aggregation.groups import LONGEST_KEY
from sluicegate.streams.aggregation.layout import COUNT, LAST, SEEN, GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.fold import bound_of, complete, refuses, time_function
from sluicegate.streams.windows.times import LATEST, NO_TIMESTAMP
from sluicegate.streams.windows.tumbling import name

if TYPE_CHECKING:
    from sluicegate.streams.windows.sessions import SessionGroups

BEGIN, END = -2, -1
"""The last two slots of a state: the times of the first and the last record, in milliseconds since 1970."""


def fold_sessions(windows: "SessionGroups", records: Sequence[Record], now: float) -> None:
    """As `fold`."""
    rule, event, gap = windows.rule, windows.event, windows.gap
    decode, key_of, largest = rule.decode, rule.key_of, rule.max_record_bytes
    adders, touched, states, open_of = rule.plan.adders, windows.touched, windows.states, windows.sessions.get
    latest, limit, until = floor(min(LATEST, (now + windows.window.max_ahead) * 1000)), rule.completion.most, rule.until
    time_of, bound = time_function(windows), bound_of(windows, latest)
    for record in records:
        state = None
        try:
            read = decode(value := record.value())  # type: ignore[arg-type]
            key: Any = record.key() if key_of is None else key_of(read)
            known, time = record.timestamp() if time_of is None else (1, time_of(read))
            if known != NO_TIMESTAMP and 0 <= time < bound and len(value) <= largest:  # type: ignore[arg-type]
                names = open_of(key)
                if names is None:
                    group = name(record.offset(), key)
                    state, bound = _opened(windows, group, record, now, time, bound)
                elif len(names) == 1:
                    held = states[group := names[0]]
                    state = held if held[BEGIN] - gap <= time <= held[END] + gap else None
        except Exception:  # the careful way finds the reason
            state = None
        if state is None:
            windows.take(record, now)
            bound = bound_of(windows, latest)
            continue
        if time > event.watermark:
            event.watermark = time
        if time > state[END]:
            state[END] = time
        elif time < state[BEGIN]:
            state[BEGIN] = time
        state[COUNT] = count = state[COUNT] + 1
        state[LAST], state[SEEN] = record.offset(), now
        for add in adders:
            add(state, read)
        touched[group] = state
        if count >= limit or (until is not None and until(read)):
            bound = complete(windows, group, state, read, now, bound)


def _opened(
    windows: "SessionGroups", group: bytes, record: Record, now: float, time: int, bound: int
) -> tuple[GroupState | None, int]:
    """A new session, unless it is late or its name too long, and the bound with its close."""
    closes = time + windows.lasts
    if closes <= windows.event.watermark or len(group) > LONGEST_KEY or refuses(windows):
        return None, bound
    windows.event.read(time)
    return windows.open_at(group, record, now, time), min(bound, closes)
