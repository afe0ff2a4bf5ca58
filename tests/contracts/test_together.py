"""Several partitions in one go: each for itself, as if they had been committed one after the other."""

import msgspec
import pytest

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, DeadRow, Partition
from sluicegate.streams.errors import Fenced
from tests.contracts.given import claimed, everything, picture, rows, seen


def several(partition: Partition, count: int = 3) -> list[Partition]:
    return [partition._replace(number=number) for number in range(count)]


def test_each_gets_its_claim_in_the_order_of_the_question(store: Store, partition: Partition) -> None:
    places = list(reversed(several(partition)))
    claims = [claimed(store, place) for place in places]
    changes = [Changes(10 + place.number, entries=[b"e%d" % place.number], outbox=rows(1, 2)) for place in places]
    done = store.commit_all(list(zip(claims, changes, strict=True)))
    for place, result in zip(places, done, strict=True):
        view = seen(store, place)
        assert not isinstance(result, Exception)
        assert result == msgspec.structs.replace(view.claim, store_time=result.store_time)
        assert (result.offset, result.version, view.entries, view.unsent) == (
            10 + place.number,
            1,
            [b"e%d" % place.number],
            2,
        )
        assert result.store_time > 0


def test_the_result_is_that_of_one_after_the_other(store: Store, partition: Partition) -> None:
    one, other, alone = several(partition)
    full = Changes(40, epoch=7, entries=[b"e1", b"e2"], outbox=rows(1, 2, 3, 4))
    claims = [store.commit(claimed(store, place), full) for place in (one, other, alone)]
    more = msgspec.structs.replace(everything(), dead=[DeadRow(2, "no", 1)])
    store.commit_all([(claim, more) for claim in claims[:2]])
    store.commit(claims[2], more)

    def held(place: Partition) -> tuple[object, ...]:
        claim, *rest = picture(store, place)
        return (msgspec.structs.replace(claim, partition=one, token=""), *rest)  # type: ignore[type-var]

    assert held(one) == held(other) == held(alone)


def test_one_that_is_fenced_changes_nothing_and_holds_up_no_other(store: Store, partition: Partition) -> None:
    places = several(partition)
    claims = [claimed(store, place) for place in places]
    claimed(store, places[1])
    before = picture(store, places[1])
    done = store.commit_all([(claim, Changes(5, entries=[b"e"], outbox=rows(1))) for claim in claims])
    assert [isinstance(result, Fenced) for result in done] == [False, True, False]
    assert picture(store, places[1]) == before
    assert [seen(store, place).claim.offset for place in places] == [5, -1, 5]


def test_all_fenced_is_no_error_of_the_store(store: Store, partition: Partition) -> None:
    places = several(partition, 2)
    old = [claimed(store, place) for place in places]
    new = [claimed(store, place) for place in places]
    assert all(isinstance(result, Fenced) for result in store.commit_all([(claim, Changes(5)) for claim in old]))
    assert not any(isinstance(result, Exception) for result in store.commit_all([(claim, Changes(6)) for claim in new]))


def test_changes_that_no_store_may_take_are_not_written(store: Store, partition: Partition) -> None:
    claims = [claimed(store, place) for place in several(partition, 2)]
    with pytest.raises(ValueError, match="must grow"):
        store.commit_all([(claims[0], Changes(5)), (claims[1], Changes(5, outbox=rows(2, 1)))])
    assert seen(store, claims[1].partition).claim.offset == -1
