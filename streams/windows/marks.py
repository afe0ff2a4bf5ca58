"""The event-time headers of the rows of a re-keying agent.

A re-keyed record names its origin and its time. An origin is an input partition as one agent reads it. A time mark is a
record without key and value. It reports the progress of its origin.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from sluicegate.streams.aggregation.events import TimeMark
from sluicegate.streams.contracts.headers import AGENT, ORIGIN, STATE, TIME
from sluicegate.streams.contracts.origin import origin
from sluicegate.streams.contracts.record import Header, Headers, Record, headers
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.windows.clock import NEVER

BEHIND = "behind"  # the state of a mark whose partition has unread records
_STAMP = frozenset((AGENT, ORIGIN, TIME, STATE))
_LONGEST = 18  # digits of a number in a header


class Stamp(NamedTuple):
    """`origin` is AGENT/TOPIC/PARTITION. `time` is in milliseconds since 1970 (NEVER: no time was read from the
    origin). A time mark has a `state`, and in `marked_at` the time of its writer's clock in milliseconds. A record has
    neither."""

    origin: str
    time: int
    state: str = ""
    marked_at: int = 0


def of_record(record: Record, time: int) -> list[Header]:
    """The headers of a re-keyed record."""
    return [origin(record), (TIME, b"%d" % time)]


def of_mark(mark: TimeMark, topic: str, partition: int) -> Headers:
    """The headers of a mark of this input partition."""
    return [
        (ORIGIN, f"{topic}/{partition}/{mark.offset}".encode()),
        *([] if mark.time == NEVER else [(TIME, b"%d" % mark.time)]),
        (STATE, f"{mark.state}/{mark.marked_at}".encode()),
    ]


def withdrawn(row: OutboxRow) -> OutboxRow:
    """The row in the form in which the next claim sends it. A mark then has the state `behind`, because records that
    the claim before did not read may wait."""
    if row.value is not None or not any(name == STATE for name, _ in row.headers):
        return row
    ages = {name: (value or b"").partition(b"/")[2] for name, value in row.headers if name == STATE}
    changed = [
        (name, b"%s/%s" % (BEHIND.encode(), ages[name]) if name in ages else value) for name, value in row.headers
    ]
    return replace(row, headers=changed)


def stamp(record: Record) -> Stamp | None:
    """The origin and time in the headers of the record. None: no re-keying agent wrote the record, or its headers have
    no valid time."""
    named = {name: value or b"" for name, value in headers(record) if name in _STAMP}
    try:
        agent, (place, _, _) = named[AGENT].decode(), named[ORIGIN].decode().rpartition("/")
        state, _, written = named.get(STATE, b"/0").decode().partition("/")
        time = int(named[TIME][:_LONGEST]) if TIME in named else NEVER
        return Stamp(f"{agent}/{place}", time, state, int(written[:_LONGEST])) if state or TIME in named else None
    except (KeyError, ValueError):
        return None


def origin_and_time(record: Record) -> tuple[str, int]:
    """The origin and the time of a re-keyed record, as in `stamp`. Raises KeyError, TypeError or ValueError for any
    other record; `stamp` handles those."""
    named: dict[str, Any] = dict(headers(record))
    place, _, offset = named[ORIGIN].rpartition(b"/")
    time = int(named[TIME][:_LONGEST])
    if time < 0 or not offset.isdigit():
        raise ValueError
    return _origin(named[AGENT], place), time


@lru_cache(4_096)
def _origin(agent: bytes, place: bytes) -> str:
    return f"{agent.decode()}/{place.decode()}"


def is_mark(record: Record) -> bool:
    return record.value() is None and any(name == STATE for name, _ in headers(record))


def without_marks(records: Sequence[Record]) -> Sequence[Record]:
    """The records without time marks. Returns the same object if there are no marks."""
    suspicious = None in [record.value() for record in records]
    return [record for record in records if not is_mark(record)] if suspicious else records
