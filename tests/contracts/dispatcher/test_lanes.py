"""Rows of the outbox to Kafka, by the process that is always there."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.testing.log import Log
from tests.contracts.dispatcher.given import (
    OUTBOX,
    Turned,
    add,
    add_numbers,
    headers,
    lanes,
    message,
    numbered,
    received,
    values,
)
from tests.mutation.twins import without


def test_171_rows_arrive_with_their_id_and_the_headers_by_which_receivers_drop_repeats(store: Any) -> None:
    add(store, message(1, headers=[("a", b"b"), ("a", None), ("sluicegate-seq", b"mine")]))
    one = Turned(store).sent_all()
    [sent] = one.log.order["t"]
    lane = next(row.lane for row in store.outbox.find("dispatched"))
    assert headers(sent) == {
        "sluicegate-id": "m1",
        "sluicegate-shard": f"outbox/{lane}>t#{store.incarnation}",
        "sluicegate-seq": "1",
        "a": "",
    }
    assert [message for message in sent.h or () if message[0] == "a"] == [("a", b"b"), ("a", None)]
    assert (sent.k, sent.v, sent.p) == (b"k", b"v1", one.producer.partition_of(b"k", 2))


def test_with_one_lane_one_process_sends_at_a_time(store: Any) -> None:
    add_numbers(store, *range(1, 6))
    one, log = Turned(store, outbox=lanes(1)), Log(partitions=1)
    two = Turned(store, log, outbox=lanes(1))
    one.producer.hold = True
    one.later()
    add_numbers(store, *range(6, 9), key=b"other")
    for _ in range(3):
        two.later()
    assert (values(one.log), values(log)) == (numbered(5), [])
    one.producer.hold = False
    one.sent_all()
    assert values(one.log) == numbered(8)


def test_the_order_is_kept_unless_the_file_says_otherwise(store: Any) -> None:
    assert OUTBOX.order == "key"
    add_numbers(store, *range(1, 41))
    one = Turned(store)
    one.producer.room = 3
    assert values(one.sent_all().log) == numbered(40)


def test_without_order_every_row_is_sent_once_with_its_id_alone(store: Any) -> None:
    add_numbers(store, *range(1, 21))
    add(store, message(21, topic="other"))
    one = Turned(store, outbox=replace(OUTBOX, order="none")).sent_all()
    assert sorted(values(one.log)) == sorted(numbered(20))
    assert values(one.log, "other") == [b"v21"]
    assert {*headers(one.log.order["t"][0])} == {"sluicegate-id"}


def test_151_a_full_batch_is_followed_by_the_next_at_once_and_a_failed_one_waits(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.streams.outbox.batch_size.MOST", 5)
    add_numbers(store, *range(1, 13))
    one = Turned(store)
    one.turns(40)
    assert values(one.log) == numbered(12)
    add_numbers(store, *range(13, 23))
    add(store, message(99, topic="missing"))
    one.log.partitions = 0
    one.turns(40)
    assert values(one.log) == numbered(12)  # nobody told, and it is not time


def test_152_who_adds_timeouts_rows_in_this_process_wakes_the_relay(store: Any) -> None:
    one = Turned(store)
    one.turns()
    add_numbers(store, 1)
    one.turns()
    assert values(one.log) == []
    one.dispatcher.tell()
    one.later(0.1)
    assert values(one.log) == [b"v1"]


def test_153_rows_are_sent_many_at_a_time_whatever_their_topics(store: Any) -> None:
    add(store, *(message(number, topic=f"t{number % 3}") for number in range(1, 31)))
    one = Turned(store)
    one.producer.hold = True
    one.later()
    assert len(one.producer.waiting) == 30


def test_163_no_header_bypasses_the_outbox_since_whoever_writes_it_has_no_producer(store: Any) -> None:
    with store.transaction() as session:
        store.outbox.add(session, [message(1, headers=[("__SkipOutbox", b"1")])])
    assert store.outbox.count("pending") == 1
    [sent] = Turned(store).sent_all().log.order["t"]
    assert (sent.v, headers(sent)["__SkipOutbox"]) == (b"v1", "1")


def failing(store: Any) -> Turned:
    """One row at a time, so that others wait behind the one that fails."""
    add_numbers(store, *range(1, 11))
    add_numbers(store, *range(11, 14), key=b"other")
    one, asked = Turned(store), list[bytes]()

    def fate(row: Any) -> str:
        if row.value == b"v4" and len(asked) < 2:  # as it is taken, and as it is reported
            asked.append(row.value)
            return "failed"
        return "delivered"

    one.producer.fate, one.producer.room = fate, 1
    one.sent_all()
    assert len(asked) == 2, "nothing failed: this proves nothing"
    return one


def test_the_order_of_a_key_is_kept_past_failures(store: Any) -> None:
    assert [value for value in values(failing(store).log) if value in numbered(10)] == numbered(10)


def test_without_it_the_order_is_seen_to_break(store: Any) -> None:
    with without("relay-order"):
        assert [value for value in values(failing(store).log) if value in numbered(10)] != numbered(10)


def test_a_row_that_its_topic_does_not_take_holds_up_its_lane_alone(store: Any) -> None:
    """Until it is dead; what was under way behind it is sent, what waited is not."""
    add(store, message(1), message(2, topic="denied"), message(3), message(4, key=b"other"))
    one = Turned(store)
    one.producer.fate = lambda row: "denied" if row.topic == "denied" else "delivered"
    one.producer.room = 1
    one.until(lambda: b"v4" in values(one.log), "the other lane")
    assert b"v3" not in values(one.log)
    one.until(lambda: store.outbox.count("dead") == 1, "the end of its attempts")
    one.sent_all()
    assert sorted(values(one.log)) == [b"v1", b"v3", b"v4"]
    assert [attempt.outcome for attempt in store.outbox.attempts_of("m2")] == ["transient", "transient", "poison"]
    assert (
        one.producer.replaced,
        one.count("dispatch_attempts", "transient"),
        one.count("dispatch_attempts", "poison"),
    ) == (0, 2, 1)


def test_a_row_whose_topic_is_not_there_is_tried_and_then_dead(store: Any) -> None:
    log = Log()
    log.create("t")
    add(store, message(1), message(2, topic="missing"), message(3))
    one = Turned(store, log)
    one.sent_all()
    assert values(log) == [b"v1", b"v3"]
    [dead] = store.outbox.find("dead")
    assert (dead.message.id, dead.attempts, dead.reason) == ("m2", 3, "no topic missing")


def test_a_broker_that_is_away_counts_no_attempt(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    add_numbers(store, 1, 2)
    one = Turned(store)

    def away(topic: str) -> int:
        raise SystemNotReady("Kafka: no answer")

    with monkeypatch.context() as patched:
        patched.setattr(one.producer, "partitions", away)
        for _ in range(10):
            one.later(20)
        assert (values(one.log), one.report().reasons) == ([], ["a system does not answer: Kafka: no answer"])
    assert values(one.sent_all().log) == numbered(2)
    assert [attempt.outcome for attempt in store.outbox.attempts_of("m1")] == ["success"]


def test_a_row_that_the_broker_will_never_take_is_dead_at_once(store: Any) -> None:
    add_numbers(store, 1, 2, 3)
    one = Turned(store)
    one.producer.fate = lambda row: "rejected" if row.value == b"v2" else "delivered"
    assert values(one.sent_all().log) == [b"v1", b"v3"]
    assert [attempt.outcome for attempt in store.outbox.attempts_of("m2")] == ["rejected"]


def test_196_what_is_sent_twice_is_the_same_message_and_receivers_take_it_once(store: Any) -> None:
    add_numbers(store, *range(1, 6))
    log = Log(partitions=2)
    one = Turned(store, log, outbox=replace(OUTBOX, lease=0.3))
    one.producer.fate = lambda row: "ack-lost"
    one.later()
    assert values(log) == numbered(5)
    two = Turned(store, log, outbox=replace(OUTBOX, lease=0.3))
    two.sent_all()
    assert sorted(values(log)) == sorted(numbered(5) * 2)
    assert received(log) == numbered(5)
    copies = [headers(message) for message in log.order["t"]]
    assert copies[:5] == copies[5:]
