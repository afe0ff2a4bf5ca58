"""Two apps on one store: neither sees, sends, requeues, drops nor sweeps the messages of the other. Those of no app
belong to both."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.leased import OutboxStore
from sluicegate.streams.contracts.leased_values import Entry, Gate
from sluicegate.streams.contracts.messages import LaneBatch, OutboxMessage, Outcome
from sluicegate.streams.errors import ConcurrencyError
from tests.contracts.outbox.given import LANE, Place
from tests.mutation.twins import without

NOW = timedelta(seconds=-60)
"""The age above which `sweep` deletes everything."""


class Shared(NamedTuple):
    """One store, opened for each of two apps, and for none."""

    one: Any
    two: Any
    none: Any


def opened(place: Place) -> Shared:
    made: list[Any] = [open_store(place.url, app=app) for app in ("one", "two", None)]
    place._made += made
    for store in made:
        store.migrate()
    return Shared(*made)


@pytest.fixture
def shared(place: Place) -> Shared:
    return opened(place)


def message(id: str = "", key: bytes | None = b"k") -> OutboxMessage:
    return OutboxMessage("t", key, b"v", id=id or uuid4().hex)


def add(store: Any, *messages: OutboxMessage) -> None:
    store.outbox.add(None, messages, require_transaction=False)


def claims(outbox: OutboxStore, token: str = "token") -> Iterator[LaneBatch]:
    for lane in outbox.lane_numbers():
        batch = outbox.claim(lane, token, 100)
        if batch is not None and batch.rows:
            yield batch


def sent(outbox: OutboxStore, token: str = "token") -> list[str]:
    """The ids of all rows, claimed and marked."""
    findings = []
    for batch in claims(outbox, token):
        outbox.mark(batch, None)
        findings += [row.id for row in batch.rows]
    return findings


def ids(outbox: OutboxStore, state: str | None = None) -> list[str]:
    return [row.message.id for row in outbox.find(state)]


def counts(outbox: OutboxStore) -> list[int]:
    return [outbox.count(state) for state in ("pending", "dispatched", "dead")]


def apart(shared: Shared) -> None:
    """Fails where one app reaches the messages of the other."""
    one, two = shared.one.outbox, shared.two.outbox
    add(shared.one, message("a"), message("b"), message("c"))
    assert (two.find(), counts(two), two.pending_age(), two.get("a")) == ([], [0, 0, 0], None, None)
    assert list(claims(two)) == []
    assert (list(two.claim_any(10).rows), two.drop(["a"])) == ([], 0)
    [batch] = claims(one)
    assert [row.id for row in batch.rows] == ["a", "b", "c"]
    dead = [Outcome("a", "dispatched"), Outcome("b", "rejected", "no"), Outcome("c", "dispatched")]
    one.mark(batch, dead)
    assert (two.sweep(NOW), two.requeue(), two.requeue(["b"]), two.drop(["b"])) == (0, 0, 0, 0)
    assert tuple(two.attempts_of("b")) == ()
    assert counts(one) == [0, 2, 1]
    assert (ids(one, "dead"), ids(one, "dispatched"), ids(one)) == (["b"], ["a", "c"], ["a", "b", "c"])
    assert [len(one.attempts_of(id)) for id in "ab"] == [1, 1]
    assert (one.requeue(), sent(one), one.sweep(NOW), one.find()) == (1, ["b"], 3, [])


def test_an_app_does_not_reach_the_messages_of_another(shared: Shared) -> None:
    apart(shared)


def test_without_the_app_in_the_rows_it_does(place: Place) -> None:
    with without("of-its-app"), pytest.raises(AssertionError):
        apart(opened(place))


def test_the_same_id_in_two_apps_is_two_messages(shared: Shared) -> None:
    for store in (shared.one, shared.two, shared.none):
        add(store, message("same"), message("same"))
    assert (counts(shared.none.outbox), counts(shared.one.outbox)) == ([1, 0, 0], [2, 0, 0])
    assert sorted(sent(shared.one.outbox)) == ["same", "same"]
    assert sent(shared.two.outbox) == ["same"]
    assert (sent(shared.one.outbox), counts(shared.none.outbox)) == ([], [0, 1, 0])


def test_a_lane_has_another_number_in_each_app(shared: Shared) -> None:
    """The number is part of the shard by which receivers drop repeats. Of no app it stays as it was."""
    numbers = [set(store.outbox.lane_numbers()) for store in shared]
    assert numbers[2] == numbers[0] & numbers[1] == set(range(16))
    for store in shared:
        add(store, message())
    [common] = claims(shared.none.outbox)
    assert (common.lane, shared.one.outbox.find("pending")[0].lane) == (LANE, LANE)
    assert shared.one.outbox.claim(LANE, "other", 10) is None
    [own] = claims(shared.one.outbox, "other")
    assert own.lane % (1 << 16) == LANE != own.lane
    with pytest.raises(ValueError, match="there is no lane"):
        shared.two.outbox.claim(own.lane, "other", 10)


def test_messages_of_no_app_are_of_all_and_have_one_holder(shared: Shared) -> None:
    add(shared.none, message("a"), message("b"))
    add(shared.one, message("c"))
    one, two = shared.one.outbox, shared.two.outbox
    assert sorted(row.id for batch in claims(one, "first") for row in batch.rows) == ["a", "b", "c"]
    assert list(claims(two, "second")) == []
    for batch in claims(one, "first"):
        one.release(batch)
    assert (sent(two, "second"), sent(one, "first")) == (["a", "b"], ["c"])
    assert (counts(one), counts(two), ids(two)) == ([0, 3, 0], [0, 2, 0], ["a", "b"])


def test_single_rows_are_claimed_and_marked_where_they_are(shared: Shared) -> None:
    add(shared.none, message("a", None))
    add(shared.one, message("b", None))
    one = shared.one.outbox
    for wanted in ("b", "a"):
        batch = one.claim_any(10)
        assert [row.id for row in batch.rows] == [wanted]
        one.mark(batch, [Outcome(wanted, "dispatched")])
    assert (list(one.claim_any(10).rows), counts(one)) == ([], [0, 2, 0])


def test_the_number_of_lanes_is_of_the_app(shared: Shared) -> None:
    shared.one.outbox.set_lanes(3)
    assert [store.outbox.lanes() for store in shared] == [3, 16, 16]
    add(shared.two, message())
    shared.one.outbox.set_lanes(4)
    with pytest.raises(ConcurrencyError):
        shared.two.outbox.set_lanes(4)
    add(shared.one, *(message(f"m{number}", b"%d" % number) for number in range(40)))
    assert sorted(sent(shared.one.outbox)) == sorted(f"m{number}" for number in range(40))
    shared.one.outbox.set_lanes(16)


def test_a_timeout_and_a_buffer_write_for_their_app(shared: Shared) -> None:
    one, two = shared.one, shared.two
    name, gate = uuid4().hex, Gate(count=1)
    [batch] = one.buffer.insert_and_seal(name, [Entry("k", "c", data=b"d", group="g")], gate).batches
    assert two.buffer.count(name) == 1  # the names of buffers have the app
    one.buffer.complete(name, batch, [message("m")])
    assert (ids(one.outbox), ids(two.outbox), ids(shared.none.outbox)) == (["m"], [], [])
    assert sent(one.outbox) == ["m"]
