"""Errors that the engine raises and does not expect, and the groups that cause them.

An error while one group ends is an error of that group, and not of the record that ended it: the next record would end
the same group. It counts. When the engine failed DEATHS times at a group, the group becomes a dead letter, and all
others go on. The counts outlive a claim, and end with the process: such an error does not end it.
"""

from typing import Any

from sluicegate.streams.aggregation.events import Fire, Unhandled
from sluicegate.streams.causes import short
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.errors import EngineFault, GroupFault

DEATHS = 3
"""How often the engine fails at a record or a group, or a record ends its process, before it becomes a dead letter."""


class GroupFaults(dict[GroupNumber, tuple[int, str]]):
    """How often the engine failed at the groups of one partition, and its last error, by the number of the group."""

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
    """The error as one of the engine. Its text quotes no record."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    place = f" in {code.co_qualname} ({short(code.co_filename)}:{trace.tb_lineno})" if code and trace else ""
    group = event if isinstance(event, Fire) else getattr(event, "fire", None)
    text = f"{type(error).__name__}{place}"
    return GroupFault(text, group.number) if isinstance(group, Fire) else EngineFault(text)
