"""What a person would write by hand instead of a handler agent: decode, call, and the same driver calls.

    python -m tests.bench.handloop JOB BOOTSTRAP TOPIC OUT GROUP [--store URL]

Without a session offsets are committed by librdkafka now and then, and nothing is kept against a crash. With one, 1,000
messages, the most that the product takes, share a transaction with the offsets of their partitions.
"""

import argparse
import os
import signal
from collections.abc import Iterator, Sequence

import msgspec
from confluent_kafka import Consumer, Message, Producer
from sqlalchemy import Connection, create_engine, make_url, text

from sluicegate.connectors.sessions import SqlSession
from sluicegate.streams.engine.commits import COMMIT_SESSION
from tests.bench import functions
from tests.bench.functions import Order
from tests.bench.loop import BATCH, batches, clients, say

OFFSETS = text(
    "insert into bench_offsets values (:number, :next) on conflict (number) do update set next = excluded.next"
)
decode = msgspec.json.Decoder(Order).decode
encode = msgspec.json.Encoder().encode


def counting(taken: Iterator[list[Message]]) -> None:
    count = functions.count
    for batch in taken:
        for message in batch:
            count(decode(message.value()))


def answering(taken: Iterator[list[Message]], producer: Producer, out: str) -> None:
    """`answer` as a loop has it: produced at once."""
    add, produce = functions.tally.add, producer.produce
    for batch in taken:
        for message in batch:
            order = decode(message.value())
            add(order.amount)
            value, key = encode({"id": order.id, "amount": order.amount}), message.key()
            while True:
                try:
                    produce(out, value, key=key)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)


def entering(taken: Iterator[list[Message]], store: str, together: bool) -> None:
    engine = create_engine(make_url(store).set(drivername="postgresql+psycopg"), use_native_hstore=False)
    for batch in taken:
        if not batch:
            continue
        orders = [decode(message.value()) for message in batch]
        with engine.begin() as connection:
            enter_all(orders, connection) if together else enter_each(orders, connection)
            ends = {message.partition(): message.offset() + 1 for message in batch}
            connection.execute(OFFSETS, [{"number": number, "next": end} for number, end in ends.items()])


def enter_each(orders: Sequence[Order], connection: Connection) -> None:
    enter, session = functions.enter, SqlSession(connection)
    for order in orders:
        enter(order, session)


def enter_all(orders: Sequence[Order], connection: Connection) -> None:
    for order in orders:
        functions.tally.add(order.amount)
    functions.insert_all(orders, SqlSession(connection))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("job", "bootstrap", "topic", "out", "group"):
        parser.add_argument(name)
    parser.add_argument("--store")
    parser.set_defaults(rows=False)
    return parser.parse_args()


def run(options: argparse.Namespace, consumer: Consumer, producer: Producer, stop: list[int]) -> None:
    taken = batches(consumer, False, stop, BATCH if options.store is None else COMMIT_SESSION)
    if options.job == "H1":
        counting(taken)
    elif options.job == "H1-send":
        answering(taken, producer, options.out)
    else:
        entering(taken, options.store, together=options.job == "H3")


if __name__ == "__main__":
    options, stop = arguments(), list[int]()
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    say("worker.started", pid=os.getpid())
    consumer, producer = clients(options)
    run(options, consumer, producer, stop)
    producer.flush(10)
    consumer.close()
