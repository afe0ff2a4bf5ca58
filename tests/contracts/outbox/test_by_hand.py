"""What people do with an outbox, and what becomes of its rows where nobody says otherwise."""

from typing import Any

import pytest

from sluicegate.streams.contracts.messages import Outcome
from sluicegate.streams.errors import ConfigurationError
from tests.contracts.outbox.given import Place, Store, added, claimed, counts, found, ids, messages


class Sink:
    """Takes what it is given, and is no Kafka producer."""

    def __init__(self) -> None:
        self.taken: list[bytes | None] = []

    def deliver(self, store: Store) -> None:
        batch = claimed(store)
        self.taken += [row.message.value for row in batch.rows]
        store.outbox.mark(batch, [Outcome(row.message.id, "dispatched") for row in batch.rows])


def test_238_without_a_transaction_nothing_is_written_unless_the_caller_says_so(store: Store) -> None:
    """Without a session the message and the caller's writes are two transactions, so the caller must ask."""
    with pytest.raises(ConfigurationError):
        store.outbox.add(None, messages(1))
    assert counts(store) == (0, 0, 0)
    store.outbox.add(None, messages(1), require_transaction=False)
    assert counts(store) == (1, 0, 0)


def test_242_whoever_claims_and_marks_is_the_sink(store: Store) -> None:
    sink = Sink()
    added(store, 1, 2, 3)
    sink.deliver(store)
    assert (sink.taken, counts(store)) == ([b"v1", b"v2", b"v3"], (0, 3, 0))


def test_244_a_dead_row_is_judged_by_its_attempts_and_let_go_by_hand(place: Place) -> None:
    store = place.store(attempts=1)
    added(store, 1)
    batch = claimed(store)
    store.outbox.mark(batch, [Outcome("m1", "failed", "no such topic")])
    [attempt] = store.outbox.attempts_of("m1")
    assert (counts(store), found(store, "m1").state, attempt.error) == ((0, 0, 1), "dead", "no such topic")
    assert store.outbox.requeue(["m1"]) == 1
    again: Any = claimed(store, after=batch.rows[-1].number)
    assert (ids(again.rows), again.rows[0].attempts) == (["m1"], 0)
