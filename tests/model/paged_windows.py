"""Cold groups of windows: rows of the store beside the changelog, two owners of one partition.

A group is a window of a key. The log has the watermark and the number of cold groups of each window; a window that the
watermark passed closes with its hot groups and with its rows, which the owner reads one by one. No later window has a
result before. A record behind the watermark is late. The rest is as in paged.py: a group is the tuple of its records'
offsets; the log is what a restore makes of it.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain, combinations
from typing import NamedTuple

from tests.model.calls import CALM, REFUSED, Step, Trouble, called, claiming, late, less, put
from tests.model.explore import Rules

ONCE = "each record is in one result, or late"
STATE = "the group of a window is in the log, else in its row, with every record that has no result"
COUNT = "the log counts the rows of groups that are not hot, window by window"
ORDER = "results come in the order of their windows"
LATE = "the records behind the watermark are late, and no others"
DELIVERED = "when faults stop, every record is in a result, or late"

Name = tuple[int, str]
"""The start of a window, and a key."""
Groups = tuple[tuple[Name, tuple[int, ...]], ...]
"""Groups by name, sorted."""
Starts = tuple[tuple[int, int], ...]
"""The number of cold groups by the start of their window, sorted."""


class Store(NamedTuple):
    """`watermark`, `hot`, `starts` and `stale` are what the log says; with `stale` hot groups may have rows."""

    token: int = 0
    version: int = 0
    offset: int = 0
    watermark: int = -1
    hot: Groups = ()
    starts: Starts = ()
    stale: bool = False
    rows: Groups = ()
    results: Groups = ()
    late: tuple[int, ...] = ()


class Owner(NamedTuple):
    """`name` is the token of its claim, 0: none. `rowed` are the hot groups that may have a row. Since the last commit:
    `touched` are the names of groups that changed or ended, `results` and `late` what the commit adds."""

    name: int = 0
    version: int = 0
    offset: int = 0
    watermark: int = -1
    hot: Groups = ()
    starts: Starts = ()
    rowed: tuple[Name, ...] = ()
    touched: tuple[Name, ...] = ()
    results: Groups = ()
    late: tuple[int, ...] = ()


class World(NamedTuple):
    store: Store
    actors: tuple[Owner, ...]
    trouble: Trouble
    wire: tuple = ()
    tokens: int = 0


class Setup(NamedTuple):
    """The records have these keys, and are in the windows that begin at these times. A window closes when the watermark
    is after its start."""

    name: str
    covers: str
    trouble: Trouble
    keys: str = "aab"
    windows: tuple[int, ...] = (0, 0, 1)
    owners: int = 2
    mutant: str = ""

    def start(self) -> World:
        """Nothing read."""
        return World(Store(), (Owner(),) * self.owners, self.trouble)


def land(setup: Setup, store: Store, packet: tuple) -> tuple[Store, object]:
    """A claim takes the partition; a commit is all of it, or refused: fenced."""
    what, token, *given = packet
    if what == "claim":
        return store._replace(token=token), ()
    version, offset, watermark, hot, starts, stale, gone, evicted, results, behind = given
    rows = {name: group for name, group in store.rows if name not in gone} | dict(evicted)
    if (token, version) != (store.token, store.version):
        if setup.mutant == "rows-without-comparing":
            return store._replace(rows=_sorted(rows)), REFUSED
        return store, REFUSED
    made, known = (*store.results, *results), (*store.late, *behind)
    return Store(token, version + 1, offset, watermark, hot, starts, stale, _sorted(rows), made, known), ()


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for index, owner in enumerate(world.actors):
        if not owner.name:
            yield from _claim(setup, world, index)
            continue
        yield from _take(setup, world, index)
        yield from _silence(setup, world, index)
        yield from _close(setup, world, index)
        yield from _commit(setup, world, index, ())
        still = [each for each in owner.hot if each[0] not in owner.touched and each[0][0] >= owner.watermark]
        for evicted in chain.from_iterable(combinations(still, many) for many in range(1, len(still) + 1)):
            yield from _commit(setup, world, index, evicted)
        if world.trouble.crashes:
            yield ("crash", owner.name, ""), put(world, index, Owner(), trouble=less(world, "crashes"))
    yield from late(partial(land, setup), world)


def _claim(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Claim and restore the log. Any hot group may have a row, if the log says so."""
    if (with_token := claiming(world)) is None:
        return
    owner, token, store = world.actors[index], with_token.tokens, world.store
    rowed = tuple(name for name, _ in store.hot) if store.stale else ()
    watermark = -1 if setup.mutant == "the-watermark-is-not-restored" else store.watermark
    restored = Owner(token, store.version, store.offset, watermark, store.hot, store.starts, rowed)
    yield from called(partial(land, setup), with_token, index, ("claim", token), lambda _: restored, owner)


def _take(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The next record: late, or of a group that the store is asked for, unless it is hot or none is cold."""
    owner = world.actors[index]
    if owner.offset == len(setup.keys):
        return
    name = setup.windows[owner.offset], setup.keys[owner.offset]
    after = owner._replace(offset=owner.offset + 1, watermark=max(owner.watermark, name[0]))
    if name[0] < owner.watermark:
        after = after._replace(late=(*owner.late, owner.offset))
    else:
        asked = owner.starts and setup.mutant != "not-looked-up"
        if asked and name not in dict(owner.hot) and name not in owner.touched:
            after = _warmed(after, world.store, name)
        after = _with(after, name, (*dict(after.hot).get(name, ()), owner.offset))
    yield ("take", owner.name, name), put(world, index, after)


def _silence(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """No record comes any more: the windows of all groups are over, also those of cold ones."""
    owner = world.actors[index]
    starts = [name[0] for name, _ in owner.hot]
    starts += [] if setup.mutant == "silence-overlooks-cold-windows" else [start for start, _ in owner.starts]
    if owner.offset == len(setup.keys) and max(starts, default=-1) >= owner.watermark:
        yield ("silence", owner.name, ""), put(world, index, owner._replace(watermark=max(starts) + 1))


def _close(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The next hot group of a closed window ends, and the first row of closed windows makes its group hot. A later
    window waits for the cold groups of an earlier one."""
    owner = world.actors[index]
    waiting = [start for start, _ in owner.starts if start < owner.watermark]
    last = min([*waiting, owner.watermark - 1]) if setup.mutant != "later-windows-first" else owner.watermark - 1
    if ending := [name for name, _ in owner.hot if name[0] <= last]:
        yield ("close", owner.name, ending[0]), put(world, index, _ended(owner, ending[0]))
    for name, _ in world.store.rows[:1] if waiting else ():
        if name[0] <= max(waiting) and name not in dict(owner.hot) and name not in owner.touched:
            yield ("close a row", owner.name, name), put(world, index, _warmed(owner, world.store, name))


def _commit(setup: Setup, world: World, index: int, evicted: Groups) -> Iterator[Step]:
    """Fenced or unknown: everything is forgotten."""
    owner = world.actors[index]
    if not (owner.touched or owner.late or evicted):
        return
    hot, moved = dict(owner.hot), dict(evicted)
    gone = tuple(name for name in owner.rowed if name not in hot)
    gone = () if setup.mutant == "the-row-stays-when-its-group-ends" else gone
    rowed = tuple(name for name in owner.rowed if name in hot and name not in moved)
    left = tuple(each for each in owner.hot if each not in evicted)
    starts = _starts(Counter(dict(owner.starts)) + Counter(start for start, _ in moved))
    told = owner.starts if setup.mutant == "evicted-windows-not-in-the-log" else starts
    packet = (
        "commit",
        owner.name,
        owner.version,
        owner.offset,
        owner.watermark,
        left,
        told,
        bool(rowed),
        gone,
        evicted,
        owner.results,
        owner.late,
    )
    then = Owner(owner.name, owner.version + 1, owner.offset, owner.watermark, left, starts, rowed)
    heard = lambda reply: Owner() if reply == REFUSED else then  # noqa: E731
    yield from called(partial(land, setup), world, index, packet, heard, Owner())


def _warmed(owner: Owner, store: Store, name: Name) -> Owner:
    """The group of the row is hot, if there is one."""
    group = dict(store.rows).get(name)
    if group is None:
        return owner
    starts = _starts(Counter(dict(owner.starts)) - Counter([name[0]]))
    return _with(owner, name, group)._replace(rowed=tuple(sorted({*owner.rowed, name})), starts=starts)


def _with(owner: Owner, name: Name, group: tuple[int, ...]) -> Owner:
    return _touched(owner._replace(hot=_sorted(dict(owner.hot) | {name: group})), name)


def _ended(owner: Owner, name: Name) -> Owner:
    """With a result."""
    hot = dict(owner.hot)
    group = hot.pop(name)
    return _touched(owner._replace(hot=_sorted(hot), results=(*owner.results, (name, group))), name)


def _touched(owner: Owner, name: Name) -> Owner:
    return owner._replace(touched=tuple(sorted({*owner.touched, name})))


def _sorted(groups: dict[Name, tuple[int, ...]]) -> Groups:
    return tuple(sorted(groups.items()))


def _starts(counts: Counter[int]) -> Starts:
    return tuple(sorted(counts.items()))


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    store = after.store
    done = [offset for _, result in store.results for offset in result] + [*store.late]
    if len(set(done)) < len(done):
        yield ONCE
    behind = [at for at in range(store.offset) if setup.windows[at] < max(setup.windows[: at + 1])]
    if sorted(set(store.late)) != behind:
        yield LATE
    known = dict(store.rows) | dict(store.hot)
    names = list(zip(setup.windows, setup.keys, strict=True))
    for name in sorted(set(names)):
        wanted = [at for at in range(store.offset) if names[at] == name and at not in done]
        if list(known.get(name, ())) != wanted:
            yield STATE
    if store.starts != _starts(Counter(start for start, _ in dict(store.rows).keys() - dict(store.hot).keys())):
        yield COUNT
    ends = [start for (start, _), _ in store.results]
    if ends != sorted(ends):
        yield ORDER


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one owner is left, the one that has the partition if any does; nothing is late."""
    owned = (owner for owner in world.actors if owner.name and owner.name == world.store.token)
    return world._replace(actors=(next(owned, Owner()),), trouble=CALM, wire=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Every record is in a result, or late, and the store has no row left."""
    done = {offset for _, result in world.store.results for offset in result} | {*world.store.late}
    return done == set(range(len(setup.keys))) and not world.store.rows


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
