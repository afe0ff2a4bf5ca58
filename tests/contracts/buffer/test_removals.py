"""Removing rows from a buffer, and giving leases back."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.streams import errors
from sluicegate.streams.contracts.leased_values import EMPTY
from sluicegate.streams.contracts.messages import dispatch_id
from sluicegate.streams.errors import AggregationNotFound, ConcurrencyError, KeyNotFoundError, PersistenceError
from tests.contracts.buffer.failing import FAILING, cut_off
from tests.contracts.buffer.given import all_keys, at_once, entries, entry, keys, message, numbers, of, sent
from tests.contracts.leasing import SHORT, Clock
from tests.servers import Proxy

CORRUPT = {"data": b"{"}


def test_044_remove_one_removes_a_single_row_and_fires_nothing(buffer: Any, ns: str) -> None:
    gate = of(3, after_first=timedelta(hours=1))
    assert buffer.insert_and_seal(ns, entries(1, 2), gate).batches == []
    buffer.remove_one(ns, "c1")
    assert (all_keys(buffer, ns), buffer.due(ns, gate)) == (["m2"], [])
    assert buffer.insert_and_seal(ns, entries(3), gate).batches == []


def test_045_remove_one_on_a_name_without_rows_raises_key_not_found(buffer: Any, ns: str) -> None:
    with pytest.raises(KeyNotFoundError) as raised:
        buffer.remove_one(ns, "c1")
    assert type(raised.value) is AggregationNotFound


def test_046_remove_one_of_an_unknown_id_among_other_rows_raises_concurrency_and_says_how_many(
    buffer: Any, ns: str
) -> None:
    buffer.insert(ns, entries(*range(100, 137)))
    with pytest.raises(ConcurrencyError, match=r"\b37\b") as raised:
        buffer.remove_one(ns, "c1")
    assert not isinstance(raised.value, KeyNotFoundError)
    assert buffer.count(ns) == 37


def test_047_a_row_that_cannot_be_found_is_a_concurrency_error_with_rows_and_without(buffer: Any, ns: str) -> None:
    for _ in range(2):
        with pytest.raises(ConcurrencyError):
            buffer.remove_one(ns, "c1")
        buffer.insert(ns, entries(2))


@FAILING
def test_048_what_fails_below_remove_one_is_a_persistence_error_with_its_cause(
    store_url: str, ns: str, clock: Clock, proxy: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(store: Any) -> None:
        store.buffer.insert(ns, entries(1))

    with cut_off(store_url, clock, proxy, monkeypatch, prepare) as store:
        with pytest.raises(PersistenceError) as raised:
            store.buffer.remove_one(ns, "c1")
        assert raised.value.__cause__ is not None
        assert not isinstance(raised.value.__cause__, errors.SluicegateError)


def test_049_every_store_raises_the_same_errors_and_none_of_its_driver(buffer: Any, ns: str) -> None:
    def raised(call: Callable[[], object]) -> type[Exception]:
        with pytest.raises(Exception) as caught:
            call()
        return type(caught.value)

    assert raised(lambda: buffer.remove_one(ns, "c1")) is errors.AggregationNotFound
    [batch] = buffer.insert_and_seal(ns, entries(1), of(1)).batches
    assert raised(lambda: buffer.remove_one(ns, "c2")) is errors.ConcurrencyError
    assert raised(lambda: buffer.remove_one(ns, "c1")) is errors.ConcurrencyError
    assert raised(lambda: buffer.renew(ns, "nobody's")) is errors.ConcurrencyError
    buffer.complete(ns, batch)
    assert raised(lambda: buffer.complete(ns, batch)) is errors.ConcurrencyError


def test_050_of_several_rows_with_that_correlation_id_remove_one_takes_the_oldest(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1), *(entry(number, correlation_id="same") for number in (2, 3, 4))])
    buffer.remove_one(ns, "same")
    assert all_keys(buffer, ns) == ["m1", "m3", "m4"]


def test_051_remove_all_deletes_everything_of_the_name_leased_or_not_and_is_content_with_nothing(
    buffer: Any, ns: str
) -> None:
    assert buffer.remove_all(ns) == 0
    buffer.insert(ns, [*entries(1, 2), entry(3, **CORRUPT), entry(4, type="unknown")])
    snapshot = buffer.get_snapshot(ns, 1)
    [batch] = buffer.insert_and_seal(ns, entries(5, 6, group="g"), of(2)).batches
    assert buffer.remove_all(ns) == 6
    assert (buffer.count(ns), buffer.get_snapshot(ns), buffer.due(ns, of(2))) == (0, EMPTY, [])
    assert buffer.remove_snapshot(ns, snapshot) == 0
    with pytest.raises(ConcurrencyError):
        buffer.complete(ns, batch)


def test_052_remove_all_of_one_name_leaves_the_others(buffer: Any, ns: str) -> None:
    for name in (ns, f"{ns}-b", f"{ns}%", f"{ns}_b", ns.upper()):
        buffer.insert_and_seal(name, entries(1, 2), of(2))
    assert buffer.remove_all(ns) == 2
    assert [buffer.count(name) for name in (ns, f"{ns}-b", f"{ns}%", f"{ns}_b", ns.upper())] == [0, 2, 2, 2, 2]
    assert buffer.insert(f"{ns}-b", entries(1)) == (0, 1)


def test_053_remove_snapshot_deletes_exactly_its_ids(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1, 2, 3, 4))
    first, second = buffer.get_snapshot(ns, 2), buffer.get_snapshot(ns, 1)
    assert buffer.remove_snapshot(ns, first) == 2
    assert all_keys(buffer, ns) == ["m3", "m4"]
    assert buffer.remove_snapshot(ns, first) == 0
    assert buffer.remove_snapshot(ns, second) == 1
    assert all_keys(buffer, ns) == ["m4"]


def test_054_remove_snapshot_leaves_unresolved_rows_and_later_ones(
    buffer: Any, ns: str, types: dict[str, Callable[[bytes], Any]]
) -> None:
    buffer.insert(ns, [entry(1), entry(2, type="later"), entry(3, **CORRUPT)])
    snapshot = buffer.get_snapshot(ns)
    buffer.insert(ns, entries(4))
    assert buffer.remove_snapshot(ns, snapshot) == 1
    assert all_keys(buffer, ns) == ["m2", "m3", "m4"]
    types["later"] = lambda data: {"n": 2}
    again = buffer.get_snapshot(ns)
    assert (numbers(again.entries), again.unresolved) == ([2, 4], 1)


def test_055_removing_or_releasing_an_empty_snapshot_does_nothing(store: Any, ns: str) -> None:
    buffer = store.buffer
    buffer.insert(ns, entries(1))
    leased = buffer.get_snapshot(ns)
    for nothing in (EMPTY, buffer.get_snapshot(ns)):
        assert buffer.remove_snapshot(ns, nothing) == 0
        assert buffer.remove_snapshot(ns, nothing, [message(ns)]) == 0
        assert buffer.release_snapshot(ns, nothing) == 0
    assert (buffer.remove_snapshot(ns, leased), sent(store, ns)) == (1, [])


def test_removing_a_snapshot_of_unresolved_rows_alone_releases_them_and_sends_nothing(
    store: Any, ns: str, clock: Clock
) -> None:
    store.buffer.insert(ns, [entry(1, **CORRUPT)])
    late = store.buffer.get_snapshot(ns, lease=SHORT)
    clock.passed(SHORT)
    ours = store.buffer.get_snapshot(ns)
    assert (
        store.buffer.remove_snapshot(ns, late, [message(ns)])
        == store.buffer.remove_snapshot(ns, ours, [message(ns)])
        == 0
    )
    again = store.buffer.get_snapshot(ns)
    assert (sent(store, ns), again.unresolved, again.leased_elsewhere) == ([], 1, 0)


@pytest.mark.parametrize("left_out", [1, 2])
def test_rows_that_the_caller_left_out_of_a_snapshot_are_free(buffer: Any, ns: str, left_out: int) -> None:
    buffer.insert(ns, entries(1, 2))
    whole = buffer.get_snapshot(ns)
    assert buffer.remove_snapshot(ns, replace(whole, ids=whole.ids[left_out:])) == 2 - left_out
    again = buffer.get_snapshot(ns)
    assert (keys(again.entries), again.leased_elsewhere) == (["m1", "m2"][:left_out], 0)


def test_056_remove_snapshot_is_all_or_nothing_for_whoever_reads_or_removes_meanwhile(
    another: Callable[[], Any], ns: str
) -> None:
    one = another().buffer
    one.insert(ns, entries(*range(200)))
    snapshot = one.get_snapshot(ns, 100)
    calls = [
        *([lambda buffer: [buffer.remove_snapshot(ns, snapshot)]] * 3),
        *([lambda buffer: [buffer.count(ns) for _ in range(10)]] * 2),
    ]
    *removed, first, second = at_once(lambda pair: pair[0](pair[1]), [(call, another().buffer) for call in calls])
    assert sorted(removed) == [[0], [0], [100]]
    assert {*first, *second} <= {200, 100}


def test_057_remove_snapshot_leaves_rows_that_another_has_now_and_tells_by_its_count(
    buffer: Any, ns: str, clock: Clock
) -> None:
    buffer.insert(ns, entries(1, 2, 3))
    late = buffer.get_snapshot(ns, lease=SHORT)
    clock.passed(SHORT)
    newer = buffer.get_snapshot(ns, 2)
    assert buffer.remove_snapshot(ns, late) == 1
    assert all_keys(buffer, ns) == ["m1", "m2"]
    assert buffer.remove_snapshot(ns, newer) == 2


def test_058_rows_whose_removal_failed_after_the_callback_come_again(buffer: Any, ns: str, clock: Clock) -> None:
    buffer.insert(ns, entries(1, 2))
    fired = [numbers(buffer.get_snapshot(ns, lease=SHORT).entries)]  # and the process ends before it removes them
    clock.passed(SHORT)
    again = buffer.get_snapshot(ns)
    fired.append(numbers(again.entries))
    assert fired == [[1, 2], [1, 2]]
    assert buffer.remove_snapshot(ns, again) == 2


def test_059_a_callback_that_runs_twice_for_one_batch_sends_once_because_ids_follow_from_the_batch(
    store: Any, ns: str, clock: Clock
) -> None:
    gate = of(2, lease=SHORT)

    def callback(batch: Any) -> Any:
        return [message(ns, id=dispatch_id(batch.id, 0, index)) for index in range(2)]

    [first] = store.buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    # by a callback that did not wait for the removal
    store.outbox.add(None, callback(first), require_transaction=False)
    clock.passed(SHORT)
    [again] = store.buffer.due(ns, gate)
    assert store.buffer.complete(ns, again, callback(again)) == 2
    assert sent(store, ns) == sorted(dispatch_id(first.id, 0, index) for index in range(2))


def test_060_removal_and_output_are_one_transaction(store: Any, ns: str, clock: Clock) -> None:
    buffer = store.buffer
    buffer.insert(ns, entries(1, 2, 3))
    late = buffer.get_snapshot(ns, lease=SHORT)
    clock.passed(SHORT)
    newer = buffer.get_snapshot(ns, 1)
    with pytest.raises(ConcurrencyError):
        buffer.remove_snapshot(ns, late, [message(ns, "late")])
    assert (all_keys(buffer, ns), sent(store, ns)) == (["m1", "m2", "m3"], [])
    assert buffer.remove_snapshot(ns, newer, [message(ns, ns + "-1"), message(ns, ns + "-2")]) == 1
    assert (all_keys(buffer, ns), sent(store, ns)) == (["m2", "m3"], [ns + "-1", ns + "-2"])
    [outbox_message, _] = store.outbox.find(topic=ns)
    assert (outbox_message.message.key, outbox_message.message.value, tuple(outbox_message.message.headers)) == (
        b"k",
        b"v",
        (("h", b"x"), ("h", None)),
    )
    assert outbox_message.state == "pending"


def test_remove_one_refuses_a_live_lease_unless_forced(buffer: Any, ns: str, clock: Clock) -> None:
    buffer.insert(ns, entries(1, 2, 3))
    snapshot = buffer.get_snapshot(ns, 2, lease=SHORT)
    clock.passed(SHORT)
    buffer.remove_one(ns, "c1")  # its lease is over
    snapshot = buffer.get_snapshot(ns)
    with pytest.raises(ConcurrencyError):
        buffer.remove_one(ns, "c2")
    buffer.remove_one(ns, "c2", force=True)
    assert all_keys(buffer, ns) == ["m3"]
    with pytest.raises(ConcurrencyError):
        buffer.remove_snapshot(ns, snapshot, [message(ns)])
    assert buffer.remove_snapshot(ns, snapshot) == 1


def test_remove_one_takes_a_row_out_of_a_sealed_batch_only_when_forced(store: Any, ns: str) -> None:
    buffer, gate = store.buffer, of(2)
    [batch] = buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    with pytest.raises(ConcurrencyError):
        buffer.remove_one(ns, "c1")
    buffer.remove_one(ns, "c1", force=True)
    with pytest.raises(ConcurrencyError):
        buffer.complete(ns, batch, [message(ns)])
    assert (all_keys(buffer, ns), sent(store, ns)) == (["m2"], [])
    assert buffer.release(ns, batch) is True
    [rest] = buffer.due(ns, gate)
    assert (rest.id, keys(rest.entries)) == (batch.id, ["m2"])
    buffer.remove_one(ns, "c2", force=True)
    with pytest.raises(ConcurrencyError):
        buffer.complete(ns, rest)
    assert (buffer.due(ns, gate), buffer.count(ns)) == ([], 0)


def test_a_sealed_batch_keeps_its_rows_when_its_lease_was_released_or_is_over(
    buffer: Any, ns: str, clock: Clock
) -> None:
    gate = of(2, lease=SHORT)
    [released] = buffer.insert_and_seal(ns, entries(1, 2, group="a"), gate).batches
    [over] = buffer.insert_and_seal(ns, entries(3, 4, group="b"), gate).batches
    assert buffer.release(ns, released) is True
    clock.passed(SHORT)
    for id in ("c1", "c3"):
        with pytest.raises(ConcurrencyError):
            buffer.remove_one(ns, id)
    empty = buffer.get_snapshot(ns)
    assert (empty.ids, empty.leased_elsewhere, empty.next_expiry) == ((), 4, None)
    assert sorted(batch.id for batch in buffer.due(ns, gate)) == sorted((released.id, over.id))


def test_a_lease_that_is_over_but_that_nobody_took_still_removes_its_rows(store: Any, ns: str, clock: Clock) -> None:
    store.buffer.insert(ns, entries(1, 2))
    late = store.buffer.get_snapshot(ns, lease=SHORT)
    clock.passed(SHORT)
    assert store.buffer.remove_snapshot(ns, late, [message(ns, ns)]) == 2
    assert sent(store, ns) == [ns]
