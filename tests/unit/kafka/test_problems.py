"""Errors that come in place of records: each ends up in one of three places."""

import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.streams.errors import SystemNotReady


class Bad:
    """What poll and consume give for an error."""

    def __init__(self, code: int, topic: str | None = "t", reason: str = "some reason", fatal: bool = False) -> None:
        self._error, self._topic = KafkaError(code, reason, fatal), topic

    def error(self) -> Any:
        return self._error

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int:
        return 3


@pytest.fixture
def consumer() -> KafkaInput:
    return KafkaInput({"bootstrap.servers": "127.0.0.1:1"}, "g", ["t"], "m")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (KafkaError._AUTO_OFFSET_RESET, "out-of-range"),
        (KafkaError.OFFSET_OUT_OF_RANGE, "out-of-range"),
        (KafkaError._LOG_TRUNCATION, "truncated"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown-topic"),
        (KafkaError._UNKNOWN_PARTITION, "unknown-topic"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "unauthorized"),
        (KafkaError._BAD_MSG, "unread"),
        (KafkaError._BAD_COMPRESSION, "unfetchable"),
    ],
)
def test_errors_of_a_partition_are_its_failures(consumer: KafkaInput, code: int, name: str) -> None:
    consumer._sort(Bad(code))
    [(place, error, text)] = consumer.failures()
    assert (place, error) == (("t", 3), name)
    assert text.startswith("some reason (")
    assert consumer.failures() == []


def test_a_truncated_log_is_told_from_an_offset_out_of_range_by_its_words(consumer: KafkaInput) -> None:
    consumer._sort(
        Bad(KafkaError._AUTO_OFFSET_RESET, reason="No epoch found: Local: Partition log truncation detected (broker 1)")
    )
    assert consumer.failures()[0][1] == "truncated"


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError._MAX_POLL_EXCEEDED, KafkaError.NOT_LEADER_FOR_PARTITION]
)
@pytest.mark.parametrize("topic", ["t", None])
def test_errors_that_pass_are_only_logged(
    consumer: KafkaInput, code: int, topic: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        consumer._sort(Bad(code, topic))
    assert consumer.failures() == []
    assert "some reason" in caplog.text


@pytest.mark.parametrize(
    "bad",
    [
        Bad(KafkaError.GROUP_AUTHORIZATION_FAILED, None),
        Bad(KafkaError.INCONSISTENT_GROUP_PROTOCOL, None),
        Bad(KafkaError._FATAL, None),  # as it comes: the flag is not set
        Bad(KafkaError._TRANSPORT, "t", fatal=True),
    ],
)
def test_fatal_errors_end_the_process(consumer: KafkaInput, bad: Bad) -> None:
    with pytest.raises(SystemNotReady):
        consumer._sort(bad)


def test_an_error_among_records_is_taken_out_and_the_records_stay_in_order(
    consumer: KafkaInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fine(Bad):
        def error(self) -> None:
            return None

    batch = [Fine(0), Bad(KafkaError._AUTO_OFFSET_RESET), Fine(0), Fine(0)]

    class Driver:
        def consume(self, _most: int, _timeout: float) -> list[Bad]:
            return list(batch)

        def poll(self, _timeout: float) -> Bad:
            return batch[1]

    monkeypatch.setattr(consumer, "_consumer", Driver())
    monkeypatch.setattr("sluicegate.connectors.kafka.consumer._error", lambda message: message.error())
    assert consumer.consume(4) == [batch[0], batch[2], batch[3]]
    assert consumer.poll(0) is None
    assert [code for _, code, _ in consumer.failures()] == ["out-of-range"] * 2
