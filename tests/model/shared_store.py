"""The store's side of the shared buffer: insert, complete, look; each a transaction. What a mutant takes away is asked
for by its name."""

from typing import Any, NamedTuple

from tests.model.calls import REFUSED

Record = tuple[int, int]
HALVES = {"removed-before-the-message": ("remove", "write"), "message-before-the-removal": ("write", "remove")}
"""The calls into which a mutant breaks the completion."""


class Batch(NamedTuple):
    """A sealed group, in the store and in the hands of whoever was told to fire it; leased by its token; its id is its
    first record."""

    id: Record
    members: tuple[Record, ...]
    token: int


class Store(NamedTuple):
    """`open` are the records of the group that are in no batch, oldest first; `kept` the ids that are known although
    their records have left. History: `fired`, every (id, members) that was written, and the token of the `last` of
    them."""

    watermarks: tuple[int, ...]
    open: tuple[Record, ...] = ()
    batches: tuple[Batch, ...] = ()
    kept: frozenset = frozenset()
    fired: tuple = ()
    last: int = 0
    tokens: int = 0


def land(setup: Any, store: Store, packet: tuple) -> tuple[Store, object]:
    """insert: (where the watermark stands, batches to fire, what is still owed); take over and time is over: batches to
    fire; complete: () or REFUSED."""
    what, token, *arguments = packet
    if what == "insert":
        return _insert(setup, store, *arguments)
    if what == "move":
        return store._replace(watermarks=_moved(store, *arguments)), ()
    if what == "seal":
        return _full(setup, store)
    if what == "fill":
        return _filled(setup, store, *arguments), ()
    if what == "take over":
        return _taken_over(setup, store, arguments[0])
    if what == "time is over":
        return _sealed(store, store.open[: setup.count]) if store.open else (store, ())
    return _complete(setup, store, token, what, *arguments)


def _moved(store: Store, number: int, upto: int) -> tuple[int, ...]:
    return (*store.watermarks[:number], upto, *store.watermarks[number + 1 :])


def _insert(setup: Any, store: Store, number: int, begin: int, upto: int) -> tuple[Store, object]:
    stands = store.watermarks[number]
    if stands != begin and setup.mutant != "insert-without-the-watermark":
        return store, (stands, (), ())
    if setup.mutant == "watermark-before-the-insert" and stands < upto:
        return store._replace(watermarks=_moved(store, number, upto)), (begin, (), ("fill", 0, number, begin, upto))
    store = _filled(setup, store, number, begin, upto)
    if setup.mutant == "watermark-after-the-insert":
        return store, (upto, (), ("move", 0, number, upto))
    store = store._replace(watermarks=_moved(store, number, max(stands, upto)))
    if setup.mutant == "sealed-apart-from-the-insert":
        owes = ("seal", 0) if len(store.open) >= setup.count or _ends(setup, store.open) else ()
        return store, (upto, (), owes)
    store, jobs = _full(setup, store)
    return store, (upto, jobs, ())


def _filled(setup: Any, store: Store, number: int, begin: int, upto: int) -> Store:
    """The records whose ids are not known: known are those in the buffer, and those that are kept."""
    for offset in range(begin, upto):
        records = (*store.open, *(record for batch in store.batches for record in batch.members))
        if setup.ids[number][offset] not in {*store.kept, *_ids(setup, records)}:
            store = store._replace(open=(*store.open, (number, offset)))
    return store


def _ids(setup: Any, records: tuple[Record, ...]) -> set[str]:
    return {setup.ids[number][offset] for number, offset in records}


def _full(setup: Any, store: Store) -> tuple[Store, tuple[Batch, ...]]:
    """While the group has enough records, or one that ends it, its oldest are sealed; each batch for whoever completed
    it."""
    jobs: tuple[Batch, ...] = ()
    while full := next(
        (at for at, _ in enumerate(store.open, 1) if at == setup.count or _ends(setup, store.open[:at])), 0
    ):
        store, more = _sealed(store, store.open[:full])
        jobs += more
    return store, jobs


def _ends(setup: Any, records: tuple[Record, ...]) -> bool:
    """Does one of them end its group?"""
    return bool(_ids(setup, records) & {*setup.ends})


def _sealed(store: Store, members: tuple[Record, ...]) -> tuple[Store, tuple[Batch, ...]]:
    rest = tuple(record for record in store.open if record not in members)
    batch = Batch(members[0], members, store.tokens + 1)
    return store._replace(open=rest, batches=tuple(sorted((*store.batches, batch))), tokens=batch.token), (batch,)


def _taken_over(setup: Any, store: Store, id: Record) -> tuple[Store, tuple[Batch, ...]]:
    """The same records under a new token."""
    sealed_batch = next((batch for batch in store.batches if batch.id == id), None)
    if sealed_batch is None or setup.mutant == "nobody-looks-for-what-others-left":
        return store, ()
    rest = tuple(batch for batch in store.batches if batch != sealed_batch)
    if setup.mutant == "made-anew-when-taken-over":
        store = store._replace(batches=rest, open=(*sealed_batch.members, *store.open))
        return _sealed(store, store.open[: setup.count])
    if setup.mutant == "taken-over-without-a-new-token":
        return store, (sealed_batch,)
    batch = sealed_batch._replace(token=store.tokens + 1)
    return store._replace(batches=tuple(sorted((*rest, batch))), tokens=batch.token), (batch,)


def _complete(
    setup: Any, store: Store, token: int, what: str, id: Record, members: tuple[Record, ...]
) -> tuple[Store, object]:
    """Its rows go and its message is written, if the token is that of the batch."""
    sealed_batch = next((batch for batch in store.batches if batch.id == id), None)
    second = what == HALVES.get(setup.mutant, ("", ""))[1]
    ours = sealed_batch is not None and (sealed_batch.token == token or setup.mutant == "completed-without-its-lease")
    if not ours and not second:
        return store, REFUSED
    batches = store.batches if what == "write" else tuple(batch for batch in store.batches if batch != sealed_batch)
    fired = store.fired if what == "remove" else (*store.fired, (id, members))
    kept = (
        store.kept | _ids(setup, members)
        if setup.keeps and setup.mutant != "ids-forgotten-at-the-end-of-their-batch"
        else store.kept
    )
    return store._replace(batches=batches, fired=fired, last=token, kept=frozenset(kept)), ()
