"""Origins and time marks: two input partitions are re-keyed to one internal partition, whose owner keeps one watermark.

A re-keyer writes the rows of its records, and time marks behind them, to its outbox. A commit of a re-keyer sends its
rows at once here, for rows go to the log in order, and each may be sent again. The owner of the internal partition
reads the log row by row, commits, crashes, and goes back to a saved state with its store. A record is late when the
watermark is above its time.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tests.model.explore import Rules

UNKNOWN, BEHIND, IDLE = "unknown", "behind", "idle"
NEVER = -1
FEW = 9  # marks of a calm world

LATE = "a record is late only against its own origin, unless that one had said that it is idle"
HOLDS = "the watermark passes no origin but one whose word that it is idle is fresh"
BACK = "the watermark never goes back"
ALIKE = "what is read again is judged alike"
ENDS = "when faults stop, every record is read and every window closes"

Label = tuple
Step = tuple[Label, "World"]


class Row(NamedTuple):
    """Row `number` of an origin: a record (its `offset`, no `state`), or a mark, written at `moment`."""

    number: int
    offset: int
    time: int
    state: str = ""
    moment: int = 0


class Origin(NamedTuple):
    """An input partition and its re-keyer. `mark` is what its last mark said: state, time and when."""

    written: int = 0
    read: int = 0
    time: int = NEVER
    mark: tuple = (UNKNOWN, NEVER, 0)
    rows: tuple[Row, ...] = ()


class Heard(NamedTuple):
    """What the owner keeps of an origin: the highest number, and what it knows of its time."""

    number: int = 0
    time: int = NEVER
    state: str = UNKNOWN
    moment: int = 0


class Entry(NamedTuple):
    """The state of the internal partition, as its changelog has it. `silent`: a clock has moved the watermark."""

    at: int = 0
    states: tuple[Heard, ...] = (Heard(), Heard())
    watermark: int = NEVER
    silent: bool = False


class Budget(NamedTuple):
    marks: int = 3
    claims: int = 0
    crashes: int = 0
    copies: int = 0
    rewinds: int = 0
    ticks: int = 0


class World(NamedTuple):
    """`log` is the internal partition: pairs of an origin and a row. `judged`: for each place in it, whether the record
    was late, before any silence."""

    origins: tuple[Origin, ...]
    budget: Budget
    log: tuple = ()
    owner: Entry = Entry()
    durable: Entry = Entry()
    saved: Entry | None = None
    now: int = 0
    judged: tuple = ()


class Setup(NamedTuple):
    """`times` are the times of each origin's records, in their order."""

    name: str
    covers: str
    times: tuple[tuple[int, ...], ...]
    budget: Budget
    mutant: str = ""

    def start(self) -> World:
        return World((Origin(), Origin()), self.budget)

    @property
    def end(self) -> int:
        return max(map(max, self.times)) + 1


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first. The owner reads at once: what the origins do meanwhile
    changes nothing about it."""
    yield from _owner(setup, world)
    if world.owner.at < len(world.log) and setup.mutant != "silence-before-the-end":
        return
    for index in range(len(world.origins)):
        yield from _origin(setup, world, index)
    if world.budget.ticks:
        yield ("time passes", 0, ""), world._replace(now=world.now + 1, budget=_less(world, "ticks"))


def _origin(setup: Setup, world: World, index: int) -> Iterator[Step]:
    origin, times = world.origins[index], setup.times[index]
    for many in range(1, origin.written - origin.read + 1):
        yield ("re-key", index, many), _rekeyed(setup, world, index, many)
    if origin.written < len(times):
        yield ("a record is written", index, times[origin.written]), _put(world, index, written=origin.written + 1)
    at_end = origin.read == origin.written
    marks = world.budget.marks
    if marks and at_end and (origin.mark[:2] != (IDLE, origin.time) or origin.mark[2] < world.now):
        yield ("mark", index, IDLE), _marked(world, index, IDLE)
    if marks and (origin.mark[0] == UNKNOWN or origin.mark[1] != origin.time):
        yield ("mark", index, BEHIND), _marked(world, index, BEHIND)
    if world.budget.claims and origin.mark[0] == IDLE:
        claimed = world._replace(budget=_less(world, "claims"))
        yield ("re-keyer claims", index, ""), _marked(claimed, index, BEHIND)
    if world.budget.copies:
        for row in origin.rows:
            copied = world._replace(budget=_less(world, "copies"), log=(*world.log, (index, row)))
            yield ("late copy", index, row), copied


def _marked(world: World, index: int, state: str) -> World:
    """The re-keyer says how far it is, behind all rows that it has written."""
    origin = world.origins[index]
    row = Row(len(origin.rows) + 1, origin.read, origin.time, state, world.now)
    less = world._replace(budget=_less(world, "marks")) if world.budget.marks else world
    return _put(less, index, [row], mark=(state, origin.time, world.now))


def _rekeyed(setup: Setup, world: World, index: int, many: int) -> World:
    """One commit: the rows of so many records."""
    origin, rows = world.origins[index], list[Row]()
    times_read = setup.times[index][origin.read : origin.read + many]
    time = max(origin.time, *times_read)
    if setup.mutant == "mark-before-its-records":
        rows.append(Row(len(origin.rows) + 1, origin.read, time, BEHIND, world.now))
    for offset, item in enumerate(times_read, origin.read):
        rows.append(Row(len(origin.rows) + len(rows) + 1, offset, item))
    return _put(world, index, rows, read=origin.read + many, time=time)


def _owner(setup: Setup, world: World) -> Iterator[Step]:
    owner, rests = world.owner, world.budget.crashes or world.budget.rewinds
    if owner.at < len(world.log):
        label, after = _read(setup, world)
        yield label, after if rests else after._replace(durable=after.owner)
    if _silence(setup, world):
        moved = owner._replace(watermark=setup.end, silent=True)
        yield ("silence", "owner", ""), world._replace(owner=moved)
    if owner != world.durable:
        yield ("commit", "owner", ""), world._replace(durable=owner)
        if world.budget.crashes:
            yield ("crash", "owner", ""), _restored(setup, world, budget=_less(world, "crashes"))
    if world.budget.rewinds:
        if world.saved is None:
            yield ("save", "store", ""), world._replace(saved=world.durable)
        elif world.saved != world.durable:
            back = world._replace(durable=world.saved, budget=_less(world, "rewinds"))
            yield ("rewind", "store", ""), _restored(setup, back)


def _restored(setup: Setup, world: World, **more: Any) -> World:
    entry = world.durable
    if setup.mutant == "origins-not-in-the-entry":
        entry = entry._replace(states=tuple(Heard(state.number) for state in entry.states))
    if setup.mutant == "watermark-not-in-the-entry":
        entry = entry._replace(watermark=NEVER)
    return world._replace(owner=entry, **more)


def _read(setup: Setup, world: World) -> Step:
    """The owner takes the next row of the log."""
    owner = world.owner
    index, row = world.log[owner.at]
    known = owner.states[index]
    if row.number <= known.number and not (row.state and setup.mutant == "repeated-mark-taken"):
        return ("read", "owner", row, "repeat"), world._replace(owner=owner._replace(at=owner.at + 1))
    states = _with(owner.states, index, _told(setup, known, row))
    watermark = max(owner.watermark, _least(setup, states, world.now))
    after = owner._replace(at=owner.at + 1, states=states, watermark=watermark)
    if row.state:
        return ("read", "owner", row), world._replace(owner=after)
    late = row.time < watermark
    judged = world.judged if owner.silent else (*world.judged, (owner.at, late))
    return ("read", "owner", row, *(["late"] if late else [])), world._replace(owner=after, judged=_once(judged))


def _told(setup: Setup, known: Heard, row: Row) -> Heard:
    number, time = max(known.number, row.number), max(known.time, row.time)
    if row.state:
        return Heard(number, time, row.state, row.moment)
    stays = known.state == IDLE and setup.mutant == "idle-origin-stays-idle"
    return known._replace(number=number, time=time, state=IDLE if stays else BEHIND)


def _least(setup: Setup, states: tuple[Heard, ...], now: int) -> int:
    """The watermark that the origins allow: the least time of those that are not idle."""
    newest = now if setup.mutant == "doubted-by-its-own-clock" else max(state.moment for state in states)
    counted = states[:1] if setup.mutant == "watermark-over-one-leg" else states
    if setup.mutant == "unknown-origin-holds-nothing":
        counted = tuple(record for record in counted if record.state != UNKNOWN)
    active = [record.time for record in counted if not _is_idle(setup, record, newest)]
    return min(active, default=NEVER)


def _is_idle(setup: Setup, moment: Heard, newest: int) -> bool:
    """Its word that it is idle counts while it is fresh: a worker that is down repeats nothing."""
    fresh = moment.moment >= newest - 1 or setup.mutant == "idle-is-never-doubted"
    return moment.state == IDLE and fresh


def _silence(setup: Setup, world: World) -> bool:
    """Whether the owner's clock may close what is open."""
    owner = world.owner
    at_end = owner.at == len(world.log) or setup.mutant == "silence-before-the-end"
    idle = all(_is_idle(setup, state, world.now) for state in owner.states)
    return at_end and idle and owner.watermark < setup.end


def broken(setup: Setup, before: World, label: Label, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    old, new = before.owner, after.owner
    if label[0] not in ("crash", "rewind") and new.watermark < old.watermark:
        yield BACK
    if label[0] == "crash" and new.watermark < before.durable.watermark:
        yield BACK
    if new.watermark > old.watermark and label[0] in ("read", "silence"):
        yield from _passed(after, before.now if label[0] == "silence" else None)
    if label[-1] == "late" and not new.silent:
        yield from _late(before)
    places = dict(before.judged)
    if any(places.get(place, late) != late for place, late in after.judged):
        yield ALIKE


def _genuine(log: tuple, index: int) -> list[Row]:
    """The rows of an origin in the log, without repeats."""
    times_read: list[Row] = []
    for origin, row in log:
        if origin == index and (not times_read or row.number > times_read[-1].number):
            times_read.append(row)
    return times_read


def _passed(world: World, now: int | None) -> Iterator[str]:
    """Every origin below the watermark said, freshly, that it is idle. By silence, fresh is asked of the clock."""
    read = world.log[: world.owner.at] if now is None else world.log
    newest = max((row.moment for _, row in read), default=0) if now is None else now
    for index in range(len(world.origins)):
        rows = _genuine(read, index)
        idle = bool(rows) and rows[-1].state == IDLE and rows[-1].moment >= newest - 1
        if world.owner.watermark > max((row.time for row in rows), default=NEVER) and not idle:
            yield HOLDS


def _late(world: World) -> Iterator[str]:
    """The row that is read next is late."""
    index, row = world.log[world.owner.at]
    rows = [item for item in _genuine(world.log[: world.owner.at], index) if item.number < row.number]
    earlier = any(not item.state and item.time > row.time for item in rows)
    idle = any(row.state == IDLE for row in rows)
    if not earlier and not idle:
        yield LATE


def calm(setup: Setup, world: World) -> World:
    """Faults stop."""
    return world._replace(budget=Budget(marks=FEW), judged=(), saved=None)


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next: nothing is marked before it has been read, and the last word is `idle`."""
    for label, after in steps(setup, world):
        behind = label[0] == "mark" and label[2] == BEHIND
        origin = world.origins[label[1]] if label[0] == "mark" else Origin()
        if not behind and not (label[0] == "mark" and origin.written < len(setup.times[label[1]])):
            return label, after
    return None


def is_done(setup: Setup, world: World) -> bool:
    """All is read, and nothing is open."""
    return world.durable.at == len(world.log) and world.durable.watermark == setup.end


def _put(world: World, index: int, rows: Iterable[Row] = (), **changes: Any) -> World:
    """A commit of a re-keyer, whose rows are sent in their order."""
    origin = world.origins[index]
    changed = origin._replace(rows=(*origin.rows, *rows), **changes)
    log = (*world.log, *((index, row) for row in rows))
    return world._replace(origins=_with(world.origins, index, changed), log=log)


def _with(items: tuple, index: int, item: Any) -> tuple:
    return (*items[:index], item, *items[index + 1 :])


def _less(world: World, what: str) -> Budget:
    return world.budget._replace(**{what: getattr(world.budget, what) - 1})


def _once(judged: tuple) -> tuple:
    return tuple(dict.fromkeys(judged))


RULES = Rules(steps, broken, calm, fair_step, is_done, ENDS)
