"""The crash mark: written as it is by commits, and left only by those who crashed."""

import pytest

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import NOBODY, Changes, CrashMark, Partition
from sluicegate.streams.errors import Fenced
from tests.contracts.given import claimed, picture, seen

NAMES = ("p1", "process-with-a-name-of-more-than-32-bytes", "p3")


def marked(store: Store, partition: Partition, offset: int = 7) -> None:
    store.commit(claimed(store, partition), Changes(1, entries=[b"e"], trying=CrashMark(offset, NAMES)))


def test_who_lives_takes_its_own_name_back_and_no_other(store: Store, partition: Partition) -> None:
    marked(store, partition)
    store.clear_crash_mark(partition, "", [NAMES[1]])
    assert seen(store, partition).claim.trying == CrashMark(7, ("p1", "p3"))
    assert claimed(store, partition).trying == CrashMark(7, ("p1", "p3"))


def test_clearing_a_crash_mark_needs_no_claim(store: Store, partition: Partition) -> None:
    marked(store, partition)
    owner = claimed(store, partition)
    store.clear_crash_mark(partition, "", ["stranger"])
    assert store.commit(owner, Changes(2)).offset == 2


def test_who_decided_by_a_name_that_is_taken_back_is_fenced(store: Store, partition: Partition) -> None:
    """Otherwise a good record becomes a dead letter (tests/model: clear-without-fence)."""
    marked(store, partition)
    owner = claimed(store, partition)
    store.clear_crash_mark(partition, "", ["p1"])
    with pytest.raises(Fenced):
        store.commit(owner, Changes(2))


def test_the_late_mark_of_a_process_whose_name_was_cleared_is_fenced(store: Store, partition: Partition) -> None:
    owner = claimed(store, partition)
    store.clear_crash_mark(partition, owner.token, ["p1"])
    with pytest.raises(Fenced):
        store.commit(owner, Changes(2, trying=CrashMark(2, ("p1",))))


def test_clearing_a_crash_mark_does_not_raise_the_version(store: Store, partition: Partition) -> None:
    """Else a store that went back has the version again that Kafka was told, and nobody misses what it lost
    (tests/simulation, 942646)."""
    marked(store, partition)
    owner = claimed(store, partition)
    store.clear_crash_mark(partition, owner.token, ["p1"])
    store.clear_crash_mark(partition, owner.token, ["p3"])
    assert seen(store, partition).claim.version == owner.version
    assert claimed(store, partition).version == owner.version


def test_the_mark_goes_with_its_last_name(store: Store, partition: Partition) -> None:
    marked(store, partition)
    for name in NAMES:
        store.clear_crash_mark(partition, "", [name])
    assert seen(store, partition).claim.trying is None


def test_clearing_an_unknown_name_or_without_a_mark_or_a_row_changes_nothing(
    store: Store, partition: Partition
) -> None:
    store.clear_crash_mark(partition, "", ["p1"])
    assert store.read(partition) is None
    store.commit(claimed(store, partition), Changes(1))
    store.clear_crash_mark(partition, "", ["p1"])
    assert seen(store, partition).claim.trying is None
    marked(store, partition)
    before = picture(store, partition)
    store.clear_crash_mark(partition, "", ["p"])
    store.clear_crash_mark(partition, "", ["p11"])
    assert picture(store, partition) == before


def test_clearing_a_crash_mark_keeps_large_offsets_exact(store: Store, partition: Partition) -> None:
    for offset in (0, 2**31, 2**32 + 1, 2**53 - 1):
        marked(store, partition, offset)
        store.clear_crash_mark(partition, "", ["p1"])
        assert seen(store, partition).claim.trying == CrashMark(offset, NAMES[1:])


def test_a_claim_names_the_one_before_whose_worker_has_not_let_go(store: Store, partition: Partition) -> None:
    first = store.claim(partition, "one", "member")
    assert first.previous == ""
    assert store.claim(partition, "two", "member").previous == "one"
    assert store.commit(store.claim(partition, "three", "member"), Changes(1)).previous == "two"
    store.clear_crash_mark(partition, "three", [])
    assert store.claim(partition, "four", "member").previous == ""
    assert store.claim(partition, "hand", NOBODY).previous == "four"
    assert store.claim(partition, "five", "member").previous == ""  # a person's claim
