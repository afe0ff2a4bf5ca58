"""Due timeouts as messages of the outbox (behaviour 112), and what a poll returns about the next one."""

import pytest

from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.messages import TIMEOUT_ID, StoredMessage
from tests.contracts.timeouts.given import MINUTES, SHORT, Place, ids


def sent(place: Place, *timeouts: Timeout) -> list[StoredMessage]:
    """What the outbox holds for their destinations."""
    outbox = place.opened[0].outbox
    return [
        message
        for topic in dict.fromkeys(timeout.destination for timeout in timeouts)
        for message in outbox.find(topic=topic)
    ]


def test_112_a_timeout_leaves_only_together_with_its_message(place: Place) -> None:
    timeouts = place.timeouts(lease=SHORT)
    due = place.due(key=b"\0k", value=b"\0v", headers=[("h", b"\0"), ("h", None)])
    timeouts.insert(due)
    dropped = timeouts.get_batch()  # as if its poller died
    assert (sent(place, due), timeouts.count()) == ([], 1)
    place.until(dropped.expires_at)
    assert timeouts.emit(timeouts.get_batch()) == 1
    [row] = sent(place, due)
    message = row.message
    assert (row.state, message.topic, message.key, message.value) == ("pending", due.destination, b"\0k", b"\0v")
    assert list(message.headers) == [("h", b"\0"), ("h", None), (TIMEOUT_ID, str(due.id).encode())]
    assert timeouts.count() == 0


def test_a_batch_that_is_emitted_twice_is_sent_once(place: Place, timeouts: TimeoutStore) -> None:
    due = [place.due() for _ in range(3)]
    timeouts.insert(*due)
    batch = timeouts.get_batch()
    assert [timeouts.emit(batch), timeouts.emit(batch)] == [3, 0]
    assert len(sent(place, *due)) == 3


def test_what_was_cancelled_or_moved_meanwhile_is_not_sent(place: Place, timeouts: TimeoutStore) -> None:
    due = [place.due() for _ in range(4)]
    timeouts.insert(*due)
    batch = timeouts.get_batch()
    timeouts.cancel(due[0].id)
    timeouts.reschedule(due[1].id, place.later().due_at)
    timeouts.release(due[2].id, batch.owner)
    assert timeouts.emit(batch) == 1
    assert [row.message.topic for row in sent(place, *due)] == [due[3].destination]
    assert sorted(ids(timeouts.find())) == sorted(ids(due[1:3]))


def two_pollers_emit(place: Place) -> int:
    """The first one's lease ran out before it emitted; returns how many messages came of one timeout and what is
    left."""
    brief, long = place.timeouts(lease=SHORT), place.timeouts(lease=MINUTES)
    due = place.due()
    brief.insert(due)
    late = brief.get_batch()
    place.until(late.expires_at)
    taken = long.get_batch()
    long.reschedule(due.id, place.later().due_at)
    assert ids(taken) == ids(late) == [due.id]
    brief.emit(late)
    return len(sent(place, due))


def test_a_poller_whose_lease_ran_out_emits_nothing(place: Place) -> None:
    assert two_pollers_emit(place) == 0


def test_an_id_that_was_sent_may_be_used_again_for_another_time(place: Place, timeouts: TimeoutStore) -> None:
    first = place.due(100)
    again = place.due(50, id=first.id, destination=first.destination, value=b"again")
    for entry in (first, again):
        timeouts.insert(entry)
        assert timeouts.emit(timeouts.get_batch()) == 1
    assert [row.message.value for row in sent(place, first)] == [b"", b"again"]


def test_an_empty_batch_emits_nothing(place: Place, timeouts: TimeoutStore) -> None:
    assert timeouts.emit(timeouts.get_batch()) == 0


def test_a_part_of_a_batch_may_be_emitted(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(*(place.due() for _ in range(3)))
    batch = timeouts.get_batch()
    part = TimeoutBatch(batch.timeouts[:2], batch.owner, batch.expires_at, None)
    assert timeouts.emit(part) == 2
    assert ids(timeouts.find()) == [batch[2].id]
    timeouts.remove(batch[2].id, batch.owner)


@pytest.mark.parametrize("count", [1500])
def test_a_large_batch_is_emitted_whole(place: Place, timeouts: TimeoutStore, count: int) -> None:
    topic = place.due().destination
    timeouts.insert(*(place.due(destination=topic) for _ in range(count)))
    batch = timeouts.get_batch(5000)
    assert len(batch) == count
    assert timeouts.emit(batch) == count
    assert timeouts.count() == 0
    assert len(place.opened[0].outbox.find(topic=topic, limit=5000)) == count


def test_a_poll_says_when_the_next_free_one_is_due(place: Place, timeouts: TimeoutStore) -> None:
    assert timeouts.next_due() is None
    due, soon, later = place.due(), place.later(60), place.later(120)
    timeouts.insert(later, due, soon)
    assert timeouts.next_due() == due.due_at
    batch = timeouts.get_batch()
    assert (batch.next_due, timeouts.next_due()) == (soon.due_at, soon.due_at)
    timeouts.release(due.id, batch.owner)
    assert timeouts.next_due() == due.due_at


def test_the_hint_of_a_full_batch_is_already_past(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(place.due(100), place.due(50))
    batch = timeouts.get_batch(1)
    assert batch.next_due is not None
    assert batch.next_due <= place.now()
    assert timeouts.get_batch(1).next_due is None
