"""Who may commit: the holder of the token and version that the row has, and nobody else."""

import threading

import msgspec
import pytest

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, CrashMark, Partition, Source
from sluicegate.streams.errors import Fenced
from tests.contracts import scenarios
from tests.contracts.given import claimed, everything, opened, picture, rows, seen


def test_the_first_claim_makes_a_row_that_was_never_committed(store: Store, partition: Partition) -> None:
    claim = store.claim(partition, "t1", "worker-1")
    assert (claim.partition, claim.token, claim.member) == (partition, "t1", "worker-1")
    assert (claim.version, claim.offset, claim.epoch, claim.number, claim.first, claim.last) == (0, -1, -1, 0, 1, 0)
    assert (claim.source, claim.trying, claim.incarnation) == (None, None, store.incarnation)


def test_a_commit_returns_the_claim_that_a_reader_then_sees(store: Store, partition: Partition) -> None:
    first = claimed(store, partition)
    source, trying = Source("topic-id", 4, "rule"), CrashMark(3, ("p1", "p2"))
    done = store.commit(
        first, Changes(8, epoch=2, entries=[b"a", b"b"], outbox=rows(3, 9), trying=trying, source=source)
    )
    assert (done.version, done.offset, done.epoch, done.number, done.first, done.last) == (1, 8, 2, 9, 1, 2)
    assert (done.source, done.trying) == (source, trying)
    assert msgspec.structs.replace(seen(store, partition).claim, store_time=0) == msgspec.structs.replace(
        done, store_time=0
    )


def test_a_new_claim_shows_all_that_the_last_commit_left(store: Store, partition: Partition) -> None:
    done = store.commit(
        claimed(store, partition), Changes(8, epoch=2, entries=[b"a"], outbox=rows(4), source=Source("t", 1, "r"))
    )
    after = store.claim(partition, "another", "worker-2")
    assert after == msgspec.structs.replace(
        done, token="another", member="worker-2", previous=done.token, store_time=after.store_time
    )


def test_a_commit_under_an_older_claim_changes_nothing(store: Store, partition: Partition) -> None:
    scenarios.an_older_claim_is_fenced(store, partition)


def test_one_claim_commits_only_once(store: Store, partition: Partition) -> None:
    scenarios.one_claim_commits_once(store, partition)


def test_a_late_claim_wins_and_the_former_owner_wins_it_back_by_claiming(store: Store, partition: Partition) -> None:
    owner = store.commit(claimed(store, partition), Changes(5))
    zombie = claimed(store, partition)
    with pytest.raises(Fenced):
        store.commit(owner, Changes(6))
    owner = claimed(store, partition)
    with pytest.raises(Fenced):
        store.commit(zombie, Changes(7))
    assert store.commit(owner, Changes(6)).offset == 6


def test_241_two_claims_with_the_same_token_never_both_commit(store: Store, partition: Partition) -> None:
    one, other = store.claim(partition, "same", "a"), store.claim(partition, "same", "b")
    store.commit(one, Changes(5, entries=[b"x"]))
    with pytest.raises(Fenced):
        store.commit(other, Changes(5, entries=[b"x"]))
    assert seen(store, partition).entries == [b"x"]


def test_a_token_that_only_begins_like_the_rows_is_fenced(store: Store, partition: Partition) -> None:
    claim = store.claim(partition, "abc", "m")
    for token in ("ab", "abcd", "ABC", ""):
        with pytest.raises(Fenced):
            store.commit(msgspec.structs.replace(claim, token=token), Changes(1))


def test_a_commit_on_a_partition_that_was_never_claimed_is_fenced(store: Store, partition: Partition) -> None:
    claim = claimed(store, partition)
    with pytest.raises(Fenced):
        store.commit(msgspec.structs.replace(claim, partition=partition._replace(number=4)), Changes(1))
    assert store.read(partition._replace(number=4)) is None


def test_a_fenced_commit_may_carry_everything_and_leaves_no_trace(store: Store, partition: Partition) -> None:
    old = store.commit(claimed(store, partition), Changes(1, entries=[b"e1", b"e2"], outbox=rows(1, 2, 3, 4)))
    claimed(store, partition)
    before = picture(store, partition)
    with pytest.raises(Fenced):
        store.commit(
            old, msgspec.structs.replace(everything(), source=Source("other", 9, "x"), trying=CrashMark(1, ("p",)))
        )
    assert picture(store, partition) == before


@pytest.mark.parametrize("other", [{"app": "another"}, {"agent": "another"}, {"topic": "another"}, {"number": 33}])
def test_partitions_that_differ_in_one_part_of_their_name_are_strangers(
    store: Store, partition: Partition, other: dict
) -> None:
    claim = claimed(store, partition)
    stranger = partition._replace(**{k: f"{partition.app}-{v}" if k == "app" else v for k, v in other.items()})
    store.commit(claimed(store, stranger), Changes(77, entries=[b"theirs"], outbox=rows(1)))
    assert (seen(store, partition).claim.offset, seen(store, partition).entries) == (-1, [])
    assert store.commit(claim, Changes(5)).offset == 5


def test_the_source_stays_when_a_commit_names_none_and_the_crash_mark_does_not(
    store: Store, partition: Partition
) -> None:
    source = Source("t", 3, "rule", 2, 7, 9, "token", 12.5, ((7, '"int"', ""), (8, '"long"', "t-value")))
    claim = store.commit(claimed(store, partition), Changes(1, source=source, trying=CrashMark(1, ("p",))))
    claim = store.commit(claim, Changes(2))
    assert (claim.source, claim.trying) == (source, None)
    assert (seen(store, partition).claim.source, seen(store, partition).claim.trying) == (source, None)


def test_the_stores_time_never_goes_back_between_claim_and_commits(store: Store, partition: Partition) -> None:
    claim = claimed(store, partition)
    times = [claim.store_time]
    for offset in range(5):
        claim = store.commit(claim, Changes(offset))
        times.append(claim.store_time)
    assert times == sorted(times)
    assert times[0] > 1_700_000_000


def test_another_handle_on_the_same_data_sees_and_fences(store: Store, store_url: str, partition: Partition) -> None:
    other = opened(store_url)
    claim = store.commit(claimed(store, partition), Changes(4, entries=[b"x"]))
    assert other.incarnation == store.incarnation
    assert claimed(other, partition).offset == 4
    with pytest.raises(Fenced):
        store.commit(claim, Changes(5))


def test_threads_share_a_store_without_mixing_partitions(store: Store, partition: Partition) -> None:
    def work(number: int) -> None:
        claim = store.claim(partition._replace(number=number), f"t{number}", "m")
        for offset in range(20):
            claim = store.commit(claim, Changes(offset, entries=[b"%d-%d" % (number, offset)]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for number in range(4):
        assert seen(store, partition._replace(number=number)).entries == [
            b"%d-%d" % (number, offset) for offset in range(20)
        ]
