"""Leases, their renewal and their fences, and the position of a source."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.connectors.sql.leased import buffer_rows
from sluicegate.streams.contracts.leased_values import PositionMove
from sluicegate.streams.errors import ConcurrencyError, WatermarkMoved
from tests.contracts.buffer.given import HOUR, all_keys, at_once, entries, keys, message, numbers, of, sent
from tests.contracts.leasing import FIVE_MINUTES, SHORT, WHILE, Clock, near
from tests.mutation.twins import without


def test_a_renewed_snapshot_lives_on_and_another_callers_does_not(buffer: Any, ns: str, clock: Clock) -> None:
    buffer.insert(ns, entries(1, 2, 3))
    renewed, other = buffer.get_snapshot(ns, 2, lease=WHILE), buffer.get_snapshot(ns, 1, lease=WHILE)
    until = buffer.renew(ns, renewed.token)
    assert near(until, clock.now() + FIVE_MINUTES)
    clock.passed(WHILE)
    free = buffer.get_snapshot(ns)
    assert (keys(free.entries), free.leased_elsewhere, free.next_expiry) == (["m3"], 2, until)
    assert buffer.remove_snapshot(ns, renewed) == 2
    with pytest.raises(ConcurrencyError):
        buffer.renew(ns, other.token)


def test_a_renewed_batch_lives_on(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(2, lease=WHILE)
    [one, two] = buffer.insert_and_seal(ns, entries(1, 2, 3, 4), gate).batches
    assert near(buffer.renew(ns, one.token, HOUR), clock.now() + HOUR)
    clock.passed(WHILE)
    assert [batch.id for batch in buffer.due(ns, gate)] == [two.id]
    assert buffer.complete(ns, one) == 2


def test_a_lease_that_is_over_or_unknown_or_released_is_not_renewed(buffer: Any, ns: str, clock: Clock) -> None:
    buffer.insert(ns, entries(1))
    snapshot = buffer.get_snapshot(ns, lease=SHORT)
    [batch] = buffer.insert_and_seal(ns, entries(2, group="g"), of(1, lease=SHORT)).batches
    clock.passed(SHORT)
    released = buffer.get_snapshot(ns)
    buffer.release_snapshot(ns, released)
    for token in (snapshot.token, batch.token, released.token, "unknown", ""):
        with pytest.raises(ConcurrencyError):
            buffer.renew(ns, token)
    assert numbers(buffer.get_snapshot(ns).entries) == [1]


def test_leases_are_renewed_together_and_each_is_answered_for_itself(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(1, lease=WHILE)
    batches = buffer.insert_and_seal(ns, entries(1, 2, 3, 4), gate).batches
    buffer.complete(ns, batches[1])
    buffer.release(ns, batches[2])
    tokens = [*(batch.token for batch in batches), "unknown"]
    assert list(buffer.renew_all(ns, tokens, HOUR)) == [True, False, False, True, False]
    assert list(buffer.renew_all(ns, [], HOUR)) == []
    clock.passed(WHILE)
    assert [batch.id for batch in buffer.due(ns, gate)] == [batches[2].id]
    assert list(buffer.complete_all(ns, [(batches[0], ()), (batches[3], ())])) == [True, True]


@pytest.mark.parametrize("backend", ["postgresql", "mariadb"], indirect=True)
def test_a_renewal_waits_for_whoever_writes_to_the_buffer_and_is_judged_after_that(
    buffer: Any, ns: str, clock: Clock
) -> None:
    """Else it promises what a call that has begun gives away."""
    buffer.insert(ns, entries(1))
    snapshot = buffer.get_snapshot(ns, lease=WHILE)
    locked = threading.Event()

    def write(connection: Any) -> None:
        buffer_rows.locked(connection, lambda: 0, ns)
        locked.set()
        clock.passed(WHILE)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(buffer._transactions.run, write)
        assert locked.wait(10)
        with pytest.raises(ConcurrencyError):
            buffer.renew(ns, snapshot.token)
        writing.result()


def lost_batch_is_fenced(store: Any, ns: str, clock: Clock) -> None:
    """Whoever lost the lease of a batch to another completes nothing and sends nothing."""
    gate = of(2, lease=SHORT)
    [late] = store.buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    clock.passed(SHORT)
    [ours] = store.buffer.due(ns, of(2))
    refused = 0
    for outbox in ([], [message(ns, "late")]):
        try:
            store.buffer.complete(ns, late, outbox)
        except ConcurrencyError:
            refused += 1
    assert (refused, store.buffer.release(ns, late), all_keys(store.buffer, ns), sent(store, ns)) == (
        2,
        False,
        ["m1", "m2"],
        [],
    )
    assert store.buffer.due(ns, gate) == []
    assert store.buffer.complete(ns, ours, [message(ns, ns)]) == 2
    assert sent(store, ns) == [ns]


def lost_snapshot_is_fenced(store: Any, ns: str, clock: Clock) -> None:
    """Whoever lost the lease of a snapshot to another removes none of its rows."""
    store.buffer.insert(ns, entries(1, 2))
    late = store.buffer.get_snapshot(ns, lease=SHORT)
    clock.passed(SHORT)
    ours = store.buffer.get_snapshot(ns)
    assert store.buffer.remove_snapshot(ns, late) == 0
    assert store.buffer.release_snapshot(ns, late) == 0
    assert (all_keys(store.buffer, ns), store.buffer.get_snapshot(ns).leased_elsewhere) == (["m1", "m2"], 2)
    assert store.buffer.remove_snapshot(ns, ours) == 2


def test_a_batch_whose_lease_another_has_is_fenced(store: Any, ns: str, clock: Clock) -> None:
    lost_batch_is_fenced(store, ns, clock)


def test_a_snapshot_whose_lease_another_has_is_fenced(store: Any, ns: str, clock: Clock) -> None:
    lost_snapshot_is_fenced(store, ns, clock)


@pytest.fixture
def _no_lease() -> Iterator[None]:
    with without("lease"):
        yield


@pytest.mark.usefixtures("_no_lease")
@pytest.mark.parametrize("scenario", [lost_batch_is_fenced, lost_snapshot_is_fenced])
def test_without_the_comparison_of_tokens_a_lost_lease_is_not_fenced(
    store: Any, ns: str, clock: Clock, scenario: Callable[..., None]
) -> None:
    with pytest.raises(AssertionError):
        scenario(store, ns, clock)


def test_a_batch_is_completed_after_its_lease_when_nobody_took_it_and_only_once(
    store: Any, ns: str, clock: Clock
) -> None:
    [batch] = store.buffer.insert_and_seal(ns, entries(1, 2), of(2, lease=SHORT)).batches
    clock.passed(SHORT)
    assert store.buffer.complete(ns, batch, [message(ns, ns)]) == 2
    with pytest.raises(ConcurrencyError):
        store.buffer.complete(ns, batch, [message(ns, "again")])
    assert (store.buffer.count(ns), sent(store, ns)) == (0, [ns])


def test_of_many_completions_of_one_batch_at_once_one_succeeds(another: Callable[[], Any], ns: str) -> None:
    store = another()
    [batch] = store.buffer.insert_and_seal(ns, entries(*range(20)), of(20)).batches

    def complete(item: tuple[Any, int]) -> int:
        try:
            return int(item[0].buffer.complete(ns, batch, [message(ns, f"{ns}-{item[1]}")]))
        except ConcurrencyError:
            return 0

    results = at_once(complete, [(another(), number) for number in range(4)])
    assert sorted(results) == [0, 0, 0, 20]
    assert sent(store, ns) == [f"{ns}-{results.index(20)}"]


def test_of_many_snapshots_at_once_none_share_a_row(another: Callable[[], Any], ns: str) -> None:
    buffer = another().buffer
    buffer.insert(ns, entries(*range(100)))
    snapshots = at_once(
        lambda item: [item.get_snapshot(ns, 10) for _ in range(4)], [another().buffer for _ in range(4)]
    )
    ids = [id for taken in snapshots for snapshot in taken for id in snapshot.ids]
    assert len(ids) == len(set(ids)) == 100
    assert buffer.get_snapshot(ns).leased_elsewhere == 100


# -- the position of a source
# --------------------------------------------------------------------------------------------------------


def test_the_watermark_moves_with_the_insert_and_is_each_partitions_and_topic_ids_own(
    another: Callable[[], Any], ns: str
) -> None:
    buffer = another().buffer
    assert buffer.position(ns, "topic", 0) == 0
    assert buffer.insert(ns, entries(1), PositionMove("topic", 0, 0, 7)) == (1, 0)
    buffer.insert(ns, entries(2), PositionMove("topic", 0, 7, 9))
    buffer.insert_and_seal(ns, entries(3), of(5), PositionMove("topic", 1, 0, 2**53))
    buffer.insert(f"{ns}-b", entries(1), PositionMove("topic", 0, 0, 1))
    places = [(ns, "topic", 0), (ns, "topic", 1), (ns, "topic-made-anew", 0), (f"{ns}-b", "topic", 0)]
    assert [another().buffer.position(*place) for place in places] == [9, 2**53, 0, 1]


def test_with_a_watermark_that_moved_nothing_is_stored_and_the_error_tells_where_it_stands(
    buffer: Any, ns: str
) -> None:
    buffer.insert(ns, entries(1), PositionMove("topic", 0, 0, 7))
    for call in (
        lambda progress: buffer.insert(ns, entries(2), progress),
        lambda progress: buffer.insert_and_seal(ns, entries(2), of(1), progress),
    ):
        for expected in (0, 6, 8):
            with pytest.raises(WatermarkMoved) as raised:
                call(PositionMove("topic", 0, expected, 9))
            assert raised.value.next == 7
    assert (all_keys(buffer, ns), buffer.position(ns, "topic", 0), buffer.due(ns, of(1))) == (["m1"], 7, [])
    with pytest.raises(WatermarkMoved) as raised:
        buffer.insert(ns, entries(2), PositionMove("other", 0, 3, 4))
    assert raised.value.next == 0


def test_the_watermark_outlives_the_rows(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1), PositionMove("topic", 0, 0, 7))
    buffer.remove_all(ns)
    assert buffer.position(ns, "topic", 0) == 7
    with pytest.raises(WatermarkMoved):
        buffer.insert(ns, entries(1), PositionMove("topic", 0, 0, 7))


def test_of_many_that_insert_from_one_place_at_once_one_moves_the_watermark(
    another: Callable[[], Any], ns: str
) -> None:
    def insert(item: tuple[Any, int]) -> int:
        try:
            item[0].insert(ns, entries(item[1]), PositionMove("topic", 0, 0, 100 + item[1]))
        except WatermarkMoved as moved:
            return -moved.next
        return item[1]

    results = at_once(insert, [(another().buffer, number) for number in range(1, 6)])
    [winner] = [result for result in results if result > 0]
    assert sorted(results)[:4] == [-100 - winner] * 4
    assert (all_keys(another().buffer, ns), another().buffer.position(ns, "topic", 0)) == ([f"m{winner}"], 100 + winner)


def test_a_lease_shorter_than_a_call_is_still_a_lease(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1))
    snapshot = buffer.get_snapshot(ns, lease=timedelta(microseconds=1))
    assert numbers(snapshot.entries) == [1]
    assert buffer.remove_snapshot(ns, snapshot) in (0, 1)
