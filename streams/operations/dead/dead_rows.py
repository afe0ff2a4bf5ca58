"""Dead rows are outputs that the broker rejected: list them, put them into their outbox again, or drop them."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sluicegate.streams.aggregation.durable.entry import Amendment
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import NOBODY, Changes, Claim, OutboxRow, Partition
from sluicegate.streams.journal.amending import Person, appended
from sluicegate.streams.outbox.rows import renumbered

PAGE = 1000
RETRIED, DROPPED = "dead retry", "dead drop"


class DeadOutput(NamedTuple):
    """A dead `row` of `partition`, with the broker's reason and the number of attempts."""

    partition: Partition
    row: OutboxRow
    reason: str
    attempts: int


def dead_rows(store: Store, app: str, agents: Sequence[str], limit: int) -> Iterator[DeadOutput]:
    """Up to `limit` dead rows of each partition, ordered by partition and number. Raises PersistenceError."""
    for partition in store.partitions(app):
        if partition.agent in agents:
            for row, dead in store.dead(partition, limit):
                yield DeadOutput(partition, row, dead.reason, dead.attempts)


def requeue(store: Store, partition: Partition, wanted: Callable[[OutboxRow], bool], person: Person) -> int:
    """Moves these dead rows of the partition back into its outbox, each with a new number and its old id: once, even if
    the command is killed. The owner claims again and sends them. Returns the number of rows. Raises Fenced when another
    process claimed in between, and PersistenceError (it is unknown whether the page was moved). Earlier pages of PAGE
    rows stay moved."""
    return _remove(store, partition, wanted, person, RETRIED)


def drop(store: Store, partition: Partition, wanted: Callable[[OutboxRow], bool], person: Person) -> int:
    """Deletes these dead rows from the store: they are never sent. Returns and raises as `requeue`."""
    return _remove(store, partition, wanted, person, DROPPED)


def _remove(store: Store, partition: Partition, wanted: Callable[[OutboxRow], bool], person: Person, what: str) -> int:
    claim = store.claim(partition, person.token, NOBODY)
    rows = [row for row, _ in store.dead(partition, 1_000_000) if wanted(row)]
    for at in range(0, len(rows), PAGE):
        claim = _page(store, claim, rows[at : at + PAGE], person, what)
    return len(rows)


def _page(store: Store, claim: Claim, rows: Sequence[OutboxRow], person: Person, what: str) -> Claim:
    """Commits one page: the rows are removed from the dead rows, and with RETRIED added to the outbox."""
    again = rows if what == RETRIED else ()
    new = [renumbered(row, claim.partition, number, claim.token) for number, row in enumerate(again, claim.number + 1)]
    gone = [row.number for row in rows]
    notes = [Amendment(claim.store_time, person.who, what, row.id, person.why) for row in rows]
    changes = Changes(claim.offset, claim.epoch, outbox=new, revived=gone, trying=claim.trying)
    return appended(store, claim, changes, amended=notes)
