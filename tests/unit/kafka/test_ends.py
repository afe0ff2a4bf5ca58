"""The end of a partition, as windows need it: known only when it was read to since the last seek or pause."""

import time
from collections.abc import Iterator

import pytest

from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.connectors.kafka.embedded import EmbeddedBroker
from tests.unit.kafka.clients import COOPERATIVE, fill, numbers, read, turned
from tests.waiting import wait_until

PLACE = ("one", 0)


@pytest.fixture
def consumer(broker: EmbeddedBroker) -> Iterator[KafkaInput]:
    """It was assigned its partition, which it has not started."""
    fill(broker.bootstrap, "one", 0, numbers(0, 5))
    made = KafkaInput({"bootstrap.servers": broker.bootstrap, **COOPERATIVE}, "ends", ["one"], "tester", ends=True)
    wait_until(lambda: made.poll(0.05) or made.assigned(), 30, "the assignment")
    yield made
    made.close()


def test_the_end_is_known_when_it_was_read_to_and_not_before(consumer: KafkaInput) -> None:
    assert consumer.ended(*PLACE) == -1
    consumer.start(*PLACE, 0, -1)
    assert consumer.ended(*PLACE) == -1
    assert len(read(consumer, 5)) == 5
    assert turned(consumer, lambda: consumer.ended(*PLACE) >= 0)
    assert consumer.ended(*PLACE) == 5


def test_records_that_follow_lie_at_the_known_end_or_after_it(broker: EmbeddedBroker, consumer: KafkaInput) -> None:
    consumer.start(*PLACE, 0, -1)
    read(consumer, 5)
    turned(consumer, lambda: consumer.ended(*PLACE) == 5)
    fill(broker.bootstrap, "one", 0, numbers(5, 7))
    assert read(consumer, 2) == [(0, 5), (0, 6)]
    assert turned(consumer, lambda: consumer.ended(*PLACE) == 7)


def test_a_seek_forgets_the_end_until_it_is_read_to_again(consumer: KafkaInput) -> None:
    consumer.start(*PLACE, 0, -1)
    read(consumer, 5)
    turned(consumer, lambda: consumer.ended(*PLACE) == 5)
    consumer.start(*PLACE, 2, -1)
    assert consumer.ended(*PLACE) == -1
    assert read(consumer, 3) == [(0, 2), (0, 3), (0, 4)]
    assert turned(consumer, lambda: consumer.ended(*PLACE) == 5)


def test_a_pause_forgets_the_end_until_it_is_read_to_again(broker: EmbeddedBroker, consumer: KafkaInput) -> None:
    consumer.start(*PLACE, 0, -1)
    read(consumer, 5)
    turned(consumer, lambda: consumer.ended(*PLACE) == 5)
    consumer.pause([PLACE])
    consumer.resume([PLACE])
    assert consumer.ended(*PLACE) == -1
    assert turned(consumer, lambda: consumer.ended(*PLACE) == 5)


def test_an_end_that_is_looked_for_again_is_open_until_a_broker_answers(
    broker: EmbeddedBroker, consumer: KafkaInput
) -> None:
    consumer.start(*PLACE, 0, -1)
    read(consumer, 5)
    turned(consumer, lambda: consumer.ended(*PLACE) == 5)
    began = time.monotonic()
    consumer.look_again(*PLACE)
    assert time.monotonic() - began < 0.1
    assert consumer.ended(*PLACE) == -1
    assert turned(consumer, lambda: consumer.ended(*PLACE) == 5)
    fill(broker.bootstrap, "one", 0, numbers(5, 6))
    consumer.look_again(*PLACE)
    assert read(consumer, 1) == [(0, 5)]
    assert turned(consumer, lambda: consumer.ended(*PLACE) == 6)


def test_other_agents_are_told_no_ends(broker: EmbeddedBroker) -> None:
    fill(broker.bootstrap, "one", 0, numbers(0, 5))
    other = KafkaInput({"bootstrap.servers": broker.bootstrap, **COOPERATIVE}, "plain", ["one"], "tester")
    wait_until(lambda: other.poll(0.05) or other.assigned(), 30, "the assignment")
    other.start(*PLACE, 0, -1)
    read(other, 5)
    for _ in range(20):
        other.poll(0.02)
    assert other.ended(*PLACE) == -1
    other.close()
