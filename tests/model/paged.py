"""Cold groups: rows of the store beside the changelog, two owners of one partition.

A commit evicts groups that it did not touch: it writes their rows and takes them out of the log. A record or a deadline
makes a group hot: the next commit has it in the log, and its row stays until the group is evicted again or ends. A
group is the tuple of its records' offsets; the log is what a restore makes of it.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain, combinations
from typing import NamedTuple

from tests.model.calls import CALM, REFUSED, Step, Trouble, called, claiming, late, less, put
from tests.model.explore import Rules

ONCE = "each record is in one result"
STATE = "the group of a key is in the log, else in its row, with every record since its last result"
COUNT = "the log counts the rows of groups that are not hot"
DELIVERED = "when faults stop, every record is in a result"

Groups = tuple[tuple[str, tuple[int, ...]], ...]
"""Groups by key, sorted."""


class Store(NamedTuple):
    """`hot`, `count` and `stale` are what the log says: the hot groups, how many are cold, and whether hot ones may
    have rows."""

    token: int = 0
    version: int = 0
    offset: int = 0
    hot: Groups = ()
    count: int = 0
    stale: bool = False
    rows: Groups = ()
    results: tuple[tuple[int, ...], ...] = ()


class Owner(NamedTuple):
    """`name` is the token of its claim, 0: none. `rowed` are the hot groups that may have a row. Since the last commit:
    `touched` are the keys of groups that changed or ended, `gone` those of rows whose deadline passed, and
    `results`."""

    name: int = 0
    version: int = 0
    offset: int = 0
    hot: Groups = ()
    count: int = 0
    rowed: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    results: tuple[tuple[int, ...], ...] = ()


class World(NamedTuple):
    store: Store
    actors: tuple[Owner, ...]
    trouble: Trouble
    wire: tuple = ()
    tokens: int = 0


class Setup(NamedTuple):
    """The records have these keys; a group of `count` ends, and any group may be due at any time."""

    name: str
    covers: str
    trouble: Trouble
    keys: str = "aaa"
    count: int = 2
    owners: int = 2
    mutant: str = ""

    def start(self) -> World:
        """Nothing read."""
        return World(Store(), (Owner(),) * self.owners, self.trouble)


def land(setup: Setup, store: Store, packet: tuple) -> tuple[Store, object]:
    """A claim takes the partition; a commit is all of it, or refused: fenced."""
    what, token, *arguments = packet
    if what == "claim":
        return store._replace(token=token), ()
    version, offset, hot, count, stale, gone, evicted, results = arguments
    rows = {key: group for key, group in store.rows if key not in gone} | dict(evicted)
    if (token, version) != (store.token, store.version):
        if setup.mutant == "rows-without-comparing":
            return store._replace(rows=_sorted(rows)), REFUSED
        return store, REFUSED
    made = (*store.results, *results)
    return Store(token, version + 1, offset, hot, count, stale, _sorted(rows), made), ()


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for index, owner in enumerate(world.actors):
        if not owner.name:
            yield from _claim(setup, world, index)
            continue
        yield from _take(setup, world, index)
        yield from _commit(setup, world, index, ())
        yield from _due(setup, world, index)
        idle = [window for window in owner.hot if window[0] not in owner.touched]
        for evicted in chain.from_iterable(combinations(idle, many) for many in range(1, len(idle) + 1)):
            yield from _commit(setup, world, index, evicted)
        if world.trouble.crashes:
            yield ("crash", owner.name, ""), put(world, index, Owner(), trouble=less(world, "crashes"))
    yield from late(partial(land, setup), world)


def _claim(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Claim and restore the log. Any hot group may have a row, if the log says so."""
    if (with_token := claiming(world)) is None:
        return
    owner, token, store = world.actors[index], with_token.tokens, world.store
    rowed = tuple(key for key, _ in store.hot) if store.stale else ()
    rowed = () if setup.mutant == "rows-of-hot-groups-not-restored" else rowed
    restored = Owner(token, store.version, store.offset, store.hot, store.count, rowed)
    yield from called(partial(land, setup), with_token, index, ("claim", token), lambda _: restored, owner)


def _take(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The next record. The store is asked for its group, unless that is hot or ended since the last commit."""
    owner = world.actors[index]
    if owner.offset == len(setup.keys):
        return
    key = setup.keys[owner.offset]
    asked = owner.count and setup.mutant != "not-looked-up"
    if asked and key not in dict(owner.hot) and key not in owner.touched:
        owner = _warmed(owner, world.store, key)
    group = (*dict(owner.hot).get(key, ()), owner.offset)
    after = _with(owner, key, group)._replace(offset=owner.offset + 1)
    if len(group) == setup.count:
        after = _ended(after, key)
    yield ("take", owner.name, key), put(world, index, after)


def _due(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Any hot group may be due, and any row that the store has: that of a hot group only goes."""
    owner = world.actors[index]
    for key, _ in owner.hot:
        yield ("expire", owner.name, key), put(world, index, _ended(owner, key))
    for key, group in world.store.rows:
        if key in owner.gone:
            continue
        after = owner._replace(gone=tuple(sorted((*owner.gone, key))))
        hot = key in dict(owner.hot)
        if hot and setup.mutant == "the-row-of-a-hot-group-fires":
            after = after._replace(results=(*owner.results, group))
        elif not hot and key not in owner.touched:
            after = _ended(_warmed(after, world.store, key), key)
        yield ("expire a row", owner.name, key), put(world, index, after)


def _commit(setup: Setup, world: World, index: int, evicted: Groups) -> Iterator[Step]:
    """Fenced or unknown: everything is forgotten."""
    owner = world.actors[index]
    if not (owner.touched or owner.gone or evicted):
        return
    hot = dict(owner.hot)
    ended = [key for key in owner.rowed if key not in hot]
    gone = {*owner.gone, *([] if setup.mutant == "the-row-stays-when-its-group-ends" else ended)}
    rowed = tuple(key for key in owner.rowed if key in hot and key not in gone and key not in dict(evicted))
    rest = tuple(window for window in owner.hot if window not in evicted)
    logged = owner.hot if setup.mutant == "evicted-and-still-in-the-log" else rest
    put_rows = () if setup.mutant == "evicted-without-a-row" else evicted
    count, stale = owner.count + len(evicted), bool(rowed)
    packet = (
        "commit",
        owner.name,
        owner.version,
        owner.offset,
        logged,
        count,
        stale,
        tuple(sorted(gone)),
        put_rows,
        owner.results,
    )
    then = Owner(owner.name, owner.version + 1, owner.offset, rest, count, rowed)
    next_owner = lambda reply: Owner() if reply == REFUSED else then  # noqa: E731
    yield from called(partial(land, setup), world, index, packet, next_owner, Owner())


def _warmed(owner: Owner, store: Store, key: str) -> Owner:
    """The group of the row is hot, if there is one."""
    group = dict(store.rows).get(key)
    if group is None:
        return owner
    rowed = tuple(sorted({*owner.rowed, key}))
    return _with(owner, key, group)._replace(rowed=rowed, count=owner.count - 1)


def _with(owner: Owner, key: str, group: tuple[int, ...]) -> Owner:
    return _touched(owner._replace(hot=_sorted(dict(owner.hot) | {key: group})), key)


def _ended(owner: Owner, key: str) -> Owner:
    """With a result."""
    hot = dict(owner.hot)
    group = hot.pop(key, ())
    results = (*owner.results, group) if group else owner.results
    return _touched(owner._replace(hot=_sorted(hot), results=results), key)


def _touched(owner: Owner, key: str) -> Owner:
    return owner._replace(touched=tuple(sorted({*owner.touched, key})))


def _sorted(groups: dict[str, tuple[int, ...]]) -> Groups:
    return tuple(sorted(groups.items()))


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    store = after.store
    done = [offset for result in store.results for offset in result]
    if len(set(done)) < len(done):
        yield ONCE
    known = dict(store.rows) | dict(store.hot)
    for key in sorted(set(setup.keys)):
        wanted = [at for at in range(store.offset) if setup.keys[at] == key and at not in done]
        if list(known.get(key, ())) != wanted:
            yield STATE
    if store.count != len(dict(store.rows).keys() - dict(store.hot).keys()):
        yield COUNT


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one owner is left, the one that has the partition if any does; nothing is late."""
    owned = (owner for owner in world.actors if owner.name and owner.name == world.store.token)
    return world._replace(actors=(next(owned, Owner()),), trouble=CALM, wire=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Every record is in a result, and the store has no row left."""
    done = {offset for result in world.store.results for offset in result}
    return done == set(range(len(setup.keys))) and not world.store.rows


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
