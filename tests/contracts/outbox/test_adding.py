"""How rows get into the outbox: with what the application writes, once, or not at all."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest

from sluicegate.connectors.sessions import MemorySession, MongoSession, RedisSession, SqlSession
from sluicegate.streams.contracts.lanes import lane_of
from sluicegate.streams.contracts.messages import OutboxMessage, dispatch_id
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConcurrencyError, ConfigurationError
from tests.contracts.application import Books
from tests.contracts.given import claimed as partition_claimed
from tests.contracts.outbox.given import (
    LANE,
    Place,
    Store,
    added,
    claimed,
    counts,
    found,
    ids,
    marked,
    message,
    messages,
)

PARTS = {SqlSession: "connection", MongoSession: "client_session", RedisSession: "pipeline", MemorySession: "values"}


class Unhappy(Exception):
    """The application's own."""


class Lines(Books):
    """On Redis in a key that the session names."""

    key = ""

    def enter(self, session: Any, line: str) -> None:
        if isinstance(session, RedisSession):
            self.key = session.key(self.name)
        super().enter(session, line)


@pytest.fixture
def books(store: Store, store_url: str, partition: Partition) -> Books:
    return Lines(store_url, partition)


def test_129_only_what_was_added_goes_through_the_outbox(store: Store, books: Books) -> None:
    with store.transaction() as session:
        books.enter(session, "no message")
    assert counts(store) == (0, 0, 0)


def test_130_adding_writes_a_row_that_keeps_every_byte(store: Store) -> None:
    headers = [("h", b"1"), ("h", None), ("other", b"\xff\x00")]
    outbox_messages = [
        message(1, key=b"\x00k", value=b"\xff\x00v", headers=headers, lane_key=b"\xfe"),
        message(2, key=None, value=None, id="a key of its own, Ä ö"),
        OutboxMessage("topic.x", lane_key=b""),
    ]
    store.outbox.add(None, outbox_messages, require_transaction=False)
    rows = store.outbox.find()
    assert [row.message for row in rows] == outbox_messages
    assert [(row.state, row.attempts, row.dispatched_at, row.next_attempt_at, row.reason) for row in rows] == [
        ("pending", 0, None, None, "")
    ] * 3
    assert [row.lane for row in rows] == [lane_of(outbox_message, 16) for outbox_message in outbox_messages]


def test_131_a_row_is_there_when_its_transaction_commits_and_not_when_it_rolls_back(store: Store) -> None:
    a_failing_transaction_leaves_no_row(store, lambda session, rows: store.outbox.add(session, rows))
    with store.transaction() as session:
        store.outbox.add(session, messages(1, 2))
        store.outbox.add(session, messages(3))
    assert ids(store.outbox.find()) == ["m1", "m2", "m3"]


def test_without_the_transaction_a_row_stays_when_the_application_fails(store: Store, backend: str) -> None:
    if backend in ("sqlite", "memory"):
        pytest.skip("nobody else writes during a transaction here")
    with pytest.raises(AssertionError):
        a_failing_transaction_leaves_no_row(
            store, lambda _, rows: store.outbox.add(None, rows, require_transaction=False)
        )


def a_failing_transaction_leaves_no_row(store: Store, add: Callable[[Any, Sequence[OutboxMessage]], None]) -> None:
    error = Unhappy("no")

    def write() -> None:
        with store.transaction() as session:
            add(session, messages(1, 2))
            raise error

    with pytest.raises(Unhappy) as raised:
        write()
    assert raised.value is error
    assert (counts(store), store.outbox.find()) == ((0, 0, 0), [])


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_call_of_the_store_inside_a_transaction_of_sqlite_is_refused_and_the_transaction_goes_on(
    store: Store,
) -> None:
    with store.transaction() as session:
        store.outbox.add(session, messages(1))
        with pytest.raises(ConfigurationError, match="inside"):
            store.outbox.count()
    assert counts(store) == (1, 0, 0)


def test_132_a_row_is_written_without_a_transaction_when_the_caller_says_so(store: Store) -> None:
    store.outbox.add(None, messages(1), require_transaction=False)
    assert counts(store) == (1, 0, 0)


def test_133_a_row_added_in_a_handlers_session_is_part_of_the_engines_commit(
    store: Store, backend: str, partition: Partition
) -> None:
    claim = partition_claimed(store, partition)

    def work(session: Any, error: Exception | None = None) -> Changes:
        store.outbox.add(session, messages(1, 2))
        if error is not None:
            raise error
        return Changes(5)

    if backend == "redis-cluster":
        with pytest.raises(ConfigurationError, match="cluster"):
            store.commit_with(claim, work)
        return
    with pytest.raises(Unhappy):
        store.commit_with(claim, lambda session: work(session, Unhappy()))
    assert counts(store) == (0, 0, 0)
    assert store.commit_with(claim, work).offset == 5
    assert ids(store.outbox.find()) == ["m1", "m2"]


def test_135_the_session_is_handed_over_and_is_what_the_stores_driver_writes_through(store: Store) -> None:
    with store.transaction() as session:
        assert getattr(session, PARTS[type(session)]) is not None


def test_164_what_cannot_be_sent_is_refused_at_the_call() -> None:
    for fields in ({"topic": " "}, {"value": "text"}, {"key": 7}, {"lane_key": "k"}):
        with pytest.raises(ValueError, match="OutboxMessage"):
            message(1, **fields)


def test_167_what_the_application_writes_and_its_rows_are_both_there_or_neither(store: Store, books: Books) -> None:
    def write() -> None:
        with store.transaction() as session:
            books.enter(session, "lost")
            store.outbox.add(session, messages(1))
            books.enter(session, "lost, too")
            raise Unhappy

    with pytest.raises(Unhappy):
        write()
    assert (books.lines(), counts(store)) == ([], (0, 0, 0))
    with store.transaction() as session:
        books.enter(session, "one")
        store.outbox.add(session, messages(1))
        books.enter(session, "two")
        store.outbox.add(session, messages(2))
    assert (sorted(books.lines()), ids(store.outbox.find())) == (["one", "two"], ["m1", "m2"])


def test_168_adding_without_a_transaction_is_refused_loudly(store: Store) -> None:
    with pytest.raises(ConfigurationError, match=r"store\.transaction\(\)"):
        store.outbox.add(None, messages(1))
    with pytest.raises(ConfigurationError):
        store.outbox.add(object(), messages(1))
    assert counts(store) == (0, 0, 0)


def test_169_a_dispatch_id_follows_from_source_version_and_index() -> None:
    made = dispatch_id("orders/7", 3, 1)
    assert made == str(uuid5(NAMESPACE_OID, "orders/7/3/1"))
    assert (UUID(made).version, dispatch_id("orders/7", 3, 1)) == (5, made)
    assert len({made, dispatch_id("orders/7", 3, 2), dispatch_id("orders/7", 4, 1), dispatch_id("orders/8", 3, 1)}) == 4


def test_170_a_replayed_insert_is_ignored_whatever_became_of_the_row(store: Store) -> None:
    a_replay_adds_nothing(store, lambda index: dispatch_id("orders/7", 3, index))


def test_without_deterministic_ids_a_replayed_insert_is_sent_again(store: Store) -> None:
    with pytest.raises(AssertionError):
        a_replay_adds_nothing(store, lambda _: "")


def a_replay_adds_nothing(store: Store, name: Callable[[int], str]) -> None:
    def write(value: bytes) -> None:
        with store.transaction() as session:
            store.outbox.add(session, [message(index, id=name(index), value=value) for index in (1, 2)])

    write(b"first")
    write(b"second")
    assert counts(store) == (2, 0, 0)
    assert [row.message.value for row in store.outbox.find()] == [b"first", b"first"]
    marked(store, claimed(store))
    write(b"third")
    assert counts(store) == (0, 2, 0)
    assert claimed(store).rows == []


def test_an_id_twice_in_one_call_is_one_row_and_beside_a_new_one_only_that_is_written(store: Store) -> None:
    added(store, 1, 1, 2)
    with store.transaction() as session:
        store.outbox.add(session, messages(2, 3))
        store.outbox.add(session, messages(3, 4))
    assert ids(store.outbox.find()) == ["m1", "m2", "m3", "m4"]
    assert ids(claimed(store).rows) == ["m1", "m2", "m3", "m4"]


def test_192_the_call_returns_when_the_row_is_stored_and_not_when_it_is_sent(place: Place) -> None:
    """No broker is there in this test."""
    added(place.store(), 1)
    assert found(place.store(), "m1").state == "pending"


def test_197_after_a_failure_nothing_is_sent_and_the_producers_retry_counts_once(store: Store) -> None:
    for error in (Unhappy(), None, None):
        try:
            with store.transaction() as session:
                store.outbox.add(session, messages(1))
                if error is not None:
                    raise error
        except Unhappy:
            assert claimed(store).rows == []
    assert ids(claimed(store).rows) == ["m1"]


def test_many_rows_at_once_keep_their_order(store: Store) -> None:
    outbox_messages = added(store, *range(1, 3001))
    batch = claimed(store, limit=5000)
    assert [row.message for row in batch.rows] == outbox_messages
    assert [row.number for row in batch.rows] == list(range(1, 3001))


def test_the_lanes_are_16_unless_set_and_cannot_change_while_rows_are_pending(store: Store, place: Place) -> None:
    assert store.outbox.lanes() == 16
    added(store, 1)
    with pytest.raises(ConcurrencyError, match="1 row"):
        store.outbox.set_lanes(4)
    with pytest.raises(ValueError):
        store.outbox.set_lanes(0)
    assert store.outbox.lanes() == 16
    marked(store, claimed(store, LANE))
    store.outbox.set_lanes(3)
    assert (store.outbox.lanes(), place.store().outbox.lanes()) == (3, 3)
    [outbox_message] = added(store, 2)
    assert found(store, "m2").lane == lane_of(outbox_message, 3)
    assert ids(claimed(store, lane_of(outbox_message, 3)).rows) == ["m2"]
