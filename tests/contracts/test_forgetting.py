"""A partition that is needed no more is removed with all that it holds, by its owner only."""

import pytest

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, ColdGroup, DeadRow, Partition, Source
from sluicegate.streams.errors import Fenced
from tests.contracts.given import claimed, picture, rows

COLD = ColdGroup(b"key", 1.5, b"state")


def full(store: Store, partition: Partition) -> None:
    """Entries, unsent rows and a dead row."""
    claim = claimed(store, partition)
    claim = store.commit(
        claim, Changes(5, entries=[b"a", b"b"], outbox=rows(1, 2, 3), source=Source("t", 1, "r"), put_cold=[COLD])
    )
    store.commit(claim, Changes(6, dead=[DeadRow(2, "rejected", 1)]))


def test_nothing_of_a_removed_partition_is_left_and_others_keep_theirs(store: Store, partition: Partition) -> None:
    other = partition._replace(number=30)  # its key begins with that of the removed one
    full(store, partition)
    full(store, other)
    before = picture(store, other)
    store.forget(claimed(store, partition))
    assert store.read(partition) is None
    assert store.partitions(partition.app) == [other]
    assert (list(store.pending(partition, 0, 9)), list(store.dead(partition, 9))) == ([], [])
    assert (list(store.keys(partition, None, 9)), list(store.due(partition, 9.0, 9))) == ([], [])
    assert picture(store, other) == before
    new = claimed(store, partition)
    assert (new.version, new.offset, new.number, new.first, new.last, new.source) == (0, -1, 0, 1, 0, None)
    assert list(store.restore(new)) == []


def test_an_older_claim_and_an_older_version_remove_nothing(store: Store, partition: Partition) -> None:
    full(store, partition)
    older = claimed(store, partition)
    begun = claimed(store, partition)
    store.commit(begun, Changes(7))
    before = picture(store, partition)
    for claim in (older, begun):
        with pytest.raises(Fenced):
            store.forget(claim)
    assert picture(store, partition) == before


def test_a_commit_under_the_claim_of_a_removed_partition_is_fenced(store: Store, partition: Partition) -> None:
    full(store, partition)
    claim = claimed(store, partition)
    store.forget(claim)
    for again in (lambda: store.commit(claim, Changes(8, outbox=rows(9))), lambda: store.forget(claim)):
        with pytest.raises(Fenced):
            again()
    assert store.read(partition) is None
