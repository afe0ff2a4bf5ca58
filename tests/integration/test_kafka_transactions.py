"""Rows and their cursor in one Kafka transaction, on the real broker: together or not at all, one producer at a
time."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluicegate.connectors.kafka import settings, transactions
from sluicegate.connectors.kafka.transactions import Cursors, KafkaTransactions, open_transactions
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, App, Destination
from sluicegate.streams.cli.checking.systems import inspect
from sluicegate.streams.contracts.stores import Cursor
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import Fenced, SystemNotReady
from tests.chaos.tap import Tap
from tests.servers import Kafka, Server
from tests.waiting import wait_until

MakeTopic = Callable[..., str]
A = "a claim"


class Shard:
    """The outbox of partition 0 of `NS.in`, which writes to the two partitions of `NS.out`."""

    def __init__(self, bootstrap: str, ns: str) -> None:
        self.bootstrap, self.out = bootstrap, f"{ns}.out"
        self.partition = Partition(ns, "sums", f"{ns}.in", 0)
        self.kafka: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "topic.metadata.propagation.max.ms": 500,
        }
        self.tap = Tap(bootstrap, [self.out])

    def producer(self) -> KafkaTransactions:
        return open_transactions(self.kafka, self.partition.app, "sums")(self.partition)

    def opened(self, producer: KafkaTransactions) -> Cursor:
        """Its cursor. A coordinator that has just begun, or that is killed, is asked again."""
        return wait_until(lambda: _tried(producer), 60, "the coordinator")[0]

    def rows(self, *numbers: int, value: bytes = b"v") -> list[OutboxRow]:
        return [
            OutboxRow(n, A, f"id-{n}", self.out, n % 2, b"k", value, [("sluicegate-seq", b"%d" % n)]) for n in numbers
        ]

    def committed(self) -> list[int]:
        """Numbers of all rows that a reader of committed records finds, as often as they are there."""
        self.tap.finish()
        return sorted(int(record.number[1]) for record in self.tap.seen(self.out))


@pytest.fixture
def shard(kafka: str, ns: str, make_topic: MakeTopic) -> Iterator[Shard]:
    make_topic(f"{ns}.in"), make_topic(f"{ns}.out", 2)
    made = Shard(kafka, ns)
    yield made
    made.tap.close()


def _tried(producer: KafkaTransactions) -> tuple[Cursor] | None:
    try:
        return (producer.open(),)
    except SystemNotReady:
        return None


def at(name: str, what: Callable[[], object]) -> Any:
    """While this lasts `what` is called when the place is reached for the first time."""
    waiting = [what]
    return failpoints.watched(lambda here: waiting.pop()() if here == name and waiting else None)


class Died(Exception):
    """As kill -9: nothing is tidied up."""


def dies() -> None:
    raise Died


def test_rows_and_cursor_are_there_together_and_the_next_producer_hears_of_it(shard: Shard) -> None:
    first = shard.producer()
    assert shard.opened(first) == {}
    assert first.send(shard.rows(1, 2, 3), {A: 3}) == ""
    assert first.send(shard.rows(4), {A: 4}) == ""
    assert shard.committed() == [1, 2, 3, 4]
    assert shard.opened(shard.producer()) == {A: 4}


def test_what_a_dead_producer_left_open_never_was(shard: Shard) -> None:
    first, second = shard.producer(), shard.producer()
    shard.opened(first)
    first.send(shard.rows(1), {A: 1})
    with at("txn-produced", dies), pytest.raises(Died):
        first.send(shard.rows(2, 3), {A: 3})
    assert shard.opened(second) == {A: 1}
    assert second.send(shard.rows(2, 3), {A: 3}) == ""
    assert shard.committed() == [1, 2, 3]


def test_a_producer_is_fenced_by_the_next_one_in_the_middle_of_its_transaction(shard: Shard) -> None:
    first, second = shard.producer(), shard.producer()
    shard.opened(first)

    def overtaken() -> None:
        assert shard.opened(second) == {}

    with at("txn-produced", overtaken), pytest.raises(Fenced, match="fenced by a newer instance"):
        first.send(shard.rows(1, 2), {A: 2})
    with pytest.raises(SystemNotReady, match="not open"):
        first.send(shard.rows(1, 2), {A: 2})
    assert second.send(shard.rows(1, 2), {A: 2}) == ""
    with pytest.raises(Fenced):
        shard.opened(first), second.send(shard.rows(3), {A: 3})
    assert shard.committed() == [1, 2]


def test_a_transaction_that_stood_still_for_too_long_is_void_and_its_rows_are_sent_by_the_next(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "TRANSACTION_TIMEOUT", 1.0)
    first = shard.producer()
    shard.opened(first)
    reader = Consumer(settings.offsets(shard.kafka, f"{shard.partition.app}.sums/relay"))

    def ended() -> bool:
        """Does the broker tell where the shard stands? While a transaction holds its offset it does not."""
        with suppress(KafkaException):
            return reader.committed([TopicPartition(shard.partition.topic, 0)], 1)[0].error is None
        return False

    with at("txn-produced", lambda: wait_until(ended, 60, "the end of the transaction")), pytest.raises(Fenced):
        first.send(shard.rows(1, 2), {A: 2})
    assert shard.opened(first) == {}
    assert first.send(shard.rows(1, 2), {A: 2}) == ""
    assert shard.committed() == [1, 2]
    reader.close()


def test_what_the_broker_never_takes_is_said_and_the_producer_goes_on(
    kafka: str, ns: str, make_topic: MakeTopic
) -> None:
    make_topic(f"{ns}.in"), make_topic(f"{ns}.out", 2, max_message_bytes=2_000)
    shard = Shard(kafka, ns)
    producer = shard.producer()
    shard.opened(producer)
    noise = random.Random(7).randbytes(6_000)
    assert "MSG_SIZE_TOO_LARGE" in producer.send([*shard.rows(1), *shard.rows(2, value=noise)], {A: 2})
    assert "MSG_SIZE_TOO_LARGE" in producer.send(shard.rows(2, value=bytes(1_100_000)), {A: 2})
    assert producer.send(shard.rows(1, 3), {A: 3}) == ""
    assert shard.committed() == [1, 3]
    shard.tap.close()


def test_rows_for_a_topic_that_is_not_there_wait(shard: Shard) -> None:
    producer = shard.producer()
    shard.opened(producer)
    nowhere = [OutboxRow(1, A, "id-1", f"{shard.partition.app}.nowhere", 0, b"k", b"v", [])]
    with pytest.raises(SystemNotReady, match="UNKNOWN"):
        producer.send([*shard.rows(2), *nowhere], {A: 2})
    assert shard.opened(producer) == {}
    assert shard.committed() == []


def test_a_cursor_that_somebody_else_wrote_says_nothing(shard: Shard) -> None:
    cursors = Cursors(shard.kafka, f"{shard.partition.app}.sums/relay")
    place = TopicPartition(shard.partition.topic, 0, 7, "a note")
    cursors._consumer.commit(offsets=[place], asynchronous=False)
    assert shard.opened(shard.producer()) == {}


def test_check_opens_a_transaction_that_is_no_shards(shard: Shard) -> None:
    agent = Agent(
        "sums",
        (shard.partition.topic,),
        Aggregation(count=1),
        Destination(shard.out),
        shard.out,
        delivery="transactional",
    )
    app = App(shard.partition.app, "memory://", (agent,), kafka=shard.kafka)
    owner = shard.producer()
    shard.opened(owner)
    findings = [(finding.system, finding.ok, finding.text) for finding in inspect(app)]
    assert ("kafka", True, "transactions can be opened for sums") in findings
    assert owner.send(shard.rows(1), {A: 1}) == "", "the check fenced the owner"
    weak = replace(app, kafka={"bootstrap.servers": "127.0.0.1:1"}, start_timeout=0.1)
    assert [finding.ok for finding in inspect(weak) if finding.system == "kafka"] == [False]


def test_brokers_that_do_not_answer_are_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "OPENING", 0.3)
    made = open_transactions({"bootstrap.servers": "127.0.0.1:1"}, "app", "sums")(Partition("app", "sums", "in", 0))
    with pytest.raises(SystemNotReady, match="opening transactions of app/sums/in/0 failed"):
        made.open()


def test_a_coordinator_that_is_killed_in_a_transaction_leaves_all_of_it_or_nothing(
    own_server: Callable[..., Server], ns: str, make_topic: MakeTopic
) -> None:
    server = own_server(Kafka)
    make_topic(f"{ns}.in", 1, server.url), make_topic(f"{ns}.out", 2, server.url)
    shard = Shard(server.url, ns)
    first, second = shard.producer(), shard.producer()
    shard.opened(first)
    first.send(shard.rows(1), {A: 1})

    def restarted() -> None:
        server.kill9()
        server.restart()

    with at("txn-produced", restarted), suppress(Fenced, SystemNotReady):
        first.send(shard.rows(2, 3), {A: 3})
    cursor = shard.opened(second)
    assert cursor in ({A: 1}, {A: 3})
    if cursor == {A: 1}:
        assert second.send(shard.rows(2, 3), {A: 3}) == ""
    assert shard.committed() == [1, 2, 3]
    shard.tap.close()


def test_after_a_broker_was_killed_between_two_transactions_the_next_one_does_not_stand_still(
    own_server: Callable[..., Server], ns: str, make_topic: MakeTopic
) -> None:
    server = own_server(Kafka)
    make_topic(f"{ns}.in", 1, server.url), make_topic(f"{ns}.out", 2, server.url)
    shard = Shard(server.url, ns)
    first = shard.producer()
    shard.opened(first)
    first.send(shard.rows(1), {A: 1})
    server.kill9()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(first.send, shard.rows(2, 3), {A: 3})
        server.restart()
        with suppress(Fenced, SystemNotReady):
            sending.result(2 * transactions.SENDING + transactions.LATE)
    cursor = shard.opened(first)
    if cursor == {A: 1}:
        assert first.send(shard.rows(2, 3), {A: 3}) == ""
    assert shard.committed() == [1, 2, 3]
    shard.tap.close()
