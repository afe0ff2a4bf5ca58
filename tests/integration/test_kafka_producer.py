"""The producer on a real broker: what it reports of rows that are taken, refused, or neither."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from sluicegate.connectors.kafka.admin import create, durability, existing
from sluicegate.connectors.kafka.producer import ALONE, KafkaProducer, open_producer
from sluicegate.streams.errors import SystemNotReady
from tests.servers.kafka import Kafka
from tests.unit.kafka.clients import everything, numbers, row
from tests.waiting import wait_until

MakeTopic = Callable[..., str]


class Outcomes:
    """The reports of rows by their numbers."""

    def __init__(self, producer: KafkaProducer) -> None:
        self.producer = producer
        self.of: dict[int, str] = {}

    def send(self, number: int, topic: str, **fields: Any) -> bool:
        def report(outcome: str, _text: str) -> None:
            assert number not in self.of, "reported twice"
            self.of[number] = outcome

        return self.producer.produce(row(number, topic, **fields), report)

    def wait(self, timeout: float = 30) -> dict[int, str]:
        wait_until(lambda: self.producer.poll() == 0, timeout, "all reports")
        messages, self.of = self.of, {}
        return messages


class Together(Outcomes):
    """The same of rows that are handed over together; satisfies sluicegate.streams.contracts.stores.BatchReports."""

    def delivered(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.refused(number, "delivered", "")

    def refused(self, number: int, outcome: str, _text: str) -> None:
        assert number not in self.of, "reported twice"
        self.of[number] = outcome

    def send_all(self, topic: str, values: dict[int, bytes]) -> int:
        return self.producer.produce_all([row(number, topic, value=value) for number, value in values.items()], self)


@pytest.fixture
def producer(kafka: str) -> Iterator[KafkaProducer]:
    made = open_producer({"bootstrap.servers": kafka, "topic.metadata.propagation.max.ms": 500})
    yield made
    made.close()


def test_223_a_row_arrives_in_its_partition_with_key_value_and_headers_as_they_are(
    kafka: str, ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns, 3)
    outcomes = Outcomes(producer)
    outcomes.send(1, ns, partition=2, key=None, value=b"\x00\xff")
    outcomes.send(2, ns, partition=2, key=b"", value=None)
    assert outcomes.wait() == {1: "delivered", 2: "delivered"}
    first, second = everything(kafka, ns, 2, 2)
    assert (first.key(), first.value(), second.key(), second.value()) == (None, b"\x00\xff", b"", None)
    assert first.headers() == [("sluicegate-seq", b"1"), ("empty", None)]


def test_many_rows_arrive_once_and_in_order(
    kafka: str, ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns)
    outcomes = Outcomes(producer)
    for number in range(5_000):
        wait_until(
            lambda number=number: outcomes.send(number, ns, value=b"%d" % number) or not producer.poll(), pause=0
        )
    assert set(outcomes.wait().values()) == {"delivered"}
    assert [message.value() for message in everything(kafka, ns, 0, 5_000)] == numbers(0, 5_000)


def test_a_full_queue_takes_nothing_and_says_so(ns: str) -> None:
    outcomes = Outcomes(open_producer({"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 3}))
    assert [outcomes.send(number, ns) for number in range(5)] == [True, True, True, False, False]
    assert outcomes.producer.poll() == 3
    outcomes.producer.close()


def test_a_row_too_large_for_the_client_is_rejected_by_the_next_poll(
    ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns)
    outcomes = Outcomes(producer)
    assert outcomes.send(1, ns, value=bytes(1_100_000))
    assert outcomes.of == {}
    outcomes.send(2, ns)
    assert outcomes.wait() == {1: "rejected", 2: "delivered"}


def test_of_a_batch_that_the_broker_refuses_only_the_row_at_fault_is_rejected(
    kafka: str, ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns, max_message_bytes=2000)
    outcomes = Outcomes(producer)
    rows = {number: incompressible(4000) if number == 3 else b"small" for number in range(6)}
    for number, value in rows.items():
        outcomes.send(number, ns, value=value)
    assert set(outcomes.wait().values()) == {"failed"}
    producer.replace()
    for number, value in rows.items():
        outcomes.send(number, ns, value=value)
    assert outcomes.wait() == {**dict.fromkeys(rows, "delivered"), 3: "rejected"}
    assert [message.value() for message in everything(kafka, ns, 0, 5)] == [b"small"] * 5


def test_a_batch_too_large_as_a_whole_costs_no_row(
    kafka: str, ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns, max_message_bytes=2000)
    outcomes = Outcomes(producer)
    for number in range(4):
        outcomes.send(number, ns, value=incompressible(900, number))
    assert set(outcomes.wait().values()) == {"failed"}
    producer.replace()
    for number in range(4):
        outcomes.send(number, ns, value=incompressible(900, number))
    assert set(outcomes.wait().values()) == {"delivered"}
    assert len(everything(kafka, ns, 0, 4)) == 4


def test_a_row_that_a_compacted_topic_refuses_is_rejected_alone(
    kafka: str, ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns, cleanup_policy="compact")
    outcomes = Outcomes(producer)

    def send() -> dict[int, str]:
        for number in range(4):
            outcomes.send(number, ns, key=None if number == 1 else b"k")
        return outcomes.wait()

    assert "rejected" not in send().values()
    producer.replace()
    assert send() == {0: "delivered", 1: "rejected", 2: "delivered", 3: "delivered"}


def test_rows_travel_together_again_a_minute_after_a_refusal(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    make_topic(ns, max_message_bytes=2000)
    now = [0.0]
    producer = KafkaProducer({"bootstrap.servers": kafka}, lambda: now[0])
    outcomes = Outcomes(producer)
    outcomes.send(1, ns, value=incompressible(4000))
    assert outcomes.wait() == {1: "failed"}
    producer.replace()
    outcomes.send(2, ns, value=incompressible(4000))
    assert outcomes.wait() == {2: "rejected"}
    now[0] = ALONE + 1
    assert producer.poll() == 0
    for number in range(4):
        outcomes.send(number, ns, value=incompressible(900, number))
    assert set(outcomes.wait().values()) == {"failed"}, "one batch of all four"
    producer.close()


def test_a_topic_or_partition_that_is_not_there_is_denied_and_rejects_nothing(
    ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns)
    outcomes = Outcomes(producer)
    outcomes.send(1, f"{ns}-missing")
    outcomes.send(2, ns, partition=9)
    assert outcomes.wait() == {1: "denied", 2: "denied"}


def test_a_replaced_producer_reports_no_more(ns: str, make_topic: MakeTopic, producer: KafkaProducer) -> None:
    make_topic(ns)
    outcomes = Outcomes(producer)
    for number in range(100):
        outcomes.send(number, ns)
    producer.replace()
    assert producer.poll() == 0
    outcomes.send(1000, ns)
    assert outcomes.wait() == {1000: "delivered"}


def test_rows_handed_over_together_arrive_once_in_order_and_each_is_reported(
    kafka: str, ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns)
    together, single = Together(producer), Outcomes(producer)
    assert together.send_all(ns, {number: b"%d" % number for number in range(3_000)}) == 3_000
    single.send(0, ns, value=b"3000")
    assert together.wait() == dict.fromkeys(range(3_000), "delivered")
    assert single.of == {0: "delivered"}
    assert [message.value() for message in everything(kafka, ns, 0, 3_001)] == numbers(0, 3_001)


def test_of_rows_handed_over_together_a_full_queue_takes_the_first_and_says_how_many(ns: str) -> None:
    together = Together(open_producer({"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 3}))
    values = dict.fromkeys(range(5), b"v")
    assert [together.send_all(ns, values), together.send_all(ns, values)] == [3, 0]
    assert together.producer.poll() == 3
    together.producer.close()


def test_of_rows_handed_over_together_only_the_one_at_fault_is_rejected(
    ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns, max_message_bytes=2000)
    together = Together(producer)
    values = {number: incompressible(4000) if number == 3 else b"small" for number in range(6)}
    together.send_all(ns, values)
    assert set(together.wait().values()) == {"failed"}
    producer.replace()
    together.send_all(ns, values | {6: bytes(1_100_000)})
    assert together.wait() == {**dict.fromkeys(values, "delivered"), 3: "rejected", 6: "rejected"}
    together.send_all(f"{ns}-missing", {1: b"v"})
    assert together.wait() == {1: "denied"}


def test_a_replaced_producer_reports_no_more_of_rows_handed_over_together(
    ns: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    make_topic(ns)
    old, new = Together(producer), Together(producer)
    old.send_all(ns, dict.fromkeys(range(100), b"v"))
    producer.replace()
    assert producer.poll() == 0
    new.send_all(ns, {1000: b"v"})
    assert (new.wait(), old.of) == ({1000: "delivered"}, {})


@pytest.mark.timeout(120)
def test_rows_wait_for_a_broker_that_is_down_and_arrive_once(own_server: Any, ns: str, make_topic: MakeTopic) -> None:
    server = own_server(Kafka)
    make_topic(ns, 1, server.url)
    producer = open_producer({"bootstrap.servers": server.url})
    outcomes = Outcomes(producer)
    outcomes.send(0, ns, value=b"0")
    assert outcomes.wait() == {0: "delivered"}
    server.kill9()
    for number in range(1, 50):
        outcomes.send(number, ns, value=b"%d" % number)
    deadline = time.monotonic() + 1
    wait_until(lambda: producer.poll() != 49 or time.monotonic() > deadline)
    assert outcomes.of == {}
    server.restart()
    assert set(outcomes.wait(60).values()) == {"delivered"}
    assert [message.value() for message in everything(server.url, ns, 0, 50)] == numbers(0, 50)
    producer.close()


def test_a_paused_broker_does_not_keep_a_replacement_waiting(own_server: Any, ns: str, make_topic: MakeTopic) -> None:
    server = own_server(Kafka)
    make_topic(ns, 1, server.url)
    producer = open_producer({"bootstrap.servers": server.url})
    outcomes = Outcomes(producer)
    outcomes.send(0, ns)
    outcomes.wait()
    server.pause()
    outcomes.send(1, ns)
    began = time.monotonic()
    producer.replace()
    assert time.monotonic() - began < 3
    server.resume()
    outcomes.send(2, ns)
    assert outcomes.wait() == {2: "delivered"}
    producer.close()


def test_partitions_are_counted_without_making_a_topic(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    now = [0.0]
    producer = KafkaProducer({"bootstrap.servers": kafka}, lambda: now[0])
    with pytest.raises(SystemNotReady, match=f"no topic {ns}"):
        producer.partitions(ns)
    assert existing({"bootstrap.servers": kafka}, [ns]) == {ns: None}
    assert create({"bootstrap.servers": kafka}, {ns: 2}) == [ns]
    assert create({"bootstrap.servers": kafka}, {ns: 2}) == []
    assert wait_until(lambda: existing({"bootstrap.servers": kafka}, [ns])[ns]) == 2
    assert producer.partitions(ns) == 2
    _grow(kafka, ns, 5)
    assert producer.partitions(ns) == 2, "for a minute"
    now[0] = 61.0
    assert producer.partitions(ns) == 5
    producer.close()


def test_replication_and_insync_replicas_are_told(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    make_topic(ns, 2, min_insync_replicas=1)
    assert durability({"bootstrap.servers": kafka}, [ns, f"{ns}-missing"]) == {ns: (1, 1)}


def _grow(kafka: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(10)
    wait_until(lambda: existing({"bootstrap.servers": kafka}, [topic])[topic] == partitions)


def incompressible(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)
