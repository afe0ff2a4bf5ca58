"""Cold panes of hopping windows. A row has all panes of a key. Its deadline is the watermark that closes the next
window of the key, and its alarm is for the oldest pane."""

from collections.abc import Sequence
from typing import Any

from sluicegate.streams.aggregation.durable import alarms
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import COLD_KEY
from sluicegate.streams.windows.cold.closes import ColdByClose
from sluicegate.streams.windows.cold.starts import MOST_STARTS
from sluicegate.streams.windows.tumbling import key_of, name, start_of


class ColdPanes(ColdByClose):
    """As ColdKeys. A group is a pane, and `starts` are those of panes."""

    __slots__ = ()
    groups: Any  # HoppingGroups

    def may_evict(self, name: bytes) -> bool:
        """As in ColdKeys, for all panes of the key. A closed window fires first."""
        key = key_of(name)
        if len(key) > COLD_KEY - alarms.NAMING or self.row_due(name) <= self.groups.event.watermark:
            return False
        new = sum(start not in self.starts for start in self.groups.panes[key])
        return not new or len(self.starts) + new <= MOST_STARTS

    def row_due(self, name: bytes) -> float:
        """As in ColdKeys. Only the oldest pane has the next window of the key."""
        return super().row_due(self.members(name)[0])

    def members(self, name: bytes) -> Sequence[bytes]:
        names: list[bytes] = self.groups.names(key_of(name))
        return names

    def joined(self, states: Sequence[tuple[bytes, GroupState]]) -> GroupState:
        return [[start_of(name), state] for name, state in states]

    def groups_in(self, row: bytes, contents: GroupState) -> Sequence[tuple[bytes, GroupState]]:
        return [(name(start, alarms.key_of(row)), state) for start, state in contents]

    def starts_in(self, row: bytes, contents: GroupState) -> Sequence[int | None]:
        return [start for start, _ in contents]

    def row_key(self, name: bytes) -> bytes:
        return self._row(key_of(name))

    def _row(self, key: bytes) -> bytes:
        return alarms.row_key(0, key)

    def rows_of(self, name: bytes) -> Sequence[bytes]:
        return self.of_key(key_of(name))

    def of_key(self, key: bytes) -> Sequence[bytes]:
        return (self._row(key),)

    def of_record(self, record: Record, key: bytes, read: Any) -> Sequence[bytes]:
        return self.of_key(key)

    def unasked(self, name: bytes) -> bool:
        return self.absent is not None and self.row_key(name) not in self.absent

    def leaving(self, watermark: float) -> int:
        return sum(count for start, count in self.starts.items() if self.groups.pane_closes(start) <= watermark)
