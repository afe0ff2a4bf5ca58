"""Crash marks: a record that repeatedly ends its process becomes a dead letter (docs/protocol.md, Crash marks).

Before it processes the first batch after a claim, the process writes its name and the offset into the crash mark of the
claim row. The first commit that moves the offset clears the mark. A process that loses the partition,
stops, or ends by an exception clears its own name. So a remaining name belongs to a process that died. The suffix of
the name tells the size of its steps.

If a process died in a whole batch, the next owner works in steps of STEP records. If it died in such a step, the next
owner works record by record. Each step writes its own mark, which keeps the names of the dead processes. A record is
the cause if its mark names DEATHS processes and the last of them had only this record in hand. Rebalances, fences,
restarts and kills of idle processes never count.

An unexpected error of the engine counts like a death, but the process lives: the partition is claimed again under
another name of the process, and its other partitions continue. An error while a group ends counts for the group, and
leaves no mark (streams/aggregation/group_faults.py).
"""

from itertools import takewhile

from sluicegate.streams.aggregation.group_faults import DEATHS, GroupFaults
from sluicegate.streams.contracts.values import UNFETCHABLE, CrashMark
from sluicegate.streams.errors import EngineFault, GroupFault
from sluicegate.streams.handlers.attempts import Bounds, Suspicion, begins

STEP = 100
BATCH, STEPS, SINGLE = "", "+", "!"  # suffixes of a process name: the size of its steps
REACH = 20_500  # offsets that a crashed batch may have covered: its commit bound and the records in hand


class CrashMarks:
    """The crash mark of one partition under one claim. `process` is a random name of this process. `faults` is the
    number of errors of the engine at records of this partition in this process, and `fault` is the last one. After each
    error the process gets another name. `group_faults` counts the errors while groups ended. `before` is the mark of
    this process under its previous claim."""

    __slots__ = (
        "_before",
        "_careful_to",
        "_process",
        "_step",
        "begun",
        "fault",
        "faults",
        "group_faults",
        "poisoned",
        "set",
        "suspected",
        "unfetchable",
    )

    def __init__(self, process: str, before: "CrashMarks | None" = None) -> None:
        self.faults: int = before.faults if before else 0
        self.fault: str = before.fault if before else ""
        self.group_faults: GroupFaults = before.group_faults if before else GroupFaults()
        self._process = f"{process}.{self.faults}" if self.faults else process
        self._before: tuple[str, ...] = ()
        self._step = 0
        self._careful_to = -1
        self.begun = False  # the mark was written and the first record was taken
        self.set = False  # the mark may contain our name
        self.poisoned = False  # the record at the offset of the claim is the cause
        self.unfetchable = False  # the batch at the offset of the claim could not be fetched
        self.suspected = False  # the previous owner probably died at its first fetch

    def restore(self, trying: CrashMark | None, offset: int) -> None:
        """Restore the state from the mark in the claimed row. A mark at another offset is obsolete."""
        if trying is None or trying.offset != offset:
            return
        names = [name for name in trying.processes if name != UNFETCHABLE]
        self.unfetchable = len(names) < len(trying.processes)
        suspects = tuple(name for name in names if name.rstrip(STEPS + SINGLE) != self._process)
        alone = sum(1 for _ in takewhile(lambda name: name.endswith(SINGLE), reversed(suspects)))
        if begins(Suspicion(len(suspects) - alone, alone), Bounds(DEATHS, proven=True)) == "never":
            self.poisoned = True
        elif any(name.endswith((STEPS, SINGLE)) for name in suspects):
            self._before, self._step, self._careful_to = suspects, 1, offset + STEP
        elif suspects:
            self._before, self._step, self._careful_to = suspects, STEP, offset + REACH

    def step(self, offset: int) -> int:
        """The number of records that a commit may take; 0: no bound."""
        return self._step if offset < self._careful_to else 0

    def opening(self, offset: int) -> CrashMark:
        """The mark to write before the first batch, and before each careful step."""
        self.set = True
        return CrashMark(offset, (*self._before, self._process + {0: BATCH, STEP: STEPS, 1: SINGLE}[self.step(offset)]))

    def halting(self, offset: int) -> CrashMark:
        """The mark of a partition that halts because the batch at `offset` cannot be fetched."""
        return CrashMark(offset, (*self._before, UNFETCHABLE))

    def clear(self) -> None:
        """Note that a commit moved the offset and removed the mark."""
        self.set = False

    def failed(self, error: EngineFault) -> None:
        """Count an error of the engine, for its group or for the records in hand. For records in hand our name stays in
        the mark, as if the process had died."""
        if isinstance(error, GroupFault):
            self.group_faults.note(error)
        else:
            self.set = False
            self.faults, self.fault = self.faults + 1, str(error)

    @property
    def cause(self) -> str:
        """The error text of the dead letter for a record that ended the process or failed in the engine."""
        if self.fault:
            return f"the engine failed three times at this record; please report it: {self.fault}"
        return "the process ended three times while it worked on this record"

    def names(self) -> tuple[str, ...]:
        """The names to remove from the mark when this process releases the partition without a crash."""
        return tuple(self._process + end for end in (BATCH, STEPS, SINGLE)) if self.set else ()
