"""One lane of the outbox: rows of applications, numbered and claimed under a lease, sent in order, marked; two
dispatchers, a receiver.

Rows are their ids. Application 1 writes its rows one after the other, all of one key; each of the others has one row. A
dispatcher's token is its name: it claims again under the same one, and whoever starts after a crash has another.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.model import lane_store as stores
from tests.model.calls import CALM, REFUSED, Step, Trouble, called, late, less, put
from tests.model.explore import Rules
from tests.model.lane_store import DEAD, DISPATCHED, PENDING, Given, Store

IDLE, SENDING, MARKING = range(3)
TO_SEND, HANDED = range(2)

ONCE = "a receiver that drops repeats takes each row once"
ORDER = "it takes the rows of a key in the order of their commits, but for dead ones"
UNSENT = "what is marked as sent was sent"
FENCE = "whoever has lost the lane changes nothing"
REFUSALS = "a row dies of as many refusals as are allowed, all of them since it was added or requeued"
DELIVERED = "when faults stop, every row is sent or dead"


class Dispatcher(NamedTuple):
    """`batch` is what it claimed, `queue` (row, how far its sending is), lowest number first; `outcomes` (id, what
    became of it)."""

    name: int
    phase: int = IDLE
    batch: tuple[Given, ...] = ()
    queue: tuple = ()
    outcomes: tuple = ()


class World(NamedTuple):
    """`writing`: rows that are begun, with their place in the sequence; `toadd`: those to come; `limbo`: copies whose
    sender is gone, in their order; `received`: what the receiver accepted, (id, number, sender); `refusals` of each row
    since it was added or requeued."""

    store: Store
    actors: tuple[Dispatcher, ...]
    trouble: Trouble
    toadd: tuple[int, ...]
    writing: tuple[tuple[int, int], ...] = ()
    wire: tuple = ()
    limbo: tuple = ()
    received: tuple = ()
    refusals: tuple = ()
    requeues: int = 0
    names: int = 2


class Setup(NamedTuple):
    """`rows` of application 1 are 1..rows, `beside` one more row of another application. `limit` rows are claimed at a
    time; receivers remember `window` numbers, batches span at most as many; `attempts` refusals are allowed."""

    name: str
    covers: str
    trouble: Trouble
    rows: int = 2
    beside: int = 0
    limit: int = 2
    window: int = 100
    attempts: int = 2
    refusals: int = 0
    requeues: int = 0
    actors: int = 2
    copies: bool = True
    mutant: str = ""

    def start(self) -> World:
        """Nothing written."""
        rows = tuple(range(1, self.rows + self.beside + 1))
        return World(
            Store(), tuple(Dispatcher(n) for n in range(1, self.actors + 1)), self.trouble, rows, requeues=self.requeues
        )


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for index, actor in enumerate(world.actors):
        yield from _work(setup, world, index)
        if world.trouble.crashes and actor.phase != IDLE:
            successor = Dispatcher(world.names + 1)
            after = put(world, index, successor, names=world.names + 1, trouble=less(world, "crashes"))
            yield ("crash", actor.name, ""), _orphaned(setup, after, actor)
    yield from _applications(setup, world)
    yield from _people(setup, world)
    for at, copies in enumerate(world.limbo):
        rest = (*world.limbo[:at], *world.limbo[at + 1 :], *([copies[1:]] if copies[1:] else []))
        yield ("late copy", copies[0].id, ""), _receive(setup, world._replace(limbo=rest), copies[0])
    yield from late(partial(stores.land, setup), world)


def _work(setup: Setup, world: World, index: int) -> Iterator[Step]:
    actor = world.actors[index]
    if actor.phase == IDLE and any(row.state == PENDING for row in world.store.rows):
        yield from _claim(setup, world, index)
    elif actor.phase == SENDING:
        yield from _send(setup, world, index)
    elif actor.phase == MARKING:
        yield from _mark(setup, world, index)


def _claim(setup: Setup, world: World, index: int) -> Iterator[Step]:
    actor = world.actors[index]
    free = world.store.token in (0, actor.name)
    if not free and not world.trouble.overs:
        return
    lands, packet = partial(stores.land, setup), ("claim", actor.name, setup.limit)
    if stores.given(setup, lands(world.store, packet)[0]) == () and world.store.token == actor.name:
        return

    def heard(batch: tuple[Given, ...]) -> Dispatcher:
        if not batch:
            return actor
        queue = tuple((row, TO_SEND) for row in batch)
        if setup.mutant == "marked-before-it-is-sent":
            return actor._replace(
                phase=MARKING, batch=batch, queue=queue, outcomes=tuple((row.id, DISPATCHED) for row in batch)
            )
        return actor._replace(phase=SENDING, batch=batch, queue=queue)

    trouble = world.trouble if free else less(world, "overs")
    yield from called(lands, world._replace(trouble=trouble), index, packet, heard, actor)


def _send(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Reports of what is handed over, then more of it; when nothing is left, the marks."""
    actor = world.actors[index]
    handed = [row for row, state in actor.queue if state == HANDED]
    if handed:
        row = handed[0]
        done = actor._replace(queue=actor.queue[1:], outcomes=(*actor.outcomes, (row.id, DISPATCHED)))
        yield ("delivered", actor.name, row.number), put(_receive(setup, world, row), index, _ended(done))
        yield from _failures(setup, world, index)
    waiting = [at for at, (_, state) in enumerate(actor.queue) if state == TO_SEND]
    if waiting:
        row, rest = actor.queue[waiting[0]][0], actor.queue[waiting[0] + 1 :]
        queue = (*actor.queue[: waiting[0]], (row, HANDED), *rest)
        yield ("hand over", actor.name, row.number), put(world, index, actor._replace(queue=queue))


def _ended(actor: Dispatcher) -> Dispatcher:
    """After a report: marks when nothing is left to send."""
    return actor if actor.queue else actor._replace(phase=MARKING)


def _failures(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """An error: nothing of what is handed over was written, and some of it may be, later; all of it is sent again. A
    refusal: the topic takes none of it, and it is the first row's."""
    actor = world.actors[index]
    copies = tuple(row for row, state in actor.queue if state == HANDED)
    if world.trouble.errors:
        again = tuple((row, TO_SEND) for row, _ in actor.queue)
        if setup.mutant == "goes-on-past-a-failure":
            again = (*actor.queue[1:], (actor.queue[0][0], TO_SEND))
        failed = put(world, index, actor._replace(queue=again), trouble=less(world, "errors"))
        yield ("error", actor.name, copies[0].number), failed
        if setup.copies:
            yield ("error", actor.name, copies[0].number, "bytes late"), failed._replace(limbo=(*world.limbo, copies))
    if len(world.refusals) < setup.refusals:
        outcome = (copies[0].id, "failed")
        refused = actor._replace(phase=MARKING, queue=(), outcomes=(*actor.outcomes, outcome))
        yield (
            ("refused by its topic", actor.name, copies[0].number),
            put(world, index, refused, refusals=(*world.refusals, copies[0].id)),
        )


def _mark(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The same marks until they are answered, or the lane is another's."""
    actor = world.actors[index]
    sent_later = setup.mutant == "marked-before-it-is-sent"
    after = actor._replace(phase=SENDING, outcomes=()) if sent_later and actor.queue else Dispatcher(actor.name)
    packet = ("mark", actor.name, actor.batch, actor.outcomes)
    for label, then in called(partial(stores.land, setup), world, index, packet, lambda _: after, actor):
        yield label, then if label[-1] != REFUSED else _orphaned(setup, then, actor)


def _orphaned(setup: Setup, world: World, actor: Dispatcher) -> World:
    """It is gone or has lost the lane: what it handed over may still arrive, in order."""
    copies = tuple(row for row, state in actor.queue if state == HANDED)
    return world._replace(limbo=(*world.limbo, copies)) if copies and setup.copies else world


def _applications(setup: Setup, world: World) -> Iterator[Step]:
    """Transactions take their place in the sequence when they begin, and are seen when they commit."""
    for at, (id, place) in enumerate(world.writing):
        rest = (*world.writing[:at], *world.writing[at + 1 :])
        store = stores.added(setup, world.store, id, place)
        yield ("commit a row", "application", id), world._replace(store=store, writing=rest)
        if world.trouble.faults:
            place = store.places + 1
            again = world._replace(
                store=store._replace(places=place), trouble=less(world, "faults"), writing=(*rest, (id, place))
            )
            yield ("commit a row", "application", id, "reply lost, written again"), again
    begun = {id for id, _ in world.writing}
    for id in world.toadd:
        alone = id > setup.rows or not any(other <= setup.rows for other in begun)
        if alone and (id > setup.rows or id == min(world.toadd)):
            place, rest = world.store.places + 1, tuple(other for other in world.toadd if other != id)
            writing = tuple(sorted((*world.writing, (id, place))))
            yield (
                ("begin a row", "application", id),
                world._replace(store=world.store._replace(places=place), writing=writing, toadd=rest),
            )


def _people(setup: Setup, world: World) -> Iterator[Step]:
    """Back-offs end; somebody requeues what is dead."""
    if any(row.waits for row in world.store.rows):
        yield ("the back-off is over", 0, ""), world._replace(store=stores.rested(world.store))
    dead = [row.id for row in world.store.rows if row.state == DEAD]
    if dead and world.requeues:
        refusals = tuple(id if id != dead[0] else -id for id in world.refusals)
        store = stores.requeued(setup, world.store, dead[0])
        yield (
            ("requeue", "a person", dead[0]),
            world._replace(store=store, requeues=world.requeues - 1, refusals=refusals),
        )


def _receive(setup: Setup, world: World, row: Given) -> World:
    """Accepted unless its number was certainly seen: numbers are those of the lane, of this store's data."""
    seen = [number for _, number, sender in world.received if sender == row.sender]
    if row.number in seen and max(seen) - row.number < setup.window:
        return world
    return world._replace(received=(*world.received, (row.id, row.number, row.sender)))


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    requeued = {-id for id in after.refusals if id < 0}
    ids = [id for id, _, _ in after.received if id not in requeued]
    if len(set(ids)) < len(ids):
        yield ONCE
    dead = {row.id for row in after.store.rows if row.state == DEAD}  # its place is lost, whoever sends it still
    ordered = [id for id in dict.fromkeys(ids) if id <= setup.rows and id not in dead]
    if ordered != sorted(ordered):
        yield ORDER
    if any(row.state == DISPATCHED and row.id not in [id for id, _, _ in after.received] for row in after.store.rows):
        yield UNSENT
    if "mark" in label[0] and label[1] != before.store.token and after.store.rows != before.store.rows:
        yield FENCE
    if any(row.state == DEAD and after.refusals.count(row.id) < setup.attempts for row in after.store.rows):
        yield REFUSALS


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one dispatcher is left, the one that has the lane if any does; nothing is late."""
    survivor = next((actor for actor in world.actors if actor.name == world.store.token), world.actors[0])
    return world._replace(actors=(survivor,), trouble=CALM, wire=(), limbo=(), requeues=0)


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup._replace(refusals=0), world), None)


def is_done(setup: Setup, world: World) -> bool:
    """All rows are written, and sent or dead."""
    taken = {id for id, _, _ in world.received}
    ended = all(row.state == DEAD or (row.state == DISPATCHED and row.id in taken) for row in world.store.rows)
    return ended and not world.toadd and not world.writing


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
