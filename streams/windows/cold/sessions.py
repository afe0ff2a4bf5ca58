"""Cold sessions. Event time is divided into intervals as long as the gap. The key of a row has the interval in which
its session ends. The ends of two open sessions of a key are more than a gap apart, so each has its own row."""

from collections.abc import Sequence
from typing import Any

from sluicegate.streams.aggregation.durable import alarms
from sluicegate.streams.aggregation.layout import FIRST, GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import COLD_KEY
from sluicegate.streams.windows.cold.closes import ColdByClose
from sluicegate.streams.windows.tumbling import key_of, name

MOST_ENDS = 16  # intervals in which cold sessions end: a record asks for a row in each


class ColdSessions(ColdByClose):
    __slots__ = ()
    groups: Any  # SessionGroups

    def _interval(self, name: bytes) -> int:
        """The start of the interval in which the session ends."""
        groups = self.groups
        end: int = groups.closes(name, groups.states[name]) - groups.lasts
        return end - end % int(groups.gap)

    def may_evict(self, name: bytes) -> bool:
        """As in ColdKeys. A closed session fires first. A longer grace may open a closed session again beside one that
        it would have joined: both stay in memory. So does a session of late records, which ends soon."""
        groups, key = self.groups, key_of(name)
        if len(key) > COLD_KEY - alarms.NAMING or name in groups.closed:
            return False
        if self.row_due(name) <= groups.event.watermark:
            return False
        start = self._interval(name)
        if start not in self.starts and len(self.starts) >= MOST_ENDS:
            return False
        return [self._interval(other) for other in groups.sessions[key]].count(start) == 1

    def row_key(self, name: bytes) -> bytes:
        return alarms.row_key(self._interval(name), key_of(name))

    def groups_in(self, row: bytes, contents: GroupState) -> Sequence[tuple[bytes, GroupState]]:
        return ((name(contents[FIRST], alarms.key_of(row)), contents),)

    def starts_in(self, row: bytes, contents: GroupState) -> Sequence[int | None]:
        return (alarms.start_of(row),)

    def rows_of(self, name: bytes) -> Sequence[bytes]:
        return self.of_key(key_of(name))

    def of_key(self, key: bytes) -> Sequence[bytes]:
        return [alarms.row_key(start, key) for start in self.starts]

    def of_record(self, record: Record, key: bytes, read: Any) -> Sequence[bytes]:
        return self._rows_at(key, self.groups.event_time(record, read))

    def _rows_at(self, key: bytes, time: int) -> list[bytes]:
        """The keys of the rows of the cold sessions that a record at this time may join."""
        return [alarms.row_key(start, key) for start in self.starts if start > time - 2 * self.groups.gap]

    def unasked(self, name: bytes) -> bool:
        absent = self.absent
        return absent is not None and any(row not in absent for row in self._rows_at(key_of(name), self.groups.at))

    def leaving(self, watermark: float) -> int:
        """As in ColdKeys. Of the interval in which the close of some sessions falls, none counts."""
        last = watermark - self.groups.lasts - self.groups.gap + 1
        return sum(count for start, count in self.starts.items() if start <= last)
