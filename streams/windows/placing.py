"""Generates the code with which the compiled loop finds the window of a record (streams/aggregation/compiled/loop.py).
The code handles records that end no window and are not late.

`bound` is an event time. A record below it closes no open window and is not too far ahead. While the watermark stays
below `bound`, no record of an open group is late. All other records are processed with every check. They may close
windows, so `bound` is computed again after each of them.
"""

from collections.abc import Callable
from math import floor
from textwrap import indent
from typing import TYPE_CHECKING, Any

from sluicegate.streams.aggregation.compiled.placing import Placing
from sluicegate.streams.aggregation.groups import LONGEST_KEY
from sluicegate.streams.expressions.typed import unproven
from sluicegate.streams.windows.marks import origin_and_time
from sluicegate.streams.windows.times import LATEST, latest, milliseconds
from sluicegate.streams.windows.tumbling import name

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups

_BOUND = "bound = bound_of(groups, furthest)\nlast = None\n"
"""`last` is the time of the record before, if this code processed it. The next record often has the same time."""
_START = f"""
event = groups.event
furthest = latest_of(groups, now)
{_BOUND}
"""
_TIMESTAMP = """
known, time = record.timestamp()
if not known:
    unproven()
"""
_FIELD = "time = time_of(TIME)"
_FIELD_OF_MILLISECONDS = "time = TIME if type(TIME) is int else time_of(TIME)"
_ORIGIN = """
origin, time = origin_and_time(record)
if time > furthest or not event.stays_below(bound, origin, time):
    unproven()
"""
_MOVES = """
if time != last:
    last = time
    if time > event.watermark:
        event.watermark = time
"""
_ORIGIN_MOVES = """
event.reading = origin
event.read(time)
last = time
"""
PASSED = "groups.pass_over(record, now)\n"
_SPAN = """
if time != last and not begin <= time < end:
    prefix, closes, begin, end = span_of(groups, time, bound)
"""
_NAMED = """
key = prefix + key
state = get(key)
if state is None and (len(key) > longest or refuses(groups)):
    unproven()
"""
_NEAR = """
group = near_get(key)
if group is not None:
    key, state = group
else:
    bare = key
    NAMED
    if state is not None:
        near.note(bare, key, state)
"""


def by_start(windows: "WindowGroups") -> Placing:
    """For windows that begin at fixed times and do not share records: the group of a record is a window or a pane."""
    bound = in_time(windows)
    named = _NAMED
    if windows.rule.ending is None:  # else a state gives way to its copy with the record
        named = _NEAR.replace("    NAMED\n", indent(_NAMED, "    "))
    return bound._replace(
        find=bound.find + _SPAN + named,
        start=f"{bound.start}near = groups.near\nnear_get = near.get\nbegin = end = closes = 0",
        again=f"{bound.again}begin = end = 0",
        passed=f"{bound.passed}begin = end = 0",
        opened="bound = min(bound, closes)",
    )


def in_time(windows: "WindowGroups") -> Placing:
    """The common part of all kinds of windows: `find` reads the time. With origins, the watermark stays below `bound`
    in any case; otherwise only if the time is below it."""
    field = _FIELD_OF_MILLISECONDS if windows.window.unit == "ms" else _FIELD
    time = _ORIGIN if windows.merged is not None else field if windows.window.time else _TIMESTAMP
    functions = {"bound_of": bound_of, "latest_of": latest_of, "span_of": span_of, "refuses": refuses, "name": name}
    return Placing(
        find=time,
        opens="groups.open_at(key, record, now, time)",
        start=_START,
        again=_BOUND,
        moves=_MOVES if windows.merged is None else _ORIGIN_MOVES,
        closed="exactly(groups, record, now)\n",
        passed=PASSED + _BOUND,
        time=None if windows.merged is not None else windows.window.time,
        names={**functions, "origin_and_time": origin_and_time, "time_of": _time_of(windows), "longest": LONGEST_KEY},
    )


def _time_of(windows: "WindowGroups") -> Callable[[Any], int]:
    path, unit = windows.window.time or "", windows.window.unit
    return lambda value: milliseconds(value, unit, path)


def latest_of(windows: "WindowGroups", now: float) -> int:
    """The highest event time that is not too far ahead."""
    return floor(min(LATEST, latest(windows.window, max(now, windows.believed))))


def bound_of(windows: "WindowGroups", furthest: int) -> int:
    """The bound of the module's docstring. It is 0 while a closed window waits for its result, because each record may
    be late then, and while a full group accepts no more records."""
    next_end = windows.next_end()
    return 0 if windows.full or next_end <= windows.event.watermark else int(min(furthest + 1, next_end))


def span_of(windows: "WindowGroups", time: int, bound: int) -> tuple[bytes, int, int, int]:
    """The groups of this time: the prefix of their names, the close of their first window, and the interval of times
    for which this is valid. Raises Unproven."""
    kind = windows.tumbling
    start = kind.start(time)
    closes, begin = kind.first_closes(start), max(start, 0)
    end = kind.next(start) if windows.merged is not None else min(kind.next(start), bound)
    if closes <= windows.event.watermark or start in windows.near.cut or not begin <= time < end:
        unproven()
    prefix = name(start, b"")
    windows.near.turn(prefix)
    return prefix, closes, begin, end


def refuses(windows: "WindowGroups") -> bool:
    """Whether a record that opens a group would be refused or would halt the partition."""
    return windows.rule.aggregation.on_full != "fire-oldest" and windows.crowded()
