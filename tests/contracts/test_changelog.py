"""The changelog: numbered entries, appended by commits, dropped from the front by `keep_from`."""

import pytest

from sluicegate.connectors.commits import MAX_ENTRY
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from tests.contracts.given import claimed, picture, seen


def test_entries_come_back_in_order_and_byte_for_byte(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"", bytes(range(256)), b"\x00\r\n$-1\r\n"]))
    claim = store.commit(claim, Changes(2, entries=[b"last"]))
    assert (claim.first, claim.last) == (1, 4)
    assert list(store.restore(claim)) == [b"", bytes(range(256)), b"\x00\r\n$-1\r\n", b"last"]


def test_more_entries_than_a_page_come_back_complete(store: Store, partition: Partition) -> None:
    entries = [b"%d" % number for number in range(1, 101)]
    claim = store.commit(claimed(store, partition), Changes(1, entries=entries))
    assert list(store.restore(claim)) == entries
    claim = store.commit(claim, Changes(2, keep_from=42))
    assert list(store.restore(claim)) == entries[41:]


def test_keep_from_drops_what_is_numbered_below_it_in_the_same_commit(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"1", b"2", b"3"]))
    claim = store.commit(claim, Changes(2, entries=[b"4"], keep_from=3))
    assert (claim.first, claim.last, list(store.restore(claim))) == (3, 4, [b"3", b"4"])
    claim = store.commit(claim, Changes(3, entries=[b"5"]))
    assert (claim.first, claim.last, seen(store, partition).entries) == (3, 5, [b"3", b"4", b"5"])


def test_keep_from_may_drop_everything_and_numbers_go_on(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"1", b"2"]))
    claim = store.commit(claim, Changes(2, entries=[b"3"], keep_from=4))
    assert (claim.first, claim.last, list(store.restore(claim))) == (4, 3, [])
    claim = store.commit(claim, Changes(3, entries=[b"4"]))
    assert (claim.first, claim.last, list(store.restore(claimed(store, partition)))) == (4, 4, [b"4"])


def test_keep_from_below_the_first_entry_drops_nothing(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"1", b"2", b"3"], keep_from=3))
    claim = store.commit(claim, Changes(2, keep_from=1))
    assert (claim.first, claim.last, list(store.restore(claim))) == (3, 3, [b"3"])


def test_keep_from_beyond_the_entries_is_refused_before_anything_changes(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"1"]))
    before = picture(store, partition)
    with pytest.raises(ValueError, match="keep_from 4"):
        store.commit(claim, Changes(2, entries=[b"2"], keep_from=4))
    assert picture(store, partition) == before


def test_several_entries_of_the_largest_size_fit_in_one_commit(store: Store, partition: Partition) -> None:
    entries = [bytes([number]) * MAX_ENTRY for number in range(4)]
    claim = store.commit(claimed(store, partition), Changes(1, entries=entries))
    assert list(store.restore(claim)) == entries


def test_an_entry_over_the_limit_is_refused_before_anything_changes(store: Store, partition: Partition) -> None:
    claim = claimed(store, partition)
    before = picture(store, partition)
    with pytest.raises(ValueError, match="over the limit"):
        store.commit(claim, Changes(1, entries=[b"fits", b"x" * (MAX_ENTRY + 1)]))
    assert picture(store, partition) == before
    assert store.commit(claim, Changes(1)).offset == 1


def test_who_restores_under_an_old_claim_gets_what_is_left_of_it(store: Store, partition: Partition) -> None:
    old = store.commit(claimed(store, partition), Changes(1, entries=[b"1", b"2", b"3"]))
    store.commit(claimed(store, partition), Changes(2, entries=[b"4"], keep_from=3))
    assert list(store.restore(old)) == [b"3"]
    store.commit(claimed(store, partition), Changes(3, keep_from=5))
    assert list(store.restore(old)) == []


def test_a_claim_without_entries_restores_nothing(store: Store, partition: Partition) -> None:
    assert list(store.restore(claimed(store, partition))) == []
