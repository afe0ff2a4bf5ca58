"""Who gets which rows: lanes with one holder each, numbers given once, rows without order one by one."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from sluicegate.streams.errors import ConcurrencyError
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
from tests.contracts.sql import other
from tests.mutation.twins import without
from tests.waiting import wait_until


@pytest.fixture
def _no_fence() -> Iterator[None]:
    with without("fence"):
        yield


def test_137_rows_without_order_are_claimed_up_to_a_limit_and_only_those_that_nobody_has(store: Store) -> None:
    added(store, *range(1, 8))
    first, second, third = store.outbox.claim_any(3), store.outbox.claim_any(3), store.outbox.claim_any(3)
    assert [len(batch.rows) for batch in (first, second, third)] == [3, 3, 1]
    assert sorted(ids([*first.rows, *second.rows, *third.rows])) == [f"m{n}" for n in range(1, 8)]
    assert len({first.token, second.token, third.token}) == 3
    assert (first.lane, store.outbox.claim_any(3).rows) == (-1, [])
    marked(store, second)
    store.outbox.release(first)
    assert sorted(ids(store.outbox.claim_any(10).rows)) == sorted(ids(first.rows))
    assert counts(store) == (4, 3, 0)


def test_138_pending_rows_are_to_be_had_when_nobody_holds_them_or_the_hold_ran_out(place: Place) -> None:
    store = place.store(attempts=1)
    added(store, 1, 2, 3)
    batch = claimed(store)
    store.outbox.mark(batch, [Outcome("m1", "dispatched"), Outcome("m2", "rejected")])
    store.outbox.release(batch)
    assert ids(store.outbox.claim_any(10, SHORT).rows) == ["m3"]
    again = wait_until(lambda: store.outbox.claim_any(10, LONG).rows or None, what="a hold that ran out")
    assert ids(again) == ["m3"]
    assert store.outbox.claim_any(10).rows == []


def test_a_row_that_was_taken_over_is_not_marked_by_its_former_holder(store: Store) -> None:
    added(store, 1, 2)
    former = store.outbox.claim_any(10, SHORT)
    heir = wait_until(
        lambda: batch if (batch := store.outbox.claim_any(1, LONG)).rows else None, what="a hold that ran out"
    )
    marked(store, former)
    [taken] = ids(heir.rows)
    assert (found(store, taken).state, counts(store)) == ("pending", (1, 1, 0))
    marked(store, heir)
    assert counts(store) == (0, 2, 0)


def test_140_with_one_lane_all_rows_are_one_sequence_and_one_instance_has_it(store: Store, place: Place) -> None:
    store.outbox.set_lanes(1)
    for number in range(1, 6):
        added(store, number, key=None if number == 3 else b"%d" % number)
    other = place.store()
    assert other.outbox.claim(0, "theirs", 10, lease=LONG) is not None
    assert store.outbox.claim(0, "mine", 10, lease=LONG) is None
    assert ids(claimed(other, 0, "theirs").rows) == ["m1", "m2", "m3", "m4", "m5"]


def test_141_messages_of_one_key_keep_their_order_by_default(store: Store) -> None:
    for number in range(1, 10):
        added(store, number, key=b"k%d" % (number % 2))
    added(store, 10, key=b"else", lane_key=b"k1")
    lanes = {found(store, f"m{number}").lane for number in (1, 3, 5, 7, 9, 10)}
    assert len(lanes) == 1
    assert ids(claimed(store, *lanes).rows) == ["m1", "m3", "m5", "m7", "m9", "m10"]


def test_165_whoever_claims_needs_to_know_nothing_of_the_messages(store: Store, place: Place) -> None:
    """Bytes are forwarded: no types, no registrations."""
    messages = added(
        store, 1, topic="of.somebody.else", headers=[("type", b"unknown"), ("type", None)], value=b"\xff\x00"
    )
    assert [row.message for row in claimed(place.store()).rows] == messages


def test_166_a_row_of_another_instance_is_sent_as_that_one_wrote_it(store: Store, place: Place) -> None:
    messages = added(store, 1, 2, value=None, headers=[("h", b"\xff"), ("h", b"")])
    batch = claimed(place.store())
    assert [row.message for row in batch.rows] == messages
    assert all(datetime.now(UTC) - row.created_at < timedelta(minutes=1) for row in batch.rows)


def test_182_a_row_of_an_unknown_type_is_like_any_other(store: Store) -> None:
    added(store, 1, headers=[("type", b"nobody.knows")])
    marked(store, claimed(store))
    assert counts(store) == (0, 1, 0)


def test_188_one_at_a_time_has_a_lane_until_it_lets_go_or_its_lease_runs_out(store: Store, place: Place) -> None:
    added(store, 1)
    other = place.store()
    mine = claimed(store, token="mine", lease=LONG)
    assert other.outbox.claim(LANE, "theirs", 10, lease=LONG) is None
    assert claimed(store, token="mine", lease=SHORT).expires_at < mine.expires_at
    theirs = wait_until(lambda: other.outbox.claim(LANE, "theirs", 10, lease=LONG), what="a lease that ran out")
    assert ids(theirs.rows) == ["m1"]
    store.outbox.release(mine)
    assert store.outbox.claim(LANE, "mine", 10) is None
    other.outbox.release(theirs)
    assert ids(claimed(store).rows) == ["m1"]


def test_a_lease_says_until_when_by_the_stores_clock(store: Store) -> None:
    batch = claimed(store, lease=timedelta(seconds=90))
    assert timedelta(seconds=60) < batch.expires_at - datetime.now(UTC) < timedelta(seconds=120)
    assert (batch.lane, batch.token, batch.rows, batch.blocked_until) == (LANE, "mine", [], None)


def test_191_rows_have_the_order_of_their_commits_and_no_number_comes_late(
    store: Store, backend: str, place: Place
) -> None:
    """An earlier row whose transaction ends later is neither lost nor numbered before those that were given."""
    if backend not in ("postgresql", "mariadb", "mongodb"):
        added(store, 1)
        added(store, 2)
        assert numbers(claimed(store)) == [1, 2]
        return
    slowly = place.store()
    assert (slowly.outbox.lanes(), numbers(claimed(store))) == (16, [])  # connected
    with slowly.transaction() as late:
        if backend == "mariadb":  # a disk that stands still for seconds must not end it
            late.connection.execute(text("set session idle_transaction_timeout = 60"))
        slowly.outbox.add(late, [slow := message(1)])
        added(store, 2)
        first = claimed(store)
    assert (ids(first.rows), numbers(first)) == (["m2"], [1])
    second = claimed(store, after=1)
    assert ([row.message for row in second.rows], numbers(second)) == ([slow], [2])
    assert ids(claimed(store).rows) == ["m2", "m1"]


def test_numbers_are_given_once_and_go_on_where_they_stood(store: Store) -> None:
    added(store, 1, 2, 3)
    assert numbers(claimed(store, limit=2)) == [1, 2]
    added(store, 4)
    assert (numbers(claimed(store, after=2)), ids(claimed(store, after=2).rows)) == ([3, 4], ["m3", "m4"])
    marked(store, claimed(store))
    added(store, 5)
    assert numbers(claimed(store)) == [5]
    assert numbers(claimed(store, 9)) == []
    added(store, 6, key=b"k1")
    assert numbers(claimed(store, 9)) == [1]


def test_a_page_after_a_number_holds_what_comes_behind_it(store: Store) -> None:
    added(store, *range(1, 11))
    pages = [numbers(claimed(store, limit=4, after=after)) for after in (0, 4, 8, 10)]
    assert pages == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], []]
    assert numbers(claimed(store, limit=4, after=2)) == [3, 4, 5, 6]


def test_198_a_lane_is_held_by_its_token_and_not_by_a_connection(store: Store, place: Place, backend: str) -> None:
    """So a proxy that shares connections out does not break it."""
    added(store, 1)
    first = place.store()
    batch = claimed(first, token="mine")
    first.close()
    other = place.store()
    assert other.outbox.claim(LANE, "theirs", 10) is None
    marked(other, batch)
    assert counts(other) == (0, 1, 0)


def _each(batch: LaneBatch) -> list[Outcome]:
    return [Outcome(row.id, "dispatched") for row in batch.rows]


def a_former_holder_marks_nothing(store: Store, other: Store, outcomes: Callable[[LaneBatch], object] = _each) -> None:
    added(store, 1, 2)
    former = claimed(store, token="former", lease=SHORT)
    heir = wait_until(lambda: other.outbox.claim(LANE, "heir", 10, lease=LONG), what="a lease that ran out")
    assert (ids(heir.rows), numbers(heir)) == (ids(former.rows), numbers(former))
    raised = None
    try:
        store.outbox.mark(former, outcomes(former))
    except ConcurrencyError as error:
        raised = error
    assert counts(other) == (2, 0, 0)
    assert raised is not None
    marked(other, heir)
    assert counts(other) == (0, 2, 0)


@pytest.mark.parametrize("backend", ["postgresql", "mariadb"], indirect=True)
def test_a_lane_that_somebody_has_locked_is_passed_over_at_once(store: Store, place: Place) -> None:
    added(store, 1)
    added(store, 2, key=b"k1")
    store.outbox.release(claimed(store))
    with other(place.url) as cursor:
        cursor.execute("begin")
        cursor.execute(f"select token from sluicegate_lane where lane = {LANE} for update")
        began = time.monotonic()
        assert ids(store.outbox.claim_any(10).rows) == ["m2"]
        assert time.monotonic() - began < 5
        cursor.execute("rollback")
    assert ids(store.outbox.claim_any(10).rows) == ["m1"]


@pytest.mark.parametrize("outcomes", [_each, lambda batch: None], ids=["each", "all"])
def test_a_former_holder_marks_nothing(store: Store, place: Place, outcomes: Callable[[LaneBatch], object]) -> None:
    a_former_holder_marks_nothing(store, place.store(), outcomes)


@pytest.mark.usefixtures("_no_fence")
@pytest.mark.parametrize("outcomes", [_each, lambda batch: None], ids=["each", "all"])
def test_without_the_fence_a_former_holder_marks_what_is_anothers(
    place: Place, outcomes: Callable[[LaneBatch], object]
) -> None:
    with pytest.raises(AssertionError):
        a_former_holder_marks_nothing(place.store(), place.store(), outcomes)


def test_a_batch_of_which_nothing_is_said_was_sent_as_a_whole_and_nothing_else(store: Store) -> None:
    """And said again, because the first reply was lost, it changes nothing."""
    added(store, 1, 2, 3, 4)
    batch = claimed(store, limit=2)
    assert store.outbox.drop(["m1"]) == 1
    assert numbers(claimed(store, limit=1, after=2)) == [3]
    for _ in range(2):
        store.outbox.mark(batch, None)
        assert (ids(store.outbox.find("dispatched")), counts(store)) == (["m2"], (2, 1, 0))
    rest = claimed(store)
    assert (ids(rest.rows), numbers(rest)) == (["m3", "m4"], [3, 4])
    store.outbox.release(rest)
    store.outbox.mark(store.outbox.claim_any(1), None)
    assert counts(store) == (1, 2, 0)


def test_a_holder_whose_lease_ran_out_goes_on_while_nobody_took_the_lane(store: Store) -> None:
    added(store, 1)
    batch = claimed(store, lease=timedelta(milliseconds=1))
    wait_until(lambda: datetime.now(UTC) > batch.expires_at + timedelta(milliseconds=20))
    marked(store, batch)
    assert counts(store) == (0, 1, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda outbox: outbox.claim(16, "t", 10),
        lambda outbox: outbox.claim(-1, "t", 10),
        lambda outbox: outbox.claim(0, "", 10),
        lambda outbox: outbox.claim(0, "t", 0),
        lambda outbox: outbox.claim(0, "t", 10, lease=timedelta(0)),
        lambda outbox: outbox.claim_any(0),
        lambda outbox: outbox.claim_any(1, timedelta(seconds=-1)),
        lambda outbox: outbox.count("sent"),
        lambda outbox: outbox.find("sent"),
    ],
    ids=[
        "no-lane",
        "any-lane",
        "no-token",
        "no-limit",
        "no-lease",
        "any-no-limit",
        "any-no-lease",
        "count-state",
        "find-state",
    ],
)
def test_a_call_that_cannot_be_is_refused(store: Store, call: Callable[[object], object]) -> None:
    with pytest.raises(ValueError):
        call(store.outbox)
