"""The way out of one shard under `delivery: transactional`: values of the model, and an owner's calls of Kafka.

It is opened after each claim (init, then the cursor), asks the store by a commit whether the claim stands, and sends
what waits: rows, cursor, end. The calls run beside the owner's loop, so those of one that is gone may go on (`wire`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model import coordinator
from tests.model.calls import REFUSED, Step
from tests.model.coordinator import Cursor, Kafka, Row

CLOSED, OPENED, OPEN, FILLED, COMPLETE, STORING = range(6)
WAITING, OUT, SENT, DEAD = range(4)


class Trouble(NamedTuple):
    """How much may still go wrong. `faults`: calls without an answer, of Kafka and of the store; `timeouts`: of
    transactions."""

    claims: int = 2
    crashes: int = 0
    faults: int = 0
    timeouts: int = 0
    rewinds: int = 0


CALM = Trouble(claims=1 << 30)


class Store(NamedTuple):
    """The partition's row and outbox. `fires` is history: every row ever committed; `dead` the ids of those that
    died."""

    token: int = 0
    version: int = 0
    offset: int = 0
    number: int = 0
    rows: tuple[Row, ...] = ()
    dead: tuple[int, ...] = ()
    fires: tuple[Row, ...] = ()


class Owner(NamedTuple):
    """`queue` is (row, how far its sending is), all that the store keeps; token 0: it has not claimed. `doubted`: a
    commit is to ask the store whether the claim stands. `reach` is the cursor of the transaction under way; `limit` its
    rows, fewer after a refusal."""

    token: int = 0
    version: int = 0
    offset: int = 0
    number: int = 0
    queue: tuple = ()
    lane: int = CLOSED
    epoch: int = 0
    cursor: Cursor = ()
    reach: Cursor = ()
    doubted: bool = False
    limit: int = 9


class World(NamedTuple):
    """`wire`: calls of Kafka whose sender gave up or is gone, each a sequence of packets; `saved`: where the store may
    go back to."""

    store: Store
    owners: tuple[Owner, ...]
    trouble: Trouble
    kafka: Kafka = Kafka()
    wire: tuple = ()
    tokens: int = 0
    saved: tuple = ()
    rewound: bool = False


class Setup(NamedTuple):
    """`records` come in, a row each; the topic of row `refused` takes it never; a cursor names at most `most`
    lineages."""

    name: str
    covers: str
    trouble: Trouble
    records: int = 2
    owners: int = 2
    refused: int = -1
    most: int = 60
    mutant: str = ""

    def start(self) -> World:
        """Nothing read, nothing owned."""
        return World(Store(), (Owner(),) * self.owners, self.trouble)


def less(world: World, kind: str) -> World:
    if world.trouble == CALM:
        return world
    return world._replace(trouble=world.trouble._replace(**{kind: getattr(world.trouble, kind) - 1}))


def put(world: World, index: int, owner: Owner, **changed: object) -> World:
    owners = tuple(sorted((*world.owners[:index], owner, *world.owners[index + 1 :])))
    return world._replace(owners=owners, **changed)  # type: ignore[arg-type]


def gone(world: World, index: int) -> World:
    """The owner has forgotten everything, or its process is dead; the call that it was in may go on."""
    owner = world.owners[index]
    cursor, end = ("cursor", owner.epoch, owner.reach), ("end", owner.epoch)
    rest = {FILLED: (cursor, end), COMPLETE: (end,)}.get(owner.lane)
    wire = tuple(sorted((*world.wire, rest), key=str)) if rest else world.wire
    return put(world, index, Owner(), wire=wire)


def way_out(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """The next call of Kafka, if one may be made."""
    owner = world.owners[index]
    first, then = _open, _read
    if setup.mutant == "cursor-read-before-the-opening":
        first, then = then, first
    if owner.lane == CLOSED and not owner.doubted:
        yield from first(setup, world, index, owner._replace(lane=OPENED))
    elif owner.lane == OPENED:
        doubted = setup.mutant != "sends-without-asking-the-store"
        yield from then(setup, world, index, owner._replace(lane=OPEN, doubted=doubted))
    elif owner.lane == OPEN and not owner.doubted:
        yield from _send(setup, world, index)
    elif owner.lane == FILLED:
        after = owner._replace(lane=COMPLETE)
        yield from _called(setup, world, index, ("cursor", owner.epoch, owner.reach), after)
    elif owner.lane == COMPLETE:
        yield from _end(setup, world, index)
    elif owner.lane == STORING:
        kafka = world.kafka._replace(cursor=owner.cursor)
        yield ("cursor apart", owner.token, owner.cursor), put(world, index, owner._replace(lane=OPEN), kafka=kafka)


def _open(setup: Setup, world: World, index: int, after: Owner) -> Iterator[Step]:
    """A new epoch. Without an answer it is asked for again, by a new producer."""
    for label, then in _called(setup, world, index, ("init", 0), after):
        mine = next((at for at, owner in enumerate(then.owners) if owner == after), None)
        yield label, then if mine is None else put(then, mine, after._replace(epoch=then.kafka.epoch))


def _read(setup: Setup, world: World, index: int, after: Owner) -> Iterator[Step]:
    """The cursor, once nothing is being ended."""
    landed = coordinator.land(setup, world.kafka, ("cursor of", 0))
    if landed is not None:
        cursor = () if setup.mutant == "cursor-ignored" else landed[1]
        if setup.mutant == "unknown-taken-as-failed" and after.cursor:
            cursor = after.cursor
        yield ("read the cursor", after.token, cursor), put(world, index, after._replace(cursor=cursor))


def _called(
    setup: Setup, world: World, index: int, packet: tuple, after: Owner, unheard: Owner | None = None
) -> Iterator[Step]:
    """A call: answered; refused, since somebody else opened or time is up; or the coordinator died, having acted, or to
    act later."""
    owner = world.owners[index]
    landed = coordinator.land(setup, world.kafka, packet)
    if landed is None:
        return
    kafka, reply = landed
    label = (packet[0], owner.token, packet[2:])
    if reply == REFUSED:
        yield (*label, REFUSED), put(world, index, _failed(setup, owner, fenced=True))
        return
    yield label, put(world, index, after, kafka=kafka)
    if world.trouble.faults:
        failed = put(less(world, "faults"), index, unheard or _failed(setup, owner))
        yield (*label, "reply lost"), failed._replace(kafka=kafka)
        yield (*label, "bytes late"), failed._replace(wire=tuple(sorted((*world.wire, (packet,)), key=str)))


def _failed(setup: Setup, owner: Owner, fenced: bool = False) -> Owner:
    """Whether its rows were sent, the next cursor tells. Who was fenced asks the store before it fences others."""
    kept = owner.cursor if setup.mutant == "unknown-taken-as-failed" else ()
    return _as(owner, OUT, WAITING)._replace(lane=CLOSED, epoch=0, cursor=kept, reach=(), doubted=fenced)


def _as(owner: Owner, was: int, state: int, rows: tuple[Row, ...] | None = None) -> Owner:
    """With all rows of one state, or only these of them, in another."""
    taken = [row for row, old in owner.queue if old == was and (rows is None or row in rows)]
    return owner._replace(queue=tuple((row, state if row in taken else old) for row, old in owner.queue))


def _end(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """Commit it. Nobody knows what became of it without an answer."""
    owner = world.owners[index]
    sent = _as(owner, OUT, SENT)._replace(lane=OPEN, cursor=owner.reach, reach=(), limit=9)
    unheard = None
    if setup.mutant == "unknown-taken-as-sent":
        unheard = sent._replace(lane=CLOSED, cursor=())
    elif setup.mutant == "goes-on-under-its-epoch":
        unheard = _failed(setup, owner)._replace(lane=OPEN, epoch=owner.epoch, cursor=owner.cursor)
    after = sent._replace(lane=STORING) if setup.mutant == "cursor-after-the-transaction" else sent
    yield from _called(setup, world, index, ("end", owner.epoch), after, unheard)


def _send(setup: Setup, world: World, index: int) -> Iterator[Step]:
    """What the cursor knows counts as sent; of the rest a transaction. Nothing passes a row that is dead before the
    store knows."""
    owner = world.owners[index]
    if any(state == DEAD for _, state in owner.queue) and setup.mutant != "passes-what-is-not-yet-dead":
        return
    waiting = [row for row, state in owner.queue if state == WAITING]
    known = tuple(row for row in waiting if row.number <= dict(owner.cursor).get(_named(setup, row), 0))
    rows = _batch(setup, owner, waiting)
    if known:
        yield ("known to be sent", owner.token, known), put(world, index, _as(owner, WAITING, SENT, known))
    elif any(row.id == setup.refused for row in rows):
        yield _refused(world, index, rows)
    elif rows:
        yield from _produce(setup, world, index, rows)


def _produce(setup: Setup, world: World, index: int, rows: tuple[Row, ...]) -> Iterator[Step]:
    owner = world.owners[index]
    reach = _reached(setup, owner, rows)
    apart = setup.mutant in ("cursor-before-the-transaction", "cursor-after-the-transaction")
    filled = _as(owner, WAITING, OUT, rows)._replace(lane=COMPLETE if apart else FILLED, reach=reach)
    for label, after in _called(setup, world, index, ("produce", owner.epoch, rows), filled):
        if label[-1] == "bytes late":
            continue  # as if they never came: nobody ends that transaction
        early = setup.mutant == "cursor-before-the-transaction" and label[-1] != REFUSED
        yield label, after._replace(kafka=after.kafka._replace(cursor=reach)) if early else after


def _named(setup: Setup, row: Row) -> int:
    return 0 if setup.mutant == "cursor-without-lineages" else row.lineage


def _reached(setup: Setup, owner: Owner, rows: tuple[Row, ...]) -> Cursor:
    """The cursor with these rows, without what the store no longer keeps."""
    lowest = owner.queue[0][0].number if owner.queue else 1 << 30
    known = {lineage: number for lineage, number in owner.cursor if number >= lowest}
    cursor = known | {_named(setup, row): row.number for row in rows}
    return tuple(sorted(sorted(cursor.items(), key=lambda item: item[1])[-setup.most :]))


def _batch(setup: Setup, owner: Owner, waiting: list[Row]) -> tuple[Row, ...]:
    """As many as a transaction takes, of as many lineages as its cursor can name."""
    rows: tuple[Row, ...] = ()
    named = {lineage for lineage, _ in _reached(setup, owner, ())}
    for row in waiting[: owner.limit]:
        named.add(row.lineage)
        if len(named) > setup.most and setup.mutant != "cursor-forgets-the-oldest":
            break
        rows = (*rows, row)
    return rows


def _refused(world: World, index: int, rows: tuple[Row, ...]) -> Step:
    """The transaction is aborted; which row it was, ever smaller ones tell."""
    owner = world.owners[index]
    label = ("row refused", owner.token, rows)
    if len(rows) == 1:
        return label, put(world, index, _as(owner, WAITING, DEAD, rows)._replace(limit=9))
    return label, put(world, index, owner._replace(limit=len(rows) // 2))


def late_calls(setup: Setup, world: World) -> Iterator[Step]:
    """Calls whose sender gave up or is gone reach the coordinator; what is refused ends its sequence."""
    for at, ((what, epoch, *arguments), *behind) in enumerate(world.wire):
        landed = coordinator.land(setup, world.kafka, (what, epoch, *arguments))
        if landed is None:
            continue
        kafka, reply = landed
        rest = () if reply == REFUSED or not behind else (tuple(behind),)
        wire = tuple(sorted((*world.wire[:at], *world.wire[at + 1 :], *rest), key=str))
        yield (
            (f"late {what}", epoch, arguments, REFUSED if reply == REFUSED else "lands"),
            world._replace(kafka=kafka, wire=wire),
        )
