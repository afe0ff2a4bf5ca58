"""What leaves the outbox, what people see of it, and how its health is told."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from sqlalchemy import Connection

from sluicegate.connectors.outboxes import Space
from sluicegate.connectors.sql.leased import outbox_reading
from sluicegate.streams.contracts.messages import Outcome
from tests.contracts.outbox.given import Place, Store, added, claimed, counts, found, ids, marked
from tests.waiting import wait_until

NOW = timedelta(0)


def all_swept(store: Store, wanted: int, limit: int = 10_000) -> None:
    """What was dispatched before now, as far as the store's clock tells it."""
    swept = 0

    def sweep() -> bool:
        nonlocal swept
        swept += store.outbox.sweep(NOW, limit)
        return swept == wanted

    wait_until(sweep, what=f"{wanted} rows swept")


def some(store: Store) -> None:
    """m1 pending, m2 and m4 dispatched, m3 dead."""
    added(store, 1, 2, 3, 4)
    store.outbox.mark(
        claimed(store), [Outcome("m2", "dispatched"), Outcome("m3", "rejected"), Outcome("m4", "dispatched")]
    )


def test_155_cleaning_up_removes_what_was_sent_and_nothing_else(store: Store) -> None:
    some(store)
    all_swept(store, 2)
    assert [(row.message.id, row.state) for row in store.outbox.find()] == [("m1", "pending"), ("m3", "dead")]
    assert (store.outbox.sweep(NOW), counts(store)) == (0, (1, 0, 1))


def test_156_age_is_counted_from_the_dispatch(store: Store) -> None:
    """A row that waited long is kept as long as any other."""
    age = timedelta(milliseconds=300)
    added(store, 1)
    created = found(store, "m1").created_at
    wait_until(lambda: datetime.now(UTC) > created + 2 * age)
    marked(store, claimed(store))
    assert store.outbox.sweep(timedelta(seconds=30)) == 0
    assert store.outbox.sweep(age) == 0
    wait_until(lambda: store.outbox.sweep(age), what="the end of the retention")
    assert store.outbox.find() == []


def test_186_retention_removes_only_dispatched_rows_that_are_old_enough(store: Store) -> None:
    some(store)
    assert (store.outbox.sweep(timedelta(hours=1)), counts(store)) == (0, (1, 2, 1))
    all_swept(store, 2)
    assert store.outbox.attempts_of("m2") == ()
    assert [attempt.outcome for attempt in store.outbox.attempts_of("m3")] == ["rejected"]


def test_239_the_oldest_go_first_and_a_call_takes_no_more_than_its_limit(store: Store) -> None:
    for numbers in ((1, 2, 3), (4, 5), (6,)):
        added(store, *numbers)
        marked(store, claimed(store))
        last = found(store, f"m{numbers[-1]}").dispatched_at
        wait_until(lambda last=last: datetime.now(UTC) > last + timedelta(milliseconds=5))
    wait_until(lambda: store.outbox.sweep(NOW, 1), what="a time after the dispatch")
    assert counts(store) == (0, 5, 0)
    assert store.outbox.sweep(NOW, 3) == 3
    assert len(set(ids(store.outbox.find())) & {"m4", "m5"}) == 1
    assert "m6" in ids(store.outbox.find())
    all_swept(store, 2, limit=1)
    assert counts(store) == (0, 0, 0)


def test_one_call_removes_all_that_is_old_however_it_was_marked(store: Store) -> None:
    """Who cleans up goes on until a call removes less than its limit."""
    added(store, *range(1, 31))
    for row in claimed(store).rows:
        store.outbox.mark(claimed(store), [Outcome(row.message.id, "dispatched")])
    last = found(store, "m30").dispatched_at
    wait_until(lambda: datetime.now(UTC) > last + timedelta(milliseconds=20))
    assert store.outbox.sweep(NOW, 12) == 12
    assert sorted(ids(store.outbox.find())) == sorted(f"m{number}" for number in range(13, 31))
    assert (store.outbox.sweep(NOW, 1000), counts(store)) == (18, (0, 0, 0))


def test_a_swept_id_may_come_again(store: Store) -> None:
    added(store, 1)
    marked(store, claimed(store))
    all_swept(store, 1)
    added(store, 1)
    assert ids(claimed(store).rows) == ["m1"]


def test_the_age_of_the_oldest_pending_row_is_told(store: Store) -> None:
    assert store.outbox.pending_age() is None
    added(store, 1)
    added(store, 2, key=b"k1")
    wait_until(lambda: store.outbox.pending_age() > timedelta(milliseconds=100))
    marked(store, claimed(store))
    age = store.outbox.pending_age()
    assert timedelta(0) <= age < timedelta(minutes=1)
    marked(store, claimed(store, 9), "rejected")
    assert store.outbox.pending_age() is None


def test_people_find_rows_by_state_and_topic_oldest_first(store: Store) -> None:
    added(store, 1, 2, topic="a")
    added(store, 3, 4, topic="b")
    store.outbox.mark(claimed(store), [Outcome("m1", "dispatched"), Outcome("m4", "dispatched")])
    assert ids(store.outbox.find()) == ["m1", "m2", "m3", "m4"]
    assert ids(store.outbox.find("dispatched")) == ["m1", "m4"]
    assert ids(store.outbox.find(topic="b")) == ["m3", "m4"]
    assert ids(store.outbox.find("pending", "b")) == ["m3"]
    assert (ids(store.outbox.find(limit=2)), store.outbox.find("dead"), store.outbox.find(topic="c")) == (
        ["m1", "m2"],
        [],
        [],
    )


def test_people_drop_rows_that_are_pending_or_dead(store: Store) -> None:
    some(store)
    assert store.outbox.drop(["m1", "m2", "m3", "m3", "nobody"]) == 2
    assert (ids(store.outbox.find()), store.outbox.attempts_of("m3")) == (["m2", "m4"], ())
    assert (claimed(store).rows, store.outbox.drop([]), store.outbox.requeue()) == ([], 0, 0)
    added(store, 1)
    assert ids(claimed(store).rows) == ["m1"]


def test_a_row_dropped_while_it_is_sent_is_gone_and_its_batch_can_be_marked(store: Store) -> None:
    added(store, 1, 2)
    batch = claimed(store)
    assert store.outbox.drop(["m1"]) == 1
    marked(store, batch)
    assert (ids(store.outbox.find()), counts(store)) == (["m2"], (0, 1, 0))
    all_swept(store, 1)


def test_a_row_dropped_while_its_lane_waits_for_it_lets_the_lane_go_on(place: Place) -> None:
    store = place.store()
    added(store, 1, 2)
    store.outbox.mark(claimed(store), [Outcome("m1", "failed")])
    assert claimed(store).rows == []
    store.outbox.drop(["m1"])
    assert ids(claimed(store).rows) == ["m2"]


@pytest.mark.parametrize("backend", ["memory", "postgresql", "redis", "redis-cluster", "mongodb"], indirect=True)
def test_who_waits_is_told_of_a_row_when_the_store_can_tell(store: Store, place: Place) -> None:
    wakes = place.store()
    while wakes.outbox.wait(0.05):
        pass

    ever = count(1)

    def told() -> bool:
        added(store, next(ever))
        return wakes.outbox.wait(5)

    assert wait_until(told)


@pytest.mark.parametrize("backend", ["sqlite", "mariadb"], indirect=True)
def test_who_waits_where_the_store_cannot_tell_is_sent_away_at_once(store: Store) -> None:
    before = datetime.now(UTC)
    assert store.outbox.wait(30) is False
    assert datetime.now(UTC) - before < timedelta(seconds=10)


@pytest.mark.parametrize("backend", ["postgresql", "mariadb"], indirect=True)
def test_a_row_that_is_dropped_while_others_are_read_is_left_out(
    store: Store, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(store, 1, 2, 3)
    ascending = outbox_reading._ascending

    def dropping(connection: Connection, space: Space, query: str) -> Iterator[int]:
        listed = list(ascending(connection, space, query))
        assert place.store().outbox.drop(["m2"]) == 1
        return iter(listed)

    monkeypatch.setattr(outbox_reading, "_ascending", dropping)
    assert [row.message.id for row in store.outbox.find()] == ["m1", "m3"]
