"""The consumer on a real broker: what the embedded one cannot prove."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sluicegate.connectors.kafka import facts
from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.streams.contracts.values import TopicFacts
from sluicegate.streams.errors import SystemNotReady
from tests.unit.kafka.clients import COOPERATIVE, EAGER, PROTOCOLS, failure, fill, joined, numbers, read, turned
from tests.waiting import wait_until

MakeTopic = Callable[..., str]
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def trim(bootstrap: str, topic: str, below: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, below)]).values():
        future.result(10)


@protocols
def test_each_partition_is_read_from_where_it_is_started_to_its_end(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    make_topic(ns, 4)
    for partition in range(4):
        fill(kafka, ns, partition, numbers(0, 200))
    consumer = joined(kafka, ns, ns, 4, **PROTOCOLS[protocol])
    for partition in range(4):
        consumer.start(ns, partition, 150 + partition, 0)
    offsets = read(consumer, 4 * 50 - 6)
    for partition in range(4):
        assert [offset for number, offset in offsets if number == partition] == list(range(150 + partition, 200))
    consumer.close()


@protocols
def test_nothing_comes_out_of_a_partition_that_was_not_started(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    make_topic(ns, 2)
    consumer = joined(kafka, ns, ns, 2, **PROTOCOLS[protocol])
    for partition in range(2):
        fill(kafka, ns, partition, numbers(0, 100))
    consumer.start(ns, 1, 0, -1)
    assert {partition for partition, _ in read(consumer, 100)} == {1}
    assert (consumer.poll(0.3), consumer.consume(10)) == (None, [])
    consumer.close()


@protocols
def test_records_fetched_before_a_start_never_come_out_after_it(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    make_topic(ns, 2)
    for partition in range(2):
        fill(kafka, ns, partition, numbers(0, 20_000))
    consumer = joined(kafka, ns, ns, 2, **PROTOCOLS[protocol])
    random_ = random.Random(protocol)
    consumer.start(ns, 1, 0, -1)
    for _ in range(25):
        target = random_.randrange(15_000)
        consumer.start(ns, 0, target, random_.choice((0, -1)))
        offsets = [offset for partition, offset in read(consumer, 300) if partition == 0]
        while not offsets:
            offsets = [offset for partition, offset in read(consumer, 50) if partition == 0]
        assert offsets == list(range(target, target + len(offsets)))
        if random_.random() < 0.3:
            consumer.start(ns, 1, 0, -1)
    consumer.close()


@protocols
def test_pausing_and_resuming_neither_loses_nor_repeats(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    make_topic(ns, 2)
    for partition in range(2):
        fill(kafka, ns, partition, numbers(0, 5_000))
    consumer = joined(kafka, ns, ns, 2, **PROTOCOLS[protocol])
    consumer.start(ns, 0, 0, 0)
    consumer.start(ns, 1, 0, 0)
    results: dict[int, list[int]] = {0: [], 1: []}
    for turn in range(20):
        for partition, offset in read(consumer, 300):
            results[partition].append(offset)
        consumer.pause([(ns, turn % 2)])
        consumer.resume([(ns, (turn + 1) % 2)])
    consumer.resume([(ns, 0), (ns, 1)])
    for partition, offset in read(consumer, 10_000 - 20 * 300):
        results[partition].append(offset)
    assert results == {0: list(range(5_000)), 1: list(range(5_000))}
    consumer.close()


@protocols
def test_a_partition_paused_at_its_start_flows_after_it(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    make_topic(ns)
    fill(kafka, ns, 0, numbers(0, 10))
    consumer = joined(kafka, ns, ns, **PROTOCOLS[protocol])
    consumer.start(ns, 0, 0, 0)
    assert read(consumer, 5) == [(0, offset) for offset in range(5)]
    consumer.pause([(ns, 0)])
    consumer.start(ns, 0, 2, 0)
    assert read(consumer, 8) == [(0, offset) for offset in range(2, 10)]
    consumer.close()


@pytest.mark.parametrize("protocol", ["cooperative", "kip-848"])
def test_an_offset_that_retention_passed_is_out_of_range_and_the_partition_can_be_started_again(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    make_topic(ns)
    fill(kafka, ns, 0, numbers(0, 100))
    trim(kafka, ns, 60)
    consumer = joined(kafka, ns, ns, **PROTOCOLS[protocol])
    consumer.start(ns, 0, 10, -1)
    assert failure(consumer)[:2] == ((ns, 0), "out-of-range")
    assert consumer.facts(ns, 0)[2:4] == (60, 100)
    consumer.start(ns, 0, 60, 0)
    assert read(consumer, 40) == [(0, offset) for offset in range(60, 100)]
    consumer.close()


def test_an_eager_member_cannot_start_again_after_a_bad_offset_and_says_so(
    kafka: str, ns: str, make_topic: MakeTopic
) -> None:
    consumer = joined(kafka, ns, make_topic(ns), **EAGER)
    consumer.start(ns, 0, 5, -1)
    assert failure(consumer)[:2] == ((ns, 0), "out-of-range")
    with pytest.raises(SystemNotReady, match=f"starting {ns}/0 at 0 failed"):
        consumer.start(ns, 0, 0, -1)
    consumer.close()


def test_a_log_that_ends_before_what_its_epoch_held_is_truncated(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    make_topic(ns)
    fill(kafka, ns, 0, numbers(0, 10))
    consumer = joined(kafka, ns, ns)
    consumer.start(ns, 0, 8, 0)
    assert read(consumer, 2) == [(0, 8), (0, 9)]
    consumer.start(ns, 0, 25, 0)
    assert failure(consumer)[:2] == ((ns, 0), "truncated")
    consumer.close()


def test_an_epoch_that_the_log_never_had_is_truncated_though_the_offset_is_there(
    kafka: str, ns: str, make_topic: MakeTopic
) -> None:
    make_topic(ns)
    fill(kafka, ns, 0, numbers(0, 10))
    consumer = joined(kafka, ns, ns)
    consumer.start(ns, 0, 5, 7)
    assert failure(consumer)[:2] == ((ns, 0), "truncated")
    consumer.close()


def test_the_end_of_the_log_is_a_good_place_to_start(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    make_topic(ns)
    fill(kafka, ns, 0, numbers(0, 10))
    consumer = joined(kafka, ns, ns)
    consumer.start(ns, 0, 10, 0)
    fill(kafka, ns, 0, [b"new"])
    assert read(consumer, 1) == [(0, 10)]
    assert consumer.failures() == []
    consumer.close()


def test_a_topic_that_is_not_there_is_a_failure_and_is_not_made(kafka: str, ns: str) -> None:
    consumer = KafkaInput({"bootstrap.servers": kafka, **COOPERATIVE}, ns, [ns], "tester")
    (topic, _), code, text = failure(consumer)
    assert (topic, code) == (ns, "unknown-topic")
    assert "UNKNOWN_TOPIC_OR_PART" in text
    with pytest.raises(SystemNotReady, match=f"no topic {ns}"):
        consumer.facts(ns, 0)
    assert ns not in AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
    consumer.close()


@protocols
def test_facts_say_what_the_brokers_know(kafka: str, ns: str, make_topic: MakeTopic, protocol: str) -> None:
    make_topic(ns, 3)
    fill(kafka, ns, 0, numbers(0, 100))
    trim(kafka, ns, 20)
    consumer = joined(kafka, ns, ns, 3, **PROTOCOLS[protocol])
    facts = consumer.facts(ns, 0)
    assert facts[1:] == (3, 20, 100, -1, "")
    assert len(facts.topic_id) == 22
    consumer.inform(ns, 0, 42, "incarnation-1")
    assert turned(consumer, lambda: consumer.facts(ns, 0).committed) == -1 or turned(
        consumer, lambda: consumer.facts(ns, 0).committed == 42
    )
    assert consumer.facts(ns, 0).metadata == "incarnation-1"
    fill(kafka, ns, 0, [b"more"])
    assert consumer.facts(ns, 0).high == 101
    consumer.close()


def seconds_of_facts(kafka: str, ns: str) -> float:
    """How long facts take while a fetch waits for records."""
    consumer = joined(kafka, ns, ns, 1, **COOPERATIVE, **{"fetch.wait.max.ms": 4000})
    fill(kafka, ns, 0, [b"first"])
    consumer.start(ns, 0, 0, -1)
    read(consumer, 1)  # the next fetch begins
    consumer.facts(ns, 0)  # connects the admin client
    fill(kafka, ns, 0, [b"second"])
    read(consumer, 1)
    begun = time.monotonic()
    consumer.facts(ns, 0)
    seconds = time.monotonic() - begun
    consumer.close()
    return seconds


def test_facts_do_not_wait_for_a_fetch(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    """A worker that takes over many partitions asks for the facts of each, while it fetches those that it has."""
    make_topic(ns)
    assert seconds_of_facts(kafka, ns) < 2


def test_twin_the_consumer_itself_waits_for_its_fetch(
    kafka: str, ns: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_the_consumer(admin: Any, consumer: Any, topic: str, number: int) -> TopicFacts:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10, cached=False)
        return TopicFacts("", 1, low, high, -1, "")

    make_topic(ns)
    monkeypatch.setattr(facts, "facts", by_the_consumer)
    assert seconds_of_facts(kafka, ns) > 2


def test_a_topic_made_again_has_another_id(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    consumer = joined(kafka, ns, make_topic(ns))
    before = consumer.facts(ns, 0).topic_id
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([ns])[ns].result(20)
    make_topic(ns)
    wait_until(lambda: topic_id(consumer, ns) not in ("", before), 20, "another id")
    consumer.close()


def topic_id(consumer: Any, topic: str) -> str:
    """Empty while there is no topic: the controller answers before the metadata of the broker follow."""
    try:
        return consumer.facts(topic, 0).topic_id
    except SystemNotReady:
        return ""


def test_a_time_is_found_at_its_first_record(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    from confluent_kafka import Producer

    make_topic(ns)
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for second in (1000, 2000, 3000):
        producer.produce(ns, b"v", partition=0, timestamp=second * 1000)
    assert producer.flush(10) == 0
    consumer = joined(kafka, ns, ns)
    assert [consumer.offset_at(ns, 0, start) for start in (0.0, 1000.0, 1000.5, 3000.0, 3001.0)] == [0, 0, 1, 2, 3]
    consumer.close()
