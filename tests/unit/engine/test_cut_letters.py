"""A dead letter of a record that is larger than a message may be: position, size, digest and a bounded beginning."""

import hashlib

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import App
from sluicegate.streams.contracts.record import Headers
from sluicegate.streams.operations.dead.dead_letters import letters, retry
from sluicegate.streams.outbox import sizes
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import an_agent, dead, feed, totals
from tests.unit.engine.test_dead_letters import InLog, persons, times

MOST = 1_000_000


def size(log: Log) -> int:
    [letter] = log.topics["dead"][0]
    return sizes.size(letter.k, letter.v, letter.h or [])


@pytest.mark.parametrize(
    ("key", "value", "its", "cut"),
    [
        (b"k", b"[" * 3_000_000, [("h", b"1")], b"value"),
        (b"k", b"x" * 999_900, [("h", b"1")], b"value"),
        (b"k" * 300_000, b"[" * 3_000_000, [("h", b"1")], b"value key"),
        (b"k", b"[" * 900_000, [("h", b"1" * 300_000)], b"value headers"),
    ],
    ids=["large value", "just too large", "large key", "large headers"],
)
def test_the_letter_fits_into_a_message_and_says_what_it_lacks(
    log: Log, store: MemoryStore, clock: ManualClock, key: bytes, value: bytes, its: Headers, cut: bytes
) -> None:
    log.append("in", 0, key, value, its)
    feed(log, ("good", 1))
    Driver(an_agent(count=1), store, log, clock).give(0).turns(6)
    [letter] = log.topics["dead"][0]
    assert size(log) <= MOST
    assert (header(letter, "sluicegate-dead-topic"), header(letter, "sluicegate-dead-offset")) == ("in", "0")
    headers = dict(letter.h or [])
    assert headers["sluicegate-dead-size"] == b"%d" % len(value)
    assert headers["sluicegate-dead-digest"] == b"sha256:" + hashlib.sha256(value).hexdigest().encode()
    assert headers["sluicegate-dead-cut"] == cut
    assert letter.v == value[: sizes.LONGEST_HEAD]
    assert headers["sluicegate-dead-reason"] == (b"too-large" if len(value) > 1 << 20 else b"undecodable")
    assert letter.k == (None if b"key" in cut else key)
    assert ("h" in headers) is (b"headers" not in cut)
    assert [key for key, *_ in totals(log)] == ["good"]


def test_the_whole_record_is_in_the_letter_as_long_as_a_message_holds_it(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    value = b"x" * 990_000
    log.append("in", 0, b"k", value)
    Driver(an_agent(count=1), store, log, clock).give(0).turns(6)
    [letter] = log.topics["dead"][0]
    assert letter.v == value
    assert "sluicegate-dead-cut" not in dict(letter.h or [])


def test_a_retry_reads_the_whole_record_where_it_is(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    value = b"[" * 3_000_000
    log.append("in", 0, b"k", value, [("h", b"1"), ("sluicegate-id", b"old")])
    Driver(an_agent(count=1), store, log, clock).give(0).turns(6)
    [letter] = letters(log.topics["dead"][0], "app", ["sums"])
    assert retry(store, "app", InLog(log), [letter], next(persons), wait=times.wait).sent == 1
    sent = log.topics["in"][0][-1]
    assert (sent.k, sent.v, dict(sent.h or [])["h"]) == (b"k", value, b"1")
    assert header(sent, "sluicegate-retried-from") == "in/0/0"


def test_a_record_that_is_gone_is_named_and_the_others_are_sent(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    for value in (b"[" * 3_000_000, b"{bad", b"[" * 3_000_000):
        log.append("in", 0, b"k", value)
    Driver(an_agent(count=1), store, log, clock).give(0).turns(6)
    dead_letters = list(letters(log.topics["dead"][0], "app", ["sums"]))
    del log.topics["in"][0][0]
    done = retry(store, "app", InLog(log), dead_letters, next(persons), wait=times.wait)
    assert (done.sent, done.sent_before, done.refused) == (2, 0, [])
    [rest] = done.left_out
    assert rest.id == "in/0/0"
    assert rest.why.startswith(
        "the letter has only the beginning of the record (3000000 bytes), and the record is gone"
    )
    sent = [header(record, "sluicegate-retried-from") for record in log.topics["in"][0][-2:]]
    assert sent == ["in/0/1", "in/0/2"]
    once_more = retry(store, "app", InLog(log), dead_letters, next(persons), wait=times.wait)
    assert (once_more.sent, once_more.refused, once_more.left_out) == (0, ["in/0/1", "in/0/2"], (rest,))


def test_no_row_is_larger_than_every_store_takes(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    most = sizes.longest(App("app", "memory://", (), {"message.max.bytes": 50_000_000}))
    assert most == sizes.LARGEST
    key, value, its = sizes.cut(b"k", b"\0" * 40_000_000, [], [], most)
    assert sizes.size(key, value, its) <= most
    assert dead(log) == []
