"""Slow handlers: an item is sealed by the commit that moves the offset past it, its attempt is marked before its
handler is called, and its output is part of a later commit; two owners of one partition, items of one key one after the
other.

An item is the offset of its record; `Setup.keys` gives its key.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.model.calls import CALM, REFUSED, Step, Trouble, called, claiming, late, less, put
from tests.model.explore import Rules

WAITING, RUNNING, DONE = range(3)
DEATHS = 2
"""Processes that end with an item, before it is held to be the cause."""

ONCE = "each item has one output, or one dead letter"
ORDER = "outputs of a key are in the order of its items"
ALONE = "one handler of a key at a time"
INNOCENT = (
    "a dead letter takes that many processes that ended or were overtaken with the item, and no other is "
    "taken for the killer"
)
DELIVERED = "when faults stop, every item has its output or its dead letter"


class Held(NamedTuple):
    """A sealed item, as its owner has it."""

    item: int
    attempts: int = 0
    state: int = WAITING


class Store(NamedTuple):
    """`sealed` has (item, attempts); `outputs` every (item, is it dead) ever committed."""

    token: int = 0
    version: int = 0
    offset: int = 0
    sealed: tuple[tuple[int, int], ...] = ()
    outputs: tuple[tuple[int, bool], ...] = ()


class Owner(NamedTuple):
    """`name` is the token of its claim, 0: none. `suspects` may have ended a process; `cut` are the attempts that the
    loss of the claim cut off, which this process knows for itself: (item, number, did it certainly begin)."""

    name: int = 0
    version: int = 0
    offset: int = 0
    items: tuple[Held, ...] = ()
    suspects: tuple[int, ...] = ()
    cut: tuple[tuple[int, int, bool], ...] = ()


class World(NamedTuple):
    """`deaths`: the attempts (item, number) that whoever claimed next found begun and not its own: their process ended
    or was overtaken."""

    store: Store
    actors: tuple[Owner, ...]
    trouble: Trouble
    wire: tuple = ()
    tokens: int = 0
    deaths: frozenset = frozenset()


class Setup(NamedTuple):
    """`killer` is the item whose handler ends its process, -1: none."""

    name: str
    covers: str
    trouble: Trouble
    keys: str = "aa"
    killer: int = -1
    owners: int = 2
    mutant: str = ""

    def start(self) -> World:
        """Nothing read."""
        return World(Store(), (Owner(),) * self.owners, self.trouble)


def land(setup: Setup, store: Store, packet: tuple) -> tuple[Store, object]:
    """A claim takes the partition; a commit is all of (what, item, attempts), or refused: fenced."""
    what, token, *arguments = packet
    if what == "claim":
        return store._replace(token=token), ()
    version, item, attempts = arguments
    fenced = (token, version) != (store.token, store.version)
    if fenced and setup.mutant != "committed-without-comparing":
        return store, REFUSED
    sealed = dict(store.sealed)
    store = store._replace(version=store.version + 1)
    if what == "seal":
        kept = {} if setup.mutant == "offset-moves-without-the-seal" else {item: 0}
        return store._replace(offset=item + 1, sealed=tuple((sealed | kept).items())), ()
    if what == "begin":
        marked = sealed if setup.mutant == "attempt-not-marked" else sealed | {item: attempts}
        return store._replace(sealed=tuple(sorted(marked.items()))), ()
    sealed.pop(item, None)
    return store._replace(sealed=tuple(sealed.items()), outputs=(*store.outputs, (item, what == "give up"))), ()


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for index, owner in enumerate(world.actors):
        if owner.name:
            yield from _work(setup, world, index)
        else:
            yield from _claim(setup, world, index)
        if world.trouble.crashes and (owner.name or owner.cut):
            yield ("crash", owner.name, ""), put(world, index, Owner(), trouble=less(world, "crashes"))
    yield from late(partial(land, setup), world)


def _claim(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Claim and restore: what is sealed is there again, under the same ids; what began and did not end is suspect, but
    for the calls that this very process cut off."""
    if (with_token := claiming(world)) is None:
        return
    owner, token = world.actors[index], with_token.tokens
    mine = {(item, attempts) for item, attempts, _ in owner.cut}
    cut = {
        (item, attempts)
        for item, attempts, began in owner.cut
        if began or setup.mutant != "an-attempt-without-an-answer-counts"
    }
    cut = set() if setup.mutant == "calls-cut-off-count-as-deaths" else cut
    sealed = () if setup.mutant == "sealed-items-not-restored" else world.store.sealed
    attempts_of = {item: attempts - ((item, attempts) in cut) for item, attempts in sealed}
    item_held = tuple(Held(item, attempts) for item, attempts in attempts_of.items())
    suspects = tuple(
        item for item, attempts in attempts_of.items() if attempts and (item, attempts_of[item] + 1) not in cut
    )
    restored = Owner(token, world.store.version, world.store.offset, item_held, suspects, owner.cut)
    lost = {(item, attempts) for item, attempts in world.store.sealed if attempts} - mine
    with_token = with_token._replace(deaths=world.deaths | lost)
    yield from called(partial(land, setup), with_token, index, ("claim", token), lambda _: restored, owner)


def _work(setup: Setup, world: World, index: int) -> Iterator[Step]:
    owner = world.actors[index]
    for item_held in owner.items:
        if item_held.state == RUNNING:
            if item_held.item == setup.killer:
                yield ("crash in the handler", owner.name, item_held.item), put(world, index, Owner())
            else:
                yield (
                    ("the handler ends", owner.name, item_held.item),
                    put(world, index, _with(owner, item_held._replace(state=DONE))),
                )
    for item_held in owner.items:
        if item_held.state == DONE:
            yield from _commit(setup, world, index, "output", item_held, _without(owner, item_held.item))
    for item_held in _ready(setup, owner):
        if item_held.item in owner.suspects and item_held.attempts >= DEATHS:
            yield from _commit(setup, world, index, "give up", item_held, _without(owner, item_held.item))
            continue
        begun = item_held._replace(attempts=item_held.attempts + 1, state=RUNNING)
        yield from _commit(setup, world, index, "begin", begun, _with(owner, begun))
    if owner.offset < len(setup.keys):
        sealed = owner._replace(offset=owner.offset + 1, items=(*owner.items, Held(owner.offset)))
        yield from _commit(setup, world, index, "seal", Held(owner.offset), sealed)


def _ready(setup: Setup, owner: Owner) -> list[Held]:
    """The first of each key that waits; while there are suspects, one of them, and nothing beside it."""
    heads: dict[str, Held] = {}
    for item_held in owner.items:
        key = str(item_held.item) if setup.mutant == "the-next-of-a-key-begins-too" else setup.keys[item_held.item]
        heads.setdefault(key, item_held)
    ready = [item_held for item_held in heads.values() if item_held.state == WAITING]
    if owner.suspects and setup.mutant != "suspects-run-together":
        busy = any(item_held.state == RUNNING for item_held in owner.items)
        return [] if busy else [item_held for item_held in ready if item_held.item in owner.suspects][:1]
    return ready


def _with(owner: Owner, changed: Held) -> Owner:
    return owner._replace(
        items=tuple(changed if item_held.item == changed.item else item_held for item_held in owner.items)
    )


def _without(owner: Owner, item: int) -> Owner:
    suspects = tuple(other for other in owner.suspects if other != item)
    return owner._replace(
        items=tuple(item_held for item_held in owner.items if item_held.item != item), suspects=suspects
    )


def _commit(setup: Setup, world: World, index: int, what: str, item_held: Held, after: Owner) -> Iterator[Step]:
    """Fenced or unknown: everything is forgotten but which calls were cut off, those among them that may not have
    begun."""
    owner = world.actors[index]
    active = sorted({item for item in (*owner.items, *after.items) if item.state != WAITING})
    before = [item for item in owner.cut if item[0] not in {item_held.item for item_held in active}]
    dropped = Owner(cut=tuple(sorted((*before, *((item.item, item.attempts, item in owner.items) for item in active)))))
    packet = (what, owner.name, owner.version, item_held.item, item_held.attempts)
    then = after._replace(version=owner.version + 1)
    yield from called(
        partial(land, setup), world, index, packet, lambda reply: dropped if reply == REFUSED else then, dropped
    )


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    items = [item for item, _ in after.store.outputs]
    if len(set(items)) < len(items):
        yield ONCE
    for key in set(setup.keys):
        mine = [item for item in items if setup.keys[item] == key]
        if mine != sorted(mine):
            yield ORDER
    for owner in after.actors:
        running = [setup.keys[item_held.item] for item_held in owner.items if item_held.state == RUNNING]
        if len(set(running)) < len(running):
            yield ALONE
    for item, dead in after.store.outputs:
        innocent = setup.killer not in (-1, item) and setup.trouble == Trouble()
        if dead and (innocent or sum(item == other for other, _ in after.deaths) < DEATHS):
            yield INNOCENT


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one owner is left, the one that has the partition if any does; nothing is late. Its killer still
    kills."""
    survivor = next((owner for owner in world.actors if owner.name and owner.name == world.store.token), Owner())
    return world._replace(actors=(survivor,), trouble=CALM, wire=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Everything is read, and nothing waits."""
    return len({item for item, _ in world.store.outputs}) == len(setup.keys)


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
