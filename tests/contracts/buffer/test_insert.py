"""Inserting rows into a buffer."""

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from sluicegate.connectors.sql.leased.leased_tables import BUFFER_KEY
from sluicegate.streams.contracts.leased_values import Entry, entry_key
from sluicegate.streams.errors import ConcurrencyError
from tests.contracts.buffer.given import HOUR, all_keys, at_once, entries, entry, keys, message, numbers, of
from tests.contracts.leasing import SHORT


def test_001_an_insert_stores_one_payload_in_the_buffer_of_its_name(buffer: Any, ns: str) -> None:
    made = entry(1, headers=[("h", b"x"), ("h", None), ("é", b"\0")], group="g", data=b'{"n": 1, "z": "\\u0000"}')
    assert buffer.insert(ns, [made]) == (1, 0)
    [stored_entry] = buffer.get_data(ns)
    assert stored_entry == made
    assert (stored_entry.value, stored_entry.headers) == ({"n": 1, "z": "\0"}, (("h", b"x"), ("h", None), ("é", b"\0")))


def test_002_a_second_insert_of_a_buffered_key_is_a_silent_no_op(buffer: Any, ns: str) -> None:
    assert buffer.insert(ns, entries(1, 2)) == (2, 0)
    assert buffer.insert(ns, entries(2, 3, 3)) == (1, 2)
    assert buffer.insert(ns, entries(1)) == (0, 1)
    assert (buffer.count(ns), all_keys(buffer, ns)) == (3, ["m1", "m2", "m3"])


def test_003_of_two_payloads_with_one_key_the_first_stays(buffer: Any, ns: str) -> None:
    first, second = entry(1), entry(1, data=b'{"n": 9}', correlation_id="other")
    buffer.insert(ns, [first, second])
    buffer.insert(ns, [second])
    assert list(buffer.get_data(ns)) == [first]


def test_004_a_key_is_known_within_its_name_only(buffer: Any, ns: str) -> None:
    assert [buffer.insert(name, entries(1)) for name in (ns, ns + "-other")] == [(1, 0), (1, 0)]
    assert (buffer.count(ns), buffer.count(ns + "-other")) == (1, 1)


def test_005_two_rows_of_one_correlation_id_and_different_keys_both_exist(buffer: Any, ns: str) -> None:
    buffer.insert(ns, [entry(1, correlation_id="same"), entry(2, correlation_id="same")])
    assert [(entry.idempotency_key, entry.correlation_id) for entry in buffer.get_data(ns)] == [
        ("m1", "same"),
        ("m2", "same"),
    ]


def test_006_after_the_row_was_removed_its_key_is_accepted_again(buffer: Any, ns: str) -> None:
    def by_snapshot() -> None:
        assert buffer.remove_snapshot(ns, buffer.get_snapshot(ns)) == 1

    def by_batch() -> None:
        [batch] = buffer.insert_and_seal(ns, entries(2), of(2)).batches
        assert buffer.complete(ns, batch) == 2

    for remove in (by_snapshot, lambda: buffer.remove_one(ns, "c1"), lambda: buffer.remove_all(ns), by_batch):
        assert buffer.insert(ns, entries(1)) == (1, 0)
        remove()
    assert buffer.insert(ns, entries(1)) == (1, 0)


def test_007_the_key_of_a_row_that_is_only_leased_is_still_known(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1))
    assert len(buffer.get_snapshot(ns).entries) == 1
    assert buffer.insert(ns, entries(1)) == (0, 1)
    [batch] = buffer.insert_and_seal(ns, entries(2, 3), of(2)).batches
    assert buffer.insert(ns, entries(*range(1, 4))) == (0, 3)
    assert (buffer.count(ns), keys(batch.entries)) == (3, ["m2", "m3"])


def test_008_of_many_first_inserts_of_one_key_at_once_exactly_one_makes_a_row(
    another: Callable[[], Any], ns: str
) -> None:
    buffers = [another().buffer for _ in range(6)]
    for round_ in range(3):
        results = at_once(lambda pair: pair[0].insert(ns, entries(pair[1])), [(buffer, round_) for buffer in buffers])
        assert sorted(results) == [(0, 1)] * 5 + [(1, 0)]
        assert all_keys(buffers[0], ns) == [f"m{number}" for number in range(round_ + 1)]


def test_009_the_key_is_the_id_that_the_message_has_at_its_broker_whatever_else_differs(
    another: Callable[[], Any], ns: str
) -> None:
    first = Entry("broker-id-1", "c1", "json", b"1", headers=[("delivery", b"1")])
    again = Entry("broker-id-1", "c1", "json", b"1", headers=[("delivery", b"2")], group="elsewhere")
    results = [another().buffer.insert(ns, [entry]) for entry in (first, again)]
    assert results == [(1, 0), (0, 1)]
    assert list(another().buffer.get_data(ns)) == [first]


def test_010_a_message_without_an_id_is_known_by_its_place_and_never_by_a_random_one(buffer: Any, ns: str) -> None:
    def delivered(offset: int) -> Entry:
        return Entry(entry_key("orders", 3, offset), "c", "json", b"1")

    assert [buffer.insert(ns, [delivered(offset)]) for offset in (7, 7, 8)] == [(1, 0), (0, 1), (1, 0)]
    assert all_keys(buffer, ns) == ["orders/3/7", "orders/3/8"]


@pytest.mark.parametrize("blank", ["", " \t", None])
def test_011_an_entry_without_a_correlation_id_is_refused(buffer: Any, ns: str, blank: Any) -> None:
    with pytest.raises(ValueError, match="correlation_id"):
        buffer.insert(ns, [Entry("m1", blank)])
    assert buffer.count(ns) == 0


@pytest.mark.parametrize(
    ("key", "data", "text"),
    [("", b"", "its idempotency_key"), (" ", b"", "its idempotency_key"), (None, b"", "its"), ("m", None, "data")],
)
def test_012_an_entry_without_data_or_key_is_refused(buffer: Any, ns: str, key: Any, data: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        buffer.insert(ns, [Entry(key, "c", data=data)])
    assert buffer.count(ns) == 0


def test_013_every_operation_touches_only_rows_of_its_name(store: Any, ns: str, clock: Any) -> None:
    buffer, other, gate = store.buffer, f"{ns}-b", of(2, after_first=timedelta(milliseconds=1))
    for name in (ns, other):
        buffer.insert(name, entries(1, 2, 3, group="x"))
        buffer.insert_and_seal(name, entries(4), gate)
    clock.passed(timedelta(milliseconds=1))
    before = [all_keys(buffer, ns), buffer.count(ns), buffer.count_resolved(ns)]
    snapshot, [batch] = buffer.get_snapshot(other, 2), buffer.due(other, gate)
    assert (keys(snapshot.entries), keys(batch.entries)) == (["m1", "m2"], ["m4"])
    for call in (lambda: buffer.renew(ns, batch.token), lambda: buffer.complete(ns, batch)):
        with pytest.raises(ConcurrencyError):
            call()
    assert [buffer.remove_snapshot(ns, snapshot), buffer.release_snapshot(ns, snapshot), buffer.release(ns, batch)] == [
        0,
        0,
        False,
    ]
    assert [buffer.remove_snapshot(other, snapshot), buffer.complete(other, batch)] == [2, 1]
    buffer.remove_one(other, "c3")
    assert (buffer.count(other), buffer.position(other, "t", 0), buffer.remove_all(other)) == (0, 0, 0)
    assert [all_keys(buffer, ns), buffer.count(ns), buffer.count_resolved(ns)] == before
    assert [keys(batch.entries) for batch in buffer.due(ns, gate)] == [["m4"]]
    assert keys(buffer.get_snapshot(ns).entries) == ["m1", "m2", "m3"]


def test_015_a_delivery_that_comes_again_before_it_was_acknowledged_adds_no_row(
    another: Callable[[], Any], ns: str
) -> None:
    deliveries = entries(*range(50))
    assert another().buffer.insert(ns, deliveries) == (50, 0)  # and the process ends before it can say so to the broker
    assert another().buffer.insert(ns, deliveries + entries(50)) == (1, 50)
    assert numbers(another().buffer.get_data(ns)) == list(range(51))


def test_016_many_threads_may_insert_and_count_under_one_name(buffer: Any, ns: str) -> None:
    counts: list[int] = []
    over = threading.Event()

    def insert(partition: int) -> int:
        results = [
            buffer.insert(ns, entries(*range(first, first + 5)))
            for first in range(partition * 100, partition * 100 + 25, 5)
        ]
        return sum(result.stored for result in results)

    def count() -> int:
        while not over.is_set():
            counts.append(buffer.count(ns))
        return 0

    counting = threading.Thread(target=count)
    counting.start()
    assert at_once(insert, range(4)) == [25] * 4
    over.set()
    counting.join(30)
    assert buffer.count(ns) == 100
    assert counts == sorted(counts)
    assert all(count % 5 == 0 for count in counts)


def test_017_changing_what_was_given_or_read_does_not_change_the_buffer(buffer: Any, ns: str) -> None:
    headers = [("h", b"1")]
    stored_entries = [entry(1, headers=headers, data=json.dumps({"n": 1, "list": [1]}).encode())]
    buffer.insert(ns, stored_entries)
    headers.append(("late", b"2"))
    stored_entries.clear()
    for read in (lambda: buffer.get_data(ns), lambda: buffer.get_snapshot(ns, lease=timedelta(microseconds=1)).entries):
        [stored_entry] = read()
        stored_entry.value["list"].append(2)
        stored_entry.value["n"] = 3
    [stored_entry] = buffer.get_data(ns)
    assert (stored_entry.value, stored_entry.headers) == ({"n": 1, "list": [1]}, (("h", b"1"),))


def test_hundreds_of_entries_in_one_call_keep_their_order(buffer: Any, ns: str) -> None:
    assert buffer.insert(ns, entries(*range(1500))) == (1500, 0)
    assert buffer.insert(ns, entries(*range(1400, 1600))) == (100, 100)
    assert numbers(buffer.get_data(ns)) == list(range(1600))


def test_nothing_is_stored_by_an_insert_of_nothing(buffer: Any, ns: str) -> None:
    assert buffer.insert(ns, []) == (0, 0)
    assert buffer.insert_and_seal(ns, [], of(1)) == ((0, 0), [])
    assert buffer.count(ns) == 0


def test_keys_and_groups_of_any_text_are_told_apart(buffer: Any, ns: str) -> None:
    texts = ["a", "A", "a ", "á", "a\u0301", "'; --", "%s", "{}", "a/b", "a:b", "\n", "\U0001f600" * 20]
    made = [Entry(f"{text}.", f"{text}.", "json", b"1", group=text) for text in texts]
    assert buffer.insert(ns, made) == (len(made), 0)
    assert list(buffer.get_data(ns)) == made
    batches = buffer.insert_and_seal(ns, [Entry("last", "c", "json", b"1", group="a"), *made], of(1)).batches
    assert sorted(batch.group for batch in batches) == sorted([*texts, "a"])
    for case in made:
        with pytest.raises(ConcurrencyError):
            buffer.remove_one(ns, case.correlation_id)


def test_a_store_opened_without_types_resolves_every_entry_as_bytes(untyped: Any, ns: str) -> None:
    untyped.buffer.insert(ns, [entry(1, type="whatever"), entry(2, type="", data=b"\xff")])
    assert [entry.value for entry in untyped.buffer.get_snapshot(ns).entries] == [b'{"n": 1}', b"\xff"]
    assert untyped.buffer.count_resolved(ns) == 2


def test_a_key_that_was_removed_is_known_for_the_time_asked(buffer: Any, ns: str, clock: Any) -> None:
    kept = timedelta(seconds=2)

    def remove_each_way() -> None:
        buffer.remove_snapshot(ns, buffer.get_snapshot(ns, 1), [])
        [batch] = buffer.insert_and_seal(ns, entries(2, group="g"), of(1), keep_keys=kept).batches
        buffer.complete(ns, batch)
        buffer.remove_one(ns, "c3")
        buffer.remove_all(ns)

    buffer.insert(ns, entries(1, 3, 4), keep_keys=kept)
    remove_each_way()
    assert (buffer.count(ns), buffer.insert(ns, entries(1, 2, 3, 4), keep_keys=kept)) == (0, (0, 4))
    clock.passed(kept)
    assert buffer.insert(ns, entries(1, 2, 3, 4), keep_keys=kept) == (4, 0)
    buffer.remove_all(ns)
    assert buffer.insert(ns, entries(*range(1, 6)), keep_keys=HOUR) == (1, 4)


@pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_each_insert_forgets_every_key_whose_time_is_over(buffer: Any, ns: str, clock: Any) -> None:
    buffer.insert(ns, entries(*range(1001)), keep_keys=SHORT)
    buffer.remove_all(ns)
    clock.passed(SHORT)
    buffer.insert(ns, entries(2000), keep_keys=SHORT)
    kept = select(func.count()).select_from(BUFFER_KEY).where(BUFFER_KEY.c.name == ns)
    assert buffer._transactions.run(lambda connection: connection.scalars(kept).one()) == 0


def test_without_a_time_to_keep_keys_a_late_delivery_enters_again(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1))
    buffer.remove_all(ns)
    assert buffer.insert(ns, entries(1)) == (1, 0)


def test_a_message_that_waits_in_the_outbox_is_no_entry(store: Any, ns: str) -> None:
    store.buffer.insert(ns, entries(1))
    assert store.buffer.remove_snapshot(ns, store.buffer.get_snapshot(ns), [message(ns)]) == 1
    assert store.buffer.count(ns) == 0


def test_an_entry_that_ends_its_group_seals_it_with_what_was_there(buffer: Any, ns: str) -> None:
    gate = of(9, after_first=HOUR)
    assert buffer.insert_and_seal(ns, entries(1, 2, group="g"), gate).batches == []
    made = [entry(3, group="g"), entry(4, group="h"), entry(5, group="g", ends=True), entry(6, group="g")]
    [batch] = buffer.insert_and_seal(ns, made, gate).batches
    assert (batch.group, batch.reason, keys(batch.entries)) == ("g", "until", ["m1", "m2", "m3", "m5"])
    assert buffer.complete(ns, batch) == 4
    assert all_keys(buffer, ns) == ["m4", "m6"]


def test_an_entry_that_is_known_already_ends_no_group(buffer: Any, ns: str) -> None:
    gate = of(9)
    buffer.insert_and_seal(ns, entries(1, 2), gate)
    assert buffer.insert_and_seal(ns, [entry(2, ends=True)], gate) == ((0, 1), [])
    [batch] = buffer.insert_and_seal(ns, [entry(3, ends=True), entry(3)], gate).batches
    assert keys(batch.entries) == ["m1", "m2", "m3"]
