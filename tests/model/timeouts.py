"""Timeouts: inserted, cancelled and moved by an application, claimed when due, emitted through the outbox and removed.

Two dispatchers share the store. A timeout is (id, due); moved, or inserted again under its name, it is another one.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.model.calls import CALM, REFUSED, Step, Trouble, called, late, less, put
from tests.model.explore import Rules

IDLE, CLAIMED = range(2)

EARLY = "no timeout is sent before its time, by the store's clock"
ONCE = "a timeout becomes one message"
STOPPED = "what was cancelled or moved, and said to be, is not sent"
DELIVERED = "when faults stop, every timeout that stands is sent"


class Armed(NamedTuple):
    """A timeout in the store; `owner` 0: nobody has it."""

    id: int
    due: int
    owner: int = 0


class Store(NamedTuple):
    """`now` is the store's clock; `outbox` the ids of the messages in it. History: `sent`, every message ever written,
    as (id, due); `owed`, every one that was armed and neither cancelled nor moved; whether one was `early`."""

    now: int = 0
    armed: tuple[Armed, ...] = ()
    outbox: tuple = ()
    sent: tuple = ()
    owed: tuple = ()
    early: bool = False


class Dispatcher(NamedTuple):
    """A process; `name` is that of its claim, `batch` what it has, `rest` calls that only a mutant still owes."""

    phase: int = IDLE
    name: int = 0
    batch: tuple = ()
    rest: tuple = ()


class World(NamedTuple):
    """`script`: what the application still asks for; `stopped`: the (id, due) it was told are cancelled or moved."""

    store: Store
    actors: tuple[Dispatcher, ...]
    script: tuple
    trouble: Trouble
    wire: tuple = ()
    owners: int = 0
    stopped: tuple = ()


class Setup(NamedTuple):
    """`script` are calls (what, id, due) of the application, one after the other; `end` is the last time; `sweeps`:
    what was sent is forgotten at any time; `insists`: an insert without an answer is made again, however late (as a
    cancel or a move is always)."""

    name: str
    covers: str
    script: tuple
    trouble: Trouble
    end: int = 2
    sweeps: bool = True
    insists: bool = False
    mutant: str = ""

    def start(self) -> World:
        """Nothing armed."""
        return World(Store(), (Dispatcher(), Dispatcher()), self.script, self.trouble)


def land(setup: Setup, store: Store, packet: tuple) -> tuple[Store, object]:
    """One transaction of the store."""
    what, token, *arguments = packet
    if what == "claim":
        return _claim(setup, store, token, *arguments)
    if what in ("emit", "write", "remove"):
        return _emit(setup, store, token, arguments[0], what)
    return _ask(setup, store, what, *arguments)


def _claim(setup: Setup, store: Store, token: int, over: bool) -> tuple[Store, object]:
    """What is due and nobody's; `over`: leases have run out, and whoever has it may live."""
    taken = [
        timer for timer in store.armed if (timer.due <= store.now or setup.mutant == "due-by-the-dispatchers-clock")
    ]
    free = [record for record in taken if not record.owner or (over and setup.mutant != "claimed-for-ever")]
    armed = tuple(timer._replace(owner=token) if timer in free else timer for timer in store.armed)
    return store._replace(armed=armed), tuple((timer.id, timer.due) for timer in free)


def _emit(setup: Setup, store: Store, token: int, batch: tuple, what: str) -> tuple[Store, object]:
    """Those that the claim still has: their messages and their removal, in one transaction."""
    owned = {(timer.id, timer.due) for timer in store.armed if timer.owner == token}
    if setup.mutant == "emitted-without-its-lease":
        owned = set(batch)
    elif setup.mutant == "moved-and-still-claimed":
        owned = {
            (id, due) for id, due in batch if any(timer.id == id and timer.owner == token for timer in store.armed)
        }
    ours = [row for row in batch if row in owned or what == "write"]
    written = [] if what == "remove" else [timer for timer in ours if _message(setup, token, timer) not in store.outbox]
    gone = set() if what == "write" else {id for id, _ in ours}
    return store._replace(
        armed=tuple(timer for timer in store.armed if timer.id not in gone),
        outbox=(*store.outbox, *(_message(setup, token, timer) for timer in written)),
        sent=(*store.sent, *written),
        early=any(due > store.now for _, due in written),
    ), len(ours) or REFUSED


def _message(setup: Setup, token: int, timer: tuple[int, int]) -> tuple:
    """The id of the message: made of the timeout's and its due time, so that an insert that is repeated counts once."""
    if setup.mutant == "message-id-at-random":
        return (*timer, token)
    return timer[:1] if setup.mutant == "message-id-without-the-due-time" else timer


def _ask(setup: Setup, store: Store, what: str, id: int, due: int) -> tuple[Store, object]:
    """insert: refused when its id is there. cancel and move: the (id, due) that is stopped, or refused when nothing was
    there."""
    there = [timer for timer in store.armed if timer.id == id]
    rest = tuple(timer for timer in store.armed if timer.id != id)
    if what == "insert":
        return (
            (store, REFUSED)
            if there
            else (store._replace(armed=(*rest, Armed(id, due)), owed=(*store.owed, (id, due))), ())
        )
    if not there:
        return store, REFUSED
    moved = what == "move"
    kept = (Armed(id, due, there[0].owner if setup.mutant == "moved-and-still-claimed" else 0),) if moved else ()
    owed = tuple(timer for timer in store.owed if timer != (id, there[0].due))
    return store._replace(armed=(*rest, *kept), owed=(*owed, (id, due)) if moved else owed), (id, there[0].due)


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for index, actor in enumerate(world.actors):
        yield from _work(setup, world, index)
        if world.trouble.crashes and actor.phase == CLAIMED:
            yield ("crash", actor.name, ""), put(world, index, Dispatcher(), trouble=less(world, "crashes"))
    if world.script:
        yield from _application(setup, world)
    if world.store.now < setup.end:
        yield (
            ("time passes", 0, world.store.now + 1),
            world._replace(store=world.store._replace(now=world.store.now + 1)),
        )
    if world.store.outbox and setup.sweeps and world.trouble != CALM:
        yield ("sweep what was sent long ago", 0, ""), world._replace(store=world.store._replace(outbox=()))
    yield from late(partial(land, setup), world)


def _work(setup: Setup, world: World, index: int) -> Iterator[Step]:
    actor, lands = world.actors[index], partial(land, setup)
    if actor.phase == CLAIMED:
        yield from _emission(setup, world, index)
        return
    for over in (False, True):
        token = world.owners + 1
        if not lands(world.store, ("claim", token, over))[1] or (over and not world.trouble.overs):
            continue
        trouble = less(world, "overs") if over else world.trouble

        def heard(batch: tuple, token: int = token) -> Dispatcher:
            return actor._replace(phase=CLAIMED, name=token, batch=batch)

        yield from called(
            lands, world._replace(owners=token, trouble=trouble), index, ("claim", token, over), heard, actor
        )
        break


def _emission(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Until it is answered: whatever it claimed is emitted first."""
    actor = world.actors[index]
    idle = Dispatcher()
    halves = {"removed-before-the-row": ("remove", "write"), "row-before-the-removal": ("write", "remove")}
    first, then = halves.get(setup.mutant, ("emit", ""))
    what = actor.rest[0] if actor.rest else first
    next_one = idle if actor.rest or not then else actor._replace(rest=(then,))
    yield from called(partial(land, setup), world, index, (what, actor.name, actor.batch), lambda _: next_one, actor)


def _application(setup: Setup, world: World) -> Iterator[Step]:
    """The next call of the script; one whose answer is lost is made again, which may then find it done."""
    (what, id, due), rest = world.script[0], world.script[1:]
    store, reply = land(setup, world.store, (what, 0, id, due))
    stopped = world.stopped
    if what != "insert" and reply not in (REFUSED, (id, due)):
        stopped = (*stopped, reply)
    label = (what, "application", (id, due), *([REFUSED] if reply == REFUSED else []))
    if setup.mutant == "cancel-that-looks-first" and what == "cancel" and reply != REFUSED:
        yield (
            (*label, "to be deleted later"),
            world._replace(script=rest, stopped=stopped, wire=(*world.wire, (what, 0, id, due))),
        )
        return
    yield label, world._replace(store=store, script=rest, stopped=stopped)
    if world.trouble.faults and store != world.store:
        again = world.script if setup.insists or what != "insert" else rest
        yield (*label, "reply lost"), world._replace(store=store, script=again, trouble=less(world, "faults"))


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    sent = after.store.sent
    if after.store.early:
        yield EARLY
    if len(set(sent)) < len(sent):
        yield ONCE
    if set(sent[len(before.store.sent) :]) & set(before.stopped):
        yield STOPPED


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one dispatcher is left, with what it has; nothing is late."""
    survivor = max(world.actors, key=lambda actor: actor.phase)
    return world._replace(actors=(survivor,), trouble=CALM, wire=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Every timeout that was neither cancelled nor moved was sent."""
    return not world.store.armed and set(world.store.owed) <= set(world.store.sent)


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
