"""A deployment while two workers take one partition from each other.

The versions of the rule are in the store, and the highest one runs. A partition changes its version in a commit of its
own; groups that cannot go on as they are become an older generation. It ends in slices, or takes the records of its
groups until they end, or has them read again: then the same commit lowers the offset, and only records of the waiting
groups count until the partition reaches the offset of the change again. A version is a number from 0 on. A group
remembers which version's layout its state has; no store does that, but a promise is about it.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.model.calls import CALM, REFUSED, Step, Trouble, called, late, less, put
from tests.model.deploying_row import Result, Row, policy_of, rewindable, sliced, switched, taken
from tests.model.explore import Rules

ONCE = "each record is in one result or one open group, unless a deployment dropped it"
LAYOUT = "a state is read with the layout of its own generation"
BOUNDED = "a commit ends or converts no more groups of an older generation than a slice"
FALLS = "the version of a partition never falls"
RECORDED = "no partition has a version that was not recorded before"
ALONE = "the commit that changes the version takes no record"
BACK = "only the commit that changes the version lowers the offset, to the first record that is read again"
QUIET = "no partition halts, because the store never loses a commit"
TAKEN = "which generation takes a record follows from the committed state and the record alone"
POLICY = "groups that stay behind end as the deployments between the two versions say"
NUMBERS = "two deployments have two numbers"
DELIVERED = "when faults stop, every record is read, and the newest version runs"


class Store(NamedTuple):
    """`deployed` is the newest version that is recorded. `newest`: the highest offset that Kafka may have been told."""

    token: int = 0
    writes: int = 0
    row: Row = Row()
    results: tuple[Result, ...] = ()
    deployed: int = 0
    newest: int = 0


class Owner(NamedTuple):
    """`name` is the token of its claim, 0: none. `known` is the newest version that it knows of. `marked`: its crash
    mark stands."""

    known: int = 0
    name: int = 0
    writes: int = 0
    row: Row = Row()
    marked: bool = False


class World(NamedTuple):
    """The store, two workers, and what may still go wrong. `commands` are those that deploy: the number of versions
    that one has read, -1 before that; and `numbers` those that ended commands were given."""

    store: Store
    actors: tuple[Owner, ...]
    trouble: Trouble
    commands: tuple[int, ...]
    numbers: tuple[int, ...] = ()
    wire: tuple = ()
    tokens: int = 0


class Setup(NamedTuple):
    """`keys` are those of the records under each version, `policies` those of the deployments of versions 1, 2, ...
    `most` groups of an older generation end in one commit. `count` records complete a group."""

    name: str
    covers: str
    trouble: Trouble
    policies: tuple[str, ...] = ("finish",)
    keys: tuple[str, ...] = ("abab", "aabb")
    most: int = 1
    count: int = 2
    mutant: str = ""

    def start(self) -> World:
        """Nothing read; version 0 is recorded."""
        return World(Store(), (Owner(), Owner()), self.trouble, tuple(-1 for _ in self.policies))


def land(setup: Setup, store: Store, packet: tuple) -> tuple[Store, object]:
    """A claim takes the partition; a commit is all of it, or refused: fenced."""
    what, token, *arguments = packet
    if what == "claim":
        return store._replace(token=token), ()
    writes, row, results = arguments
    unfenced = what == "switch" and setup.mutant == "switched-without-comparing"
    if (token, writes) != (store.token, store.writes) and not unfenced:
        return store, REFUSED
    every, newest = (*store.results, *results), max(store.newest, row.offset)
    return store._replace(writes=store.writes + 1, row=row, results=every, newest=newest), ()


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for index, owner in enumerate(world.actors):
        if owner.known < _recorded(setup, world):
            yield ("look", owner.name, ""), put(world, index, Owner(_recorded(setup, world)))
        if not owner.name:
            yield from _claim(setup, world, index)
        else:
            yield from _work(setup, world, index)
            if world.trouble.crashes:
                yield ("crash", owner.name, ""), put(world, index, Owner(owner.known), trouble=less(world, "crashes"))
    yield from _deploy(setup, world)
    yield from late(partial(land, setup), world)


def _recorded(setup: Setup, world: World) -> int:
    ahead = setup.mutant == "runs-before-it-is-recorded" and any(command >= 0 for command in world.commands)
    return world.store.deployed + ahead


def _deploy(setup: Setup, world: World) -> Iterator[Step]:
    """A command reads the versions and the row, and writes one more version unless another one came in between."""
    for index, seen in enumerate(world.commands):
        others, store = (*world.commands[:index], *world.commands[index + 1 :]), world.store
        if seen < 0:
            if setup.policies[store.deployed] == "rewind" and not rewindable(setup, store.row, store.deployed):
                continue  # refused
            commands = tuple(sorted((*others, store.deployed)))
            yield ("read versions", 0, ""), world._replace(commands=commands)
        elif seen == store.deployed or setup.mutant == "deployed-without-comparing":
            numbers, written = (*world.numbers, seen + 1), store._replace(deployed=seen + 1)
            yield ("deploy", 0, seen + 1), world._replace(store=written, commands=others, numbers=numbers)
        else:
            yield ("deploy", 0, "", REFUSED), world._replace(commands=tuple(sorted((*others, -1))))


def _claim(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """A worker that knows only earlier versions than the row's does not take it, and looks for the newest."""
    owner, token, row = world.actors[index], world.tokens + 1, world.store.row
    is_held = any(other.name and other.name == world.store.token for other in world.actors)
    if is_held and not world.trouble.overs:
        return
    if world.store.newest > (row.offset if setup.mutant == "told-more-than-the-row" else row.reached):
        yield ("halt", token, ""), world
        return
    trouble = less(world, "overs") if is_held else world.trouble
    restored = Owner(owner.known, token, world.store.writes, row)
    if row.number > owner.known and setup.mutant != "file-decides":
        restored = Owner(world.store.deployed)
    with_token = world._replace(tokens=token, trouble=trouble)
    packet = ("claim", token)
    yield from called(partial(land, setup), with_token, index, packet, lambda _: restored, Owner(owner.known))


def _work(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The change of the version first, then the slices, then the crash mark, then the records."""
    owner = world.actors[index]
    row = owner.row
    if setup.mutant == "mark-writes-the-version" and not owner.marked:
        yield from _mark(setup, world, index, row._replace(number=owner.known))
    elif row.number != owner.known and not (setup.mutant == "switched-with-records" and row.offset < _end(setup)):
        yield from _switch(setup, world, index)
    elif row.leaving is not None:
        yield from _commit(setup, world, index, "slice", *sliced(setup, row, row.leaving))
    elif row.offset == _end(setup):
        return
    elif not owner.marked:
        yield from _mark(setup, world, index, row)
    else:
        changed = switched(setup, row, owner.known) if row.number != owner.known else row
        after = taken(setup, changed, setup.mutant)
        if after is not None:
            yield from _commit(setup, world, index, "batch", *after)


def _end(setup: Setup) -> int:
    return len(setup.keys[0])


def _mark(setup: Setup, world: World, index: int, row: Row) -> Iterator[Step]:
    yield from _commit(setup, world, index, "mark", row, marked=True)


def _switch(setup: Setup, world: World, index: int) -> Iterator[Step]:
    owner = world.actors[index]
    after = switched(setup, owner.row, owner.known)
    if setup.mutant == "goes-back-in-a-later-commit":
        written = after._replace(offset=owner.row.offset)
        yield from _commit(setup, world, index, "switch", written, goes_on=after)
    else:
        yield from _commit(setup, world, index, "switch", after)


def _commit(
    setup: Setup,
    world: World,
    index: int,
    what: str,
    row: Row,
    results: tuple[Result, ...] = (),
    marked: bool | None = None,
    goes_on: Row | None = None,
) -> Iterator[Step]:
    """Fenced or unknown: everything is forgotten but the versions that the worker knows. `goes_on`: the row in memory
    is another one than `row`, which is written."""
    owner = world.actors[index]
    marked = owner.marked if marked is None else marked
    then = owner._replace(writes=owner.writes + 1, row=goes_on or row, marked=marked)
    dropped, packet = Owner(owner.known), (what, owner.name, owner.writes, row, results)
    yield from called(
        partial(land, setup), world, index, packet, lambda reply: dropped if reply == REFUSED else then, dropped
    )


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    if len(set(after.numbers)) < len(after.numbers):
        yield NUMBERS
    if label[0] == "halt":
        yield QUIET
    if after.store != before.store:
        yield from _once(before.store, after.store)
        yield from _of_rows(setup, before.store.row, after.store)


def _once(before: Store, after: Store) -> Iterator[str]:
    generations = _held(after)
    gone, dropped = (
        set(range(after.row.reached)) - set(generations),
        set(range(before.row.reached)) - set(_held(before)),
    )
    ending = {rule.generation for rule in before.row.older if rule.policy == "drop"}
    dropping = {member for group in before.row.groups if group.generation in ending for member in group.holds}
    if len(set(generations)) < len(generations) or not dropped <= gone <= dropped | dropping:
        yield ONCE


def _held(store: Store) -> list[int]:
    """The records in results, and those of open groups that were not read again."""
    groups = [*store.row.groups, *(result.group for result in store.results)]
    return [member for group in groups for member in group.holds]


def _of_rows(setup: Setup, old: Row, store: Store) -> Iterator[str]:
    new = store.row
    if any(result.group.layout != result.read for result in store.results) or _misread(new):
        yield LAYOUT
    if new.number < old.number:
        yield FALLS
    if new.number > store.deployed:
        yield RECORDED
    if new.number != old.number and old.number >= 0 and new.offset > _next(old, new):
        yield ALONE
    if new.offset < old.offset and (new.number == old.number or new.offset != _next(old, new)):
        yield BACK
    if new.offset == old.offset and _left(old, new) > setup.most:
        yield BOUNDED
    if new.offset == old.offset + 1 and new.number == old.number:
        after = taken(setup, old)
        if after is None or new.groups != after[0].groups:
            yield TAKEN
    if new.number != old.number and not _as_deployed(setup, old, new):
        yield POLICY


def _next(old: Row, new: Row) -> int:
    """The next offset after a change of the version."""
    back = {rule.generation for rule in new.older if rule.until >= 0} - {rule.generation for rule in old.older}
    return min((group.members[0] for group in new.groups if group.generation in back), default=old.offset)


def _as_deployed(setup: Setup, old: Row, new: Row) -> bool:
    """Whether the older generations have the policies of the deployments between the two versions."""
    between = setup.policies[max(old.number, 0) : new.number]
    before = {rule.generation: (rule.policy,) for rule in old.older}
    return all(rule.policy == policy_of((*before.get(rule.generation, ()), *between)) for rule in new.older)


def _misread(row: Row) -> bool:
    """Whether a state would be read by another version than the one that wrote it."""
    versions = {rule.generation: rule.version for rule in row.older} | {row.generation: row.number}
    return any(versions.get(group.generation) != group.layout for group in row.groups)


def _left(old: Row, new: Row) -> int:
    """How many groups left their generation."""
    kept = {(group.generation, group.key) for group in new.groups}
    return sum((group.generation, group.key) not in kept for group in old.groups)


def calm(setup: Setup, world: World) -> World:
    """Faults and deployments stop: one worker is left, the one that has the partition if any does."""
    survivor = next((owner for owner in world.actors if owner.name and owner.name == world.store.token), Owner())
    return world._replace(actors=(survivor,), trouble=CALM, wire=(), commands=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Everything is read under the newest version, and what is left of earlier ones may finish."""
    row = world.store.row
    return (row.offset, row.number) == (_end(setup), world.store.deployed) and all(
        rule.policy == "finish" for rule in row.older
    )


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
