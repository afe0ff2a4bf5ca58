"""A deployment while two workers take one partition from each other.

The versions of the rule are in the store, and the highest one runs. A partition changes its version in a commit of its
own; groups that cannot go on as they are become an older generation, which ends in slices or takes the records of its
groups until they end. A version is a number from 0 on. A group remembers which version's layout its state has; no store
does that, but a promise is about it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from tests.model.calls import CALM, REFUSED, Step, Trouble, called, late, less, put
from tests.model.explore import Rules

ONCE = "each record is in one result or one open group"
LAYOUT = "a state is read with the layout of its own generation"
BOUNDED = "a commit ends or converts no more groups of an older generation than a slice"
FALLS = "the version of a partition never falls"
RECORDED = "no partition has a version that was not recorded before"
ALONE = "the commit that changes the version takes no record"
TAKEN = "which generation takes a record follows from the committed state and the record alone"
POLICY = "groups that stay behind end as the deployments between the two versions say"
NUMBERS = "two deployments have two numbers"
DELIVERED = "when faults stop, every record is read, and the newest version runs"

COUNT = 2  # records of a group


class Group(NamedTuple):
    """`members` are offsets, `layout` is the version by which the state was written."""

    generation: int
    key: str
    members: tuple[int, ...]
    layout: int


class Result(NamedTuple):
    """A group that ended. `read` is the version by which its state was read."""

    group: Group
    read: int


class Older(NamedTuple):
    """A generation that still has groups."""

    generation: int
    version: int
    policy: str


class Row(NamedTuple):
    """What a commit writes. `number` is the version that takes the records, -1 before the first commit."""

    offset: int = 0
    number: int = -1
    generation: int = 0
    older: tuple[Older, ...] = ()
    groups: tuple[Group, ...] = ()


class Store(NamedTuple):
    """`deployed` is the newest version that is recorded."""

    token: int = 0
    writes: int = 0
    row: Row = Row()
    results: tuple[Result, ...] = ()
    deployed: int = 0


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
    `most` groups of an older generation end in one commit."""

    name: str
    covers: str
    trouble: Trouble
    policies: tuple[str, ...] = ("finish",)
    keys: tuple[str, ...] = ("abab", "aabb")
    most: int = 1
    mutant: str = ""

    def start(self) -> World:
        """Nothing read; version 0 is recorded."""
        return World(Store(), (Owner(), Owner()), self.trouble, tuple(-1 for _ in self.policies))


def land(setup: Setup, store: Store, packet: tuple) -> tuple[Store, object]:
    """A claim takes the partition; a commit is all of it, or refused: fenced."""
    what, token, *given = packet
    if what == "claim":
        return store._replace(token=token), ()
    writes, row, results = given
    unfenced = what == "switch" and setup.mutant == "switched-without-comparing"
    if (token, writes) != (store.token, store.writes) and not unfenced:
        return store, REFUSED
    return store._replace(writes=store.writes + 1, row=row, results=(*store.results, *results)), ()


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
    ahead = setup.mutant == "runs-before-it-is-recorded" and any(each >= 0 for each in world.commands)
    return world.store.deployed + ahead


def _deploy(setup: Setup, world: World) -> Iterator[Step]:
    """A command reads the versions, and writes one more unless another one came in between."""
    for index, seen in enumerate(world.commands):
        others, store = (*world.commands[:index], *world.commands[index + 1 :]), world.store
        if seen < 0:
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
    held = any(other.name and other.name == world.store.token for other in world.actors)
    if held and not world.trouble.overs:
        return
    trouble = less(world, "overs") if held else world.trouble
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
        yield from _commit(setup, world, index, "switch", _switched(setup, row, owner.known))
    elif (leaving := next((each for each in row.older if each.policy != "finish"), None)) is not None:
        yield from _slice(setup, world, index, leaving)
    elif row.offset == _end(setup):
        return
    elif not owner.marked:
        yield from _mark(setup, world, index, row)
    else:
        changed = _switched(setup, row, owner.known) if row.number != owner.known else row
        yield from _commit(setup, world, index, "batch", *_taken(setup, changed, setup.mutant))


def _end(setup: Setup) -> int:
    return len(setup.keys[0])


def _mark(setup: Setup, world: World, index: int, row: Row) -> Iterator[Step]:
    yield from _commit(setup, world, index, "mark", row, marked=True)


def policy_of(policies: Sequence[str]) -> str:
    """What becomes of a group that is open before these deployments."""
    ends = [policy for policy in policies if policy == "flush"]
    return ends[0] if ends else "finish" if "finish" in policies else "convert"


def _switched(setup: Setup, row: Row, number: int) -> Row:
    """The row under another version. Groups that are open become an older generation."""
    newest = [group for group in row.groups if group.generation == row.generation]
    if row.number < 0 or not newest:
        return row._replace(number=number)
    between = setup.policies[row.number : number]
    policy = policy_of(between[-1:] if setup.mutant == "policy-of-the-last-deployment" else between)
    if setup.mutant == "generation-kept":
        return row._replace(number=number)
    older = (*row.older, Older(row.generation, row.number, policy))
    if policy == "flush":
        older = tuple(each._replace(policy="flush") for each in older)
    return row._replace(number=number, generation=row.generation + 1, older=older)


def _slice(setup: Setup, world: World, index: int, leaving: Older) -> Iterator[Step]:
    """Some groups of a generation fire, or go on under the newest version."""
    row = world.actors[index].row
    mine = [group for group in row.groups if group.generation == leaving.generation]
    some = mine if setup.mutant == "all-in-one-commit" else mine[: setup.most]
    kept = [group for group in row.groups if group not in some]
    results: tuple[Result, ...] = ()
    if leaving.policy == "flush":
        results = tuple(Result(group, leaving.version) for group in some)
    elif setup.mutant == "converted-by-name-only":
        kept += [group._replace(generation=row.generation) for group in some]
    else:
        kept += [group._replace(generation=row.generation, layout=row.number) for group in some]
    after = row._replace(groups=tuple(sorted(kept)))
    if setup.mutant == "forgotten-before-they-fire" and len(mine) > len(some):
        results = ()
    yield from _commit(setup, world, index, "slice", _without_empty(after), results)


def _without_empty(row: Row) -> Row:
    held = {group.generation for group in row.groups}
    return row._replace(older=tuple(each for each in row.older if each.generation in held))


def _taken(setup: Setup, row: Row, mutant: str = "") -> tuple[Row, tuple[Result, ...]]:
    """The row after its next record, and the result that the record completes."""
    place = [(each.generation, each.version) for each in row.older]
    newest = (row.generation, row.number)
    generation, version = newest
    for number, one in [] if mutant == "newest-first" else place:
        if any((group.generation, group.key) == (number, setup.keys[one][row.offset]) for group in row.groups):
            generation, version = number, one
            break
    key = setup.keys[version][row.offset]
    found = [group for group in row.groups if (group.generation, group.key) == (generation, key)]
    group = found[0] if found else Group(generation, key, (), version)
    layout = version if group.layout == version else -1  # by two layouts: by none
    group = group._replace(members=(*group.members, row.offset), layout=layout)
    others = tuple(each for each in row.groups if each not in found)
    done = len(group.members) == COUNT
    groups = others if done else tuple(sorted((*others, group)))
    older = () if mutant == "older-forgotten" else row.older
    after = row._replace(offset=row.offset + 1, groups=groups, older=older)
    return _without_empty(after), (Result(group, version),) if done else ()


def _commit(
    setup: Setup,
    world: World,
    index: int,
    what: str,
    row: Row,
    results: tuple[Result, ...] = (),
    marked: bool | None = None,
) -> Iterator[Step]:
    """Fenced or unknown: everything is forgotten but the versions that the worker knows."""
    owner = world.actors[index]
    then = owner._replace(writes=owner.writes + 1, row=row, marked=owner.marked if marked is None else marked)
    dropped, packet = Owner(owner.known), (what, owner.name, owner.writes, row, results)
    yield from called(
        partial(land, setup), world, index, packet, lambda reply: dropped if reply == REFUSED else then, dropped
    )


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    if len(set(after.numbers)) < len(after.numbers):
        yield NUMBERS
    old, new = before.store.row, after.store.row
    if after.store == before.store:
        return
    groups = [*new.groups, *(result.group for result in after.store.results)]
    if sorted(member for group in groups for member in group.members) != list(range(new.offset)):
        yield ONCE
    if any(result.group.layout != result.read for result in after.store.results) or _misread(new):
        yield LAYOUT
    if new.number < old.number:
        yield FALLS
    if new.number > after.store.deployed:
        yield RECORDED
    if new.number != old.number and old.number >= 0 and new.offset != old.offset:
        yield ALONE
    if new.offset == old.offset and _left(old, new) > setup.most:
        yield BOUNDED
    if new.offset == old.offset + 1 and new.number == old.number and new.groups != _taken(setup, old)[0].groups:
        yield TAKEN
    if new.generation > old.generation:
        wanted = policy_of(setup.policies[old.number : new.number])
        if any(each.policy != wanted for each in new.older if each.generation == old.generation):
            yield POLICY


def _misread(row: Row) -> bool:
    """Whether a state would be read by another version than the one that wrote it."""
    versions = {each.generation: each.version for each in row.older} | {row.generation: row.number}
    return any(versions.get(group.generation) != group.layout for group in row.groups)


def _left(old: Row, new: Row) -> int:
    """How many groups left their generation."""
    kept = {(group.generation, group.key) for group in new.groups}
    return sum((group.generation, group.key) not in kept for group in old.groups)


def calm(setup: Setup, world: World) -> World:
    """Faults and deployments stop: one worker is left, the one that has the partition if any does."""
    left = next((owner for owner in world.actors if owner.name and owner.name == world.store.token), Owner())
    return world._replace(actors=(left,), trouble=CALM, wire=(), commands=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Everything is read under the newest version, and what is left of earlier ones may finish."""
    row = world.store.row
    return (row.offset, row.number) == (_end(setup), world.store.deployed) and all(
        each.policy == "finish" for each in row.older
    )


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
