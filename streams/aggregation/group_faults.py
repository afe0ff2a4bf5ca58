"""Unexpected errors of the engine, and the groups that cause them.

An error while a group ends belongs to that group, not to the record that ended it: the next record would end the same
group. After DEATHS errors the group becomes a dead letter, and all other groups continue. The counts outlive a claim.
They end with the process, because such an error does not end the process.
"""

from typing import Any

from sluicegate.streams.aggregation.events import Fire, Unhandled
from sluicegate.streams.causes import short
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.errors import EngineFault, GroupFault

DEATHS = 3
"""The number of errors of the engine at one record or group, or of ends of a process at one record, before it becomes a
dead letter."""


class GroupFaults(dict[GroupNumber, tuple[int, str]]):
    """The number of errors of the engine at each group of one partition, and the last error, by the number of the
    group."""

    def note(self, fault: GroupFault) -> None:
        times, _ = self.get(fault.number, (0, ""))
        self[fault.number] = times + 1, str(fault)

    def gives_up(self, group: Fire) -> bool:
        return self.get(group.number, (0, ""))[0] >= DEATHS

    def letter(self, group: Fire) -> Unhandled:
        """The dead letter of a group that is given up."""
        why = f"the engine failed three times at this group; please report it: {self[group.number][1]}"
        return Unhandled(group, why, DEATHS, "crash", stage="crash")


def fault(error: Exception, event: Any = None) -> EngineFault:
    """Wrap an unexpected error of the engine. The text quotes no record."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    place = f" in {code.co_qualname} ({short(code.co_filename)}:{trace.tb_lineno})" if code and trace else ""
    group = event if isinstance(event, Fire) else getattr(event, "fire", None)
    text = f"{type(error).__name__}{place}"
    return GroupFault(text, group.number) if isinstance(group, Fire) else EngineFault(text)
