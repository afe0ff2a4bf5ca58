"""Cold groups: rows that a commit adds and removes, read by key, by deadline and in pages."""

import random

import pytest

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import COLD_KEY, Changes, ColdGroup, Partition
from sluicegate.streams.errors import Fenced
from tests.contracts.given import claimed, picture

EVER = 1e18


def group(name: str, due: float | None = None, state: bytes = b"state") -> ColdGroup:
    return ColdGroup(name.encode(), due, state)


def test_groups_come_back_by_key_byte_for_byte(store: Store, partition: Partition) -> None:
    odd = [
        ColdGroup(b"", 1.25, b""),
        ColdGroup(b"\xff\x00\r\n", None, bytes(range(256))),
        ColdGroup(b"a'\\%s?", 0.1, b"\0"),
    ]
    store.commit(claimed(store, partition), Changes(1, put_cold=odd))
    assert sorted(store.cold(partition, [b"", b"\xff\x00\r\n", b"a'\\%s?", b"absent"])) == sorted(odd)
    assert list(store.cold(partition, [b"absent"])) == list(store.cold(partition, [])) == []


def test_a_group_that_is_dropped_is_gone_and_others_stay(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, put_cold=[group("a", 1.0), group("b", 2.0), group("c")]))
    store.commit(claim, Changes(2, drop_cold=[b"a", b"c", b"absent"]))
    assert list(store.keys(partition, None, 9)) == [group("b", 2.0)]
    assert list(store.due(partition, EVER, 9)) == [group("b", 2.0)]
    assert list(store.cold(partition, [b"a", b"b", b"c"])) == [group("b", 2.0)]


def test_groups_with_the_nearest_deadlines_are_dropped_and_those_behind_them_stay(
    store: Store, partition: Partition
) -> None:
    """Also those with the same deadline as the last one, of another partition, and without one."""
    other = partition._replace(number=30)
    same = [group(f"key-{number}", 2.0) for number in range(6)]
    claim = store.commit(claimed(store, partition), Changes(1, put_cold=[group("z", 1.0), *same, group("never")]))
    store.commit(claimed(store, other), Changes(1, put_cold=[group("a", 0.5), *same]))
    gone = store.due(partition, EVER, 4)
    store.commit(claim, Changes(2, drop_cold=[b"absent"], drop_due=gone, put_cold=[group("z", 1.0, b"again")]))
    assert list(gone) == [group("z", 1.0), *same[:3]]
    assert sorted(store.keys(partition, None, 9)) == sorted([*same[3:], group("never"), group("z", 1.0, b"again")])
    assert sorted(store.due(partition, EVER, 9)) == sorted([*same[3:], group("z", 1.0, b"again")])
    assert len(store.keys(other, None, 9)) == 7


@pytest.mark.parametrize("due", [None, 1.0, 9.0])
def test_a_group_replaces_one_of_the_same_key_with_its_deadline(
    store: Store, partition: Partition, due: float | None
) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, put_cold=[group("a", 5.0), group("b", 6.0)]))
    claim = store.commit(claim, Changes(2, put_cold=[group("a", due, b"newer")]))
    assert list(store.cold(partition, [b"a"])) == [group("a", due, b"newer")]
    others = [group("a", due, b"newer")] if due is not None else []
    assert sorted(store.due(partition, EVER, 9)) == [*others, group("b", 6.0)]
    store.commit(claim, Changes(3, drop_cold=[b"b"], put_cold=[group("b", 7.0, b"again")]))
    assert list(store.cold(partition, [b"b"])) == [group("b", 7.0, b"again")]


def test_the_nearest_deadline_comes_first_and_none_after_the_given_time(store: Store, partition: Partition) -> None:
    many = [group(f"key-{number:03}", 1e9 + number / 8) for number in range(100)]
    store.commit(claimed(store, partition), Changes(1, put_cold=[*many[::-1], group("never"), group("past", -3.5)]))
    assert list(store.due(partition, 1e9 + 1.0, 100)) == [group("past", -3.5), *many[:9]]
    assert list(store.due(partition, EVER, 3)) == [group("past", -3.5), *many[:2]]
    assert list(store.due(partition, -4.0, 3)) == []


def test_pages_by_key_have_every_group_once(store: Store, partition: Partition) -> None:
    many = [group(f"{number}", float(number)) for number in range(1, 1000)]
    store.commit(claimed(store, partition), Changes(1, put_cold=[ColdGroup(b"", None, b""), *many]))
    after, pages = None, list[ColdGroup]()
    while page := store.keys(partition, after, 64):
        pages += page
        after = page[-1].key
    assert len(pages) == 1000
    assert sorted(pages) == sorted([ColdGroup(b"", None, b""), *many])


def test_groups_before_a_key_come_in_the_order_of_bytes(store: Store, partition: Partition) -> None:
    """Also if their keys have different lengths."""
    chance = random.Random(5)
    keys = {b"", b"\x00", b"\x00\x00", b"\xff", b"\xff\xff"}
    keys |= {bytes(chance.choices((0, 1, 127, 128, 255), k=chance.randint(1, 12))) for _ in range(300)}
    many = [ColdGroup(key, None, b"state") for key in sorted(keys)]
    store.commit(claimed(store, partition), Changes(1, put_cold=chance.sample(many, len(many))))
    for end in (b"", b"\x00", b"\x01\x7f", b"\x80", b"\xff", b"\xff\xff\xff", *chance.sample(sorted(keys), 20)):
        wanted = [row for row in many if row.key < end]
        assert list(store.before(partition, end, 1000)) == wanted
        assert list(store.before(partition, end, 7)) == wanted[:7]


def test_more_keys_than_a_statement_takes_are_read_and_dropped(store: Store, partition: Partition) -> None:
    many = [group(f"key-{number}", float(number), b"x" * 100) for number in range(5000)]
    claim = store.commit(claimed(store, partition), Changes(1, put_cold=many))
    keys = [row.key for row in many]
    assert sorted(store.cold(partition, keys)) == sorted(many)
    store.commit(claim, Changes(2, drop_cold=keys[1:]))
    assert list(store.keys(partition, None, 9)) == many[:1]


def test_a_partition_sees_its_own_groups_alone(store: Store, partition: Partition) -> None:
    other = partition._replace(number=30)  # its key begins with that of the other one
    claim = store.commit(claimed(store, partition), Changes(1, put_cold=[group("a", 1.0)]))
    store.commit(claimed(store, other), Changes(1, put_cold=[group("a", 2.0, b"other"), group("b", 0.5)]))
    assert list(store.cold(partition, [b"a", b"b"])) == [group("a", 1.0)]
    assert list(store.due(partition, EVER, 9)) == list(store.keys(partition, None, 9)) == [group("a", 1.0)]
    assert list(store.before(partition, b"c", 9)) == [group("a", 1.0)]
    store.commit(claim, Changes(2, drop_cold=[b"a", b"b"]))
    assert [row.key for row in store.keys(other, None, 9)] == [b"a", b"b"]


def test_a_fenced_owner_evicts_nothing_and_drops_nothing(store: Store, partition: Partition) -> None:
    zombie = store.commit(claimed(store, partition), Changes(1, put_cold=[group("a", 1.0)]))
    claimed(store, partition)
    before = picture(store, partition)
    with pytest.raises(Fenced):
        store.commit(zombie, Changes(2, put_cold=[group("b")], drop_cold=[b"a"]))
    assert picture(store, partition) == before


def test_a_key_over_the_limit_is_refused_before_anything_changes(store: Store, partition: Partition) -> None:
    longest = ColdGroup(b"\xff" * COLD_KEY, 1.0, b"")
    claim = store.commit(claimed(store, partition), Changes(1, put_cold=[longest]))
    before = picture(store, partition)
    with pytest.raises(ValueError, match="cold group"):
        store.commit(claim, Changes(2, put_cold=[group("fits"), ColdGroup(b"x" * (COLD_KEY + 1), None, b"")]))
    assert picture(store, partition) == before
    assert list(store.cold(partition, [longest.key])) == [longest]


def test_a_partition_that_was_never_claimed_has_none(store: Store, partition: Partition) -> None:
    assert list(store.cold(partition, [b"a"])) == list(store.due(partition, EVER, 9)) == []
    assert list(store.keys(partition, None, 9)) == list(store.before(partition, b"b", 9)) == []


def test_large_groups_are_written_in_one_commit_and_read(store: Store, partition: Partition) -> None:
    """More bytes than a statement may have, which do not become shorter."""
    chance = random.Random(7)
    many = [group(f"key-{number:03}", float(number), chance.randbytes(72 * 1024)) for number in range(256)]
    many.append(group("large", None, chance.randbytes(4 * 1024 * 1024)))
    claim = store.commit(claimed(store, partition), Changes(1, put_cold=many))
    assert sorted(store.cold(partition, [row.key for row in many])) == many
    store.commit(claim, Changes(2, put_cold=[row._replace(state=b"less") for row in many]))
    assert {row.state for row in store.keys(partition, None, 300)} == {b"less"}
