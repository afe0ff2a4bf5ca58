"""The outbox: rows in number order, gone exactly when their delivery was reported or they were declared dead."""

import pytest

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, DeadRow, Partition
from sluicegate.streams.errors import Fenced
from tests.contracts import scenarios
from tests.contracts.given import claimed, picture, row, rows, seen


def numbers(store: Store, partition: Partition, after: int = 0, limit: int = 1000) -> list[int]:
    return [row.number for row in store.pending(partition, after, limit)]


def test_unsent_rows_come_in_number_order_and_in_pages(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(2, 9, 10, 100)))
    store.commit(claim, Changes(2, outbox=rows(101, 1000)))
    assert numbers(store, partition) == [2, 9, 10, 100, 101, 1000]
    assert numbers(store, partition, limit=2) == [2, 9]
    assert numbers(store, partition, after=9, limit=3) == [10, 100, 101]
    assert numbers(store, partition, after=1000) == []
    assert numbers(store, partition._replace(number=8)) == []


def test_rows_come_back_byte_for_byte(store: Store, partition: Partition) -> None:
    headers = [("h", b"1"), ("h", None), ("h", b"1"), ("ü-é", bytes(range(256))), ("", b"")]
    sent = [
        row(1, key=None, value=None, headers=[]),
        row(2, key=b"", value=b"", headers=headers),
        row(3, key=b"\x00\xff\xfe", value=bytes(range(256)) * 100, headers=headers * 20),
        row(2**53 - 1, lineage="l" * 64, id="i", topic="t" * 249, partition=2**31 - 1),
    ]
    store.commit(claimed(store, partition), Changes(1, outbox=sent))
    assert list(store.pending(partition, 0, 10)) == sent


def test_exactly_the_reported_rows_go_even_when_7_is_reported_before_6(store: Store, partition: Partition) -> None:
    scenarios.only_reported_rows_go(store, partition)


def test_reports_of_rows_that_are_not_there_change_nothing_else(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(5, 6)))
    store.commit(claim, Changes(2, dispatched=[1, 2, 4, 6, 7, 8, 999]))
    assert numbers(store, partition) == [5]


def test_all_rows_may_go_and_numbers_still_grow(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(1, 2)))
    claim = store.commit(claim, Changes(1, dispatched=[1, 2]))
    assert (numbers(store, partition), claim.number, claimed(store, partition).number) == ([], 2, 2)


def test_a_claim_leaves_unsent_rows_of_earlier_lineages_alone(store: Store, partition: Partition) -> None:
    store.commit(claimed(store, partition), Changes(1, outbox=[row(1, lineage="old")]))
    store.commit(claimed(store, partition), Changes(2, outbox=[row(2, lineage="new")]))
    assert [row.lineage for row in store.pending(partition, 0, 10)] == ["old", "new"]


def test_thousands_of_rows_fit_in_one_commit_and_go_in_one_commit(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(*range(1, 5001))))
    assert numbers(store, partition, limit=6000) == list(range(1, 5001))
    store.commit(claim, Changes(2, dispatched=range(1, 5001, 2)))
    assert numbers(store, partition, limit=6000) == list(range(2, 5001, 2))


def test_a_dead_row_leaves_the_outbox_for_the_dead(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(1, 2, 3)))
    store.commit(claim, Changes(2, dispatched=[3], dead=[DeadRow(2, "too large", 1), DeadRow(77, "never there", 1)]))
    view = seen(store, partition)
    assert (numbers(store, partition), view.unsent, view.dead) == ([1], 1, 1)


def test_dead_rows_come_back_byte_for_byte_and_in_pages(store: Store, partition: Partition) -> None:
    sent = [row(1, key=None, value=None, headers=[("h", None)]), row(2, key=b"\xff", value=bytes(range(256))), row(30)]
    claim = store.commit(claimed(store, partition), Changes(1, outbox=sent))
    table_rows = [DeadRow(1, "too large", 1), DeadRow(2, "ü", 7), DeadRow(30, "", 2)]
    store.commit(claim, Changes(2, dead=table_rows))
    assert list(store.dead(partition, 10)) == list(zip(sent, table_rows, strict=True))
    assert [dead.number for _, dead in store.dead(partition, 2)] == [1, 2]
    assert list(store.dead(partition._replace(number=8), 10)) == []


def test_a_dead_row_is_revived_as_a_new_one_or_not_at_all(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(1, 2, 3)))
    claim = store.commit(claim, Changes(2, dead=[DeadRow(1, "", 1), DeadRow(2, "", 1), DeadRow(3, "", 1)]))
    revival = Changes(2, outbox=[row(4, id="id-1"), row(5, id="id-3")], revived=[1, 3, 99])
    mine = claimed(store, partition)
    with pytest.raises(Fenced):
        store.commit(claim, revival)
    assert ([dead.number for _, dead in store.dead(partition, 10)], numbers(store, partition)) == ([1, 2, 3], [])
    store.commit(mine, revival)
    assert [dead.number for _, dead in store.dead(partition, 10)] == [2]
    assert [(row.number, row.id) for row in store.pending(partition, 0, 10)] == [(4, "id-1"), (5, "id-3")]


def test_a_row_that_is_reported_dead_and_delivered_at_once_is_kept_as_dead(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(1)))
    store.commit(claim, Changes(2, dispatched=[1], dead=[DeadRow(1, "reason", 2)]))
    assert (seen(store, partition).unsent, seen(store, partition).dead) == (0, 1)


@pytest.mark.parametrize("wrong", [[3], [2], [4, 4], [5, 4]])
def test_numbers_that_do_not_grow_are_refused_before_anything_changes(
    store: Store, partition: Partition, wrong: list[int]
) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(3)))
    before = picture(store, partition)
    with pytest.raises(ValueError, match="must grow"):
        store.commit(claim, Changes(2, outbox=rows(*wrong)))
    assert picture(store, partition) == before


def test_a_topic_of_the_same_name_in_another_cluster_is_another_partition(store: Store, partition: Partition) -> None:
    there = partition._replace(topic=f"{partition.topic}@west")
    here, other = claimed(store, partition), claimed(store, there)
    sent = [row(1, topic="out"), row(2, topic="out@west")]
    here = store.commit(here, Changes(5, outbox=sent))
    store.commit(other, Changes(9, outbox=[row(7, topic="out")]))
    assert (seen(store, partition).claim.offset, seen(store, there).claim.offset) == (5, 9)
    assert list(store.pending(partition, 0, 10)) == sent
    store.commit(here, Changes(6, dispatched=[2]))
    assert (numbers(store, partition), numbers(store, there)) == ([1], [7])
