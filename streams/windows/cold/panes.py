"""Cold panes of hopping windows. A row has all panes of a key. Its deadline is the watermark that closes the next
window of the key, and its alarm is for the oldest pane."""

from collections.abc import Sequence
from typing import Any

from sluicegate.streams.aggregation.durable import alarms
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.windows.cold.closes import ColdByKey
from sluicegate.streams.windows.cold.starts import MOST_STARTS
from sluicegate.streams.windows.tumbling import key_of, name, start_of


class ColdPanes(ColdByKey):
    """As ColdKeys. A group is a pane, and `starts` are those of panes."""

    __slots__ = ()
    groups: Any  # HoppingGroups

    def may_evict(self, name: bytes) -> bool:
        """As in ColdKeys, for all panes of the key."""
        if not super().may_evict(name):
            return False
        new = sum(start not in self.starts for start in self.groups.panes[key_of(name)])
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

    def leaving(self, watermark: float) -> int:
        return sum(count for start, count in self.starts.items() if self.groups.pane_closes(start) <= watermark)
