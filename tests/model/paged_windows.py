"""Cold groups of windows: rows of the store beside the changelog, two owners of one partition.

A group is a window of a key. The log has the watermark and the number of cold groups of each window; a window that the
watermark passed closes with its hot groups and with its rows, which the owner reads one by one. No later window has a
result before. A record behind the watermark is late. The rest is as in paged.py; the log is what a restore makes of it.

With `keep` the group of a window stays after its result (`late: {amend}`). A late record changes it, and the whole
result is sent again: at any time, and at the latest when the watermark ends the group. While a result covers all of its
records, a group that stays may be cold, too. The log counts such groups apart.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain, combinations, pairwise
from typing import NamedTuple

from tests.model.calls import CALM, REFUSED, Step, Trouble, called, claiming, late, less, put
from tests.model.explore import Rules

ONCE = "each record is in one result, or late; a further result of a window has the next revision, and more records"
STATE = "the group of a window is in the log, else in its row, with every record that has no result"
COUNT = "the log counts the rows of groups that are not hot, window by window"
ORDER = "results come in the order of their windows; the last revision of one behind those that close until it ends"
LATE = "the records too far behind the watermark are late, and no others"
DELIVERED = "when faults stop, every record is in a result, or late"

Name = tuple[int, str]
"""The start of a window, and a key."""
CLOSED = 10
"""Groups that stay are counted under this number and the start of their window."""
CLOCK, CLOSE, END = "by the clock", "by its close", "by its end"


class Group(NamedTuple):
    """`records` are offsets. `results` is how many results it had, -1 while its window is open. `waits`: the last one
    lacks a late record."""

    records: tuple[int, ...] = ()
    results: int = -1
    waits: bool = False


class Result(NamedTuple):
    name: Name
    records: tuple[int, ...]
    revision: int = 1
    by: str = CLOSE


Groups = tuple[tuple[Name, Group], ...]
"""Groups by name, sorted."""
Starts = tuple[tuple[int, int], ...]
"""The number of cold groups by the start of their window (CLOSED + that of groups that stay), sorted."""


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
    results: tuple[Result, ...] = ()
    late: tuple[int, ...] = ()


class Owner(NamedTuple):
    """`name` is the token of its claim, 0: none. `rowed` are the hot groups that may have a row. The rows up to the one
    of `read` have no group that waits for the close of its window. Since the last commit: `touched` are the names of
    groups that changed or ended, `results` and `late` what the commit adds."""

    name: int = 0
    version: int = 0
    offset: int = 0
    watermark: int = -1
    hot: Groups = ()
    starts: Starts = ()
    rowed: tuple[Name, ...] = ()
    read: Name = (-1, "")
    touched: tuple[Name, ...] = ()
    results: tuple[Result, ...] = ()
    late: tuple[int, ...] = ()


class World(NamedTuple):
    store: Store
    actors: tuple[Owner, ...]
    trouble: Trouble
    wire: tuple = ()
    tokens: int = 0


class Setup(NamedTuple):
    """The records have these keys, and are in the windows that begin at these times. A window closes when the watermark
    is after its start. With `keep` its group stays until the watermark is so much further."""

    name: str
    covers: str
    trouble: Trouble
    keys: str = "aab"
    windows: tuple[int, ...] = (0, 0, 1)
    owners: int = 2
    keep: int = 0
    mutant: str = ""

    def start(self) -> World:
        """Nothing read."""
        return World(Store(), (Owner(),) * self.owners, self.trouble)


def land(setup: Setup, store: Store, packet: tuple) -> tuple[Store, object]:
    """A claim takes the partition; a commit is all of it, or refused: fenced."""
    what, token, *arguments = packet
    if what == "claim":
        return store._replace(token=token), ()
    version, offset, watermark, hot, starts, stale, gone, evicted, results, behind = arguments
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
        yield from _revise(setup, world, index)
        yield from _commit(setup, world, index, ())
        still = [window for window in owner.hot if _may_evict(setup, owner, *window)]
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


def _may_evict(setup: Setup, owner: Owner, name: Name, group: Group) -> bool:
    """An idle group whose window is open, or one that stays and whose result covers all of its records."""
    if name in owner.touched:
        return False
    if group.results < 0:
        return name[0] >= owner.watermark
    waits = group.waits and setup.mutant != "evicted-before-its-revision"
    return not waits and name[0] + setup.keep >= owner.watermark


def _take(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The next record: late, or of a group that the store is asked for, unless it is hot or none is cold."""
    owner = world.actors[index]
    if owner.offset == len(setup.keys):
        return
    name = setup.windows[owner.offset], setup.keys[owner.offset]
    after = owner._replace(offset=owner.offset + 1, watermark=max(owner.watermark, name[0]))
    if name[0] + setup.keep < owner.watermark:
        yield ("take", owner.name, name), put(world, index, after._replace(late=(*owner.late, owner.offset)))
        return
    if setup.mutant != "not-looked-up":
        after = _asked(after, world.store, name)
    if name[0] < owner.watermark:
        after = _changed(setup, after, world.store, name)
    else:
        group = dict(after.hot).get(name, Group())
        after = _with(after, name, group._replace(records=(*group.records, owner.offset)))
    yield ("take", owner.name, name), put(world, index, after)


def _asked(owner: Owner, store: Store, name: Name) -> Owner:
    """The group of this name is hot, if the store has it."""
    known = not owner.starts or name in dict(owner.hot) or name in owner.touched
    return owner if known else _warmed(owner, store, name)


def _changed(setup: Setup, owner: Owner, store: Store, name: Name) -> Owner:
    """A late record is in its group. If the result of that still waits, it is sent before, behind those of the earlier
    windows of the key."""
    if setup.mutant != "earlier-windows-are-not-asked-for":
        for start in range(name[0]):
            owner = _asked(owner, store, (start, name[1]))
    if dict(owner.hot).get(name, Group(results=0)).results < 0:
        first = name[0] if setup.mutant == "earlier-windows-do-not-close-first" else 0
        for other, group in owner.hot:
            if first <= other[0] <= name[0] and other[1] == name[1] and group.results < 0:
                owner = _closed(setup, owner, other)
    group = dict(owner.hot).get(name, Group(results=0))
    return _with(owner, name, group._replace(records=(*group.records, owner.offset - 1), waits=True))


def _silence(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """No record comes any more: the windows of all groups are over, also those of cold ones."""
    owner = world.actors[index]
    starts = [name[0] for name, group in owner.hot if group.results < 0]
    cold = [start for start, _ in owner.starts if start < CLOSED]
    starts += [] if setup.mutant == "silence-overlooks-cold-windows" else cold
    if owner.offset == len(setup.keys) and max(starts, default=-1) >= owner.watermark:
        yield ("silence", owner.name, ""), put(world, index, owner._replace(watermark=max(starts) + 1))


def _close(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The next hot group of a closed window has its result, and the next row of closed windows makes its group hot. A
    later window waits for the cold groups of an earlier one. A group that stays ends before a later window closes."""
    owner = world.actors[index]
    opened = [name for name, group in owner.hot if group.results < 0]
    cold = [start for start, _ in owner.starts if start < CLOSED]
    waiting = [start for start in cold if start < owner.watermark]
    last = min([*waiting, owner.watermark - 1]) if setup.mutant != "later-windows-first" else owner.watermark - 1
    over = min([owner.watermark, *cold, *(start for start, _ in opened)]) - setup.keep
    over = over if setup.mutant != "ends-before-others-close" else owner.watermark - setup.keep
    if ends := [name for name, group in owner.hot if group.results >= 0 and name[0] < over]:
        yield ("end", owner.name, ends[0]), put(world, index, _ended(owner, ends[0], END))
    elif closes := [name for name in opened if name[0] <= last]:
        yield ("close", owner.name, closes[0]), put(world, index, _closed(setup, owner, closes[0]))
    for name in _rows(owner, world.store, owner.read, max(waiting)) if waiting else ():
        after = _warmed(owner, world.store, name)._replace(read=name)
        yield ("close a row", owner.name, name), put(world, index, after)
    stay = [start - CLOSED for start, _ in owner.starts if CLOSED <= start < CLOSED + owner.watermark - setup.keep]
    for name in _rows(owner, world.store, Owner().read, max(stay)) if stay and not waiting else ():
        yield ("end a row", owner.name, name), put(world, index, _warmed(owner, world.store, name))


def _rows(owner: Owner, store: Store, after: Name, last: int) -> list[Name]:
    """The next cold group behind this one, of windows that begin up to `last`."""
    known = dict(owner.hot)
    names = [name for name, _ in store.rows if after < name and name not in known and name not in owner.touched]
    return [name for name in names if name[0] <= last][:1]


def _revise(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The owner's clock sends a result again that a late record has changed."""
    owner = world.actors[index]
    for name, group in owner.hot:
        if group.waits:
            yield ("revise", owner.name, name), put(world, index, _sent(owner, name, CLOCK))


def _commit(setup: Setup, world: World, index: int, evicted: Groups) -> Iterator[Step]:
    """Fenced or unknown: everything is forgotten."""
    owner = world.actors[index]
    if not (owner.touched or owner.late or evicted):
        return
    hot, moved = dict(owner.hot), dict(evicted)
    gone = tuple(name for name in owner.rowed if name not in hot)
    gone = () if setup.mutant == "the-row-stays-when-its-group-ends" else gone
    rowed = tuple(name for name in owner.rowed if name in hot and name not in moved)
    rest = tuple(window for window in owner.hot if window not in evicted)
    starts = _starts(Counter(dict(owner.starts)) + Counter(_start(*window) for window in evicted))
    rows = evicted
    if setup.mutant == "the-row-lacks-its-results":
        rows = tuple((name, group._replace(results=-1)) for name, group in evicted)
    starts_told = owner.starts if setup.mutant == "evicted-windows-not-in-the-log" else starts
    packet = (
        "commit",
        owner.name,
        owner.version,
        owner.offset,
        owner.watermark,
        rest,
        starts_told,
        bool(rowed),
        gone,
        rows,
        owner.results,
        owner.late,
    )
    then = Owner(owner.name, owner.version + 1, owner.offset, owner.watermark, rest, starts, rowed, owner.read)
    next_owner = lambda reply: Owner() if reply == REFUSED else then  # noqa: E731
    yield from called(partial(land, setup), world, index, packet, next_owner, Owner())


def _warmed(owner: Owner, store: Store, name: Name) -> Owner:
    """The group of the row is hot, if there is one."""
    group = dict(store.rows).get(name)
    if group is None:
        return owner
    starts = _starts(Counter(dict(owner.starts)) - Counter([_start(name, group)]))
    return _with(owner, name, group)._replace(rowed=tuple(sorted({*owner.rowed, name})), starts=starts)


def _start(name: Name, group: Group) -> int:
    """The number under which the log counts this group when it is cold."""
    return name[0] if group.results < 0 else CLOSED + name[0]


def _with(owner: Owner, name: Name, group: Group) -> Owner:
    return _touched(owner._replace(hot=_sorted(dict(owner.hot) | {name: group})), name)


def _closed(setup: Setup, owner: Owner, name: Name) -> Owner:
    """The window of this group has its result. With `keep` the group stays."""
    return _sent(owner, name, CLOSE) if setup.keep else _ended(owner, name, CLOSE)


def _sent(owner: Owner, name: Name, by: str) -> Owner:
    """With a result."""
    group = dict(owner.hot)[name]
    revision = max(group.results, 0) + 1
    results = (*owner.results, Result(name, group.records, revision, by))
    return _with(owner, name, Group(group.records, revision))._replace(results=results)


def _ended(owner: Owner, name: Name, by: str) -> Owner:
    """With a result, unless one covers all records."""
    group = dict(owner.hot)[name]
    if group.waits or group.results < 0:
        owner = _sent(owner, name, by)
    hot = dict(owner.hot)
    hot.pop(name)
    return _touched(owner._replace(hot=_sorted(hot)), name)


def _touched(owner: Owner, name: Name) -> Owner:
    return owner._replace(touched=tuple(sorted({*owner.touched, name})))


def _sorted(groups: dict[Name, Group]) -> Groups:
    return tuple(sorted(groups.items()))


def _starts(counts: Counter[int]) -> Starts:
    return tuple(sorted(counts.items()))


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    store = after.store
    names = list(zip(setup.windows, setup.keys, strict=True))
    known, results = dict(store.rows) | dict(store.hot), store.results
    if len(set(store.late)) < len(store.late):
        yield ONCE
    behind = [at for at in range(store.offset) if setup.windows[at] + setup.keep < max(setup.windows[: at + 1])]
    if sorted(set(store.late)) != behind:
        yield LATE
    for name in sorted(set(names)):
        sent = [result for result in results if result.name == name]
        if not _grow(sent) or len(sent) > (len(setup.keys) if setup.keep else 1):
            yield ONCE
        if not _is_whole(setup, store, name, known.get(name), sent):
            yield STATE
    cold = dict(store.rows).keys() - dict(store.hot).keys()
    if store.starts != _starts(Counter(_start(name, dict(store.rows)[name]) for name in cold)):
        yield COUNT
    if not _in_order(setup, results):
        yield ORDER


def _grow(sent: list[Result]) -> bool:
    """Whether each result of a window has the next revision, and more records than the one before."""
    pairs = pairwise(sent)
    return [result.revision for result in sent] == list(range(1, len(sent) + 1)) and all(
        set(one.records) < set(other.records) for one, other in pairs
    )


def _is_whole(setup: Setup, store: Store, name: Name, group: Group | None, sent: list[Result]) -> bool:
    """Whether this group has all of its records that are not late, and is known to have had its results."""
    wanted = [at for at in range(store.offset) if (setup.windows[at], setup.keys[at]) == name and at not in store.late]
    covered = list(sent[-1].records) if sent else []
    if group is None:
        return covered == wanted
    waits = setup.keep > 0 and group.results >= 0 and covered != wanted
    return list(group.records) == wanted and max(group.results, 0) == len(sent) and group.waits is waits


def _in_order(setup: Setup, results: tuple[Result, ...]) -> bool:
    """A late record may send the results of its key before those of other keys."""
    for one, other in combinations([result for result in results if result.by != CLOCK], 2):
        if one.by == other.by and one.name[0] > other.name[0] and (not setup.keep or one.name[1] == other.name[1]):
            return False
        if (one.by, other.by) == (END, CLOSE) and other.name[0] <= one.name[0] + setup.keep:
            return False
    return True


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one owner is left, the one that has the partition if any does; nothing is late."""
    owned = (owner for owner in world.actors if owner.name and owner.name == world.store.token)
    return world._replace(actors=(next(owned, Owner()),), trouble=CALM, wire=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Every record is in a result, or late, and the store has no row left but of groups that stay."""
    done = {offset for result in world.store.results for offset in result.records} | {*world.store.late}
    stays = [setup.keep and group.results >= 0 for _, group in world.store.rows]
    return done == set(range(len(setup.keys))) and all(stays)


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
