"""What an owner does: claim, restore, accept, expire, commit, mark, clear its crash mark, crash.

Each step yields (label, next world).

A label is (what, token of the claim, detail); the token names the actor, since every claim has its own.
"""

from collections.abc import Iterator

from tests.model import relay
from tests.model import store as stores
from tests.model.values import (
    ABSENT,
    CLAIMED,
    CLEARED,
    GONE,
    IDLE,
    READY,
    STANDS,
    WAITING,
    Changes,
    Owner,
    Packet,
    Row,
    Setup,
    World,
)

Step = tuple[tuple, World]
ALIVE = 100
"""Names above it serve the mutant that enters claims, not processes, into the crash mark."""


def put(world: World, index: int, owner: Owner, **changed: object) -> World:
    """The world with one owner replaced; owners are kept sorted, because who is first does not matter."""
    owners = tuple(sorted(owner if at == index else other for at, other in enumerate(world.owners)))
    return world._replace(owners=owners, **changed)


def steps(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Everything one owner can do now, the fair choice first."""
    owner = world.owners[index]
    if owner.phase == IDLE:
        yield from _clear_crash_mark(setup, world, index)
        yield from claim(setup, world, index)
    elif owner.phase == CLAIMED:
        yield from restore(setup, world, index)
    elif owner.phase == READY:
        yield from _work(setup, world, index)
    if world.budget.crashes and (owner.phase in (CLAIMED, READY) or owner.owes):
        yield (
            ("crash", owner.token, ""),
            crash(setup, world, index, world.budget._replace(crashes=world.budget.crashes - 1)),
        )


def _work(setup: Setup, world: World, index: int) -> Iterator[Step]:
    owner = world.owners[index]
    if owner.rest:
        after = owner._replace(rest=(), version=owner.version + 1)
        yield from _send(setup, world, index, ("commit the other half", owner.token, ""), owner.rest[0], after)
        return
    in_hand = owner.position < len(setup.records) or setup.mutant == "mark-without-records"
    if setup.marks and owner.marked == ABSENT and in_hand:
        yield from _mark(setup, world, index)
    else:
        yield from _batches(setup, world, index)
    if setup.expire:
        for key, members, _ in owner.groups:
            yield from _expire(setup, world, index, key, members)
    if setup.relay:
        yield from relay.steps(setup, world, index, put)
    if owner.acked:
        changes, after = _changes(setup, owner, owner.offset, list(owner.groups), [], [])
        yield from _send(setup, world, index, ("commit the reports", owner.token, owner.acked), changes, after)


def claim(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Take the partition; a store that is behind what it once said is loud, and an operator accepts it or it stays
    so."""
    if not world.budget.claims:
        return
    owner, row = world.owners[index], world.store
    token = (row.token if setup.mutant == "counter-tokens" else world.tokens) + 1
    world = world._replace(
        store=stores.claim(setup, row, token, owner.process),
        tokens=world.tokens + 1,
        budget=world.budget._replace(claims=world.budget.claims - 1),
    )
    after = _claimed(setup, world, index, token)
    yield ("claim", token, "", *(["loud"] if after.loud > world.loud else [])), after


def _claimed(setup: Setup, world: World, index: int, token: int) -> World:
    owner, row = world.owners[index], world.store
    if stores.lost(setup, row, world.informed) or stores.lost(setup, row, owner.known):
        owners = tuple(sorted(other._replace(known=stores.NOTHING) for other in world.owners))
        return world._replace(owners=owners, informed=stores.NOTHING, loud=True)
    position = max(owner.position, row.offset) if setup.mutant == "stale-batch" else row.offset
    taken = Owner(
        owner.process,
        CLAIMED,
        token,
        row.version,
        row.offset,
        position,
        row.number,
        row.first,
        stores.last_entry(row),
        names=_found(setup, world, owner),
        owes=owner.owes,
        known=stores.known(setup, row),
        rest=owner.rest,
    )
    return put(world, index, taken)


def _found(setup: Setup, world: World, owner: Owner) -> tuple[int, ...]:
    offset, names = world.store.trying or (-1, ())
    return tuple(name for name in names if offset == world.store.offset and name != owner.process)


def restore(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Read the changelog that the claim named. What is missing is quiet when somebody else claimed meanwhile, else
    loud."""
    owner, row = world.owners[index], world.store
    label = ("restore", owner.token, "")
    if owner.first < row.first or owner.last > stores.last_entry(row):
        if row.token != owner.token and setup.mutant != "incomplete-restore-always-halts":
            yield (*label, "quiet"), put(world, index, dropped(setup, owner))
        else:
            yield (*label, "halts"), world._replace(halted=True)
        return
    groups = stores.replay_entries(row.entries[owner.first - row.first : owner.last - row.first + 1], owner.first)
    kept = owner.rest or (tuple((key, *group) for key, group in sorted(groups.items())),)
    queue = tuple((unsent, WAITING) for unsent in row.rows if _is_ours(setup, owner, unsent)) if setup.relay else ()
    yield label, put(world, index, owner._replace(phase=READY, groups=kept[0], queue=queue, rest=()))


def _is_ours(setup: Setup, owner: Owner, row: Row) -> bool:
    """Rows are read after the claim: one numbered above it was written by a later claim, and a rewind can undo that
    claim while its number is given again."""
    return row.number <= owner.number or setup.mutant == "relays-rows-of-later-claims"


def _mark(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The small commit with the first records after a claim in hand; three crashed processes here: a dead letter
    instead."""
    owner = world.owners[index]
    if len(owner.names) >= 3:
        dead = Row(owner.number + 1, owner.token, -1 - owner.offset, (owner.offset,))
        changes, after = _changes(setup, owner, owner.offset + 1, list(owner.groups), [], [dead])
        yield from _send(setup, world, index, ("commit a dead letter", owner.token, owner.offset), changes, after)
        return
    single = setup.batch if len(owner.names) == 2 else 0
    changes, after = _changes(setup, owner, owner.offset, list(owner.groups), [], [])
    changes = changes._replace(trying=(owner.offset, tuple(sorted((*owner.names, _name(setup, owner))))))
    after = after._replace(marked=STANDS, single=single)
    yield from _send(setup, world, index, ("commit the mark", owner.token, changes.trying), changes, after)


def _name(setup: Setup, owner: Owner) -> int:
    return ALIVE + owner.token if setup.mutant == "claims-counted-as-crashes" else owner.process


def _batches(setup: Setup, world: World, index: int) -> Iterator[Step]:
    owner = world.owners[index]
    most = 1 if owner.single else setup.batch
    for end in range(min(owner.position + most, len(setup.records)), owner.position, -1):
        records = range(owner.position, end)
        if setup.poison in records:
            yield ("crash on a record", owner.token, setup.poison), crash(setup, world, index, world.budget)
            continue
        groups, ops, fires = accept(setup, owner, records)
        changes, after = _changes(setup, owner, end, groups, ops, fires)
        single = max(0, owner.single - 1)
        if single:
            changes = changes._replace(trying=(end, (owner.process,)))
        after = after._replace(marked=STANDS if single else CLEARED, single=single)
        yield from _send(setup, world, index, ("commit the batch", owner.token, tuple(records)), changes, after)


def accept(setup: Setup, owner: Owner, records: range) -> tuple[list, list, list]:
    """Pure: the groups after these records, the changelog operations, and the members of every fire."""
    groups = {key: (members, home) for key, members, home in owner.groups}
    ops, fires = [], []
    for offset in records:
        key = setup.records[offset]
        members, home = groups.get(key, ((), owner.last + 1))
        members = (*members, offset)
        if len(members) < setup.count:
            groups[key] = (members, home)
            ops.append(("+", key, (offset,)))
        else:
            groups.pop(key, None)
            ops.append(("-", key, ()))
            fires.append(members)
    return [(key, *group) for key, group in sorted(groups.items())], ops, fires


def _expire(setup: Setup, world: World, index: int, key: str, members: tuple) -> Iterator[Step]:
    owner = world.owners[index]
    groups = [group for group in owner.groups if group[0] != key]
    changes, after = _changes(setup, owner, owner.offset, groups, [("-", key, ())], [members])
    yield from _send(setup, world, index, ("commit the expiry", owner.token, members), changes, after)


def _changes(setup: Setup, owner: Owner, offset: int, groups: list, ops: list, fires: list) -> tuple[Changes, Owner]:
    """The commit, and the owner as it will be when it landed. A commit without records leaves the crash mark as it
    is."""
    rows, number, fired = [], _last_number(setup, owner), owner.fired
    for members in fires:
        number, fired = number + 1, fired + (setup.mutant == "fire-id-from-a-counter")
        rows.append(members if isinstance(members, Row) else Row(number, owner.token, fired or members[0], members))
    entry, keep_from = owner.last + bool(ops), 0
    if ops and setup.compact and entry - owner.first >= setup.compact:
        keep_from = _compact(setup, groups, ops, entry)
    names = tuple(sorted((*owner.names, owner.process))) if owner.marked == STANDS else owner.names
    kept = offset == owner.offset and setup.mutant != "commit-without-records-clears-the-mark"
    trying = (offset, names) if names and kept else ()
    changes = Changes(offset, tuple(ops), keep_from, tuple(rows), owner.acked, trying)
    queue = (*owner.queue, *((row, WAITING) for row in rows)) if setup.relay else ()
    after = owner._replace(
        version=owner.version + 1,
        offset=offset,
        position=offset,
        number=number,
        first=max(owner.first, keep_from),
        last=entry,
        groups=tuple(groups),
        queue=queue,
        acked=(),
        names=owner.names if offset == owner.offset else (),
        known=owner.known,
        fired=fired,
        owes=False,
    )
    return changes, after


def _last_number(setup: Setup, owner: Owner) -> int:
    if setup.mutant == "number-from-what-is-left":
        return max([row.number for row, _ in owner.queue] + list(owner.acked), default=0)
    return owner.number


def _compact(setup: Setup, groups: list, ops: list, entry: int) -> int:
    """Rewrite the group whose description begins earliest into this entry; what is kept begins where the others' do."""
    if groups:
        at = min(range(len(groups)), key=lambda n: groups[n][2])
        key, members, _ = groups[at]
        ops.append(("=", key, members))
        groups[at] = (key, members, entry)
    if setup.mutant == "keep-from-too-early":
        return entry
    return min((home for _, _, home in groups), default=entry + 1)


def _send(setup: Setup, world: World, index: int, label: tuple, changes: Changes, after: Owner) -> Iterator[Step]:
    """One commit: it lands, is fenced, its reply is lost, its bytes are late, or a driver sends them twice."""
    owner = world.owners[index]
    if setup.mutant in ("offset-after-state", "offset-before-state") and changes.offset != owner.offset and changes.ops:
        changes, after = _halves(setup, owner, changes, after)
    packet = Packet(owner.token, owner.version, changes)
    landed = stores.commit(setup, world.store, packet)
    early = relay.published_early(setup, world, changes.rows)
    if landed is None:
        down = dropped(setup, owner)
        if setup.mutant == "fenced-owner-never-claims-again":
            down = down._replace(phase=GONE)
        yield (*label, "fenced"), relay.orphan(setup, put(early, index, down), owner)
    else:
        yield label, put(early, index, after._replace(known=stores.known(setup, landed)), store=landed)
    if not world.budget.faults:
        return
    less = world.budget._replace(faults=world.budget.faults - 1)
    wire = tuple(sorted((*world.wire, packet)))
    unknown = relay.orphan(setup, put(early, index, dropped(setup, owner, after), budget=less), owner)
    yield (*label, "bytes late"), unknown._replace(wire=wire)
    if landed is not None:
        yield (*label, "reply lost"), unknown._replace(store=landed)
        informed = after._replace(known=stores.known(setup, landed))
        yield (*label, "sent twice"), put(early, index, informed, store=landed, budget=less, wire=wire)


def _halves(setup: Setup, owner: Owner, changes: Changes, after: Owner) -> tuple[Changes, Owner]:
    state = changes._replace(offset=owner.offset)
    move = Changes(changes.offset)
    if setup.mutant == "offset-before-state":
        state, move = move, changes
    return state, after._replace(rest=(move,))


def dropped(setup: Setup, owner: Owner, unknown: Owner | None = None) -> Owner:
    """The one way back: the process lives and has forgotten everything but its name and what the store once said."""
    owes = owner.owes or owner.marked == STANDS or (unknown is not None and unknown.marked == STANDS)
    idle = Owner(owner.process, owes=owes and setup.mutant != "never-clears", known=owner.known)
    if setup.mutant == "memory-kept-after-unknown-result" and unknown is not None:
        return idle._replace(rest=(unknown.groups,))
    if setup.mutant == "stale-batch" and unknown is not None:
        return idle._replace(position=unknown.offset)
    return idle


def crash(setup: Setup, world: World, index: int, budget: object) -> World:
    """Memory lost; the process that starts next is another one, though the model calls it by the same name."""
    owner = world.owners[index]
    if setup.marks:
        world = _buried(world, owner.process)
    return relay.orphan(setup, put(world, index, Owner(owner.process), budget=budget), owner)


def _buried(world: World, process: int) -> World:
    """Give the crashed process's name in every crash mark to the dead (negative), so that its successor may use it."""
    marks = [world.store.trying, *(packet.changes.trying for packet in world.wire)]
    used = {name for mark in marks if mark for name in mark[1]}.union(*(owner.names for owner in world.owners))
    dead = next(name for name in range(-1, -len(used) - 2, -1) if name not in used)

    def renamed(names: tuple) -> tuple:
        return tuple(sorted(dead if name == process else name for name in names))

    def mark(trying: tuple) -> tuple:
        return (trying[0], renamed(trying[1])) if trying else ()

    wire = (
        packet._replace(changes=packet.changes._replace(trying=mark(packet.changes.trying))) for packet in world.wire
    )
    owners = (owner._replace(names=renamed(owner.names)) for owner in world.owners)
    return world._replace(
        store=world.store._replace(trying=mark(world.store.trying)), wire=tuple(sorted(wire)), owners=tuple(owners)
    )


def _clear_crash_mark(setup: Setup, world: World, index: int) -> Iterator[Step]:
    owner = world.owners[index]
    if owner.owes and setup.mutant != "claims-counted-as-crashes":
        store = stores.clear_crash_mark(setup, world.store, owner.process)
        yield ("clear_crash_mark", owner.process, ""), put(world, index, owner._replace(owes=False), store=store)
