"""Reading a buffer, and the order of its rows."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.contracts.leased import LEASE
from sluicegate.streams.contracts.leased_values import EMPTY, Snapshot
from tests.contracts.buffer.given import all_keys, at_once, entries, entry, keys, numbers, of
from tests.contracts.leasing import FIVE_MINUTES, SHORT, Clock, leased_store, near

UNKNOWN = {"type": "of-tomorrow"}
CORRUPT = {"data": b"{"}


def test_018_get_data_returns_every_record_decoded_in_insertion_order(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(3, 1))
    buffer.insert(ns, [entry(2, type="text", data="é".encode())])
    assert [entry.value for entry in buffer.get_data(ns)] == [{"n": 3}, {"n": 1}, "é"]


def test_019_get_data_of_an_unknown_or_emptied_name_is_an_empty_list(buffer: Any, ns: str) -> None:
    assert buffer.get_data(ns) == []
    buffer.insert(ns, entries(1))
    buffer.remove_all(ns)
    assert buffer.get_data(ns) == []


def test_020_get_data_leases_removes_and_reorders_nothing(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1, 2))
    for _ in range(2):
        assert numbers(buffer.get_data(ns)) == [1, 2]
    snapshot = buffer.get_snapshot(ns)
    assert (numbers(snapshot.entries), snapshot.leased_elsewhere) == ([1, 2], 0)
    assert numbers(buffer.get_data(ns)) == [1, 2]
    assert buffer.remove_snapshot(ns, snapshot) == 2


def test_021_get_data_leaves_out_what_does_not_decode_and_iter_raw_has_it(buffer: Any, ns: str) -> None:
    made = [entry(1), entry(2, **UNKNOWN), entry(3, **CORRUPT), entry(4)]
    buffer.insert(ns, made)
    assert numbers(buffer.get_data(ns)) == [1, 4]
    raw = list(buffer.iter_raw(ns))
    assert raw == made
    assert [entry.value for entry in raw] == [None] * 4


def test_022_a_snapshot_has_the_resolved_entries_their_rows_and_the_count_of_the_others(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1), entry(2, **UNKNOWN), entry(3)])
    snapshot = buffer.get_snapshot(ns)
    assert isinstance(snapshot, Snapshot)
    assert (numbers(snapshot.entries), len(snapshot.ids), snapshot.unresolved) == ([1, 3], 2, 1)
    assert all(isinstance(id, str) for id in snapshot.ids)


def test_023_the_id_at_a_place_is_the_row_of_the_entry_at_that_place(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1), entry(2, **CORRUPT), entry(3), entry(4)])
    snapshot = buffer.get_snapshot(ns)
    assert len(snapshot.ids) == len(snapshot.entries) == 3
    assert buffer.remove_snapshot(ns, replace(snapshot, ids=snapshot.ids[1:2], entries=snapshot.entries[1:2])) == 1
    assert all_keys(buffer, ns) == ["m1", "m2", "m4"]


def test_024_ids_name_rows_not_correlations(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1, correlation_id="same"), entry(2, correlation_id="same")])
    first = buffer.get_snapshot(ns)
    assert len(set(first.ids)) == 2
    buffer.remove_snapshot(ns, first)
    buffer.insert(ns, [entry(1, correlation_id="same")])
    assert not set(buffer.get_snapshot(ns).ids) & set(first.ids)


def test_025_the_unresolved_count_tells_of_rows_that_could_not_be_decoded(
    buffer: Any, ns: str, types: dict[str, Callable[[bytes], Any]]
) -> None:
    buffer.insert(ns, [entry(1, **UNKNOWN), entry(2, **UNKNOWN), entry(3)])
    snapshot = buffer.get_snapshot(ns)
    assert snapshot.unresolved == 2
    buffer.release_snapshot(ns, snapshot)
    types[UNKNOWN["type"]] = bytes.decode
    assert buffer.get_snapshot(ns).unresolved == 0


def test_026_one_bad_row_does_not_spoil_the_snapshot_of_the_others(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1, **CORRUPT), *entries(*range(2, 20))])
    snapshot = buffer.get_snapshot(ns)
    assert (numbers(snapshot.entries), snapshot.unresolved) == (list(range(2, 20)), 1)
    assert buffer.remove_snapshot(ns, snapshot) == 18


def test_027_an_unknown_type_a_corrupt_payload_and_a_decoder_that_raises_all_count_as_unresolved(
    buffer: Any, ns: str, types: dict[str, Callable[[bytes], Any]]
) -> None:
    def picky(data: bytes) -> Any:
        raise KeyError("correlation_id")

    types["picky"] = picky
    buffer.insert(ns, [entry(1, **UNKNOWN), entry(2, **CORRUPT), entry(3, type="picky"), entry(4, type="")])
    snapshot = buffer.get_snapshot(ns)
    assert (list(snapshot.entries), list(snapshot.ids), snapshot.unresolved) == ([], [], 4)


def test_028_unresolved_rows_are_never_handed_to_the_callback(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1, **CORRUPT), entry(2)])
    assert numbers(buffer.get_snapshot(ns).entries) == [2]
    [batch] = buffer.insert_and_seal(
        ns, [entry(3, group="g"), entry(4, group="g", **UNKNOWN), entry(5, group="g")], of(2)
    ).batches
    assert numbers(batch.entries) == [3, 5]


def test_029_rows_inserted_after_a_snapshot_are_not_in_it_and_survive_its_removal(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1, 2))
    snapshot = buffer.get_snapshot(ns)
    buffer.insert(ns, entries(3))
    assert numbers(snapshot.entries) == [1, 2]
    assert buffer.remove_snapshot(ns, snapshot) == 2
    assert all_keys(buffer, ns) == ["m3"]


def test_030_a_snapshot_stamps_its_rows_with_a_token_and_an_expiry_by_the_stores_clock(
    buffer: Any, ns: str, clock: Clock
) -> None:
    buffer.insert(ns, entries(1, 2))
    one, two = (buffer.get_snapshot(ns, 1, lease=2 * FIVE_MINUTES) for _ in range(2))
    assert one.token
    assert one.token != two.token
    assert near(one.expires_at, clock.now() + 2 * FIVE_MINUTES)
    assert buffer.get_snapshot(ns).next_expiry in (one.expires_at, two.expires_at)


def test_031_while_a_lease_lives_the_next_snapshot_has_only_rows_that_nobody_has(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1, 2))
    first = buffer.get_snapshot(ns)
    nothing = buffer.get_snapshot(ns)
    assert (list(nothing.entries), nothing.leased_elsewhere, nothing.next_expiry) == ([], 2, first.expires_at)
    buffer.insert(ns, entries(3))
    later = buffer.get_snapshot(ns)
    assert (numbers(later.entries), later.leased_elsewhere, later.next_expiry) == ([3], 2, first.expires_at)


def test_032_rows_whose_lease_is_over_are_leased_again(buffer: Any, ns: str, clock: Clock) -> None:
    buffer.insert(ns, [*entries(1, 2), entry(3, **CORRUPT)])
    first = buffer.get_snapshot(ns, lease=SHORT)
    clock.passed(SHORT)
    second = buffer.get_snapshot(ns)
    assert (numbers(second.entries), second.unresolved, second.leased_elsewhere) == ([1, 2], 1, 0)
    assert second.token != first.token
    assert second.ids == first.ids


def test_033_a_lease_is_five_minutes_unless_said_otherwise(buffer: Any, ns: str, clock: Clock) -> None:
    buffer.insert(ns, entries(1))
    assert near(buffer.get_snapshot(ns).expires_at, clock.now() + FIVE_MINUTES)
    assert LEASE == FIVE_MINUTES
    [batch] = buffer.insert_and_seal(ns, entries(2), of(1)).batches
    assert near(batch.expires_at, clock.now() + FIVE_MINUTES)


@pytest.mark.parametrize("lease", [0 * FIVE_MINUTES, -FIVE_MINUTES])
def test_034_a_lease_that_is_not_positive_is_refused(buffer: Any, ns: str, lease: Any) -> None:
    buffer.insert(ns, entries(1))
    with pytest.raises(ValueError, match="lease"):
        buffer.get_snapshot(ns, lease=lease)
    with pytest.raises(ValueError, match="lease"):
        buffer.renew(ns, "token", lease)
    with pytest.raises(ValueError, match="lease"):
        of(1, lease=lease)
    assert numbers(buffer.get_snapshot(ns).entries) == [1]


def test_035_the_empty_snapshot_is_one_constant(buffer: Any, ns: str) -> None:
    assert buffer.get_snapshot(ns) is EMPTY
    assert (EMPTY.ids, EMPTY.entries, EMPTY.unresolved, EMPTY.token, EMPTY.expires_at, EMPTY.leased_elsewhere) == (
        (),
        (),
        0,
        "",
        None,
        0,
    )


def test_036_count_is_the_number_of_rows_held(buffer: Any, ns: str) -> None:
    assert buffer.count(ns) == 0
    buffer.insert(ns, [*entries(1, 2), entry(3, **CORRUPT), entry(4, **UNKNOWN)])
    buffer.get_snapshot(ns, 1)
    buffer.insert_and_seal(ns, entries(5, group="g"), of(1))
    assert buffer.count(ns) == 5


def test_037_without_a_registry_count_resolved_is_count(untyped: Any, ns: str) -> None:
    untyped.buffer.insert(ns, [entry(1), entry(2, **UNKNOWN), entry(3, **CORRUPT)])
    assert untyped.buffer.count_resolved(ns) == untyped.buffer.count(ns) == 3


def test_038_count_resolved_counts_rows_whose_type_has_a_decoder_now(
    buffer: Any, ns: str, types: dict[str, Callable[[bytes], Any]]
) -> None:
    buffer.insert(ns, [*entries(1, 2), entry(3, **UNKNOWN)])
    assert buffer.count_resolved(ns) == 2
    types[UNKNOWN["type"]] = bytes
    assert buffer.count_resolved(ns) == 3
    del types["json"]
    assert buffer.count_resolved(ns) == 1


def test_039_count_resolved_changes_nothing(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1, 2))
    leased = buffer.get_snapshot(ns, 1)
    assert [buffer.count_resolved(ns) for _ in range(3)] == [2] * 3
    assert numbers(buffer.get_snapshot(ns).entries) == [2]
    assert buffer.remove_snapshot(ns, leased) == 1


def test_040_with_an_empty_registry_count_resolved_is_0_without_a_round_trip(
    buffer: Any,
    store_url: str,
    ns: str,
    types: dict[str, Callable[[bytes], Any]],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer.insert(ns, entries(1))
    types.clear()
    assert buffer.count_resolved(ns) == 0
    if "://" in store_url and not store_url.startswith("memory:"):
        nobody = re.sub(r":\d+", ":9", store_url) if ":///" not in store_url else store_url + "-not-there"
        with monkeypatch.context() as patched:
            patched.setattr("tests.contracts.leasing.open_store", _unmigrated)
            patched.setattr("sluicegate.connectors.sql.state.SqlStore.migrate", lambda self: [])
            assert leased_store(nobody, clock, {}).buffer.count_resolved(ns) == 0


def _unmigrated(url: str, **more: Any) -> Any:
    from sluicegate.connectors import open_store

    made: Any = open_store(url, **more)
    made.migrate = lambda: []
    return made


def test_041_rows_of_one_process_keep_their_order_whatever_the_clocks_resolution(buffer: Any, ns: str) -> None:
    for first in range(0, 40, 4):
        buffer.insert(ns, entries(*range(first, first + 4)))
    assert numbers(buffer.get_data(ns)) == list(range(40))
    assert numbers(buffer.get_snapshot(ns).entries) == list(range(40))


def test_042_rows_of_processes_that_insert_at_once_have_one_stable_order(another: Callable[[], Any], ns: str) -> None:
    def insert(buffer: Any, first: int) -> None:
        for number in range(first, first + 40, 4):
            buffer.insert(ns, entries(*range(number, number + 4)))

    at_once(lambda item: insert(*item), [(another().buffer, first) for first in (0, 100, 200)])
    one, two = another().buffer, another().buffer
    order = numbers(one.get_data(ns))
    assert [number for number in order if number < 100] == list(range(40))
    assert [number for number in order if number >= 200] == list(range(200, 240))
    assert numbers(two.get_data(ns)) == numbers(two.get_snapshot(ns).entries) == order


def test_043_a_clock_that_goes_back_does_not_reorder_rows(
    buffer: Any, ns: str, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    for number in range(4):
        monkeypatch.setattr(time, "time", lambda number=number: now - 3600 * number)
        if hasattr(clock, "seconds"):
            clock.seconds -= 3600
        buffer.insert(ns, entries(number))
    assert numbers(buffer.get_data(ns)) == numbers(buffer.get_snapshot(ns).entries) == [0, 1, 2, 3]


def test_a_snapshot_takes_the_oldest_so_many(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1, **CORRUPT), *entries(2, 3, 4)])
    first, second = buffer.get_snapshot(ns, 2), buffer.get_snapshot(ns, 5)
    assert (numbers(first.entries), first.unresolved) == ([2], 1)
    assert (numbers(second.entries), second.unresolved, second.leased_elsewhere) == ([3, 4], 0, 2)
    with pytest.raises(ValueError, match="limit"):
        buffer.get_snapshot(ns, 0)


def test_rows_of_a_sealed_batch_are_elsewhere_for_a_snapshot(buffer: Any, ns: str) -> None:
    [batch] = buffer.insert_and_seal(ns, entries(1, 2, 3), of(2)).batches
    snapshot = buffer.get_snapshot(ns)
    assert (keys(snapshot.entries), snapshot.leased_elsewhere, snapshot.next_expiry) == (["m3"], 2, batch.expires_at)
