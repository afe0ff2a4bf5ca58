"""Silence: a leg's partition, its owner's connection, and a correlation that would call the leg absent.

An order came at tick 0, and its group ends after tick LAST. The orders go on, so only the payments' partition holds the
watermark back. One payment may be written at any tick. It is in time up to LAST. The owner of the partition asks a
broker for its end; the connection may swallow question and answer without an error, and another owner may claim.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.explore import Rules

LAST, IDLE, NEVER = 1, 1, -1  # ticks
RECORD, SILENT, BEHIND = "record", "idle", "behind"

PRESENT = "no leg is absent whose record was written in time"
FIRST = "after a claim nothing is sent that says idle of the time before it"
ENDS = "when faults stop, the group ends"

Label = tuple
Step = tuple[Label, "World"]


class Row(NamedTuple):
    """A row of the outbox, with the claim that wrote it. A mark has the time of which it speaks."""

    claim: int
    kind: str
    moment: int = NEVER


class Budget(NamedTuple):
    ticks: int = 3
    cuts: int = 1
    claims: int = 1


class World(NamedTuple):
    """`written` is the tick of the payment. `since`: the owner's last record. `asked`: the tick of the open question,
    `looked`: the broker has answered it. `answer`: the tick of the last answered question. `state`: the state of
    the leg, and of when it is, as the correlation has it."""

    budget: Budget
    now: int = 0
    written: int = NEVER
    read: bool = False
    claim: int = 1
    cut: bool = False
    since: int = 0
    asked: int = NEVER
    looked: bool = False
    answer: int = 0
    rows: tuple[Row, ...] = ()
    state: tuple[str, int] = (BEHIND, NEVER)
    paid: bool = False
    absent: bool = False


class Setup(NamedTuple):
    name: str
    covers: str
    budget: Budget
    mutant: str = ""

    def start(self) -> World:
        return World(self.budget)


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    if world.paid or world.absent:
        return
    yield from _sends(setup, world)
    yield from _closes(setup, world)
    yield from _owner(setup, world)
    if world.budget.ticks:
        yield ("time passes", 0, ""), world._replace(now=world.now + 1, budget=_less(world, "ticks"))
    if world.written == NEVER:
        yield ("a payment is written", 0, world.now), world._replace(written=world.now)
    if world.budget.cuts and not world.cut:
        yield ("the connection swallows", 0, ""), world._replace(cut=True, budget=_less(world, "cuts"))
    if world.budget.claims:
        behind = (*world.rows, Row(world.claim + 1, BEHIND))
        claimed = world._replace(claim=world.claim + 1, cut=False, asked=NEVER, looked=False, answer=NEVER, rows=behind)
        yield ("another owner claims", 0, ""), claimed._replace(budget=_less(world, "claims"))


def _sends(setup: Setup, world: World) -> Iterator[Step]:
    """The outbox goes to the correlation in its order, under the newest claim."""
    if world.cut or not world.rows:
        return
    row, rest = world.rows[0], world.rows[1:]
    kept = row.claim == world.claim or setup.mutant == "a-predecessor-is-believed"
    answer = (row.kind, row.moment) if row.kind == SILENT and kept else (BEHIND, NEVER)
    after = world._replace(rows=rest, state=answer, paid=world.paid or row.kind == RECORD)
    yield ("send", row, answer[0]), after


def _closes(setup: Setup, world: World) -> Iterator[Step]:
    """The orders have passed the end of the group."""
    state, time = world.state
    passed = time > LAST or setup.mutant == "a-word-counts-for-ever"
    if world.now > LAST and state == SILENT and passed:
        yield ("the group ends", 0, ""), world._replace(absent=True)


def _owner(setup: Setup, world: World) -> Iterator[Step]:
    unread = world.written != NEVER and not world.read
    if not world.cut and unread:
        rows = (*world.rows, Row(world.claim, RECORD))
        yield ("read", 0, ""), world._replace(read=True, since=world.now, asked=NEVER, looked=False, rows=rows)
    if world.asked != NEVER and not world.cut:
        if world.looked:
            answered = world._replace(answer=world.asked, asked=NEVER, looked=False)
            yield ("the answer comes", 0, world.asked), answered
        elif not unread:
            yield ("the broker looks", 0, ""), world._replace(looked=True)
    idle_from = world.since + IDLE
    if world.answer >= idle_from or (setup.mutant == "the-answer-is-old" and world.answer != NEVER):
        time = world.now if setup.mutant == "the-answer-is-old" else world.answer
        if time >= idle_from and Row(world.claim, SILENT, time) not in world.rows and world.state != (SILENT, time):
            rows = (*world.rows, Row(world.claim, SILENT, time))
            yield ("a mark says idle", 0, time), world._replace(rows=rows)
    if world.now >= idle_from and world.asked == NEVER and world.answer < world.now:
        yield ("ask for the end", 0, ""), world._replace(asked=world.now)


def broken(setup: Setup, before: World, label: Label, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    if label[0] == "the group ends" and NEVER < before.written <= LAST:
        yield PRESENT
    if label[0] == "send" and label[2] == SILENT and label[1].claim < before.claim:
        yield FIRST


def calm(setup: Setup, world: World) -> World:
    """Faults stop."""
    return world._replace(budget=Budget(8, 0, 0), cut=False)


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(((label, after) for label, after in steps(setup, world) if label[0] != "a payment is written"), None)


def is_done(setup: Setup, world: World) -> bool:
    return world.paid or world.absent


def _less(world: World, what: str) -> Budget:
    return world.budget._replace(**{what: getattr(world.budget, what) - 1})


RULES = Rules(steps, broken, calm, fair_step, is_done, ENDS)
