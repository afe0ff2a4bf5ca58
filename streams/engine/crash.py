"""Crash poison: a record that ends the process again and again becomes a dead letter instead of a stand-still.

Before the first batch after a claim the process writes its name into the crash mark of the claim row, with the offset. A
commit that gets on clears it; a process that loses the partition, stops, or ends by an exception takes its own name back. So a
name that stays belongs to a process that died in the middle, and it says how large its steps were. After a death in a whole
batch the next one goes on in steps of STEP records, the mark before each; after a death in such a step, record by record;
after a death in one record that record is the cause: three deaths, and rebalances, fences and restarts never count.
"""

from streams.values import Trying

STEP = 100
BATCH, STEPS, SINGLE = "", "+", "!"  # how the name of a process ends: how it was working when it wrote it
REACH = 10_500  # offsets that a batch that died may have covered: its commit bound and what was in hand


class Marks:
    """The crash mark of one partition under one claim. `process` is a random name of this process."""

    __slots__ = ("_careful_to", "_process", "_step", "poisoned", "set")

    def __init__(self, process: str) -> None:
        self._process = process
        self._step = 0
        self._careful_to = -1
        self.set = False  # our name may stand in the mark
        self.poisoned = False  # the record at the offset of the claim is the cause

    def found(self, trying: Trying | None, offset: int) -> None:
        """What the claim found; a mark at another offset is of the past."""
        if trying is None or trying.offset != offset:
            return
        suspects = [name for name in trying.processes if name.rstrip(STEPS + SINGLE) != self._process]
        self.poisoned = any(name.endswith(SINGLE) for name in suspects)
        if any(name.endswith(STEPS) for name in suspects):
            self._step, self._careful_to = 1, offset + STEP
        elif suspects and not self.poisoned:
            self._step, self._careful_to = STEP, offset + REACH

    def step(self, offset: int) -> int:
        """How many records may be taken before a commit; 0: as many as there are."""
        return self._step if offset < self._careful_to else 0

    def opening(self, offset: int, found: Trying | None) -> Trying:
        """The mark to write before the first batch: whoever stood there at this offset, and us."""
        self.set = True
        before = found.processes if found is not None and found.offset == offset else ()
        return Trying(offset, (*before, self._name(offset)))

    def next(self, offset: int) -> Trying | None:
        """The mark that goes with a commit: none in normal work, in careful steps the one for the next step."""
        self.set = self.set and self.step(offset) > 0
        return Trying(offset, (self._name(offset),)) if self.set else None

    def names(self) -> tuple[str, ...]:
        """What to take back when this process lets go of the partition alive."""
        return tuple(self._process + end for end in (BATCH, STEPS, SINGLE)) if self.set else ()

    def _name(self, offset: int) -> str:
        return self._process + {0: BATCH, STEP: STEPS, 1: SINGLE}[self.step(offset)]
