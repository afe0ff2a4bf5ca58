import random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluicegate.connectors.kafka.embedded import EmbeddedBroker
from sluicegate.connectors.kafka.feed import OVERHEAD, Feed
from sluicegate.connectors.kafka.tail import Tail
from sluicegate.streams.errors import SystemNotReady
from tests.unit.kafka.clients import fill, numbers
from tests.waiting import wait_until

RECORD = bytes(10_000 - OVERHEAD - 1)


def commit(bootstrap: str, partition: int, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("four", partition, offset)], asynchronous=False)
    consumer.close()


def test_a_feed_stops_at_its_window_and_goes_on_when_the_group_has_committed(broker: EmbeddedBroker) -> None:
    feed = Feed(broker.bootstrap, "four", 4, "g", 100_000)
    assert [feed.send(1, b"k", RECORD) for _ in range(13)] == [True] * 11 + [False] * 2
    assert feed.send(2, b"k", RECORD), "the window of another partition"
    commit(broker.bootstrap, 1, 5)
    wait_until(lambda: feed.turn() == 5, what="the group's offset")
    assert [feed.send(1, b"k", RECORD) for _ in range(7)] == [True] * 5 + [False] * 2
    wait_until(lambda: feed.turn() and feed.delivered() == 17, what="the delivery of all records")
    feed.close()


def test_a_feed_that_is_too_far_ahead_of_the_group_says_that_records_were_dropped(broker: EmbeddedBroker) -> None:
    feed = Feed(broker.bootstrap, "four", 4, "g", 50 * 1024 * 1024)
    noise = random.Random(1)

    def overfeed() -> None:
        for _ in range(100):
            wait_until(lambda: feed.send(1, b"k", noise.randbytes(100_000)), pause=0)
        wait_until(feed.turn, 10)

    with pytest.raises(SystemNotReady, match=r"dropped records of four/1 below \d+, the group is at 0"):
        overfeed()
    feed.close()


def test_a_feed_notices_records_that_are_not_its_own(broker: EmbeddedBroker) -> None:
    fill(broker.bootstrap, "four", 3, [b"another's"])
    feed = Feed(broker.bootstrap, "four", 4, "g", 100_000)
    feed.send(3, b"k", b"v")
    with pytest.raises(SystemNotReady, match="four/3 has other records than ours"):
        wait_until(feed.turn, 10)
    feed.close()


def test_a_tail_takes_every_record_once_with_its_headers(broker: EmbeddedBroker) -> None:
    for partition in range(4):
        fill(broker.bootstrap, "four", partition, numbers(0, 100))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("one", None, b"k", 0, headers=[("a", b"1"), ("b", None)])
    producer.flush(10)
    tail = Tail(broker.bootstrap, {"four": 4, "one": 1})
    records = []
    while not tail.at_the_end():
        records += tail.take(0.1)
    assert sorted(read.value or b"" for read in records) == sorted([*numbers(0, 100) * 4, b""])
    assert [(read.key, read.value, read.headers) for read in records if read.topic == "one"] == [
        (b"k", None, [("a", b"1"), ("b", None)])
    ]
    tail.close()


def test_a_tail_that_comes_too_late_says_so(broker: EmbeddedBroker) -> None:
    fill(broker.bootstrap, "one", 0, [bytes(range(256)) * 40] * 600)
    tail = Tail(broker.bootstrap, {"one": 1})
    with pytest.raises(SystemNotReady, match="reading one/0 failed"):
        wait_until(lambda: tail.take(0.1) and tail.at_the_end(), 10)
    tail.close()
