"""Kafka's side of `delivery: transactional`, one shard: epochs of its producer, its transaction, its cursor, what
readers see.

A call is a packet that lands as one step, or waits (None) while the last transaction is being ended. The markers that
end it are written apart: to the rows' partitions, and to the group that holds the cursor. What a mutant takes away is
asked for by its name.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.calls import REFUSED

Cursor = tuple[tuple[int, int], ...]
"""(lineage, its highest number), ascending."""


class Row(NamedTuple):
    """An outbox row; `id` is the offset that it was made of."""

    number: int
    lineage: int
    id: int


class Transaction(NamedTuple):
    """`ends`: it was committed, and its markers are on their way."""

    epoch: int
    rows: tuple[Row, ...] = ()
    cursor: Cursor | None = None
    ends: bool = False


class Kafka(NamedTuple):
    """`received` is what a read_committed reader has, in order. Without a mutant there is never more than one
    transaction."""

    epoch: int = 0
    transactions: tuple[Transaction, ...] = ()
    cursor: Cursor = ()
    received: tuple[Row, ...] = ()


def land(setup: Any, kafka: Kafka, packet: tuple) -> tuple[Kafka, Any] | None:
    """What Kafka is after a call, and its reply: the epoch, the cursor, () or REFUSED. None: it waits for markers."""
    what, epoch, *rest = packet
    if what in ("init", "cursor of"):
        waits = _ending(kafka) and setup.mutant != "opened-while-the-last-one-ends"
        return None if waits else (kafka, kafka.cursor) if what == "cursor of" else _opened(setup, kafka)
    if epoch != kafka.epoch and setup.mutant != "no-fencing":
        return kafka, REFUSED
    if what == "produce":
        return None if _found(kafka, epoch).ends else (_produced(setup, kafka, epoch, *rest), ())
    transaction = _found(kafka, epoch)
    if transaction.ends or not transaction.rows:
        return kafka, REFUSED
    return _with(
        kafka, transaction._replace(cursor=rest[0]) if what == "cursor" else transaction._replace(ends=True)
    ), ()


def _ending(kafka: Kafka) -> bool:
    return any(transaction.ends for transaction in kafka.transactions)


def _found(kafka: Kafka, epoch: int) -> Transaction:
    return next((transaction for transaction in kafka.transactions if transaction.epoch == epoch), Transaction(epoch))


def _with(kafka: Kafka, changed: Transaction) -> Kafka:
    others = tuple(transaction for transaction in kafka.transactions if transaction.epoch != changed.epoch)
    return kafka._replace(transactions=tuple(sorted((*others, changed), key=lambda item: item.epoch)))


def _opened(setup: Any, kafka: Kafka) -> tuple[Kafka, int]:
    """A new epoch: whoever had the last one is fenced, and what it left open is aborted."""
    rest = tuple(transaction for transaction in kafka.transactions if transaction.ends or setup.mutant == "no-fencing")
    return kafka._replace(epoch=kafka.epoch + 1, transactions=rest), kafka.epoch + 1


def _produced(setup: Any, kafka: Kafka, epoch: int, rows: tuple[Row, ...]) -> Kafka:
    if setup.mutant == "reads-uncommitted":
        kafka = kafka._replace(received=(*kafka.received, *rows))
    transaction = _found(kafka, epoch)
    return _with(kafka, transaction._replace(rows=transaction.rows + rows))


def timed_out(kafka: Kafka) -> Kafka:
    """What was open is aborted, under an epoch that nobody has."""
    return kafka._replace(epoch=kafka.epoch + 1, transactions=())


def aborted(kafka: Kafka, epoch: int) -> Kafka:
    """By the producer itself, which goes on."""
    return kafka._replace(
        transactions=tuple(transaction for transaction in kafka.transactions if transaction.epoch != epoch)
    )


def markers(setup: Any, kafka: Kafka) -> Iterator[tuple[tuple, Kafka]]:
    """The ends of what was committed: what is there of it is empty or None when its marker is written."""
    for transaction in kafka.transactions:
        if not transaction.ends:
            continue
        if transaction.rows:
            new = () if setup.mutant == "reads-uncommitted" else transaction.rows
            after = kafka._replace(received=(*kafka.received, *new))
            yield ("rows are visible", "Kafka", transaction.rows), _settled(after, transaction._replace(rows=()))
        if transaction.cursor is not None:
            yield (
                ("cursor is visible", "Kafka", transaction.cursor),
                _settled(kafka._replace(cursor=transaction.cursor), transaction._replace(cursor=None)),
            )


def _settled(kafka: Kafka, transaction: Transaction) -> Kafka:
    return (
        _with(kafka, transaction)
        if transaction.rows or transaction.cursor is not None
        else aborted(kafka, transaction.epoch)
    )
