"""What must hold: each check compares the world before and after a step and names the promise that broke."""

from collections.abc import Iterator
from itertools import pairwise

from tests.model.store import replay
from tests.model.values import CLAIMED, STANDS, Row, Setup, Store, World

AGREEMENT = "state, fires and offset agree: the state is the fold of exactly the records below the offset"
ONCE = "each record counts once"
ONLY_READ = "only records that were read are dealt with"
ONE_CONTENT = "one fire id has one content"
NUMBERS = "outbox numbers grow"
FENCE = "a fenced owner changes nothing"
DURABLE_FIRST = "nothing is published before its commit is durable"
UNSENT = "no unsent row is lost"
RECEIVED_ONCE = "a receiver takes each output once"
ORDER = "order per key at receivers that drop repeats"
DELIVERED = "when faults stop, everything is fired and delivered"
LOUD = "a rewind that somebody can know of is loud"
NO_FALSE_ALARM = "no partition halts without a loss"
CRASHES_ONLY = "a dead letter takes three processes that crashed or have not come back"
REMEMBERED = "a crash is remembered until the offset moves"
CLEARED = "a process that said it lives is not in the crash mark"


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    if after.store is not before.store:
        yield from _store(setup, before, label, after)
    if after.received is not before.received:
        yield from _receivers(setup, after)
    if setup.marks and after.owners is not before.owners:
        yield from _cleared(after)
    if setup.budget.rewinds and label[0] == "claim":
        yield from _loud(before, after)
    if after.halted:
        yield NO_FALSE_ALARM


def _store(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    row = after.store
    counted = [offset for fire in row.fires for offset in fire.members]
    counted += [offset for members, _ in replay(row).values() for offset in members]
    if len(set(counted)) < len(counted):
        yield ONCE
    if sorted(counted) != list(range(row.offset)):
        yield AGREEMENT
    if row.offset > len(setup.records):
        yield ONLY_READ
    if len({fire.id for fire in row.fires}) < len(row.fires):
        yield ONE_CONTENT
    numbers = [fire.number for fire in row.fires]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        yield NUMBERS
    if "commit" in label[0] and row.version != before.store.version and label[1] != before.store.token:
        yield FENCE
    if any(fire not in row.rows and not _was_received(setup, after, fire) for fire in row.fires):
        yield UNSENT
    if len(row.fires) > len(before.store.fires) and row.fires[-1].id < 0:
        yield from _dead_letter(before, row)
    if setup.marks:
        yield from _cleared(after)
        if row.offset == before.store.offset and _dead_names(row) < _dead_names(before.store) and label[0] != "rewind":
            yield REMEMBERED


def _dead_names(row: Store) -> int:
    return sum(name < 0 for name in row.trying[1]) if row.trying else 0


def _was_received(setup: Setup, world: World, fire: Row) -> bool:
    return fire in world.received[setup.partition(fire)]


def _dead_letter(before: World, row: Store) -> Iterator[str]:
    names = before.store.trying[1] if before.store.trying else ()
    silent = {owner.process for owner in before.owners if owner.marked == STANDS or owner.owes}
    if len(names) < 3 or any(name >= 0 and name not in silent for name in names):
        yield CRASHES_ONLY


def _cleared(world: World) -> Iterator[str]:
    if world.rewound:  # to where the mark stood
        return
    names = world.store.trying[1] if world.store.trying else ()
    for owner in world.owners:
        if owner.process in names and owner.marked != STANDS and not owner.owes:
            yield CLEARED


def _receivers(setup: Setup, world: World) -> Iterator[str]:
    known = (*world.store.fires, *world.lost)
    for accepted in world.received:
        if accepted and accepted[-1] not in known:
            yield DURABLE_FIRST
        if not setup.budget.rewinds:
            members = [offset for row in accepted for offset in row.members]
            if len(set(members)) < len(members):
                yield RECEIVED_ONCE
            if not setup.gaps and accepted and not _is_prefix(setup, accepted, world.store.fires):
                yield ORDER


def _is_prefix(setup: Setup, accepted: tuple[Row, ...], fires: tuple[Row, ...]) -> bool:
    """The accepted rows of the last one's key are the first committed ones of that key."""
    key = setup.key(accepted[-1].members[0])
    taken = [row for row in accepted if setup.key(row.members[0]) == key]
    return taken == [row for row in fires if setup.key(row.members[0]) == key][: len(taken)]


def _loud(before: World, after: World) -> Iterator[str]:
    """A claim that succeeds may not find less than Kafka was told, or than the claiming process once knew."""
    claimed = [owner for owner in after.owners if owner.phase == CLAIMED and owner.token == after.store.token]
    once = [before.informed, *(owner.known for owner in before.owners if owner not in after.owners)]
    if claimed and any(known.version > after.store.version or known.number > after.store.number for known in once):
        yield LOUD
