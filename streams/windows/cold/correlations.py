"""Cold correlations by event time. A key has one group, and a row of it."""

from collections.abc import Sequence
from typing import Any

from sluicegate.streams.aggregation.durable import alarms
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.windows.cold.closes import ColdByKey
from sluicegate.streams.windows.tumbling import name


class ColdCorrelations(ColdByKey):
    __slots__ = ()
    groups: Any  # CorrelatedByTime

    def groups_in(self, row: bytes, contents: GroupState) -> Sequence[tuple[bytes, GroupState]]:
        return ((name(0, alarms.key_of(row)), contents),)

    @property
    def ends(self) -> tuple[float, ...]:
        return *super().ends, self.groups.window.size, float(self.groups.since_last)
