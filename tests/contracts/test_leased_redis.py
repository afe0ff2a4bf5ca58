"""The leased contracts on Redis, what is its own: scripts that change all or nothing, and their twins."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import redis

from sluicegate.connectors.redis import scripts_outbox, scripts_timeouts
from sluicegate.connectors.redis.scripts_leased import PREFIX
from sluicegate.connectors.redis.state import RedisStore
from sluicegate.streams.contracts.leased_values import Gate, Timeout
from sluicegate.streams.contracts.messages import OutboxMessage, Outcome
from sluicegate.streams.contracts.options import LeasedOptions, OutboxOptions, TimeoutOptions
from sluicegate.streams.errors import ConcurrencyError, PersistenceError
from tests.contracts.leased_redis import dump, entries, made, messages, timeouts
from tests.mutation.twins import without
from tests.servers import Proxy, Server
from tests.servers.valkey import Valkey
from tests.waiting import wait_until

MINUTE = timedelta(minutes=1)
MOMENT = timedelta(milliseconds=50)


@pytest.fixture
def url(own_server: Callable[..., Server]) -> str:
    """A server of the test's own: the outbox and the timeouts of a server are one."""
    return own_server(Valkey).url


@pytest.fixture
def client(url: str) -> Any:
    return redis.Redis.from_url(url)


@pytest.fixture
def opened(url: str) -> RedisStore:
    return made(url)


# -- large batches, and servers that forgot the scripts
# ------------------------------------------------------------------------


def test_five_thousand_entries_are_inserted_sealed_and_completed_by_one_script_each(opened: Any) -> None:
    filled = opened.buffer.insert_and_seal("b", entries(5_000), Gate(count=2_500))
    assert [len(batch.ids) for batch in filled.batches] == [2_500, 2_500]
    assert opened.buffer.count("b") == 5_000
    assert [opened.buffer.complete("b", batch, messages(5_000)) for batch in filled.batches] == [2_500, 2_500]
    assert (opened.buffer.count("b"), opened.outbox.count()) == (0, 5_000)


def test_five_thousand_rows_of_the_outbox_are_claimed_and_marked_in_their_order(opened: Any) -> None:
    opened.outbox.set_lanes(1)
    opened.outbox.add(None, messages(5_000), require_transaction=False)
    batch = opened.outbox.claim(0, "token", 5_000)
    assert [row.message.value for row in batch.rows] == [b"%d" % number for number in range(5_000)]
    opened.outbox.mark(batch, [Outcome(row.message.id, "dispatched") for row in batch.rows])
    assert (opened.outbox.count(), opened.outbox.count("dispatched")) == (0, 5_000)
    assert opened.outbox.sweep(-MINUTE, 3_000) == 3_000
    assert opened.outbox.sweep(-MINUTE) == 2_000


def test_five_thousand_timeouts_are_taken_and_sent_by_one_script_each(opened: Any) -> None:
    opened.timeouts.insert(*timeouts(5_000))
    batch = opened.timeouts.get_batch(5_000)
    assert (len(batch), batch.next_due) == (5_000, None)
    assert opened.timeouts.emit(batch) == 5_000
    assert (opened.timeouts.count(), opened.outbox.count()) == (0, 5_000)
    assert opened.timeouts.emit(batch) == 0


def test_a_server_that_forgets_the_scripts_is_told_them_again(opened: Any, client: Any) -> None:
    for number in range(3):
        client.script_flush()
        opened.buffer.insert("b", entries(1, begin=number))
        client.script_flush()
        snapshot = opened.buffer.get_snapshot("b")
        client.script_flush()
        assert opened.buffer.remove_snapshot("b", snapshot, messages(1)) == 1
    client.script_flush()
    assert len(opened.outbox.claim_any(10).rows) == 1


# -- damaged keys
# ------------------------------------------------------------------------------------------------------------


def all_steps(store: Any) -> dict[str, Callable[[], object]]:
    """One step of each kind that writes, over rows that are there."""
    store.outbox.set_lanes(1)
    store.outbox.add(None, messages(2), require_transaction=False)
    store.timeouts.insert(*timeouts(2))
    store.buffer.insert("b", entries(2))
    claimed_batch = store.outbox.claim(0, "token", 10)
    taken = store.timeouts.get_batch(1)
    [batch] = store.buffer.insert_and_seal("b", entries(2, "other", 10), Gate(count=2)).batches
    snapshot = store.buffer.get_snapshot("b")
    return {
        "outbox:dead": lambda: store.outbox.mark(
            claimed_batch, [Outcome("m-0", "rejected"), Outcome("m-1", "dispatched")]
        ),
        "outbox:numbers": lambda: store.outbox.add(None, [OutboxMessage("t", b"k")], require_transaction=False),
        "outbox:lane:0": lambda: store.timeouts.emit(taken),
        "outbox:last": lambda: store.buffer.complete("b", batch, [OutboxMessage("t", b"k")]),
        "outbox:rows": lambda: store.buffer.remove_snapshot("b", snapshot, [OutboxMessage("t", b"k")]),
        "timeouts:free": lambda: store.timeouts.insert(*timeouts(2)),
        "timeouts:owners": lambda: store.timeouts.get_batch(),
        "buffer:gone:b": lambda: store.buffer.insert("b", entries(3, begin=20), keep_keys=MINUTE),
        "buffer:sealed:b": lambda: store.buffer.insert_and_seal("b", entries(3, begin=30), Gate(count=1)),
        "buffer:leases:b": lambda: store.buffer.remove_all("b"),
        "buffer:holders:b": lambda: store.buffer.due("b", Gate(count=1)),
    }


@pytest.mark.parametrize(
    "damaged",
    [
        "outbox:dead",
        "outbox:numbers",
        "outbox:lane:0",
        "outbox:last",
        "outbox:rows",
        "timeouts:free",
        "timeouts:owners",
        "buffer:gone:b",
        "buffer:sealed:b",
        "buffer:leases:b",
        "buffer:holders:b",
    ],
)
def test_a_step_that_meets_a_damaged_key_changes_nothing(opened: Any, client: Any, damaged: str) -> None:
    step = all_steps(opened)[damaged]
    client.delete(PREFIX + damaged)
    client.rpush(PREFIX + damaged, "damaged")
    before = dump(client)
    with pytest.raises(PersistenceError):
        step()
    assert dump(client) == before


@pytest.mark.parametrize("damaged", ["outbox:numbers", "timeouts:free"])
def test_without_the_check_of_the_keys_half_of_a_step_lands(
    opened: Any, url: str, client: Any, damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts_outbox, "ADD", scripts_outbox.ADD.replace("outbox_sound(hashes_of(places))", ""))
    monkeypatch.setattr(scripts_timeouts, "INSERT", scripts_timeouts.INSERT.replace("timeouts_sound()\n", ""))
    unchecked = made(url)
    client.rpush(PREFIX + damaged, "damaged")
    before = dump(client)
    with pytest.raises(PersistenceError):
        all_adds(unchecked)[damaged]()
    assert dump(client) != before


def all_adds(store: Any) -> dict[str, Callable[[], object]]:
    return {
        "outbox:numbers": lambda: store.outbox.add(None, messages(1), require_transaction=False),
        "timeouts:free": lambda: store.timeouts.insert(*timeouts(1)),
    }


# -- tokens, and what happens without them
# ---------------------------------------------------------------------------------------


def two_hold_a_lane(first: Any, second: Any) -> None:
    first.outbox.set_lanes(1)
    first.outbox.add(None, messages(1), require_transaction=False)
    late = first.outbox.claim(0, "first", 10, lease=MOMENT)
    wait_until(lambda: second.outbox.claim(0, "second", 10) is not None, 5, "the lane's lease to end")
    with pytest.raises(ConcurrencyError):
        first.outbox.mark(late, [Outcome("m-0", "rejected")])
    assert first.outbox.count("dead") == 0


def two_hold_a_timeout(first: Any, second: Any) -> None:
    [late] = timeouts(1)
    first.timeouts.insert(late)
    batch = first.timeouts.get_batch()
    wait_until(lambda: len(second.timeouts.get_batch()) == 1, 5, "the lock to end")
    assert (first.timeouts.emit(batch), first.outbox.count(), first.timeouts.count()) == (0, 0, 1)


def two_hold_a_batch(first: Any, second: Any) -> None:
    [late] = first.buffer.insert_and_seal("b", entries(1), Gate(count=1, lease=MOMENT)).batches
    taken: list[Any] = []
    wait_until(lambda: taken.extend(second.buffer.due("b", Gate(count=1))) or taken, 5, "the batch's lease to end")
    assert (taken[0].id, taken[0].attempts, taken[0].token != late.token) == (late.id, 2, True)
    with pytest.raises(ConcurrencyError):
        first.buffer.complete("b", late, messages(1))
    assert (first.buffer.count("b"), first.outbox.count()) == (1, 0)
    assert second.buffer.complete("b", taken[0], messages(1)) == 1


SHORT = LeasedOptions(timeouts=TimeoutOptions(lease=MOMENT))
FENCES = {two_hold_a_lane: "fence", two_hold_a_timeout: "timeout-lease", two_hold_a_batch: "lease"}


@pytest.mark.parametrize("scenario", FENCES)
def test_whoever_lost_a_lease_changes_nothing(url: str, scenario: Callable[[Any, Any], None]) -> None:
    scenario(made(url, SHORT), made(url))


@pytest.mark.parametrize("scenario", FENCES)
def test_without_the_comparison_of_tokens_whoever_lost_a_lease_writes(
    url: str, scenario: Callable[[Any, Any], None]
) -> None:
    with without(FENCES[scenario]), pytest.raises((pytest.fail.Exception, AssertionError)):
        scenario(made(url, SHORT), made(url))


# -- the rest
# --------------------------------------------------------------------------------------------------------------------


def test_a_due_time_is_kept_to_the_microsecond_far_away_too(opened: Any) -> None:
    far = Timeout(uuid4(), "topic", datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC))
    early = Timeout(uuid4(), "topic", datetime(1900, 1, 1, 0, 0, 0, 1, UTC))
    opened.timeouts.insert(far, early)
    assert opened.timeouts.find() == [early, far]
    assert list(opened.timeouts.get_batch()) == [early]


def test_wait_is_told_of_what_was_added_since_the_last_call(opened: Any, url: str) -> None:
    other = made(url)
    assert not opened.outbox.wait(0.01)
    other.outbox.add(None, messages(3), require_transaction=False)
    other.outbox.add(None, [OutboxMessage("topic")], require_transaction=False)
    assert opened.outbox.wait(5)
    # the second one may have come after the first answer
    assert not (opened.outbox.wait(0.05) and opened.outbox.wait(0.05))


def test_wait_says_that_the_wire_broke_and_subscribes_anew(url: str, proxy: Callable[..., Proxy]) -> None:
    wire, other = proxy(url), made(url)
    store = made(wire.url)
    assert not store.outbox.wait(0.01)
    wire.reset()
    with pytest.raises(PersistenceError):
        store.outbox.wait(5)
    assert not store.outbox.wait(0.01)
    other.outbox.add(None, messages(1), require_transaction=False)
    assert store.outbox.wait(5)


def test_nothing_is_left_of_what_is_done_but_numbers_and_history(opened: Any, client: Any) -> None:
    opened.buffer.insert("b", entries(3))
    opened.buffer.get_snapshot("b", lease=MOMENT)
    wait_until(lambda: opened.buffer.get_snapshot("b", 1, MOMENT).ids, 5, "the lease to end")
    gate = Gate(count=3, after_first=MOMENT, lease=MOMENT)
    wait_until(lambda: opened.buffer.insert_and_seal("b", entries(3), gate).batches, 5, "the second lease to end")
    batches: list[Any] = []
    wait_until(lambda: batches.extend(opened.buffer.due("b", gate)) or batches, 5, "the batch's lease to end")
    assert opened.buffer.complete("b", batches[0]) == 3
    opened.timeouts.insert(*timeouts(3))
    assert opened.timeouts.emit(opened.timeouts.get_batch()) == 3
    assert opened.outbox.drop([row.message.id for row in opened.outbox.find()]) == 3
    kept = {"buffer:sequence:b", "outbox:numbers", "outbox:last"}
    assert {key.decode().removeprefix(PREFIX) for key in client.keys(PREFIX + "*")} == kept


def test_the_last_attempt_that_is_allowed_is_poison_and_its_row_can_be_requeued(url: str) -> None:
    store = made(url, LeasedOptions(outbox=OutboxOptions(attempts=2, backoff_first=timedelta(seconds=1))))
    store.outbox.set_lanes(1)
    store.outbox.add(None, messages(2), require_transaction=False)
    batch = store.outbox.claim(0, "token", 10)
    before = datetime.now(UTC)
    store.outbox.mark(batch, [Outcome("m-0", "failed", "no"), Outcome("m-1", "outage")])
    blocked = store.outbox.claim(0, "token", 10)
    assert (blocked.rows, blocked.blocked_until > before) == ([], True)
    batches: list[Any] = []
    wait_until(lambda: batches.append(store.outbox.claim(0, "token", 10)) or batches[-1].rows, 5, "the back-off to end")
    store.outbox.mark(batches[-1], [Outcome("m-0", "failed", "still not")])
    assert [(attempt.number, attempt.outcome, attempt.error) for attempt in store.outbox.attempts_of("m-0")] == [
        (1, "transient", "no"),
        (2, "poison", "still not"),
    ]
    [dead] = store.outbox.find("dead")
    assert (dead.message.id, dead.attempts, dead.reason, dead.next_attempt_at) == ("m-0", 2, "still not", None)
    assert (store.outbox.requeue(["m-0", "m-1"]), store.outbox.requeue()) == (1, 0)
    assert [row.message.id for row in store.outbox.claim(0, "token", 10).rows] == ["m-1", "m-0"]
