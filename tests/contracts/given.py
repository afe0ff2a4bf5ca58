"""Values and stores to test with."""

import itertools
from typing import Any

import msgspec

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Claim, ColdGroup, OutboxRow, Partition, PartitionView

tokens = (f"token-{number}" for number in itertools.count(1))


def row(number: int, **fields: Any) -> OutboxRow:
    """An outbox row with this number; the other fields may be named."""
    standard = {
        "lineage": "line",
        "id": f"id-{number}",
        "topic": "out",
        "partition": 0,
        "key": b"k",
        "value": b"v",
        "headers": [],
    }
    return OutboxRow(number, **{**standard, **fields})


def rows(*numbers: int) -> list[OutboxRow]:
    return [row(number) for number in numbers]


def claimed(store: Store, partition: Partition, member: str = "member") -> Claim:
    """A claim with a token of its own."""
    return store.claim(partition, next(tokens), member)


def seen(store: Store, partition: Partition) -> PartitionView:
    """What a reader sees, which must be there."""
    view = store.read(partition)
    assert view is not None
    return view


def picture(store: Store, partition: Partition) -> tuple[object, ...]:
    """Everything of the partition except the time: two equal pictures mean that nothing was changed."""
    view = seen(store, partition)
    unsent = store.pending(partition, 0, 1_000_000)
    cold = store.keys(partition, None, 1_000_000)
    return (msgspec.structs.replace(view.claim, store_time=0), *view.entries, *unsent, view.dead, *cold)


def opened(url: str) -> Store:
    """The store behind the URL, migrated."""
    store = open_store(url)
    store.migrate()
    return store


PAST = ColdGroup(b"past", 3.5, b"state")


def everything() -> Changes:
    """Changes that use every field, for a claim that holds rows 1 to 4, entries 1 and 2, and the cold groups `old` and
    `past`."""
    return Changes(
        50,
        epoch=7,
        entries=[b"e3", b"e4"],
        keep_from=2,
        outbox=rows(5, 6),
        dispatched=[1, 3],
        put_cold=[ColdGroup(b"new", 5.5, b"state")],
        drop_cold=[b"old"],
        drop_due=[PAST],
    )


def full() -> Changes:
    """Changes after which `everything` may follow."""
    old = ColdGroup(b"old", 7.5, b"state")
    return Changes(1, entries=[b"e1", b"e2"], outbox=rows(1, 2, 3, 4), put_cold=[old, PAST])
