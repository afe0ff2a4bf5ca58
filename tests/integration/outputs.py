"""Outputs as a reader has them that drops copies: a worker that is killed may have sent what it did not note."""

from confluent_kafka import Consumer, Message

from sluicegate.streams.contracts.headers import ID


def taken(consumer: Consumer, into: dict[bytes, Message]) -> int:
    """Read on. `into` has each output once, by its id. Returns how many there are."""
    for message in consumer.consume(5_000, 0.2):
        into.setdefault(dict(message.headers() or ()).get(ID) or b"", message)
    return len(into)
