"""A changed rule: two workers with different files take one partition from each other.

Groups that another rule filled end in bounded commits before the first record. The row names the rule of its groups
until the last of them has ended. A rule is a number: the file of an actor. A group remembers which rule filled it; no
store does that, but a promise is about it.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.model.calls import CALM, REFUSED, Step, Trouble, called, claiming, late, less, put
from tests.model.explore import Rules

ONCE = "each record is in one result or one open group"
LAYOUT = "a group is read, filled and ended by the rule that filled it"
BOUNDED = "a commit ends no more groups of another rule than a slice"
DELIVERED = "when faults stop, every record is read, and no group of another rule is open"

CLAIMED, READY = range(2)


class Group(NamedTuple):
    """`members` are offsets; `filled` is the rule that did it."""

    key: str
    members: tuple[int, ...]
    filled: int


class Result(NamedTuple):
    """A group that ended. `read` is the rule by which its state was read."""

    group: Group
    read: int


class Store(NamedTuple):
    """`rule` is -1 before the first commit."""

    token: int = 0
    version: int = 0
    offset: int = 0
    rule: int = -1
    groups: tuple[Group, ...] = ()
    results: tuple[Result, ...] = ()


class Owner(NamedTuple):
    """`name` is the token of its claim, 0: none. It read the groups by the rule `read`; the row names `rule`. `marked`:
    its crash mark stands."""

    file: int
    name: int = 0
    version: int = 0
    offset: int = 0
    rule: int = -1
    read: int = -1
    groups: tuple[Group, ...] = ()
    marked: bool = False


class World(NamedTuple):
    """The store, two workers, and what may still go wrong."""

    store: Store
    actors: tuple[Owner, ...]
    trouble: Trouble
    wire: tuple = ()
    tokens: int = 0


class Setup(NamedTuple):
    """A group ends at its second record. `most` groups of another rule end in one commit."""

    name: str
    covers: str
    trouble: Trouble
    keys: str = "abca"
    most: int = 1
    mutant: str = ""

    def start(self) -> World:
        """Nothing read; the workers have different files."""
        return World(Store(), (Owner(0), Owner(1)), self.trouble)


class Changes(NamedTuple):
    """A commit as a whole: what the row is after it, and the groups that it ends."""

    offset: int
    rule: int
    groups: tuple[Group, ...]
    results: tuple[Result, ...] = ()


def land(setup: Setup, store: Store, packet: tuple) -> tuple[Store, object]:
    """A claim takes the partition; a commit is all of it, or refused: fenced."""
    what, token, *arguments = packet
    if what == "claim":
        return store._replace(token=token), ()
    version, changes = arguments
    if (token, version) != (store.token, store.version) and setup.mutant != "ended-without-comparing":
        return store, REFUSED
    offset, rule, groups, results = changes
    return Store(store.token, store.version + 1, offset, rule, groups, (*store.results, *results)), ()


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for index, owner in enumerate(world.actors):
        if not owner.name:
            yield from _claim(setup, world, index)
        else:
            yield from _work(setup, world, index)
            if world.trouble.crashes:
                yield ("crash", owner.name, ""), put(world, index, Owner(owner.file), trouble=less(world, "crashes"))
    yield from late(partial(land, setup), world)


def _claim(setup: Setup, world: World, index: int) -> Iterator[Step]:
    if (with_token := claiming(world)) is None:
        return
    owner, token, row = world.actors[index], with_token.tokens, world.store
    read = row.rule if row.rule >= 0 and setup.mutant != "read-by-the-file" else owner.file
    restored = Owner(owner.file, token, row.version, row.offset, row.rule, read, row.groups)
    yield from called(partial(land, setup), with_token, index, ("claim", token), lambda _: restored, Owner(owner.file))


def _work(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The groups of another rule first, then the crash mark, then the records."""
    owner = world.actors[index]
    foreign = bool(owner.groups) and owner.read != owner.file
    waits = setup.mutant == "ended-behind-the-mark" and not owner.marked
    if foreign and not waits:
        yield from _end(setup, world, index)
        if setup.mutant != "reads-on-while-groups-end":
            return
    if owner.offset == len(setup.keys):
        return
    if not owner.marked:
        yield from _commit(setup, world, index, "mark", _changes(owner, owner.file), owner._replace(marked=True))
    else:
        yield from _batch(setup, world, index)


def _changes(owner: Owner, rule: int, **changed: object) -> Changes:
    return Changes(owner.offset, rule, owner.groups)._replace(**changed)  # type: ignore[arg-type]


def _end(setup: Setup, world: World, index: int) -> Iterator[Step]:
    owner = world.actors[index]
    most = len(owner.groups) if setup.mutant == "all-in-one-commit" else setup.most
    ended, rest = owner.groups[:most], owner.groups[most:]
    early = setup.mutant == "named-with-the-first-slice"
    rule = owner.file if early or not rest else owner.rule
    results = tuple(Result(group, owner.read) for group in ended)
    kept = owner.groups if setup.mutant == "ended-and-still-open" and rest else rest
    changes = _changes(owner, rule, groups=kept, results=results)
    if setup.mutant == "forgotten-before-they-fire" and rest:
        changes = changes._replace(results=())
    yield from _commit(setup, world, index, "end groups", changes, owner._replace(groups=rest))


def _batch(setup: Setup, world: World, index: int) -> Iterator[Step]:
    owner = world.actors[index]
    key = setup.keys[owner.offset]
    group = next((group for group in owner.groups if group.key == key), Group(key, (), owner.file))
    filled = group.filled if group.filled == owner.file else -1  # by two rules: by none
    group = group._replace(members=(*group.members, owner.offset), filled=filled)
    others = tuple(group for group in owner.groups if group.key != key)
    done = len(group.members) == 2
    groups = others if done else tuple(sorted((*others, group)))
    results = (Result(group, owner.file),) if done else ()
    after = owner._replace(offset=owner.offset + 1, groups=groups, read=owner.file)
    changes = Changes(owner.offset + 1, owner.file, groups, results)
    yield from _commit(setup, world, index, "batch", changes, after)


def _commit(setup: Setup, world: World, index: int, what: str, changes: Changes, after: Owner) -> Iterator[Step]:
    """Fenced or unknown: everything is forgotten."""
    owner = world.actors[index]
    read = owner.file if not after.groups else after.read
    then = after._replace(version=owner.version + 1, rule=changes.rule, read=read)
    packet = (what, owner.name, owner.version, changes)
    dropped = Owner(owner.file)
    yield from called(
        partial(land, setup), world, index, packet, lambda reply: dropped if reply == REFUSED else then, dropped
    )


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    store = after.store
    if store == before.store:
        return
    groups = [*store.groups, *(result.group for result in store.results)]
    if sorted(member for group in groups for member in group.members) != list(range(store.offset)):
        yield ONCE
    mixed = any(group.filled != store.rule for group in store.groups)
    if mixed or any(result.group.filled != result.read for result in store.results):
        yield LAYOUT
    if store.offset == before.store.offset and len(before.store.groups) - len(store.groups) > setup.most:
        yield BOUNDED


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one worker is left, the one that has the partition if any does, else that of the newer file."""
    survivor = next((owner for owner in world.actors if owner.name and owner.name == world.store.token), Owner(1))
    return world._replace(actors=(survivor,), trouble=CALM, wire=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Everything is read, and what is open is its file's."""
    [owner] = world.actors
    return world.store.offset == len(setup.keys) and all(group.filled == owner.file for group in world.store.groups)


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
