"""What makes a group fire, step by step, as `scope: shared` calls it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.streams.contracts.leased_values import Gate, SealedBatch, batch_id
from tests.contracts.buffer.given import all_keys, at_once, entries, entry, keys, message, numbers, of, sent
from tests.contracts.leasing import SHORT, WHILE, Clock

UNKNOWN = {"type": "of-tomorrow"}
CORRUPT = {"data": b"{"}


def test_068_on_each_message_insert_then_the_gate_then_the_callback_then_the_removal(store: Any, ns: str) -> None:
    fired = []
    for number in range(7):
        for batch in store.buffer.insert_and_seal(ns, entries(number), of(3)).batches:
            fired.append(numbers(batch.entries))
            assert store.buffer.complete(ns, batch, [message(ns, batch.id)]) == 3
    assert fired == [[0, 1, 2], [3, 4, 5]]
    assert (all_keys(store.buffer, ns), len(sent(store, ns))) == (["m6"], 2)


def test_069_the_count_gate_counts_resolved_entries_so_unresolved_ones_alone_never_fire(
    buffer: Any, ns: str, types: dict[str, Callable[[bytes], Any]]
) -> None:
    assert buffer.insert_and_seal(ns, [entry(number, **UNKNOWN) for number in range(9)], of(3)).batches == []
    types[UNKNOWN["type"]] = lambda data: {"n": 0}
    batches = buffer.insert_and_seal(ns, entries(9), of(3)).batches
    assert [keys(batch.entries) for batch in batches] == [["m0", "m1", "m2"], ["m3", "m4", "m5"], ["m6", "m7", "m8"]]


def test_070_unresolved_rows_count_towards_no_gate_and_are_told_as_a_number_of_their_own(buffer: Any, ns: str) -> None:
    gate = of(3)
    assert buffer.insert_and_seal(ns, [*entries(1, 2), entry(3, **UNKNOWN)], gate).batches == []
    assert buffer.count(ns) - buffer.count_resolved(ns) == 1
    [batch] = buffer.insert_and_seal(ns, entries(4), gate).batches
    assert numbers(batch.entries) == [1, 2, 4]
    assert buffer.get_snapshot(ns).unresolved == 1


def test_071_the_callback_gets_resolved_entries_only(buffer: Any, ns: str) -> None:
    [batch] = buffer.insert_and_seal(ns, [entry(1), entry(2, **CORRUPT), entry(3), entry(4, **UNKNOWN)], of(3)).batches
    assert (numbers(batch.entries), len(batch.ids), batch.unresolved) == ([1, 3], 2, 1)


def test_072_when_the_callback_raises_the_rows_stay_and_their_lease_is_given_back(store: Any, ns: str) -> None:
    buffer, gate = store.buffer, of(2)

    def processed(batch: SealedBatch, callback: Callable[[SealedBatch], Any]) -> bool:
        try:
            outbox = callback(batch)
        except LookupError:
            assert buffer.release(ns, batch)
            return False
        return bool(buffer.complete(ns, batch, outbox) == 2)

    def raises(batch: SealedBatch) -> Any:
        raise LookupError

    [failed] = buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    assert not processed(failed, raises)
    assert (all_keys(buffer, ns), sent(store, ns)) == (["m1", "m2"], [])
    [again] = buffer.due(ns, gate)
    assert processed(again, lambda batch: [message(ns, ns)])
    assert sent(store, ns) == [ns]


def test_073_the_count_is_each_aggregations_own(buffer: Any, ns: str) -> None:
    gates = {f"{ns}-{count}": of(count) for count in (1, 2, 5)}
    fired = {name: len(buffer.insert_and_seal(name, entries(*range(10)), gate).batches) for name, gate in gates.items()}
    assert fired == {f"{ns}-1": 10, f"{ns}-2": 5, f"{ns}-5": 2}


def test_074_a_gate_needs_a_count_or_a_time_each_positive_and_the_first_trigger_wins(
    buffer: Any, ns: str, clock: Clock
) -> None:
    for wrong in (
        {},
        {"count": 0},
        {"count": -1},
        {"after_first": timedelta(0)},
        {"after_last": -SHORT},
        {"count": 1, "lease": 0 * SHORT},
    ):
        with pytest.raises(ValueError):
            Gate(**wrong)
    gate = of(2, after_first=WHILE)
    [by_count] = buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    assert buffer.insert_and_seal(ns, entries(3), gate).batches == []
    clock.passed(WHILE)
    [by_time] = buffer.due(ns, gate)
    assert [(batch.reason, numbers(batch.entries)) for batch in (by_count, by_time)] == [
        ("count", [1, 2]),
        ("timeout", [3]),
    ]
    [next_] = buffer.insert_and_seal(ns, entries(4, 5), gate).batches
    assert (next_.reason, numbers(next_.entries), buffer.due(ns, gate)) == ("count", [4, 5], [])


def test_075_the_count_seals_only_full_batches_and_the_time_needs_one_resolved_entry(
    buffer: Any, ns: str, clock: Clock, types: dict[str, Callable[[bytes], Any]]
) -> None:
    gate = of(3, after_first=SHORT)
    buffer.insert(ns, entries(1, 2))
    leased = buffer.get_snapshot(ns)
    assert (
        buffer.insert_and_seal(ns, [entry(3), entry(4, **UNKNOWN), entry(5, group="other", **UNKNOWN)], gate).batches
        == []
    )
    clock.passed(SHORT)
    assert [(batch.group, keys(batch.entries)) for batch in buffer.due(ns, gate)] == [("", ["m3"])]
    assert buffer.due(ns, gate) == []
    assert buffer.release_snapshot(ns, leased) == 2
    types[UNKNOWN["type"]] = bytes.decode
    assert sorted((batch.group, keys(batch.entries)) for batch in buffer.due(ns, gate)) == [
        ("", ["m1", "m2", "m4"]),
        ("other", ["m5"]),
    ]


def test_076_of_many_callers_at_once_exactly_one_is_told_to_fire(another: Callable[[], Any], ns: str) -> None:
    def insert(item: tuple[Any, int]) -> list[SealedBatch]:
        buffer, first = item
        return [
            batch
            for number in range(first, first + 10)
            for batch in buffer.insert_and_seal(ns, entries(number), of(5)).batches
        ]

    sealed_batches = [
        batch
        for batches in at_once(insert, [(another().buffer, 100 * caller) for caller in range(4)])
        for batch in batches
    ]
    assert len(sealed_batches) == len({batch.id for batch in sealed_batches}) == 8
    assert sorted(keys(entry for batch in sealed_batches for entry in batch.entries)) == sorted(
        all_keys(another().buffer, ns)
    )
    assert {len(batch.entries) for batch in sealed_batches} == {5}


def test_077_each_group_of_a_name_fires_for_itself_and_without_groups_the_name_does(buffer: Any, ns: str) -> None:
    mixed = [entry(number, group=f"g{number % 3}") for number in range(8)]
    batches = buffer.insert_and_seal(ns, mixed, of(3)).batches
    assert sorted((batch.group, numbers(batch.entries)) for batch in batches) == [("g0", [0, 3, 6]), ("g1", [1, 4, 7])]
    [batch] = buffer.insert_and_seal(ns, [entry(8, group="g2"), *entries(9)], of(3)).batches
    assert (batch.group, numbers(batch.entries)) == ("g2", [2, 5, 8])
    [batch] = buffer.insert_and_seal(f"{ns}-b", entries(1, 2), of(2)).batches
    assert (batch.group, numbers(batch.entries)) == ("", [1, 2])


# -- sealing and deadlines
# ------------------------------------------------------------------------------------------------------------


def test_a_group_with_many_times_the_count_is_sealed_until_it_is_below(buffer: Any, ns: str) -> None:
    filled = buffer.insert_and_seal(ns, entries(*range(11)), of(3))
    assert filled.result == (11, 0)
    assert [numbers(batch.entries) for batch in filled.batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert len({batch.token for batch in filled.batches} | {""}) == 4
    assert all((batch.reason, batch.attempts, batch.unresolved) == ("count", 1, 0) for batch in filled.batches)
    assert [batch.id for batch in filled.batches] == [batch_id(ns, "", batch.ids[0]) for batch in filled.batches]


def test_batches_of_different_names_and_groups_have_different_ids_whatever_slashes_are_in_them() -> None:
    assert batch_id("orders", "eu/42", "1") != batch_id("orders/eu", "42", "1")


def test_a_batch_comes_back_unchanged_and_with_the_same_id_after_its_lease(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(2, lease=SHORT)
    [first] = buffer.insert_and_seal(ns, entries(1, 2), gate).batches
    buffer.insert_and_seal(ns, entries(3), gate)
    clock.passed(SHORT)
    [second] = buffer.due(ns, of(5))
    for name in ("id", "group", "reason", "ids", "entries", "unresolved"):
        assert getattr(second, name) == getattr(first, name)
    assert (first.attempts, second.attempts) == (1, 2)
    assert second.token != first.token
    assert numbers(buffer.get_snapshot(ns).entries) == [3]


def test_a_deadline_after_the_first_entry_is_not_moved_by_later_ones(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(100, after_first=2 * WHILE)
    buffer.insert_and_seal(ns, entries(1), gate)
    clock.passed(WHILE)
    buffer.insert_and_seal(ns, entries(2), gate)
    assert buffer.due(ns, gate) == []
    clock.passed(WHILE)
    [batch] = buffer.due(ns, gate)
    assert (batch.reason, numbers(batch.entries)) == ("timeout", [1, 2])


def test_a_deadline_after_the_last_entry_is_moved_by_each_but_not_by_one_that_was_there(
    buffer: Any, ns: str, clock: Clock
) -> None:
    gate = of(after_last=2 * WHILE)
    buffer.insert_and_seal(ns, entries(1), gate)
    clock.passed(WHILE)
    buffer.insert_and_seal(ns, entries(2), gate)
    clock.passed(WHILE)
    buffer.insert_and_seal(ns, entries(2), gate)
    assert buffer.due(ns, gate) == []
    clock.passed(WHILE)
    [batch] = buffer.due(ns, gate)
    assert (batch.reason, numbers(batch.entries)) == ("timeout", [1, 2])


def test_due_hands_out_at_most_so_many_and_each_to_one_caller(
    another: Callable[[], Any], ns: str, clock: Clock
) -> None:
    buffer, gate = another().buffer, of(after_first=SHORT)
    buffer.insert_and_seal(ns, [entry(number, group=f"g{number % 10}") for number in range(30)], gate)
    clock.passed(SHORT)
    assert len(buffer.due(ns, gate, 3)) == 3
    sealed_batches = [
        batch
        for batches in at_once(lambda item: item.due(ns, gate, 4), [another().buffer for _ in range(4)])
        for batch in batches
    ]
    assert len(sealed_batches) == len({batch.group for batch in sealed_batches}) == 7
    assert all(len(batch.entries) == 3 for batch in sealed_batches)
    assert buffer.due(ns, gate) == []


def test_after_a_seal_the_rest_of_the_group_has_a_deadline_of_its_own(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(2, after_first=SHORT)
    [batch] = buffer.insert_and_seal(ns, entries(1, 2, 3), gate).batches
    buffer.complete(ns, batch)
    clock.passed(SHORT)
    assert [numbers(batch.entries) for batch in buffer.due(ns, gate)] == [[3]]


def test_a_deadline_goes_with_the_last_row_of_its_group(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(9, after_first=SHORT)
    for group, remove in (
        ("one", lambda: buffer.remove_one(ns, "c1")),
        ("snapshot", lambda: buffer.remove_snapshot(ns, buffer.get_snapshot(ns))),
        ("all", lambda: buffer.remove_all(ns)),
    ):
        buffer.insert_and_seal(ns, entries(1, group=group), gate)
        remove()
        buffer.insert(ns, entries(2, group=group))  # for which nobody asked for a time
        clock.passed(SHORT)
        assert buffer.due(ns, gate) == []
        buffer.remove_all(ns)


def test_rows_that_did_not_decode_go_back_at_completion_and_count_towards_no_gate(
    buffer: Any, ns: str, clock: Clock, types: dict[str, Callable[[bytes], Any]]
) -> None:
    gate = of(3, after_first=SHORT)
    [batch] = buffer.insert_and_seal(
        ns, [entry(1), entry(2, type="text", data=b"\xff"), entry(3), entry(4)], gate
    ).batches
    assert (numbers(batch.entries), batch.unresolved, buffer.complete(ns, batch)) == ([1, 3], 1, 2)
    clock.passed(SHORT)
    assert [buffer.complete(ns, batch) for batch in buffer.due(ns, gate)] == [1]
    assert (all_keys(buffer, ns), buffer.insert(ns, [entry(2)])) == (["m2"], (0, 1))
    assert buffer.insert_and_seal(ns, entries(5, 6), gate).batches == []
    types["text"] = lambda data: {"n": 2}
    assert numbers(buffer.get_snapshot(ns).entries) == [2, 5, 6]


def test_what_a_snapshot_has_is_not_sealed_and_does_not_count(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1, 2))
    leased = buffer.get_snapshot(ns)
    assert buffer.insert_and_seal(ns, entries(3), of(3)).batches == []
    buffer.release_snapshot(ns, leased)
    [batch] = buffer.insert_and_seal(ns, entries(3), of(3)).batches
    assert numbers(batch.entries) == [1, 2, 3]


def test_hundreds_of_entries_seal_in_one_call(buffer: Any, ns: str) -> None:
    made = [entry(number, group=f"g{number % 40}") for number in range(1200)]
    filled = buffer.insert_and_seal(ns, made, of(10))
    assert (filled.result, len(filled.batches)) == ((1200, 0), 120)
    assert sorted(number for batch in filled.batches for number in numbers(batch.entries)) == list(range(1200))
    assert sum(buffer.complete(ns, batch) for batch in filled.batches[:5]) == 50
    assert buffer.count(ns) == 1150


def test_a_person_ends_a_group_early_and_the_rest_of_it_keeps_its_deadline(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(3, after_first=2 * WHILE)
    buffer.insert_and_seal(ns, [entry(number, group="ab"[number % 2]) for number in range(4)], gate)
    assert buffer.seal(ns, "nothing", gate) is None
    batch = buffer.seal(ns, "a", gate)
    assert (batch.group, batch.reason, numbers(batch.entries)) == ("a", "manual", [0, 2])
    assert buffer.seal(ns, "a", gate) is None
    assert buffer.release(ns, batch)
    [again] = buffer.due(ns, gate)
    assert (again.id, again.reason, buffer.complete(ns, again)) == (batch.id, "manual", 2)
    clock.passed(2 * WHILE)
    assert [late.group for late in buffer.due(ns, gate)] == ["b"]
