"""What happens to a row: dispatched, tried again, dead; and the history of its attempts."""

from datetime import UTC, datetime, timedelta

import pytest

from sluicegate.streams.contracts.messages import Attempt, Outcome, StoredMessage
from sluicegate.streams.contracts.options import OutboxOptions
from tests.contracts.outbox.given import (
    LANE,
    LONG,
    SHORT,
    Place,
    Store,
    added,
    claimed,
    counts,
    found,
    ids,
    marked,
    message,
    numbers,
)
from tests.waiting import wait_until


def said(store: Store, id: str) -> list[tuple[int, str, str]]:
    """The history of a row, without its times."""
    return [(attempt.number, attempt.outcome, attempt.error) for attempt in store.outbox.attempts_of(id)]


def test_146_at_least_one_attempt_is_made() -> None:
    for attempts in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            OutboxOptions(attempts=attempts)


def test_147_a_row_that_was_sent_is_dispatched_and_never_handed_out_again(store: Store) -> None:
    added(store, 1, 2)
    marked(store, claimed(store))
    assert [row.state for row in store.outbox.find()] == ["dispatched", "dispatched"]
    assert all(timedelta(0) <= row.dispatched_at - row.created_at < timedelta(minutes=1) for row in store.outbox.find())
    assert claimed(store).rows == []
    store.outbox.release(claimed(store))
    assert store.outbox.claim_any(10).rows == []


def test_148_the_failure_that_reaches_the_most_attempts_aborts_the_row_and_the_next_one_goes(place: Place) -> None:
    store = place.store(attempts=2, backoff=timedelta(milliseconds=1))
    added(store, 1, 2)
    store.outbox.mark(claimed(store, limit=1), [Outcome("m1", "failed", "first")])
    assert (found(store, "m1").state, found(store, "m1").attempts) == ("pending", 1)
    again = wait_until(lambda: claimed(store, limit=1).rows, what="the end of the back-off")
    assert [(row.number, row.attempts) for row in again] == [(1, 1)]
    store.outbox.mark(claimed(store, limit=1), [Outcome("m1", "failed", "second")])
    assert (found(store, "m1").state, found(store, "m1").attempts, found(store, "m1").reason) == ("dead", 2, "second")
    assert ids(claimed(store).rows) == ["m2"]


def test_149_dead_rows_are_pending_again_when_somebody_says_so(store: Store) -> None:
    dead(store, 1, 2, 3)
    added(store, 4)
    assert store.outbox.requeue(["m2", "m4", "nobody"]) == 1
    assert (found(store, "m2").state, found(store, "m2").attempts, found(store, "m2").reason) == ("pending", 0, "")
    assert sorted(ids(claimed(store).rows)) == ["m2", "m4"]
    assert store.outbox.requeue() == 2
    assert (store.outbox.requeue(), counts(store)) == (0, (4, 0, 0))
    assert sorted(ids(claimed(store).rows)) == ["m1", "m2", "m3", "m4"]


def dead(store: Store, *arguments: int) -> None:
    added(store, *arguments)
    marked(store, claimed(store), "rejected", "too large")


def test_a_row_that_was_requeued_gets_a_number_that_nobody_had(store: Store) -> None:
    """A receiver that has seen later numbers would drop an old one."""
    added(store, 1, 2)
    store.outbox.mark(claimed(store), [Outcome("m1", "rejected"), Outcome("m2", "dispatched")])
    store.outbox.requeue(["m1"])
    assert (ids(claimed(store).rows), numbers(claimed(store))) == (["m1"], [3])


def test_a_row_that_is_requeued_goes_to_the_lane_that_its_key_has_now(store: Store) -> None:
    dead(store, 1)
    store.outbox.set_lanes(1)
    assert store.outbox.requeue() == 1
    assert (found(store, "m1").lane, ids(claimed(store, 0).rows)) == (0, ["m1"])


def test_150_a_target_that_does_not_take_the_row_aborts_it_at_once(place: Place) -> None:
    store = place.store(attempts=10)
    added(store, 1)
    marked(store, claimed(store), "rejected", "no such topic")
    assert (counts(store), found(store, "m1").reason) == ((0, 0, 1), "no such topic")


def test_176_a_row_is_pending_dispatched_or_dead(store: Store) -> None:
    added(store, 1, 2, 3)
    batch = claimed(store)
    store.outbox.mark(batch, [Outcome("m2", "dispatched"), Outcome("m3", "rejected", "no")])
    assert {row.message.id: row.state for row in store.outbox.find()} == {
        "m1": "pending",
        "m2": "dispatched",
        "m3": "dead",
    }
    for state, id in (("pending", "m1"), ("dispatched", "m2"), ("dead", "m3")):
        assert (store.outbox.count(state), ids(store.outbox.find(state))) == (1, [id])


def test_177_a_row_is_handed_out_when_the_time_of_its_next_attempt_is_past(place: Place) -> None:
    store = place.store(backoff=timedelta(milliseconds=300))
    added(store, 1)
    marked(store, claimed(store), "failed")
    blocked = claimed(store)
    assert (blocked.rows, blocked.blocked_until) == ([], found(store, "m1").next_attempt_at)
    got = wait_until(lambda: batch if (batch := claimed(store)).rows else None, what="the end of the back-off")
    assert got.expires_at - LONG >= blocked.blocked_until


def test_178_a_success_leaves_the_row_dispatched_with_its_time(store: Store) -> None:
    added(store, 1)
    before = datetime.now(UTC) - timedelta(seconds=30)
    marked(store, claimed(store))
    row = found(store, "m1")
    assert (row.state, row.attempts, row.next_attempt_at, row.reason) == ("dispatched", 0, None, "")
    assert before < row.dispatched_at < datetime.now(UTC) + timedelta(seconds=30)
    assert said(store, "m1") == [(1, "success", "")]


def test_179_a_transient_failure_counts_and_puts_the_next_attempt_off_ever_longer(place: Place) -> None:
    store = place.store(backoff=timedelta(milliseconds=40))
    added(store, 1)
    waits = []
    for attempt in range(1, 5):
        wait_until(lambda: claimed(store).rows, what="the end of the back-off")
        marked(store, claimed(store), "failed", f"no {attempt}")
        row = found(store, "m1")
        assert (row.state, row.attempts) == ("pending", attempt)
        waits.append((row.next_attempt_at - store.outbox.attempts_of("m1")[-1].at) / timedelta(milliseconds=1))
    assert [round(wait / 10) for wait in waits] == [4, 8, 16, 32]
    assert said(store, "m1") == [(n, "transient", f"no {n}") for n in range(1, 5)]


def test_180_a_rejection_is_dead_at_once(place: Place) -> None:
    store = place.store(attempts=10)
    added(store, 1, 2)
    store.outbox.mark(
        claimed(store), [Outcome("m1", "rejected", "too large: 2 MB\x00\ud7ff"), Outcome("m2", "dispatched")]
    )
    row = found(store, "m1")
    assert (row.state, row.attempts, row.reason) == ("dead", 1, "too large: 2 MB\x00\ud7ff")
    assert said(store, "m1") == [(1, "rejected", "too large: 2 MB\x00\ud7ff")]
    assert claimed(store).rows == []


def test_181_the_last_failure_that_is_allowed_is_called_poison(place: Place) -> None:
    store = place.store(attempts=3, backoff=timedelta(milliseconds=1))
    added(store, 1)
    for _ in range(3):
        wait_until(lambda: claimed(store).rows, what="the end of the back-off")
        marked(store, claimed(store), "failed", "no")
    assert [outcome for _, outcome, _ in said(store, "m1")] == ["transient", "transient", "poison"]
    assert counts(store) == (0, 0, 1)


def test_183_ten_attempts_unless_it_was_said_otherwise() -> None:
    assert OutboxOptions().attempts == 10
    assert (OutboxOptions().pause(1), OutboxOptions().pause(100)) == (timedelta(seconds=1), timedelta(minutes=1))


def test_184_the_history_grows_by_each_attempt_and_goes_with_the_row(place: Place) -> None:
    store = place.store(attempts=2, backoff=timedelta(milliseconds=1))
    added(store, 1)
    first: list[Attempt] = []
    for attempt in range(1, 3):
        wait_until(lambda: claimed(store).rows, what="the end of the back-off")
        marked(store, claimed(store), "failed", f"no {attempt}")
        assert list(store.outbox.attempts_of("m1"))[: len(first)] == first
        first = list(store.outbox.attempts_of("m1"))
    store.outbox.requeue()
    marked(store, claimed(store))
    assert said(store, "m1") == [(1, "transient", "no 1"), (2, "poison", "no 2"), (3, "success", "")]
    assert found(store, "m1").attempts == 0
    wait_until(lambda: store.outbox.sweep(timedelta(0)), what="a time after the dispatch")
    assert (store.outbox.attempts_of("m1"), store.outbox.find()) == ((), [])
    added(store, 1)
    assert said(store, "m1") == []


def test_185_the_row_itself_never_changes(place: Place) -> None:
    store = place.store(attempts=2, backoff=timedelta(milliseconds=1))
    outbox_message = message(1, headers=[("h", b"x")], lane_key=b"k")
    store.outbox.add(None, [outbox_message], require_transaction=False)
    seen = [stable(found(store, "m1"))]
    for kind in ("outage", "failed", "failed"):
        wait_until(lambda: claimed(store).rows, what="the end of the back-off")
        marked(store, claimed(store), kind)
        seen.append(stable(found(store, "m1")))
    store.outbox.requeue()
    marked(store, claimed(store))
    assert {*seen, stable(found(store, "m1"))} == {(outbox_message, seen[0][1])}


def stable(row: StoredMessage) -> tuple[object, datetime]:
    return row.message, row.created_at


def test_190_a_row_that_waits_holds_back_its_lane_and_no_other(store: Store) -> None:
    """A later row of the lane never overtakes one that is tried again."""
    added(store, 1, 2, 3)
    added(store, 4, key=b"k1")
    batch = claimed(store)
    store.outbox.mark(batch, [Outcome("m1", "dispatched"), Outcome("m2", "failed")])
    for after in (0, 1, 2, 3):
        blocked = claimed(store, after=after)
        assert (blocked.rows, blocked.blocked_until) == ([], found(store, "m2").next_attempt_at)
    added(store, 5)
    assert claimed(store, after=3).rows == []
    assert ids(claimed(store, 9).rows) == ["m4"]


def test_rows_before_one_that_waits_are_handed_out(store: Store) -> None:
    added(store, 1, 2, 3)
    store.outbox.mark(claimed(store), [Outcome("m2", "failed"), Outcome("m3", "dispatched")])
    assert (ids(claimed(store).rows), claimed(store).blocked_until) == (["m1"], None)


def test_of_rows_without_order_only_the_one_that_failed_waits(store: Store) -> None:
    added(store, 1, 2, 3)
    batch = store.outbox.claim_any(10)
    store.outbox.mark(batch, [Outcome("m1", "failed", "no"), Outcome("m2", "outage"), Outcome("m3", "outage")])
    assert sorted(ids(store.outbox.claim_any(10).rows)) == ["m2", "m3"]
    assert (found(store, "m1").attempts, found(store, "m2").attempts) == (1, 0)


def test_an_outage_of_the_broker_is_no_attempt(store: Store) -> None:
    """A broker that is away must not use up the attempts of a row."""
    added(store, 1, 2)
    for _ in range(20):
        marked(store, claimed(store), "outage", "no broker")
    assert [(row.state, row.attempts, row.next_attempt_at) for row in store.outbox.find()] == [("pending", 0, None)] * 2
    assert (said(store, "m1"), numbers(claimed(store))) == ([], [1, 2])


def test_what_is_not_named_stays_as_it_is_and_a_repeated_mark_changes_nothing(store: Store) -> None:
    added(store, 1, 2, 3)
    batch = claimed(store)
    for _ in range(2):
        store.outbox.mark(batch, [Outcome("m2", "dispatched"), Outcome("nobody", "dispatched")])
        assert counts(store) == (2, 1, 0)
    assert (ids(claimed(store).rows), numbers(claimed(store))) == (["m1", "m3"], [1, 3])
    assert said(store, "m2") == [(1, "success", "")]


def test_a_whole_batch_is_marked_but_for_what_was_taken_from_it_meanwhile(store: Store) -> None:
    added(store, 1, 2, 3, 4, 5)
    batch = claimed(store, limit=4)
    assert store.outbox.drop(["m2"]) == 1
    for _ in range(2):
        store.outbox.mark(batch, [Outcome(row.id, "dispatched") for row in batch.rows])
        assert counts(store) == (1, 3, 0)
    rest = claimed(store)
    assert (ids(rest.rows), numbers(rest)) == (["m5"], [5])
    for _ in range(2):
        store.outbox.mark(rest, [Outcome("m5", "dispatched")])
        assert counts(store) == (0, 4, 0)


def test_as_many_outcomes_as_rows_are_not_a_whole_batch_when_they_name_others(store: Store) -> None:
    added(store, 1, 2)
    store.outbox.mark(claimed(store), [Outcome("m2", "dispatched"), Outcome("nobody", "dispatched")])
    assert (ids(claimed(store).rows), counts(store)) == (["m1"], (1, 1, 0))


def test_a_repeated_mark_counts_a_failure_once(store: Store) -> None:
    """Its first reply was lost."""
    added(store, 1, 2)
    batch = claimed(store)
    store.outbox.mark(batch, [Outcome("m1", "failed", "no")])
    first = found(store, "m1")
    store.outbox.mark(batch, [Outcome("m1", "failed", "no")])
    assert (said(store, "m1"), found(store, "m1")) == ([(1, "transient", "no")], first)
    assert (claimed(store).rows, claimed(store).blocked_until) == ([], first.next_attempt_at)


def test_199_every_store_shows_the_same(place: Place) -> None:
    store = place.store(attempts=1)
    added(store, 1, 2, 3, 4)
    batch = claimed(store)
    store.outbox.mark(
        batch, [Outcome("m1", "dispatched"), Outcome("m2", "rejected", "no"), Outcome("m3", "failed", "bad")]
    )
    shown = [(row.message.id, row.state, row.lane, row.attempts, row.reason) for row in store.outbox.find()]
    assert shown == [
        ("m1", "dispatched", LANE, 0, ""),
        ("m2", "dead", LANE, 1, "no"),
        ("m3", "dead", LANE, 1, "bad"),
        ("m4", "pending", LANE, 0, ""),
    ]
    assert [said(store, f"m{n}") for n in range(1, 5)] == [
        [(1, "success", "")],
        [(1, "rejected", "no")],
        [(1, "poison", "bad")],
        [],
    ]
    assert (numbers(batch), numbers(claimed(store)), store.outbox.lanes(), counts(store)) == (
        [1, 2, 3, 4],
        [4],
        16,
        (1, 1, 2),
    )


def test_a_short_lease_is_renewed_by_the_next_claim(store: Store) -> None:
    added(store, 1)
    first = claimed(store, lease=SHORT)
    second = claimed(store, limit=1, after=1, lease=LONG)
    assert second.rows == []
    assert second.expires_at - first.expires_at > timedelta(minutes=4)
    wait_until(lambda: datetime.now(UTC) > first.expires_at + timedelta(milliseconds=50))
    assert store.outbox.claim(LANE, "theirs", 1) is None


def test_rows_of_one_cluster_are_marked_and_those_of_another_between_them_wait(store: Store) -> None:
    """Two relays of a process hold a lane under one token, and each has its own rows of the batch."""
    store.outbox.add(
        None, [message(n, topic="t@west" if n % 2 else "t") for n in range(1, 7)], require_transaction=False
    )
    batch = claimed(store)
    own = batch._replace(rows=[row for row in batch.rows if row.message.topic == "t"])
    marked(store, own)
    assert counts(store) == (3, 3, 0)
    added(store, 7, 8)
    behind = claimed(store, after=numbers(batch)[-1])
    assert ids(behind.rows) == ["m7", "m8"]
    marked(store, behind)
    last = claimed(store)
    assert ids(last.rows) == ["m1", "m3", "m5"]
    marked(store, last)
    assert counts(store) == (0, 8, 0)
