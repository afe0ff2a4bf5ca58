"""Protections of the dispatcher's code, taken out one by one: each makes the judge of some seed find what the
protection is for."""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest

from sluicegate.connectors.memory.messages import MemoryLane
from sluicegate.connectors.memory.outbox import MemoryOutbox
from sluicegate.connectors.memory.timeouts import MemoryTimeouts
from sluicegate.streams.outbox import lane_relay
from sluicegate.streams.outbox.lane_lease import LaneLease
from sluicegate.streams.outbox.lane_run import LaneRun
from sluicegate.streams.outbox.sender import Chunk
from tests.simulation.dispatch import world
from tests.simulation.dispatch.plan import Plan, plan
from tests.simulation.plan import Fault
from tests.simulation.taking_out import TakeOut, taken_out

Patch = pytest.MonkeyPatch


class Mutant(NamedTuple):
    """`take_out` names a protection or patches one away; `kind` needs it, `seed` shows it, with `more` faults than its
    own."""

    name: str
    kind: str
    take_out: TakeOut
    seed: int = 0
    more: tuple[Fault, ...] = ()

    @property
    def plan(self) -> Plan:
        chosen = plan(self.seed, self.kind)
        return chosen._replace(faults=tuple(sorted([*chosen.faults, *self.more])))

    def __str__(self) -> str:
        return self.name


def mutated(mutant: Mutant) -> AbstractContextManager[None]:
    return taken_out(mutant.take_out, world)


def failed_forgotten(patch: Patch) -> None:
    """Every report counts as one of success."""
    patch.setattr(Chunk, "refused", lambda self, number, outcome, text: self.delivered([number]))


def marked_as_a_whole(patch: Patch) -> None:
    patch.setattr(LaneRun, "outcomes", lambda self, claim, failed: None)


def passes_what_is_denied(patch: Patch) -> None:
    """What its topic does not take now is tried later, and the rows behind it are sent."""
    patch.setattr(LaneRun, "stop", lambda self: None)


def numbers_anew(patch: Patch) -> None:
    """Each claim numbers what it gives."""
    taken = MemoryLane.taken

    def again(self: Any, limit: int, after: int, now: float, latest: float) -> Any:
        rows, until = taken(self, limit, after, now, latest)
        for row in rows if not after else ():
            self.numbered.pop(row.number, None)
            self.number += 1
            row.number = self.number
            self.numbered[row.number] = row
        return rows, until

    patch.setattr(MemoryLane, "taken", again)


def numbers_of_what_is_left(patch: Patch) -> None:
    taken = MemoryLane.taken

    def lower(self: Any, limit: int, after: int, now: float, latest: float) -> Any:
        self.number = max(self.numbered, default=0)
        return taken(self, limit, after, now, latest)

    patch.setattr(MemoryLane, "taken", lower)


def passes_what_waits(patch: Patch) -> None:
    """A row whose back-off is not over lets others pass."""

    def past(self: Any, limit: int, after: int, now: float, latest: float) -> Any:
        rows = [row for row in self.numbered.values() if row.number > after and (row.next_attempt_at or 0.0) <= now][
            :limit
        ]
        for row in list(self.waiting.values())[: limit - len(rows)]:
            self.number += 1
            row.number = self.number
            self.numbered[row.number] = self.waiting.pop(row.seq)
            rows.append(row)
        return rows, None

    patch.setattr(MemoryLane, "taken", past)


def removed_first(patch: Patch) -> None:
    """The timeouts go, and their messages come with the next call, if there is one."""
    emit, rest = MemoryTimeouts.emit, list[Any]()

    def apart(self: Any, batch: Any) -> int:
        write, self._write = self._write, rest.append
        count = emit(self, batch)
        self._write = write
        while len(rest) > 1:
            write(rest.pop(0))
        return count

    patch.setattr(MemoryTimeouts, "emit", apart)


def due_by_itself(patch: Patch) -> None:
    """Claimed a second ahead."""
    due = MemoryTimeouts._due
    patch.setattr(MemoryTimeouts, "_due", lambda self, now: due(self, now + 1_000_000))


def claimed_for_ever(patch: Patch) -> None:
    claim = MemoryOutbox.claim

    def for_ever(self: Any, lane: int, token: str, *parts: Any) -> Any:
        lanes = self._lanes[lane]
        return None if lanes.token not in ("", token) else claim(self, lane, token, *parts)

    patch.setattr(MemoryOutbox, "claim", for_ever)


DENIED = tuple(Fault(step, "refused", target) for step in range(20, 380, 12) for target in (1, 3, 5))


def handed_over_without_end(patch: Patch) -> None:
    """Rows without order are marked when all of their batch is sent, however long that takes, and the next lease is no
    longer."""
    follow = lane_relay.LaneRelay._follow

    def whole(self: Any, lane: Any, run: Any) -> None:
        if lane.number >= 0 or not run.unsent or self._now < lane.renew_at:
            follow(self, lane, run)

    patch.setattr(lane_relay.LaneRelay, "_follow", whole)
    patch.setattr(LaneLease, "lost", lambda self: None)


MUTANTS = (
    Mutant("sender-named-by-its-process", "lanes", "lane-source"),
    Mutant("marked-before-it-is-sent", "lanes", "mark-last"),
    Mutant("emitted-without-its-lease", "timeouts", "timeout-lease", 8),
    Mutant("waits-for-a-clock-that-was-ahead", "timeouts", "timeout-set-back"),
    Mutant("failed-row-forgotten", "lanes", failed_forgotten, 1),
    Mutant("failed-row-forgotten-without-order", "unordered", failed_forgotten),
    Mutant("marked-as-a-whole", "lanes", marked_as_a_whole),
    Mutant("passes-what-is-denied", "lanes", passes_what_is_denied, 1, DENIED),
    Mutant("numbers-anew-at-each-claim", "lanes", numbers_anew),
    Mutant("numbers-of-what-is-left", "lanes", numbers_of_what_is_left),
    Mutant("passes-what-waits", "lanes", passes_what_waits, more=DENIED),
    Mutant("removed-before-the-message", "timeouts", removed_first),
    Mutant("claimed-before-it-is-due", "timeouts", due_by_itself),
    Mutant("handed-over-without-end", "unordered", handed_over_without_end),
    Mutant("claimed-for-ever", "lanes", claimed_for_ever),
)
