"""All steps of a world: those of the owners, and those that nobody takes."""

from collections.abc import Iterator

from tests.model import owner as owners
from tests.model import promises, relay
from tests.model import store as stores
from tests.model.explore import Rules
from tests.model.values import IDLE, READY, STANDS, Budget, Owner, Setup, World

Step = tuple[tuple, World]
UNLIMITED = Budget(claims=1 << 30)


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Every (label, next world)."""
    if world.halted:
        return
    for index, owner in enumerate(world.owners):
        if not index or (world.tokens and owner != world.owners[index - 1]):
            yield from owners.steps(setup, world, index)
    yield from _late_bytes(setup, world)
    if world.limbo:
        yield from relay.arrivals(setup, world)
    if world.budget.faults and setup.owners > 1:
        yield _claimed_by_nobody(setup, world)
    if setup.budget.rewinds:
        yield from _rewinds(setup, world)


def _late_bytes(setup: Setup, world: World) -> Iterator[Step]:
    for at, packet in enumerate(world.wire):
        landed = stores.commit(setup, world.store, packet)
        wire = (*world.wire[:at], *world.wire[at + 1 :])
        label = ("late commit", packet.token, "fenced" if landed is None else "lands")
        yield label, world._replace(store=landed or world.store, wire=wire)


def _claimed_by_nobody(setup: Setup, world: World) -> Step:
    """A claim whose bytes are late or whose reply is lost: nobody knows its token."""
    less = world.budget._replace(faults=world.budget.faults - 1)
    store = stores.claim(setup, world.store, world.tokens + 1, world.store.member)
    return ("claim by nobody", world.tokens + 1, ""), world._replace(store=store, tokens=world.tokens + 1, budget=less)


def _rewinds(setup: Setup, world: World) -> Iterator[Step]:
    """What the store keeps safe, the informational commit in Kafka, and the loss of what was acknowledged."""
    row = world.store
    for owner in world.owners:
        if setup.informs and owner.phase == READY and owner.known > world.informed:
            yield ("inform", owner.token, owner.known), world._replace(informed=owner.known)
    if not world.budget.rewinds:
        return
    if not world.saved:
        yield ("save", 0, row.version), world._replace(saved=(row,))
    elif world.saved[0] != row:
        lost = tuple(fire for fire in row.fires if fire not in world.saved[0].fires)
        less = world.budget._replace(rewinds=world.budget.rewinds - 1)
        yield (
            ("rewind", 0, world.saved[0].version),
            world._replace(store=world.saved[0], saved=(), lost=lost, rewound=True, budget=less),
        )


def calm(setup: Setup, world: World) -> World:
    """The same world when faults stop: one owner is left (the one that holds the claim, if any does), nothing is late.
    The others live and learn that they lost the partition: they take their names out of the crash mark."""
    holders = [owner for owner in world.owners if owner.token == world.store.token and owner.phase != IDLE]
    survivor = holders[0] if holders else max(world.owners, key=lambda owner: owner.phase)
    store = world.store
    for owner in world.owners:
        if (
            owner is not survivor
            and (owner.owes or owner.marked == STANDS)
            and setup.mutant != "claims-counted-as-crashes"
        ):
            store = stores.clear_crash_mark(setup, store, owner.process)
    return world._replace(store=store, owners=(survivor,), budget=UNLIMITED, wire=(), limbo=(), saved=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next; None at its end. An owner with nothing to do is assigned anew while work is left."""
    if world.halted:
        return None
    for step in owners.steps(setup, world, 0):
        return step
    survivor = world.owners[0]
    fence = (world.store.token, world.store.version)
    if survivor.phase == READY and (survivor.token, survivor.version) != fence and not is_done(setup, world):
        return ("assigned anew", survivor.token, ""), world._replace(
            owners=(Owner(survivor.process, known=survivor.known),)
        )
    return None


def is_done(setup: Setup, world: World) -> bool:
    """Everything read, fired and delivered. After a rewind delivered rows may stand in the outbox until the next
    claim."""
    row = world.store
    groups = stores.replay(row)
    counted = sum(len(fire.members) for fire in row.fires) + sum(len(members) for members, _ in groups.values())
    if row.offset < len(setup.records) or counted < row.offset or (setup.expire and groups):
        return False
    taken = {(fire.id, fire.members) for accepted in world.received for fire in accepted}
    delivered = all((fire.id, fire.members) in taken for fire in row.fires)
    return not setup.relay or (delivered and (not row.rows or world.rewound))


RULES = Rules(steps, promises.broken, calm, fair_step, is_done, promises.DELIVERED)
