"""How leases are given back, and how long an operation may take."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.streams import errors
from sluicegate.streams.contracts.leased_values import EMPTY
from sluicegate.streams.errors import PersistenceError
from tests.contracts.buffer.failing import FAILING, cut_off
from tests.contracts.buffer.given import entries, entry, keys, numbers, of
from tests.contracts.leasing import SHORT, Clock
from tests.servers import Proxy

CORRUPT = {"data": b"{"}


def test_061_a_released_snapshot_can_be_leased_at_once(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1, 2))
    first = buffer.get_snapshot(ns)
    assert buffer.release_snapshot(ns, first) == 2
    again = buffer.get_snapshot(ns)
    assert (again.ids, again.leased_elsewhere) == (first.ids, 0)


def test_063_after_a_failed_callback_the_redelivery_finds_all_rows_undecodable_ones_too(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [*entries(1, 2), entry(3, **CORRUPT)])
    failed = buffer.get_snapshot(ns)
    hidden = buffer.get_snapshot(ns)
    assert (list(hidden.entries), hidden.unresolved, hidden.leased_elsewhere) == ([], 0, 3)
    assert hidden is not EMPTY
    assert buffer.release_snapshot(ns, failed) == 3
    snapshot = buffer.get_snapshot(ns)
    assert (numbers(snapshot.entries), snapshot.unresolved) == ([1, 2], 1)


def test_a_snapshot_of_undecodable_rows_only_is_released_too(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1, **CORRUPT)])
    assert buffer.release_snapshot(ns, buffer.get_snapshot(ns)) == 1
    assert buffer.remove_snapshot(ns, buffer.get_snapshot(ns)) == 0
    assert buffer.get_snapshot(ns).unresolved == 1


def test_064_a_release_leaves_rows_that_another_has_now(buffer: Any, ns: str, clock: Clock) -> None:
    buffer.insert(ns, entries(1, 2, 3))
    late = buffer.get_snapshot(ns, lease=SHORT)
    clock.passed(SHORT)
    newer = buffer.get_snapshot(ns, 2)
    assert buffer.release_snapshot(ns, late) == 1
    free = buffer.get_snapshot(ns)
    assert (keys(free.entries), free.leased_elsewhere) == (["m3"], 2)
    assert buffer.remove_snapshot(ns, newer) == 2


def test_065_after_a_handler_failed_its_batch_is_due_at_once_when_the_processor_released_it(
    buffer: Any, ns: str
) -> None:
    gate = of(2)
    [failed] = buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    assert buffer.due(ns, gate) == []
    assert buffer.release(ns, failed) is True
    [again] = buffer.due(ns, gate)
    assert (again.id, again.ids, again.entries, again.attempts) == (failed.id, failed.ids, failed.entries, 2)
    assert buffer.release(ns, failed) is False


def test_a_batch_that_nobody_tried_is_given_back_with_the_count_that_it_had(buffer: Any, ns: str) -> None:
    gate = of(2)
    [batch] = buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    for _ in range(3):
        assert buffer.release(ns, batch, batch.attempts - 1) is True
        [batch] = buffer.due(ns, gate)
        assert (keys(batch.entries), batch.attempts) == (["m1", "m2"], 1)
    late, _ = batch, buffer.release(ns, batch, 6)
    [batch] = buffer.due(ns, gate)
    assert batch.attempts == 7
    assert buffer.release(ns, late, 1) is False
    assert buffer.complete(ns, batch) == 2


def test_a_renewed_batch_counts_from_now_on_what_the_caller_says(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(2)
    [batch] = buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    buffer.renew(ns, batch.token, timedelta(minutes=1), 40)
    buffer.renew(ns, batch.token, SHORT)
    clock.passed(SHORT)
    [batch] = buffer.due(ns, gate)
    assert batch.attempts == 41


@FAILING
def test_067_no_operation_waits_without_an_end(
    store_url: str, ns: str, clock: Clock, proxy: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Any] = []

    def prepare(store: Any) -> None:
        prepared.append(store.buffer.insert_and_seal(ns, entries(1), of(1)).batches[0])

    with cut_off(store_url, clock, proxy, monkeypatch, prepare, silent=True) as store:
        for call in (
            lambda: store.buffer.insert(ns, entries(2)),
            lambda: store.buffer.get_snapshot(ns),
            lambda: store.buffer.complete(ns, prepared[0]),
        ):
            began = time.monotonic()
            with pytest.raises((PersistenceError, errors.SystemNotReady)):
                call()
            assert time.monotonic() - began < 30
