"""Kafka's past as a rebuild reads it: every record up to an end, however the log looks there, without being a member of
the group."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluicegate.connectors.kafka.history import KafkaHistory
from sluicegate.connectors.kafka.scan import scan
from sluicegate.streams.errors import SystemNotReady
from tests.waiting import wait_until

MakeTopic = Callable[..., str]


@pytest.fixture
def history(kafka: str, ns: str) -> Iterator[KafkaHistory]:
    made = KafkaHistory({"bootstrap.servers": kafka}, f"{ns}-group")
    yield made
    made.close()


def offsets(history: KafkaHistory, topic: str, first: int, end: int) -> list[int]:
    return [record.offset() for records in history.read(topic, 0, first, end) for record in records]


def filled(kafka: str, topic: str, *batches: int, **settings: Any) -> None:
    """Batches of records; each in a transaction when the settings name one, a negative one aborted."""
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, **settings})
    if settings:
        producer.init_transactions(20)
    for count in batches:
        if settings:
            producer.begin_transaction()
        for n in range(abs(count)):
            producer.produce(topic, b"%d" % n, b"k", 0)
        assert producer.flush(20) == 0
        if settings:
            producer.commit_transaction(20) if count > 0 else producer.abort_transaction(20)


def test_all_records_come_up_to_an_end_and_none_behind_it(
    history: KafkaHistory, kafka: str, ns: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(f"{ns}-in")
    filled(kafka, topic, 25)
    assert history.spans(topic) == [(0, 25)]
    assert offsets(history, topic, 0, 25) == list(range(25))
    assert offsets(history, topic, 7, 11) == [7, 8, 9, 10]
    assert offsets(history, topic, 25, 25) == []


def test_offsets_of_transactions_are_passed_wherever_the_end_is(
    history: KafkaHistory, kafka: str, ns: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(f"{ns}-in")
    filled(kafka, topic, 2, -3, 1, **{"transactional.id": ns})
    # the brokers answer a commit before they have written the end of the transaction
    wait_until(lambda: history.facts(topic, 0).high == 9, 20, "the end of the last transaction")
    assert history.facts(topic, 0).low == 0
    for end in range(10):
        assert offsets(history, topic, 0, end) == [offset for offset in (0, 1, 7) if offset < end]


def test_what_an_open_transaction_hides_is_never_taken_for_the_end(kafka: str, ns: str, make_topic: MakeTopic) -> None:
    topic = make_topic(f"{ns}-in")
    filled(kafka, topic, 2)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": ns})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"2", b"k", 0)
    assert producer.flush(20) == 0

    def scanned(end: int, patience: float = 30.0) -> list[int]:
        return [record.offset() for record in scan({"bootstrap.servers": kafka}, {(topic, 0): (0, end)}, patience)]

    assert scanned(2) == [0, 1]
    with pytest.raises(SystemNotReady, match=rf"reading {topic}/0: nothing came for 2 s \(an open transaction\?\)"):
        scanned(3, 2.0)
    producer.commit_transaction(20)
    assert scanned(3) == scanned(4) == [0, 1, 2]  # offset 3 is the transaction's end


def test_what_retention_took_is_no_record_and_reading_it_is_an_error(
    history: KafkaHistory, kafka: str, ns: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(f"{ns}-in")
    filled(kafka, topic, 10)
    place, admin = TopicPartition(topic, 0, 6), AdminClient({"bootstrap.servers": kafka})
    admin.delete_records([place])[place].result(20)
    assert wait_until(lambda: history.spans(topic) == [(6, 10)], 20)
    assert offsets(history, topic, 6, 10) == [6, 7, 8, 9]
    with pytest.raises(SystemNotReady, match=f"reading {topic}/0 failed"):
        offsets(history, topic, 3, 10)


def test_compacted_topics_are_told(history: KafkaHistory, ns: str, make_topic: MakeTopic) -> None:
    plain, compacted = make_topic(f"{ns}-a"), make_topic(f"{ns}-b", cleanup_policy="compact")
    assert history.compacted([plain, compacted]) == [compacted]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_counted_and_an_offset_is_committed_only_without_any(
    history: KafkaHistory, kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    topic = make_topic(f"{ns}-in")
    assert history.members() == 0
    member = Consumer({"bootstrap.servers": kafka, "group.id": f"{ns}-group", "group.protocol": protocol})
    member.subscribe([topic])
    try:
        wait_until(lambda: member.poll(0.2) or member.assignment(), 60, "the member's assignment")
        assert history.members() == 1
        with pytest.raises(SystemNotReady, match="committing to group"):
            history.inform(topic, 0, 3, "mine")
    finally:
        member.close()
    wait_until(lambda: history.members() == 0, 20, "the group to be empty")
    history.inform(topic, 0, 3, "mine")
    facts = history.facts(topic, 0)
    assert (facts.committed, facts.metadata) == (3, "mine")
