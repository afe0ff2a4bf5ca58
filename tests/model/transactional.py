"""`delivery: transactional`, one shard: owners that both believe, their store, and what a read_committed reader may
see.

The owners' calls of Kafka are in `shard.py`, Kafka's answers in `coordinator.py`.
"""

from collections.abc import Iterator

from tests.model import coordinator
from tests.model.calls import Step
from tests.model.coordinator import Row
from tests.model.explore import Rules
from tests.model.shard import (
    CALM,
    DEAD,
    SENT,
    WAITING,
    Owner,
    Setup,
    Store,
    Trouble,
    World,
    gone,
    late_calls,
    less,
    put,
    way_out,
)

__all__ = ["RULES", "Setup", "Trouble"]

ONCE = "a read_committed reader has each row once"
ORDER = "it has the rows in the order of their numbers"
UNSENT = "what the store no longer keeps was sent, or is dead"
FENCE = "a fenced owner changes nothing"
DELIVERED = "when faults stop, every row is sent or dead"


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for label, kafka in coordinator.markers(setup, world.kafka):
        yield label, world._replace(kafka=kafka)
    for index, owner in enumerate(world.owners):
        if index and owner == world.owners[index - 1]:
            continue
        if owner.token:
            yield from way_out(setup, world, index)
            yield from _commits(setup, world, index)
        elif world.trouble.claims:
            yield _claim(setup, world, index)
        if owner.token and world.trouble.crashes:
            yield ("crash", owner.token, ""), gone(less(world, "crashes"), index)
    if any(not row.ends for row in world.kafka.transactions) and world.trouble.timeouts:
        yield (
            ("transaction timed out", "Kafka", ""),
            less(world, "timeouts")._replace(kafka=coordinator.timed_out(world.kafka)),
        )
    yield from late_calls(setup, world)
    yield from _rewinds(world)


def _claim(setup: Setup, world: World, index: int) -> Step:
    """A new token; the unsent rows are read with it."""
    row, token = world.store, world.tokens + 1
    owner = Owner(token, row.version, row.offset, row.number, tuple((item, WAITING) for item in row.rows))
    store = row._replace(token=token)
    return ("claim", token, ""), put(less(world, "claims"), index, owner, store=store, tokens=token)


def _commits(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """A record becomes a row; reports are recorded; a doubt is asked about. All of them do all of it."""
    owner = world.owners[index]
    pressing = owner.doubted or any(state in (SENT, DEAD) for _, state in owner.queue)
    made = (Row(owner.number + 1, owner.token, owner.offset),) if owner.offset < setup.records else ()
    for what, rows in (("commit the reports", ()), ("commit a row", made)):
        if not (rows or (pressing and what == "commit the reports")):
            continue
        landed, after = _committed(setup, world.store, owner, rows)
        label = (what, owner.token, rows)
        if (owner.token, owner.version) != (world.store.token, world.store.version):
            yield (*label, "fenced"), gone(world, index)
            continue
        yield label, put(world, index, after, store=landed)
        if world.trouble.faults:
            yield (*label, "reply lost"), gone(less(world, "faults"), index)._replace(store=landed)


def _committed(setup: Setup, store: Store, owner: Owner, rows: tuple[Row, ...]) -> tuple[Store, Owner]:
    """What the store becomes, and who hears of it. Where the store never goes back its version says no more than the
    token."""
    ended = tuple(row for row, state in owner.queue if state in (SENT, DEAD))
    dead = tuple(row.id for row, state in owner.queue if state == DEAD)
    kept = tuple(row for row in store.rows if row not in ended)
    version, offset, number = (
        store.version + bool(setup.trouble.rewinds),
        store.offset + len(rows),
        store.number + len(rows),
    )
    landed = Store(
        store.token, version, offset, number, kept + rows, tuple(sorted((*store.dead, *dead))), store.fires + rows
    )
    queue = (*((row, state) for row, state in owner.queue if row not in ended), *((row, WAITING) for row in rows))
    return landed, owner._replace(version=version, offset=offset, number=number, queue=queue, doubted=False)


def _rewinds(world: World) -> Iterator[Step]:
    if not world.trouble.rewinds:
        return
    if not world.saved:
        yield ("save", 0, world.store.version), world._replace(saved=(world.store,))
    elif world.saved[0] != world.store:
        yield (
            ("rewind", 0, world.saved[0].version),
            less(world, "rewinds")._replace(store=world.saved[0], saved=(), rewound=True),
        )


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke. What a store lost that went back is sent again, and was recorded in no cursor
    for ever."""
    received = after.kafka.received
    numbers = [row.number for row in received]
    if not after.rewound and len({row.id for row in received}) < len(received):
        yield ONCE
    if not after.rewound and numbers != sorted(numbers):
        yield ORDER
    on_the_way = {row for transaction in after.kafka.transactions if transaction.ends for row in transaction.rows}
    gone = (row for row in after.store.fires if row not in after.store.rows and row.id not in after.store.dead)
    if any(row not in received and row not in on_the_way for row in gone):
        yield UNSENT
    if "commit" in label[0] and label[1] != before.store.token and after.store != before.store:
        yield FENCE


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one owner is left, the one that holds the claim if any does; nothing is late."""
    survivor = next((owner for owner in world.owners if owner.token == world.store.token), world.owners[0])
    return world._replace(owners=(survivor,), trouble=CALM, wire=(), saved=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next. An owner of before the store went back is assigned anew while work is left."""
    step = next(steps(setup, world), None)
    if step is None and world.owners[0].version != world.store.version and not is_done(setup, world):
        return ("assigned anew", world.owners[0].token, ""), world._replace(owners=(Owner(),))
    return step


def is_done(setup: Setup, world: World) -> bool:
    """All records are rows, and each of those is sent or dead."""
    ended = all(row in world.kafka.received or row.id in world.store.dead for row in world.store.fires)
    return world.store.offset == setup.records and not world.store.rows and ended


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
