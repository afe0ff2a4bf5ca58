"""A transaction whose cursor librdkafka would wait for without end."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sluicegate.connectors.kafka import transactions
from sluicegate.connectors.kafka.transactions import KafkaTransactions, open_transactions
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import SystemNotReady

ROW = OutboxRow(1, "a claim", "id-1", "out", 0, b"k", b"v", [])


class Silent:
    """A producer whose call for the cursor returns when it may."""

    def __init__(self) -> None:
        self.may, self.calls = threading.Event(), 0

    def send_offsets_to_transaction(self, *_: object) -> None:
        self.calls += 1
        assert self.may.wait(60)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@pytest.fixture
def producer() -> Iterator[Silent]:
    made = Silent()
    yield made
    made.may.set()


@pytest.fixture
def sending(producer: Silent, monkeypatch: pytest.MonkeyPatch) -> KafkaTransactions:
    monkeypatch.setattr(transactions, "Producer", lambda _: producer)
    monkeypatch.setattr(transactions.Cursors, "read", lambda *_: {})
    made = open_transactions({"bootstrap.servers": "127.0.0.1:1"}, "app", "sums")(Partition("app", "sums", "in", 0))
    assert made.open() == {}
    return made


def test_a_cursor_that_is_not_answered_is_given_up_with_its_producer(
    sending: KafkaTransactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "OPENING", 0.1)
    monkeypatch.setattr(transactions, "LATE", 0.1)
    begun = time.monotonic()
    with pytest.raises(SystemNotReady, match="does not answer"):
        sending.send([ROW], {"a claim": 1})
    assert time.monotonic() - begun < transactions.SENDING / 2
    with pytest.raises(SystemNotReady, match="not open"):
        sending.send([ROW], {"a claim": 1})


def test_a_producer_that_lost_a_broker_since_its_last_cursor_is_opened_again_before_the_next(
    sending: KafkaTransactions, producer: Silent
) -> None:
    gone = KafkaError(KafkaError._TRANSPORT)
    producer.may.set()
    sending._on_error(gone)  # before it knows a coordinator: that cannot be the one that it lost
    assert sending.send([ROW], {"a claim": 1}) == ""
    sending._on_error(KafkaError(KafkaError._TIMED_OUT))
    assert sending.send([ROW], {"a claim": 2}) == ""
    sending._on_error(gone)
    with pytest.raises(SystemNotReady, match="opened again"):
        sending.send([ROW], {"a claim": 3})
    assert producer.calls == 2
    sending.open()
    assert sending.send([ROW], {"a claim": 3}) == ""
