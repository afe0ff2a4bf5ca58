"""The relay and what lies downstream: produce, write, report, fail, late copies, receivers."""

from collections.abc import Callable, Iterator

from tests.model.values import FAILED, HANDED, WAITING, WRITTEN, Owner, Row, Setup, World

Put = Callable[..., World]
Step = tuple[tuple, World]


def steps(setup: Setup, world: World, index: int, put: Put) -> Iterator[Step]:
    """What the relay of one owner can do: reports first, then writes, then new rows; last what may fail."""
    owner = world.owners[index]
    for at, (row, state) in enumerate(owner.queue):
        if state == WRITTEN:
            queue = (*owner.queue[:at], *owner.queue[at + 1 :])
            after = owner._replace(queue=_settled(setup, queue), acked=tuple(sorted((*owner.acked, row.number))))
            yield ("report", owner.token, row.number), put(world, index, after)
    for partition in range(setup.partitions):
        at = _head(setup, owner, partition)
        if at >= 0 and setup.relay == "stepwise":
            written = receive(setup, world, partition, owner.queue[at][0])
            yield ("write", owner.token, owner.queue[at][0].number), put(written, index, _with(owner, at, WRITTEN))
    at = _next(setup, owner)
    if at >= 0 and setup.relay == "stepwise":
        yield ("produce", owner.token, owner.queue[at][0].number), put(world, index, _with(owner, at, HANDED))
    elif at >= 0:
        yield ("send", owner.token, owner.queue[at][0].number), _sent(setup, world, index, at, put)
    if world.budget.errors:
        yield from _failures(setup, world, index, put)


def _sent(setup: Setup, world: World, index: int, at: int, put: Put) -> World:
    """Produce, write and report in one step: for setups that look elsewhere."""
    owner = world.owners[index]
    row = owner.queue[at][0]
    after = owner._replace(
        queue=(*owner.queue[:at], *owner.queue[at + 1 :]), acked=tuple(sorted((*owner.acked, row.number)))
    )
    return put(receive(setup, world, setup.partition(row), row), index, after)


def _with(owner: Owner, at: int, state: int) -> Owner:
    return owner._replace(queue=(*owner.queue[:at], (owner.queue[at][0], state), *owner.queue[at + 1 :]))


def _head(setup: Setup, owner: Owner, partition: int) -> int:
    """The first row on its way to this output partition: an idempotent producer writes them in order."""
    for at, (row, state) in enumerate(owner.queue):
        if state == HANDED and setup.partition(row) == partition:
            return at
    return -1


def _next(setup: Setup, owner: Owner) -> int:
    """The next row to hand over, in number order: none past a failure, none too far above the lowest row that the store
    still keeps (whoever takes over sends from there, and receivers must still remember it)."""
    states = [state for _, state in owner.queue]
    if WAITING not in states or (FAILED in states and setup.mutant != "goes-on-past-a-failure"):
        return -1
    at = states.index(WAITING)
    numbers = [row.number for row, _ in owner.queue]
    if setup.mutant == "limit-counts-what-is-unacknowledged":
        return at if at < setup.window else -1
    if setup.mutant == "limit-counts-from-the-lowest-unacknowledged":
        return at if numbers[at] - numbers[0] < setup.window else -1
    return at if numbers[at] - min([*numbers, *owner.acked]) < setup.window else -1


def _settled(setup: Setup, queue: tuple) -> tuple:
    """When all reports of the old producer are in, what failed is sent again by a new one, lowest first."""
    others = (HANDED, WRITTEN, WAITING) if setup.mutant == "goes-on-past-a-failure" else (HANDED, WRITTEN)
    if any(state in others for _, state in queue):
        return queue
    if setup.mutant == "failed-row-forgotten":
        return tuple((row, state) for row, state in queue if state != FAILED)
    return tuple((row, WAITING if state == FAILED else state) for row, state in queue)


def _failures(setup: Setup, world: World, index: int, put: Put) -> Iterator[Step]:
    """An error report. What was not written fails with everything behind it in its partition (no gap), and may still
    arrive; with `gaps` the row alone fails. A written row's report may be an error, too."""
    owner, less = world.owners[index], world.budget._replace(errors=world.budget.errors - 1)
    for partition in range(setup.partitions):
        head = _head(setup, owner, partition)
        if head >= 0:
            behind = [at for at in range(head, len(owner.queue)) if _is_on_its_way(setup, owner, at, partition)]
            failed = behind[:1] if setup.gaps else behind
            queue = tuple((row, FAILED if at in failed else state) for at, (row, state) in enumerate(owner.queue))
            after = put(world, index, owner._replace(queue=_settled(setup, queue)), budget=less)
            label = ("error", owner.token, owner.queue[head][0].number)
            yield label, after
            if setup.late_copies and not setup.gaps:
                yield (*label, "bytes late"), _later(setup, after, tuple(owner.queue[at][0] for at in failed))
    for at, (row, state) in enumerate(owner.queue):
        if state == WRITTEN:
            after = _with(owner, at, FAILED)
            label = ("error after the write", owner.token, row.number)
            yield label, put(world, index, after._replace(queue=_settled(setup, after.queue)), budget=less)


def _is_on_its_way(setup: Setup, owner: Owner, at: int, partition: int) -> bool:
    row, state = owner.queue[at]
    return state == HANDED and setup.partition(row) == partition


def orphan(setup: Setup, world: World, owner: Owner) -> World:
    """The owner is gone or has forgotten: what it handed over may still arrive, in order per output partition."""
    for partition in range(setup.partitions):
        rows = tuple(row for row, state in owner.queue if state == HANDED and setup.partition(row) == partition)
        world = _later(setup, world, rows)
    return world


def _later(setup: Setup, world: World, rows: tuple[Row, ...]) -> World:
    return world._replace(limbo=tuple(sorted((*world.limbo, rows)))) if rows and setup.late_copies else world


def arrivals(setup: Setup, world: World) -> Iterator[Step]:
    """Rows of senders that are gone."""
    for at, rows in enumerate(world.limbo):
        if at and world.limbo[at - 1] == rows:
            continue
        rest = (*world.limbo[:at], *world.limbo[at + 1 :])
        after = _later(setup, world._replace(limbo=rest), rows[1:])
        yield ("late copy", rows[0].lineage, rows[0].number), receive(setup, after, setup.partition(rows[0]), rows[0])


def published_early(setup: Setup, world: World, rows: tuple[Row, ...]) -> World:
    """What only a mutant does: the rows are out before their commit is durable."""
    if setup.mutant == "publish-before-commit":
        for row in rows:
            world = receive(setup, world, setup.partition(row), row)
    return world


def receive(setup: Setup, world: World, partition: int, row: Row) -> World:
    """A row at its receiver: accepted unless certainly seen."""
    accepted = world.received[partition]
    if _is_seen(setup, accepted, row):
        return world
    received = (*world.received[:partition], (*accepted, row), *world.received[partition + 1 :])
    return world._replace(received=received)


def _is_seen(setup: Setup, accepted: tuple[Row, ...], row: Row) -> bool:
    """Seen: this number of this shard, not too far below the shard's highest; a shard is one lineage's."""
    if setup.receiver == "unique id":
        return any(old.id == row.id for old in accepted)
    shard = (
        accepted if setup.mutant == "shard-without-lineage" else [old for old in accepted if old.lineage == row.lineage]
    )
    highest = max((old.number for old in shard), default=0)
    if setup.mutant == "receiver-with-watermark":
        return row.number <= highest
    return any(old.number == row.number and highest - old.number < setup.window for old in shard)
