"""`scope: shared`: workers insert the records of partitions into one buffer; who completes a group is told to fire it;
a batch is completed by one compare-and-set that removes its rows and writes its message.

Both workers may believe that they own each partition, and read it from its beginning: only the watermark says what is
in. A record is (partition, offset); all are of one key.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.model import shared_store as stores
from tests.model.calls import CALM, REFUSED, Step, Trouble, called, late, less, put
from tests.model.explore import Rules
from tests.model.shared_store import HALVES, Batch, Store

ONCE = "each record counts once"
AGREEMENT = "what is in the buffer or fired is exactly what is below the watermarks"
SMALL = "no group is larger than its count"
ENDED = "a record that ends its group is the last of it"
ONE_CONTENT = "one fire id has one content"
ONE_TOLD = "a batch is in the hands of one worker at a time"
FENCE = "a batch is completed by whoever has its lease"
DELIVERED = "when faults stop, everything is read and fired"


class Worker(NamedTuple):
    """`stands`: where it goes on in each partition; `jobs`: batches that it was told to fire; `owes`: what only a
    mutant still owes."""

    stands: tuple[int, ...]
    jobs: tuple[Batch, ...] = ()
    owes: tuple = ()

    @property
    def name(self) -> str:
        """In a trace: what tells it from the other."""
        return f"at {self.stands} with {[job.token for job in self.jobs]}"


class World(NamedTuple):
    """Everything."""

    store: Store
    actors: tuple[Worker, ...]
    trouble: Trouble
    wire: tuple = ()


class Setup(NamedTuple):
    """`ids[p][o]` names the record o of partition p: the same name twice is one record that its producer wrote twice,
    known as such while it is in the buffer, and with `keeps` afterwards. `ends` are the names of those that end their
    group."""

    name: str
    covers: str
    trouble: Trouble
    ids: tuple[str, ...] = ("ab", "c")
    count: int = 2
    chunk: int = 2
    expire: bool = True
    keeps: bool = False
    ends: str = ""
    mutant: str = ""

    def start(self) -> World:
        """Nothing read."""
        begin = (0,) * len(self.ids)
        return World(Store(begin), (Worker(begin), Worker(begin)), self.trouble)


def steps(setup: Setup, world: World) -> Iterator[Step]:
    """Everything that can happen next, the fair choice first."""
    for index, worker in enumerate(world.actors):
        yield from _owed(setup, world, index) if worker.owes else _work(setup, world, index)
        fresh = Worker((0,) * len(setup.ids))
        if world.trouble.crashes and worker != fresh:
            yield ("crash", worker.name, ""), put(world, index, fresh, trouble=less(world, "crashes"))
    yield from late(partial(stores.land, setup), world)


def _work(setup: Setup, world: World, index: int) -> Iterator[Step]:
    for job in world.actors[index].jobs:
        yield from _fire(setup, world, index, job)
    for number in range(len(setup.ids)):
        yield from _insert(setup, world, index, number)
    yield from _look(setup, world, index)


def _fire(setup: Setup, world: World, index: int, job: Batch) -> Iterator[Step]:
    """The handler, then the end of the batch: all of it, or refused."""
    worker, lands = world.actors[index], partial(stores.land, setup)
    rest = tuple(other for other in worker.jobs if other != job)
    without = worker._replace(jobs=rest)
    packet = ("complete", job.token, job.id, job.members)
    if setup.mutant in HALVES:
        first, then = HALVES[setup.mutant]
        half = worker._replace(jobs=rest, owes=(then, *packet[1:]))
        yield from called(
            lands, world, index, (first, *packet[1:]), lambda reply: without if reply == REFUSED else half, worker
        )
        return
    yield from called(lands, world, index, packet, lambda _: without, worker)


def _insert(setup: Setup, world: World, index: int, number: int) -> Iterator[Step]:
    """The next records of a partition, as many as are there or fewer, with the move of its watermark."""
    worker = world.actors[index]
    begin, end = worker.stands[number], len(setup.ids[number])
    for upto in {end, min(begin + 1, end), min(begin + setup.chunk, end)} - {begin}:

        def heard(reply: tuple) -> Worker:
            stands, jobs, owes = reply
            here = (*worker.stands[:number], stands, *worker.stands[number + 1 :])
            return worker._replace(stands=here, jobs=tuple(sorted((*worker.jobs, *jobs))), owes=owes)

        packet = ("insert", 0, number, begin, upto)
        yield from called(partial(stores.land, setup), world, index, packet, heard, worker)


def _look(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """What others left, once its lease is over; and a group whose time is over, sealed now."""
    worker = world.actors[index]

    def heard(jobs: tuple[Batch, ...]) -> Worker:
        return worker._replace(jobs=tuple(sorted((*worker.jobs, *jobs))))

    tokens = {job.token for job in worker.jobs}
    rest = [batch for batch in world.store.batches if batch.token not in tokens]
    kinds = [("take over", batch.id) for batch in rest if world.trouble.overs]
    if setup.expire and world.store.open:
        kinds.append(("time is over", 0))
    for what, id in kinds:
        trouble = less(world, "overs") if what == "take over" else world.trouble
        yield from called(
            partial(stores.land, setup), world._replace(trouble=trouble), index, (what, 0, id), heard, worker
        )


def _owed(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The second half of what only a mutant does in two."""
    worker = world.actors[index]

    def heard(reply: tuple) -> Worker:
        more = reply if worker.owes[0] == "seal" else ()
        return worker._replace(owes=(), jobs=tuple(sorted((*worker.jobs, *more))))

    yield from called(partial(stores.land, setup), world, index, worker.owes, heard, worker)


def broken(setup: Setup, before: World, label: tuple, after: World) -> Iterator[str]:
    """The promises that this step broke."""
    store = after.store
    fired = [record for _, members in store.fired for record in members]
    records = [*store.open, *(record for batch in store.batches for record in batch.members)]
    ids = [setup.ids[number][offset] for number, offset in (*fired, *records)]
    if len(set(ids)) < len(ids):
        yield ONCE
    below = {setup.ids[number][offset] for number, stands in enumerate(store.watermarks) for offset in range(stands)}
    if set(ids) != below:
        yield AGREEMENT
    if any(len(members) > setup.count for _, members in store.fired):
        yield SMALL
    before_last = [*store.open, *(record for _, members in store.fired for record in members[:-1])]
    before_last += [record for batch in store.batches for record in batch.members[:-1]]
    if any(setup.ids[number][offset] in setup.ends for number, offset in before_last):
        yield ENDED
    jobs = [job for worker in after.actors for job in worker.jobs]
    contents = {*store.fired, *((job.id, job.members) for job in jobs)}
    if len({id for id, _ in contents}) < len(contents):
        yield ONE_CONTENT
    tokens = [job.token for job in jobs]
    if len(set(tokens)) < len(tokens):
        yield ONE_TOLD
    if "complete" in label[0] and store.fired != before.store.fired and not _leased(before.store, label, after):
        yield FENCE


def _leased(before: Store, label: tuple, after: World) -> bool:
    """Was it completed under the token that the batch had?"""
    (id, _) = after.store.fired[-1]
    return any(batch.id == id and batch.token == after.store.last for batch in before.batches)


def calm(setup: Setup, world: World) -> World:
    """Faults stop: one worker is left, with what it has; nothing is late."""
    survivor = max(world.actors, key=lambda worker: len(worker.jobs) + len(worker.owes))
    return world._replace(actors=(survivor,), trouble=CALM, wire=())


def fair_step(setup: Setup, world: World) -> Step | None:
    """What a calm world does next."""
    return next(steps(setup, world), None)


def is_done(setup: Setup, world: World) -> bool:
    """Everything is read, and fired: what is too few for a group without a deadline stays."""
    fired = {setup.ids[number][offset] for _, members in world.store.fired for number, offset in members}
    rest = set("".join(setup.ids)) - fired
    return not world.store.batches and len(rest) == len(world.store.open) < (1 if setup.expire else setup.count)


RULES = Rules(steps, broken, calm, fair_step, is_done, DELIVERED)
