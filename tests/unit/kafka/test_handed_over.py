"""When rows go that were handed over: as librdkafka's linger.ms has it, or when it is said."""

from typing import Any

import pytest

from sluicegate.connectors.kafka import producer as module
from sluicegate.connectors.kafka.producer import KafkaProducer
from sluicegate.streams.contracts.values import OutboxRow


class Librdkafka:
    """Notes what it is told."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.calls: list[str] = []

    def produce(self, *args: Any, **fields: Any) -> None:
        self.calls.append("produce")

    def poll(self, timeout: float) -> None:
        self.calls.append("poll")

    def flush(self, timeout: float) -> None:
        assert 0 < timeout < 0.01
        self.calls.append("flush")


class Nobody:
    """Hears reports."""

    def delivered(self, numbers: Any) -> None: ...

    def refused(self, number: int, outcome: str, text: str) -> None: ...


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`calls(work)`: what librdkafka was told while `work(producer)` ran."""
    monkeypatch.setattr(module, "Producer", Librdkafka)

    def made(work: Any) -> list[str]:
        one = KafkaProducer({"bootstrap.servers": "nowhere:1"})
        work(one)
        return one._producer.calls

    return made


def rows(*numbers: int) -> list[OutboxRow]:
    return [OutboxRow(number, "", f"id-{number}", "t", 0, b"k", b"v", []) for number in numbers]


def test_what_was_handed_over_together_waits_until_it_is_told_to_go(calls: Any) -> None:
    def work(one: KafkaProducer) -> None:
        one.produce_all(rows(1, 2), Nobody())
        one.poll()
        one.send_now()

    assert calls(work) == ["produce", "produce", "poll", "flush"]


def test_a_single_row_is_librdkafkas_to_gather(calls: Any) -> None:
    def work(one: KafkaProducer) -> None:
        one.produce(rows(1)[0], lambda outcome, text: None)
        one.poll()

    assert calls(work) == ["produce", "poll"]
