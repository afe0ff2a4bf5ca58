"""A record that ends its process again and again becomes a dead letter (docs/protocol.md, Crash marks).

With records in hand, before the first batch after a claim, the process writes its name and the offset into the crash
mark of the claim row. The first commit that moves the offset clears the mark. A process that loses the partition,
stops, or ends by an exception clears its own name. So a name that remains belongs to a process that died, and says how
large its steps were.

After a death in a whole batch the next owner works in steps of STEP records, after a death in such a step record by
record. Each step writes its own mark, which keeps the names of the dead processes. A record whose mark names DEATHS
processes, the last of which had only this record in hand, is the cause. Rebalances, fences, restarts and kills of idle
processes never count.

A process may also die before it has a record: a batch of records that is small in the log may be larger than the
memory when the client unpacks it. So a process that begins to fetch writes its name, too. After such a death the
partition is fetched apart from others, batch by batch, and each commit writes the mark for the next batch. A batch that
ended three processes in a row that fetched it apart halts the partition (Unfetchable).

An error that the engine does not expect counts like a death, without one: the partition is claimed again under another
name of the process, and its other partitions go on. An error while a group ends counts for the group, and leaves no
mark (streams/aggregation/group_faults.py).
"""

from collections.abc import Sequence
from itertools import takewhile

from sluicegate.streams.aggregation.group_faults import DEATHS
from sluicegate.streams.contracts.values import CrashMark
from sluicegate.streams.errors import Unfetchable
from sluicegate.streams.handlers.attempts import Bounds, Suspicion, begins

STEP = 100
BATCH, STEPS, SINGLE = "", "+", "!"  # how the name of a process ends: how it was working when it wrote it
FETCH, APART = "?", "*"  # it had no record yet: it fetched among other partitions, or this one apart
ENDS = (BATCH, STEPS, SINGLE, FETCH, APART)
REACH = 20_500  # offsets that a batch that died may have covered: its commit bound and what was in hand


class CrashMarks:
    """The crash mark of one partition under one claim. `process` is a random name of this process. `faults` is how
    often the engine has failed at this partition in this process: each time, the process gets another name."""

    __slots__ = (
        "_before",
        "_careful_to",
        "_fetches",
        "_found_at",
        "_process",
        "_step",
        "apart_to",
        "fetching",
        "poisoned",
        "set",
    )

    def __init__(self, process: str, faults: int = 0) -> None:
        self._process = f"{process}.{faults}" if faults else process
        self._before: tuple[str, ...] = ()
        self._step = 0
        self._careful_to = -1
        self._fetches: tuple[str, ...] = ()
        self._found_at = -1
        self.apart_to = -1  # up to this offset the partition is fetched apart from others
        self.fetching = False  # the mark stands since before a fetch, and no record of it came yet
        self.set = False  # our name may stand in the mark
        self.poisoned = False  # the record at the offset of the claim is the cause

    def found(self, trying: CrashMark | None, offset: int) -> None:
        """Take the mark that the claim found. A mark at another offset is obsolete. Raises Unfetchable."""
        if trying is None or trying.offset != offset:
            return
        names = [name for name in trying.processes if name.rstrip("".join(ENDS)) != self._process]
        check_fetches(names, offset)
        self._fetches = tuple(name for name in names if name.endswith((FETCH, APART)))
        if self._fetches:
            self._found_at = offset
            self.suspect(offset)
        suspects = tuple(name for name in names if name not in self._fetches)
        if _caused(suspects):
            self.poisoned = True
        elif any(name.endswith((STEPS, SINGLE)) for name in suspects):
            self._before, self._step, self._careful_to = suspects, 1, offset + STEP
        elif suspects:
            self._before, self._step, self._careful_to = suspects, STEP, offset + REACH

    def step(self, offset: int) -> int:
        """How many records a commit may take; 0: no bound."""
        return self._step if offset < self._careful_to else 0

    def suspect(self, offset: int) -> None:
        """The records that come next cannot be unpacked, or ended a process."""
        self.apart_to = max(self.apart_to, offset + REACH)

    @property
    def apart(self) -> bool:
        """Whether the partition is fetched apart from others."""
        return self.apart_to >= 0

    def before_fetch(self, offset: int) -> CrashMark:
        """The mark to write before records at `offset` are fetched."""
        self.set = self.fetching = True
        fetches = [name for name in self._fetches if offset == self._found_at or name.endswith(FETCH)]
        mine = self._process + (APART if self.apart else FETCH)
        return CrashMark(offset, (*(self._before if self.step(offset) else ()), *fetches, mine))

    def after(self, offset: int) -> CrashMark | None:
        """The mark of a commit that moves the offset to this one."""
        return self.before_fetch(offset) if offset < self.apart_to else None

    def fetched(self, offset: int) -> CrashMark | None:
        """The mark when nothing is left to fetch, or the fetch goes on for so long that it ends no process."""
        self.apart_to, self._fetches = -1, ()
        self.clear()
        return CrashMark(offset, self._before) if self.step(offset) else None

    def opening(self, offset: int) -> CrashMark:
        """The mark to write before the first batch, and before each careful step."""
        self.set, self.fetching = True, False
        return CrashMark(offset, (*self._before, self._process + {0: BATCH, STEP: STEPS, 1: SINGLE}[self.step(offset)]))

    def clear(self) -> None:
        """A commit that moved the offset wrote no mark."""
        self.set = self.fetching = False

    def failed(self) -> None:
        """The engine failed at records: our name stays in the mark, as if the process had died."""
        self.set = self.fetching

    def names(self) -> tuple[str, ...]:
        """The names to remove when this process, alive, lets go of the partition."""
        return tuple(self._process + end for end in ENDS) if self.set else ()


def _last(names: Sequence[str], end: str) -> int:
    """How many names at the end of the mark have this end, one after the other."""
    return sum(1 for _ in takewhile(lambda name: name.endswith(end), reversed(names)))


def _caused(names: Sequence[str]) -> bool:
    """Whether one record ended these processes: DEATHS of them, the last of which had only this record in hand."""
    last = _last(names, SINGLE)
    return begins(Suspicion(len(names) - last, last), Bounds(DEATHS, proven=True)) == "never"


def check_fetches(names: Sequence[str], offset: int) -> None:
    """Raises Unfetchable if the records at `offset` ended the processes of a mark that fetched them."""
    apart = _last([name for name in names if name.endswith((FETCH, APART))], APART)
    if apart >= DEATHS:
        raise Unfetchable(
            f"{apart} processes ended while they fetched the records at offset {offset}: unpacked, they may be "
            "larger than the memory; give the worker more, then `sluicegate accept-gap` has it fetch them again, or "
            "with --to OFFSET goes on behind them"
        )
