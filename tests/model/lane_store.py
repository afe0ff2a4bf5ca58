"""The store's side of one lane: claim, mark, add, requeue; each a transaction. What a mutant takes away is asked for by
its name."""

from typing import Any, NamedTuple

from tests.model.calls import REFUSED

PENDING, DISPATCHED, DEAD = range(3)


class Row(NamedTuple):
    """`place` is that in the sequence of the table; `number` 0 until a claim gave one; `waits`: its back-off is not
    over."""

    id: int
    place: int
    number: int = 0
    state: int = PENDING
    attempts: int = 0
    waits: bool = False


class Given(NamedTuple):
    """A row as whoever claimed it has it. Receivers know it by (sender, number)."""

    id: int
    number: int
    attempts: int
    sender: int = 0


class Store(NamedTuple):
    """`token` has the lane (0: nobody), `number` is the last that was given; `places` the last place in the table that
    was taken."""

    token: int = 0
    number: int = 0
    rows: tuple[Row, ...] = ()
    places: int = 0


def land(setup: Any, store: Store, packet: tuple) -> tuple[Store, object]:
    """A claim gives the batch, a mark () or REFUSED."""
    what, token, *given_ = packet
    if what == "claim":
        taken = _numbered(setup, store._replace(token=token), *given_)
        return taken, given(setup, taken)
    return _marked(setup, store, token, *given_)


def _numbered(setup: Any, store: Store, limit: int) -> Store:
    """Numbers to as many rows as are claimed: those that have none come last, in the order of the table, as far as it
    is seen."""
    if setup.mutant == "number-from-what-is-left":
        store = store._replace(number=max((row.number for row in store.rows if row.state == PENDING), default=0))
    rows, number, taken = list(store.rows), store.number, 0
    again = setup.mutant == "numbers-anew-at-each-claim"
    highest = max((row.place for row in rows if row.number), default=0)
    for at in sorted(range(len(rows)), key=lambda at: (rows[at].number or 1 << 30, rows[at].place)):
        row = rows[at]
        if row.state != PENDING or (row.waits and setup.mutant == "passes-what-waits"):
            continue
        if row.waits or taken == limit:
            break
        taken += 1
        if setup.mutant == "reads-on-from-the-highest-place" and not row.number and row.place < highest:
            continue
        if not row.number or again:
            number += 1
            rows[at] = row._replace(number=number)
    return store._replace(rows=tuple(rows), number=number)


def given(setup: Any, store: Store) -> tuple[Given, ...]:
    """The batch of whoever has the lane: numbered pending rows, none behind one that waits, none further from the first
    than receivers remember; a row that failed before goes alone."""
    batch: list[Given] = []
    pending = sorted((row for row in store.rows if row.state == PENDING and row.number), key=lambda row: row.number)
    for row in pending:
        if row.waits:
            if setup.mutant == "passes-what-waits":
                continue
            break
        far = batch and row.number - batch[0].number >= setup.window and setup.mutant != "batches-wider-than-the-window"
        if len(batch) == setup.limit or far or (batch and row.attempts):
            break
        batch.append(
            Given(row.id, row.number, row.attempts, store.token if setup.mutant == "sender-named-by-its-process" else 0)
        )
        if row.attempts:
            break
    return tuple(batch)


def _marked(setup: Any, store: Store, token: int, batch: tuple[Given, ...], outcomes: tuple) -> tuple[Store, object]:
    if token != store.token and setup.mutant != "marks-without-the-token":
        return store, REFUSED
    named, table_rows = dict(outcomes), {row.id: row for row in batch}
    rows = tuple(
        _settled(setup, row, table_rows[row.id], named[row.id]) if row.id in named else row for row in store.rows
    )
    return store._replace(rows=rows), ()


def _settled(setup: Any, row: Row, claimed: Given, outcome: object) -> Row:
    """Unless it is no longer what was claimed: requeued, or counted already by a mark whose reply was lost."""
    if row.state != PENDING or row.number != claimed.number:
        return row
    if outcome == DISPATCHED:
        return row._replace(state=DISPATCHED)
    if row.attempts != claimed.attempts and setup.mutant != "a-repeated-mark-counts-again":
        return row
    attempts = row.attempts + 1
    return row._replace(
        attempts=attempts, state=DEAD if attempts >= setup.attempts else PENDING, waits=attempts < setup.attempts
    )


def added(setup: Any, store: Store, id: int, place: int) -> Store:
    """The row is seen from now on. One whose id is there is left out."""
    if any(row.id == id for row in store.rows) and setup.mutant != "added-without-looking-at-its-id":
        return store
    return store._replace(rows=tuple(sorted((*store.rows, Row(id, place)))))


def requeued(setup: Any, store: Store, id: int) -> Store:
    """Pending again, without attempts, and to be numbered anew: a mark of the time before names the old number."""
    kept = setup.mutant == "requeued-under-its-number"
    return store._replace(
        rows=tuple(Row(row.id, row.place, row.number if kept else 0) if row.id == id else row for row in store.rows)
    )


def rested(store: Store) -> Store:
    """The back-off of what waits is over."""
    return store._replace(rows=tuple(row._replace(waits=False) for row in store.rows))
