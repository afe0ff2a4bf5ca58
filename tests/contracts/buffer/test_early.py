"""Early results of open groups: when one is due, who makes it, and what its group counts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.streams.contracts.leased_values import NO_RESULTS, EarlyPast, Gate, PositionMove
from tests.contracts.buffer.given import HOUR, at_once, entry, message, sent
from tests.contracts.buffer.packing import pack
from tests.contracts.leasing import Real, leased_store
from tests.contracts.stepping import Stepped

EVERY = timedelta(minutes=2)
LEASE = timedelta(minutes=1)
EARLY = Gate(100, HOUR, lease=LEASE, every=EVERY)
Put = Callable[..., list[Any]]
"""Inserts so many records into the group `g`."""
BOTH = pytest.mark.parametrize("form", ["rows", "packs"])


@pytest.fixture
def store(store_url: str, stepped: Stepped) -> Iterator[Any]:
    made = leased_store(store_url, Real(), {"json": bytes, "pack": bytes})
    yield made
    made.close()


@pytest.fixture
def put(buffer: Any, ns: str, form: str) -> Put:
    def insert(count: int = 1, gate: Gate = EARLY, group: str = "g") -> list[Any]:
        first = buffer.position(ns, "topic", 0)
        moves = PositionMove("topic", 0, first, first + count)
        if form == "packs":
            return list(buffer.insert_packs(ns, [pack(group, first, count)], gate, moves))
        made = [entry(number, group=group) for number in range(first, first + count)]
        return list(buffer.insert_and_seal(ns, made, gate, moves).batches)

    return insert


def sizes(batches: Any) -> list[tuple[int, EarlyPast]]:
    """The number of records of each, and the results that its group had."""
    return [(sum(_records(entry) for entry in batch.entries), batch.past) for batch in batches]


def _records(entry: Any) -> int:
    return int.from_bytes(entry.data[10:14]) if entry.type == "pack" else 1


def early(buffer: Any, ns: str, *topics: str, gate: Gate = EARLY) -> Any:
    """Makes the early result that is due, with a message to each topic."""
    [batch] = buffer.early(ns, gate)
    assert buffer.complete_early(ns, gate, [(batch, [message(topic, topic) for topic in topics])]) == [True]
    return batch


@BOTH
def test_an_early_result_is_due_one_period_after_the_first_record_and_the_group_stays_open(
    store: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    buffer = store.buffer
    put(2)
    stepped.later(EVERY / 2)
    put(1)
    assert buffer.early(ns, EARLY) == []
    stepped.later(EVERY / 2)
    assert sizes([early(buffer, ns, f"{ns}-a")]) == [(3, NO_RESULTS)]
    assert sent(store, f"{ns}-a") == [f"{ns}-a"]
    assert sizes([buffer.seal(ns, "g", EARLY)]) == [(3, EarlyPast(1, True))]


@BOTH
def test_nothing_is_due_until_another_record_has_come(buffer: Any, ns: str, stepped: Stepped, put: Put) -> None:
    put(2)
    stepped.later(EVERY)
    early(buffer, ns)
    stepped.later(4 * EVERY)
    assert buffer.early(ns, EARLY) == []
    put(1)
    assert buffer.early(ns, EARLY) == []
    stepped.later(EVERY)
    assert sizes([early(buffer, ns)]) == [(3, EarlyPast(1, False))]
    put(1)
    assert sizes([buffer.seal(ns, "g", EARLY)]) == [(4, EarlyPast(2, False))]


@BOTH
def test_records_that_come_while_a_result_is_made_are_in_the_next_one(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    put(2)
    stepped.later(EVERY)
    [batch] = buffer.early(ns, EARLY)
    put(1)
    assert buffer.complete_early(ns, EARLY, [(batch, [])]) == [True]
    assert buffer.early(ns, EARLY) == []
    stepped.later(EVERY)
    assert sizes([early(buffer, ns)]) == [(3, EarlyPast(1, False))]


@BOTH
def test_a_group_that_is_leased_is_due_again_when_its_lease_has_ended(
    store: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    """Its first worker may have died. If it lives, its result is refused."""
    buffer = store.buffer
    put(2)
    stepped.later(EVERY)
    [first] = buffer.early(ns, EARLY)
    assert buffer.early(ns, EARLY) == []
    stepped.later(LEASE)
    [again] = buffer.early(ns, EARLY)
    assert (again.token != first.token, sizes([again])) == (True, sizes([first]))
    topic = f"{ns}-l"
    assert buffer.complete_early(ns, EARLY, [(first, [message(topic, f"{ns}-late")])]) == [False]
    assert buffer.complete_early(ns, EARLY, [(again, [message(topic, f"{ns}-one")])]) == [True]
    assert buffer.complete_early(ns, EARLY, [(again, [message(topic, f"{ns}-two")])]) == [False]
    assert sent(store, topic) == [f"{ns}-one"]


@BOTH
def test_the_result_of_a_group_that_was_sealed_meanwhile_is_refused(
    store: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    """The last result has the same data. The next group of the key begins its own count."""
    buffer = store.buffer
    put(2)
    stepped.later(EVERY)
    early(buffer, ns)
    put(1)
    stepped.later(EVERY)
    [batch] = buffer.early(ns, EARLY)
    assert sizes([buffer.seal(ns, "g", EARLY)]) == [(3, EarlyPast(1, False))]
    put(1)
    assert buffer.complete_early(ns, EARLY, [(batch, [message(f"{ns}-s", f"{ns}-x")])]) == [False]
    assert sent(store, f"{ns}-s") == []
    stepped.later(EVERY)
    assert sizes([early(buffer, ns)]) == [(1, NO_RESULTS)]


@BOTH
def test_a_batch_keeps_the_early_results_of_its_group_until_it_is_completed(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    put(2)
    stepped.later(EVERY)
    early(buffer, ns)
    [sealed] = put(99)
    assert sizes([sealed]) == [(100, EarlyPast(1, False))]
    stepped.later(LEASE)
    [again] = buffer.due(ns, EARLY)
    assert (again.id, sizes([again])) == (sealed.id, sizes([sealed]))
    buffer.release(ns, again)
    [third] = buffer.due(ns, EARLY)
    assert sizes([third]) == sizes([sealed])
    assert buffer.complete_all(ns, [(third, [])]) == [True]
    assert sizes([buffer.seal(ns, "g", EARLY)]) == [(1, NO_RESULTS)]


@BOTH
def test_of_many_groups_so_many_are_leased_the_longest_due_first(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    for group in ("b", "a", "c"):
        put(1, group=group)
        stepped.later(timedelta(seconds=1))
    stepped.later(EVERY)
    assert [batch.group for batch in buffer.early(ns, EARLY, 2)] == ["b", "a"]
    assert [batch.group for batch in buffer.early(ns, EARLY, 2)] == ["c"]
    assert buffer.early(ns, EARLY, 2) == []


@BOTH
def test_one_of_many_workers_makes_the_result(store: Any, ns: str, stepped: Stepped, put: Put) -> None:
    buffer = store.buffer
    put(2)
    stepped.later(EVERY)
    [batch] = [finding for batch in at_once(lambda _: buffer.early(ns, EARLY), range(4)) for finding in batch]
    done = at_once(lambda id: buffer.complete_early(ns, EARLY, [(batch, [message(f"{ns}-m", f"{ns}-{id}")])]), "abcd")
    assert sorted(done) == [[False], [False], [False], [True]]
    assert len(sent(store, f"{ns}-m")) == 1


@BOTH
def test_groups_whose_records_were_removed_have_no_early_results(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    put(2)
    buffer.remove_all(ns)
    stepped.later(EVERY)
    assert buffer.early(ns, EARLY) == []
    put(1)
    buffer.remove_one(ns, next(iter(buffer.iter_raw(ns))).correlation_id)
    stepped.later(EVERY)
    assert buffer.early(ns, EARLY) == []
    put(1)
    assert sizes([buffer.seal(ns, "g", EARLY)]) == [(1, NO_RESULTS)]


@BOTH
def test_early_results_wait_for_no_clock_that_was_ahead(buffer: Any, ns: str, stepped: Stepped, put: Put) -> None:
    stepped.later(HOUR)
    put(1)
    stepped.later(-HOUR)
    assert buffer.early(ns, EARLY) == []
    stepped.later(EVERY)
    assert len(buffer.early(ns, EARLY)) == 1


@BOTH
def test_a_gate_without_early_results_keeps_those_that_a_group_had(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    """The key was removed from the file."""
    put(2)
    stepped.later(EVERY)
    early(buffer, ns)
    plain = replace(EARLY, every=None)
    put(1, gate=plain)
    stepped.later(EVERY)
    assert buffer.early(ns, plain) == []
    assert sizes([buffer.seal(ns, "g", plain)]) == [(3, EarlyPast(1, False))]


@BOTH
def test_groups_of_a_buffer_without_early_results_get_them_with_their_next_record(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    put(2, gate=replace(EARLY, every=None))
    stepped.later(EVERY)
    assert buffer.early(ns, EARLY) == []
    put(1)
    stepped.later(EVERY)
    assert sizes(buffer.early(ns, EARLY)) == [(3, NO_RESULTS)]


def test_an_unknown_buffer_has_no_early_results(buffer: Any, ns: str) -> None:
    assert buffer.early(ns, EARLY) == []


@BOTH
def test_what_a_group_had_and_when_the_next_result_is_due_is_read(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    assert buffer.early_states(ns) == {}
    put(2)
    [state] = buffer.early_states(ns).values()
    begun = state.due_at - EVERY
    assert (list(buffer.early_states(ns)), state.results) == (["g"], 0)
    stepped.later(EVERY)
    early(buffer, ns)
    assert buffer.early_states(ns) == {"g": (1, None)}
    put(1)
    [results, due_at] = buffer.early_states(ns)["g"]
    assert (results, round((due_at - begun) / EVERY, 1)) == (1, 2.0)
    buffer.seal(ns, "g", EARLY)
    assert buffer.early_states(ns) == {}
